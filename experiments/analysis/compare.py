"""Differences between the trials of a sweep: means with intervals, and paired tests corrected for their number."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from actors.errors import UserError
from actors.messages import derive_seed
from experiments.analysis.scores import as_matrix, by_method, seconds_per_question
from experiments.analysis.statistics import crossed_interval, holm, paired_test
from experiments.analysis.summary import SIGNIFICANT
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS, TrialResult
from topologies.wiring import Floats

KIND, POSITION, METHODS = "attack.kind", "attack.agents", "methods"
# Kinds that mean no attack: None stands for the default where a trial does not set the key.
UNATTACKED = ("none", None)


@dataclass(frozen=True)
class Arm:
    """A method under one setting, in all the trials that had it.

    seeds, tokens, seconds: of each trial, tokens (prompt and completion) and seconds per question, NaN where they were
    not recorded. utilities: [trials, questions], NaN where a trial did not ask a question; the columns are the same
    questions for all arms of a sweep.
    """

    method: str
    values: Mapping[str, Any]
    seeds: tuple[int, ...]
    tokens: tuple[float, ...]
    seconds: tuple[float, ...]
    utilities: Floats

    @property
    def mean(self) -> float:
        """The mean over all questions of all trials."""
        # Over all cells, so a trial that asked more questions weighs more.
        return float(self.utilities[np.isfinite(self.utilities)].mean())

    @property
    def trial_means(self) -> list[float]:
        """The mean utility of each trial, in the order of `seeds`."""
        return [float(row[np.isfinite(row)].mean()) for row in self.utilities]

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """The 95% interval of the mean, over questions and trials (`crossed_interval`)."""
        # The draws are seeded by the name alone, so an interval is the same in every figure and after a resumption.
        return crossed_interval(by_seed(self.utilities, self.seeds), derive_seed(0, "interval", self.name))

    @property
    def name(self) -> str:
        """The method, and the setting in words."""
        return ", ".join([self.method, *(f"{key}={_text(value)}" for key, value in sorted(self.values.items()))])


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm minus the reference, on the questions and seeds that both have.

    ci95 is over questions and seeds. The p-value is of a sign-flip test over questions, of differences averaged over
    seeds: it speaks of further questions to the graphs that were learned with these seeds. `p_holm` is adjusted for all
    comparisons made together.
    """

    arm: Arm
    reference: Arm
    difference: float
    ci95: tuple[float, float]
    p_value: float
    p_holm: float
    questions: int
    seeds: int


def varied(results: Sequence[TrialResult]) -> dict[str, list[Any]]:
    """The values of each key that has more than one in a sweep, numbers ascending and the rest as they come; None
    stands for the default where a trial does not set the key.

    Lists of methods that have none in common are no setting: whose answers they are says as much.
    """
    # A dict rather than a set: it keeps the order of first appearance, which tables and figures follow.
    keys = dict.fromkeys(key for result in results for key in result.values if key != METHODS or _overlap(results))
    axes = {}
    for key in keys:
        values: list[Any] = list(
            # Lists and dicts cannot be keys, so values are compared by their JSON.
            {_frozen(value): value for result in results for value in [result.values.get(key)]}.values()
        )
        if len(values) > 1:
            axes[key] = sorted(values) if all(map(is_number, values)) else values
    return axes


def _overlap(results: Sequence[TrialResult]) -> bool:
    """Whether a method is in two of the lists of methods that trials have."""
    lists: dict[str, set[str]] = {}
    for result in results:
        lists.setdefault(_frozen(result.values.get(METHODS)), set()).update(result.metrics.get("methods", {}))
    return sum(map(len, lists.values())) > len(set().union(*lists.values()))


@dataclass(frozen=True, slots=True)
class Read:
    """A method's answers in one trial: utilities by question, tokens and seconds per question."""

    trial: TrialResult
    method: str
    utilities: Mapping[str, float]
    tokens: float
    seconds: float


def read_answers(folder: Path, results: Sequence[TrialResult]) -> list[Read]:
    """What the trials of a sweep's folder recorded, in the order of `results` and of their methods; of a trial that was
    stopped before it evaluated anything, nothing.

    Raises UserError when the records of a trial are missing or damaged.
    """
    read = []
    for result in results:
        run = RunFolder(folder / TRIALS / result.name)
        recorded = by_method(run)
        seconds = seconds_per_question(run, recorded)
        for method in result.metrics.get("methods", {}):
            answers = recorded.get(method, {})
            if not answers:
                raise UserError(
                    f"{folder / TRIALS / result.name} has no scores of {method}: restore its scores.jsonl, or delete "
                    "its line from trials.jsonl and resume the sweep"
                )
            utilities = {id: scored.utility for id, scored in answers.items()}
            # From the records rather than metrics.json, which rounds and has no value per question.
            tokens = sum(scored.prompt_tokens + scored.completion_tokens for scored in answers.values())
            read.append(Read(result, method, utilities, tokens / len(answers), seconds[method]))
    return read


def arms_of(read: Sequence[Read], results: Sequence[TrialResult]) -> list[Arm]:
    """The arms of a sweep, whose settings are what varies among `results`, from what its trials recorded."""
    keys = varied(results)
    # One matrix for all, so that columns are the same questions in every arm.
    matrix = as_matrix([one.utilities for one in read])
    arms = [
        Arm(
            method=one.method,
            values={key: one.trial.values.get(key) for key in keys},
            seeds=(one.trial.seed,),
            tokens=(one.tokens,),
            seconds=(one.seconds,),
            # One trial is one row; `merge` stacks the rows of a setting.
            utilities=row[None],
        )
        for one, row in zip(read, matrix, strict=True)
    ]
    return merge(arms)


def merge(arms: Sequence[Arm], over: Collection[str] = ()) -> list[Arm]:
    """Merges arms of one method and setting into one. The keys `over` do not count as setting and are dropped."""
    groups: dict[str, list[Arm]] = {}
    for arm in arms:
        kept = replace(arm, values={key: value for key, value in arm.values.items() if key not in over})
        groups.setdefault(_frozen([kept.method, dict(kept.values)]), []).append(kept)
    return [
        replace(
            group[0],
            seeds=tuple(seed for arm in group for seed in arm.seeds),
            tokens=tuple(tokens for arm in group for tokens in arm.tokens),
            seconds=tuple(seconds for arm in group for seconds in arm.seconds),
            utilities=np.concatenate([arm.utilities for arm in group]),
        )
        for group in groups.values()
    ]


def compare_pairs(pairs: Sequence[tuple[Arm, Arm]], seed: int = 0) -> list[Comparison]:
    """Each pair's first arm against its second; a pair that shares no question at the same seed is left out.

    Trials of one seed (an attacker at several positions) are averaged first, question by question.
    """
    comparisons: list[Comparison] = []
    for arm, reference in pairs:
        differences = _differences(arm, reference)
        asked = np.isfinite(differences)
        if not asked.any():
            continue
        draws = derive_seed(seed, "compare", arm.name, reference.name)
        per_question = _mean(differences)
        per_question = per_question[np.isfinite(per_question)]
        # `p_holm` is filled in below: the correction needs the p-values of all comparisons.
        comparisons.append(
            Comparison(
                arm,
                reference,
                # The mean over all asked cells, as in `Arm.mean`; the test below weighs every question alike.
                difference=float(differences[asked].mean()),
                ci95=crossed_interval(differences, draws),
                # A test of differences against zero is a paired test with a second method that scores zero everywhere.
                p_value=paired_test(per_question, np.zeros_like(per_question), draws)["p_value"],
                p_holm=1.0,
                questions=len(per_question),
                # A seed that both arms have may still share no question.
                seeds=int(asked.any(axis=1).sum()),
            )
        )
    adjusted = holm([comparison.p_value for comparison in comparisons])
    return [replace(comparison, p_holm=p) for comparison, p in zip(comparisons, adjusted, strict=True)]


def natural_pairs(arms: Sequence[Arm]) -> list[tuple[Arm, Arm]]:
    """The comparisons that a sweep is made for: under attacks each method against itself without one; else each setting
    of a method against the sweep's first, for the methods that the settings change."""
    pairs: list[tuple[Arm, Arm]] = []
    for method in dict.fromkeys(arm.method for arm in arms):
        own = [arm for arm in arms if arm.method == method]
        # A method that the settings cannot change (one agent alone, say) answers the same everywhere.
        if all(np.array_equal(arm.utilities, own[0].utilities, equal_nan=True) for arm in own):
            continue
        for arm in own:
            # Without the key of attacks in the sweep every arm is a rival, so the first setting becomes the
            # reference.
            rivals = [other for other in own if KIND not in arm.values or _is_clean(other, arm)]
            pairs += [(arm, rival) for rival in rivals[:1] if rival is not arm]
    return pairs


def _is_clean(other: Arm, arm: Arm) -> bool:
    """True if `other` is `arm` without an attack."""
    # A clean trial has no attacker, so its position may differ from the attacked arm's.
    rest = [key for key in arm.values if key not in (KIND, POSITION)]
    return other.values[KIND] in UNATTACKED and all(other.values[key] == arm.values[key] for key in rest)


def in_words(comparisons: Sequence[Comparison], metric: str) -> Iterator[str]:
    """A line for each comparison, and a line on the correction.

    A difference is claimed only where both the adjusted p-value and the interval show it.
    """
    for comparison in comparisons:
        # The p-value is over questions alone and the interval over questions and seeds, so they can disagree.
        low, high = comparison.ci95
        shown = comparison.p_holm < SIGNIFICANT and not low <= 0 <= high
        verdict = ("better" if low > 0 else "worse") if shown else "no difference shown"
        yield (
            f"{metric} of {comparison.arm.name} minus {comparison.reference.name}: {comparison.difference:+.3f} "
            f"(95% interval {low:+.3f} to {high:+.3f}, p = {comparison.p_value:.2g}, {comparison.p_holm:.2g} adjusted; "
            f"{comparison.questions:,} questions, {comparison.seeds} seeds): {verdict}."
        )
    if comparisons:
        many = f"the {len(comparisons)} comparisons" if len(comparisons) > 1 else "this one comparison"
        yield (
            f"P-values are of sign-flip tests over questions, averaged over seeds, and adjusted for {many} by Holm's "
            f"method; verdicts go by the adjusted ones, at {SIGNIFICANT}."
        )


def _differences(arm: Arm, reference: Arm) -> Floats:
    """Differences [seeds, questions], NaN where either arm lacks the question at the seed."""
    seeds = sorted(set(arm.seeds) & set(reference.seeds))
    if not seeds:
        # One cell without a value, which callers treat like arms that share no question.
        return np.full((1, 1), np.nan)
    return np.array([_of_seed(arm, seed) - _of_seed(reference, seed) for seed in seeds])


def _of_seed(arm: Arm, seed: int) -> Floats:
    return _mean_of(arm.utilities, arm.seeds, seed)


def by_seed(utilities: Floats, seeds: Sequence[int]) -> Floats:
    """[trials, questions] with the trials of one seed averaged: an attacker's positions share what was learned with it,
    and are no repetitions of it. Where there is one seed alone, they are all that is repeated."""
    different = dict.fromkeys(seeds)
    if len(different) in (1, len(seeds)):
        return utilities
    return np.array([_mean_of(utilities, seeds, seed) for seed in different])


def _mean_of(utilities: Floats, seeds: Sequence[int], seed: int) -> Floats:
    """The mean of every column over the trials of one seed."""
    return _mean(utilities[[own == seed for own in seeds]])


def _mean(values: Floats) -> Floats:
    """Mean of every column over its values that are not NaN; NaN where there are none."""
    # Not `nanmean`: it warns about columns without a value, and tests turn warnings into errors.
    asked = np.isfinite(values)
    counts, sums = asked.sum(axis=0), np.where(asked, values, 0.0).sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    means[counts > 0] = sums[counts > 0] / counts[counts > 0]
    return means


def _frozen(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _text(value: Any) -> str:
    return "default" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)


def is_number(value: Any) -> bool:
    # A bool is an int to Python, but true and false are no points on an axis.
    return isinstance(value, (int, float)) and not isinstance(value, bool)
