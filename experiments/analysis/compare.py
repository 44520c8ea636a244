"""Compares the trials of a sweep: means with intervals, and paired tests. P-values are corrected for their number."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from actors.errors import UserError
from actors.messages import derive_seed
from experiments.analysis.result_table import shown
from experiments.analysis.scores import as_matrix, by_method, clusters_of
from experiments.analysis.statistics import column_means, crossed_interval, crossed_test
from experiments.analysis.summary import Metrics, adjusted_tests
from experiments.config.setting_groups import CompareSettings
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.trials import TRIALS, TrialResult
from experiments.records.usage import EVALUATING, by_phase
from topologies.wiring import Floats

KIND, POSITION, METHODS = "attack.kind", "attack.agents", "methods"
# Kinds that mean no attack: None is the default where a trial does not set the key.
UNATTACKED = ("none", None)


@dataclass(frozen=True)
class Arm:
    """A method under one setting, in all the trials that had it.

    seeds, tokens, seconds: of each trial, tokens (prompt and completion) and seconds per question, NaN where they were
        not recorded.
    utilities: [trials, questions], NaN where a trial did not ask a question; the columns are the same questions for
        all arms of a sweep. clusters: those of the columns; empty where each question is its own.
    """

    method: str
    values: Mapping[str, Any]
    seeds: tuple[int, ...]
    tokens: tuple[float, ...]
    seconds: tuple[float, ...]
    utilities: Floats
    clusters: Sequence[str] = ()

    @property
    def mean(self) -> float:
        """The mean over all questions of all trials. A trial that asked more questions weighs more."""
        return float(self.utilities[np.isfinite(self.utilities)].mean())

    @property
    def trial_means(self) -> list[float]:
        """The mean utility of each trial, in the order of `seeds`."""
        return [float(row[np.isfinite(row)].mean()) for row in self.utilities]

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """The 95% interval of the mean, over questions and trials (`crossed_interval`)."""
        # The draws are seeded by the name alone, so an interval is the same in every figure and after a resumption.
        return self.interval(derive_seed(0, "interval", self.name))

    @property
    def by_seed(self) -> Floats:
        """The utilities [seeds, questions]. Trials of one seed (an attacker's positions) share what was learned.

        The trials of a single seed are the only repetitions and stay apart.
        """
        seeds = dict.fromkeys(self.seeds)
        alone = len(seeds) in (1, len(self.seeds))
        return self.utilities if alone else np.array([self.of_seed(seed) for seed in seeds])

    def interval(self, draws: int) -> tuple[float, float]:
        """The interval of the mean, with draws of this seed."""
        return crossed_interval(self.by_seed, draws, clusters=self.clusters)

    def of_seed(self, seed: int) -> Floats:
        """The mean utility [questions] of the trials of one seed. NaN where they lack the question."""
        return column_means(self.utilities[[own == seed for own in self.seeds]])

    @property
    def name(self) -> str:
        """The method, and the setting in words."""
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


def read_trials(folder: Path, results: Sequence[TrialResult]) -> list[Arm]:
    """Reads an arm for each trial and method of a sweep, with all of the trial's values.

    A trial that was stopped before its evaluation has none. Raises UserError when the records of a trial are
    missing or damaged.
    """
    runs = []
    for result in (result for result in results if not result.stopped):
        run = RunFolder(folder / TRIALS / result.name)
        recorded, methods = by_method(run), list(result.metrics.get("methods", {}))
        if lacking := [method for method in methods if not recorded.get(method)]:
            raise UserError(
                f"{run.path} has no scores of {lacking[0]}: restore its scores.jsonl, or delete its line from "
                "trials.jsonl and resume the sweep"
            )
        runs.append((run, {method: recorded[method] for method in methods}, result.values, result.seed))
    return arms_of_runs(runs)


def arms_of_runs(
    runs: Sequence[tuple[RunFolder, Mapping[str, Mapping[str, Scored]], Mapping[str, Any], int]],
) -> list[Arm]:
    """Makes an arm for each method of some runs. A run is (folder, answers by method and question, values, seed)."""
    arms, utilities = [], []
    for run, recorded, values, seed in runs:
        phases = by_phase(run)
        for method, answers in recorded.items():
            utilities.append({id: scored.utility for id, scored in answers.items()})
            # From the records rather than metrics.json, which rounds and has no value per question.
            tokens = sum(scored.tokens for scored in answers.values())
            phase = phases.get(f"{EVALUATING}{method}")
            seconds = phase.seconds / len(answers) if phase else math.nan
            arms.append((method, values, (seed,), (tokens / len(answers),), (seconds,)))
    clusters = tuple(clusters_of(answers for _, recorded, _, _ in runs for answers in recorded.values()).values())
    # One matrix for all, so that columns are the same questions in every arm.
    return [Arm(*arm, row[None], clusters) for arm, row in zip(arms, as_matrix(utilities), strict=True)]


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
    """The methods of some arms, each once, in their order."""
    return list(dict.fromkeys(arm.method for arm in arms))


def compare_pairs(
    pairs: Sequence[tuple[Arm, Arm]], seed: int = 0, margin: float = CompareSettings.margin
) -> dict[str, Metrics]:
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

    def is_clean(other: Arm, arm: Arm) -> bool:
        # A clean trial has no attacker, so its position may differ from the attacked arm's.
        rest = [key for key in arm.values if key not in (KIND, POSITION)]
        return other.values[KIND] in UNATTACKED and all(other.values[key] == arm.values[key] for key in rest)

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
            # Without attacks in the sweep every arm is a rival, so the first setting becomes the reference.
            rivals = [other for other in own if KIND not in arm.values or is_clean(other, arm)]
            pairs += [(arm, rival) for rival in rivals[:1] if rival is not arm]
    return pairs


def _frozen(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def is_number(value: Any) -> bool:
    """True for a number that can be a point on an axis."""
    # A bool is an int to Python.
    return isinstance(value, (int, float)) and not isinstance(value, bool)
