"""Compares the trials of a sweep: means with intervals, and paired tests. P-values are corrected for their number."""

import json
import math
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from actors.messages import derive_seed
from experiments.analysis.result_table import shown
from experiments.analysis.scores import FinishedRun, as_matrix
from experiments.analysis.statistics import column_means, crossed_interval, crossed_test
from experiments.analysis.summary import Metrics, adjusted_tests
from experiments.records.trials import TrialResult
from experiments.records.usage import EVALUATING, by_phase
from topologies.wiring import Floats

KIND, POSITION, METHODS = "attack.kind", "attack.agents", "methods"
# Kinds that mean no attack: None is the default where a trial does not set the key.
UNATTACKED = ("none", None)

Scores = tuple[str, Mapping[str, Any], int, Mapping[str, float]]  # method, values, seed, and scores by question


@dataclass(frozen=True)
class Arm:
    """Method under one setting, in all the trials that had it.

    utilities: [trials, questions], NaN where a trial did not ask a question; the columns are the same questions for
        all arms of a sweep. clusters: those of the columns; empty where each question is its own.
    seeds, tokens, seconds: of each trial, tokens (prompt and completion) and seconds per question, NaN where they were
        not recorded.
    """

    method: str
    values: Mapping[str, Any]
    seeds: tuple[int, ...]
    utilities: Floats
    clusters: Sequence[str] = ()
    tokens: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Mean over all questions of all trials. A trial that asked more questions weighs more."""
        return float(self.utilities[np.isfinite(self.utilities)].mean())

    @property
    def trial_means(self) -> list[float]:
        """Mean utility of each trial, in the order of `seeds`."""
        return [float(row[np.isfinite(row)].mean()) for row in self.utilities]

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """95% interval of the mean, over questions and trials (`crossed_interval`)."""
        # The draws are seeded by the name alone, so an interval is the same in every figure and after a resumption.
        return self.interval(derive_seed(0, "interval", self.name))

    def interval(self, draws: int) -> tuple[float, float]:
        """Draws the interval of the mean, with this seed.

        Trials of one seed (an attacker's positions) share what was learned and are one repetition; those of a single
        seed are the only repetitions and stay apart.
        """
        seeds = dict.fromkeys(self.seeds)
        alone = len(seeds) in (1, len(self.seeds))
        utilities = self.utilities if alone else np.array([self.of_seed(seed) for seed in seeds])
        return crossed_interval(utilities, draws, clusters=self.clusters)

    def of_seed(self, seed: int) -> Floats:
        """Averages the trials of one seed: mean utility [questions]. NaN where they lack the question."""
        return column_means(self.utilities[[own == seed for own in self.seeds]])

    @property
    def name(self) -> str:
        """Method, and setting in words."""
        return ", ".join([self.method, *(f"{key}={shown(value)}" for key, value in sorted(self.values.items()))])


def varied(results: Sequence[TrialResult]) -> dict[str, list[Any]]:
    """Returns the varied keys of a sweep with their values.

    Numbers ascend, other values are in their order. None is the default of a trial without the key. `methods` is no
    setting where the trials' lists share no method, because an answer's method then identifies its trial.
    """
    lists: dict[str, set[str]] = {}
    for result in results:
        lists.setdefault(_frozen(result.values.get(METHODS)), set()).update(result.metrics.get("methods", {}))
    overlap = sum(map(len, lists.values())) > len(set().union(*lists.values()))
    # A dict rather than a set: it keeps the order of first appearance, which tables and figures follow.
    keys = dict.fromkeys(key for result in results for key in result.values if key != METHODS or overlap)
    axes = {}
    for key in keys:
        # Lists and dicts cannot be keys, so values are compared by their JSON.
        different = {_frozen(value): value for result in results for value in [result.values.get(key)]}
        values: list[Any] = list(different.values())
        if len(values) > 1:
            axes[key] = sorted(values) if all(map(is_number, values)) else values
    return axes


def arms_of_scores(scored: Sequence[Scores], clusters: Mapping[str, str] | None = None) -> list[Arm]:
    """Makes an arm for each method of a trial. Columns are the same questions in all.

    clusters: by question; by default each is its own.
    """
    questions = sorted({question for *_, scores in scored for question in scores})
    rows = as_matrix([scores for *_, scores in scored], questions)
    own = [clusters[question] for question in questions] if clusters else ()
    return [
        Arm(method, values, (seed,), row[None], own)
        for (method, values, seed, _), row in zip(scored, rows, strict=True)
    ]


def arms_of_trials(trials: Sequence[FinishedRun]) -> list[Arm]:
    """Makes an arm for each trial and method, with all of the trial's values."""
    scored, costs = [], []
    for trial in trials:
        phases = by_phase(trial.folder)
        for method in trial.metrics.get("methods", trial.answers):
            if answers := trial.answers.get(method):
                scores = {id: one.utility for id, one in answers.items()}
                scored.append((method, trial.values, trial.seed, scores))
                # From the records rather than metrics.json, which rounds and has no value per question.
                tokens = sum(one.tokens for one in answers.values()) / len(answers)
                phase = phases.get(f"{EVALUATING}{method}")
                costs.append(((tokens,), (phase.seconds / len(answers) if phase else math.nan,)))
    arms = arms_of_scores(scored, dict(ChainMap(*(trial.clusters for trial in trials))))
    return [replace(arm, tokens=tokens, seconds=took) for arm, (tokens, took) in zip(arms, costs, strict=True)]


def arms_of(trials: Sequence[Arm], results: Sequence[TrialResult]) -> list[Arm]:
    """Merges the arms of trials into those of a sweep. Their settings are the keys that vary among `results`."""
    keys = varied(results)
    return merge([replace(arm, values={key: arm.values.get(key) for key in keys}) for arm in trials])


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


def methods_in(arms: Sequence[Arm]) -> list[str]:
    """Lists the methods of some arms, each once, in their order."""
    return list(dict.fromkeys(arm.method for arm in arms))


def compare_pairs(pairs: Sequence[tuple[Arm, Arm]], seed: int, margin: float) -> dict[str, Metrics]:
    """Tests each pair's first arm minus its second by `crossed_test`. A test has its number of `seeds`.

    A pair that shares no question at the same seed is left out. Trials of one seed (an attacker at several positions)
    are averaged first, question by question.
    """
    tests: dict[str, Metrics] = {}
    for arm, reference in pairs:
        shared = sorted(set(arm.seeds) & set(reference.seeds))
        # [seeds, questions], NaN where either arm lacks the question at the seed.
        matrix = np.array([arm.of_seed(one) - reference.of_seed(one) for one in shared])
        asked = np.isfinite(matrix)
        if asked.any():
            draws = derive_seed(seed, "compare", arm.name, reference.name)
            test = crossed_test(matrix, draws, arm.clusters, margin)
            # A seed that both arms have may still share no question.
            tests[f"{arm.name} vs {reference.name}"] = {**test, "seeds": int(asked.any(axis=1).sum())}
    return dict(zip(tests, adjusted_tests([*tests.values()], margin), strict=True))


def natural_pairs(arms: Sequence[Arm], tested: Sequence[tuple[str, str]] = ()) -> list[tuple[Arm, Arm]]:
    """Returns the comparisons that a sweep is made for.

    - Within each setting, the methods of every pair of `tested`.
    - Under attacks: each method against itself without an attack.
    - Else: each setting of a method against the sweep's first, for the methods that the settings change.
    """
    places = {_frozen([arm.method, dict(arm.values)]): arm for arm in arms}
    settings = {_frozen(dict(arm.values)): dict(arm.values) for arm in arms}
    pairs: list[tuple[Arm, Arm]] = [
        (places[ours], places[theirs])
        for values in settings.values()
        for ours, theirs in ([_frozen([method, values]) for method in pair] for pair in tested)
        if ours in places and theirs in places
    ]
    for method in methods_in(arms):
        own = [arm for arm in arms if arm.method == method]
        # A method that the settings cannot change (one agent alone, say) answers the same everywhere.
        if all(np.array_equal(arm.utilities, own[0].utilities, equal_nan=True) for arm in own):
            continue
        for arm in own:
            # A clean trial has no attacker, so its position may differ from the attacked arm's.
            rest = {key: value for key, value in arm.values.items() if key not in (KIND, POSITION)}
            clean = [o for o in own if o.values.get(KIND) in UNATTACKED and rest.items() <= o.values.items()]
            # Without attacks in the sweep every arm is a rival, so the first setting becomes the reference.
            rival = next(iter(clean if KIND in arm.values else own), arm)
            pairs += [(arm, rival)] if rival is not arm else []
    return pairs


def _frozen(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def is_number(value: Any) -> bool:
    """True for a number that can be a point on an axis."""
    # A bool is an int to Python.
    return isinstance(value, (int, float)) and not isinstance(value, bool)
