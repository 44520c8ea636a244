"""Compares the trials of a sweep: means with intervals, and paired tests. P-values are corrected for their number."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from actors.messages import derive_seed
from experiments.analysis.intervals import crossed_interval
from experiments.analysis.paired import adjusted_tests
from experiments.analysis.result_table import shown
from experiments.analysis.scores import FinishedRun
from experiments.analysis.statistics import crossed_test
from experiments.records.trials import TrialResult
from experiments.records.usage import EVALUATING, by_phase

KIND, POSITION, METHODS = "attack.kind", "attack.agents", "methods"
# Kinds that mean no attack: None is the default where a trial does not set the key.
UNATTACKED = ("none", None)


@dataclass(frozen=True)
class Arm:
    """Method under one setting, in all the trials that had it.

    utilities: a row for each trial, by its seed, and a column for each question, by its id and cluster. NaN where a
        trial did not ask a question.
    tokens, seconds: of each trial, tokens (prompt and completion) and seconds per question, NaN where they were not
        recorded.
    """

    method: str
    values: Mapping[str, Any]
    utilities: pd.DataFrame
    tokens: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Mean over all questions of all trials. A trial that asked more questions weighs more."""
        return float(np.nanmean(self.utilities))

    @property
    def trial_means(self) -> list[float]:
        """Mean utility of each trial."""
        return [float(mean) for mean in self.utilities.mean(axis="columns")]

    @property
    def by_seed(self) -> pd.DataFrame:
        """Averages the trials of each seed, as `utilities`."""
        return self.utilities.groupby(level=0, sort=False).mean()

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
        repetitions = self.by_seed
        if len(repetitions) == 1:
            repetitions = self.utilities
        return crossed_interval(repetitions, draws, clusters=clusters_of(repetitions))

    @property
    def name(self) -> str:
        """Method, and setting in words."""
        return ", ".join([self.method, *(f"{key}={shown(value)}" for key, value in sorted(self.values.items()))])


def clusters_of(utilities: pd.DataFrame) -> pd.Index:
    """Returns the cluster of each question of an arm's utilities."""
    return utilities.columns.get_level_values("cluster")


def trial_arm(
    method: str,
    values: Mapping[str, Any],
    seed: int,
    scores: pd.Series,
    clusters: pd.Series,
    tokens: float = math.nan,
    seconds: float = math.nan,
) -> Arm:
    """Makes the arm of a method in one trial, from its scores and clusters by question."""
    columns = pd.MultiIndex.from_arrays([scores.index, clusters], names=("question", "cluster"))
    return Arm(method, values, pd.DataFrame([scores.to_numpy()], [seed], columns), (tokens,), (seconds,))


def arms_of_trials(trials: Sequence[FinishedRun]) -> list[Arm]:
    """Makes an arm for each trial and method, with all of the trial's values."""
    arms = []
    for trial in trials:
        phases = by_phase(trial.folder)
        for method in trial.metrics.get("methods", trial.answers):
            if method in trial.answers:
                answers = trial.answers[method]
                phase = phases.get(f"{EVALUATING}{method}")
                arm = trial_arm(
                    method,
                    trial.values,
                    trial.seed,
                    scores=answers["utility"],
                    clusters=answers["cluster"],
                    # From the records rather than metrics.json, which rounds and has no value per question.
                    tokens=float(answers["tokens"].mean()),
                    seconds=phase.seconds / len(answers) if phase else math.nan,
                )
                arms.append(arm)
    return arms


def arms_of(trials: Sequence[Arm], results: Sequence[TrialResult]) -> list[Arm]:
    """Merges the arms of trials into those of a sweep. Their settings are the keys that vary among `results`."""
    keys = varied(results)
    return merge([replace(arm, values={key: arm.values.get(key) for key in keys}) for arm in trials])


def merge(arms: Sequence[Arm], over: Collection[str] = ()) -> list[Arm]:
    """Merges arms of one method and setting into one. The keys `over` do not count as setting and are dropped."""
    groups: dict[str, list[Arm]] = {}
    for arm in arms:
        values = {key: value for key, value in arm.values.items() if key not in over}
        groups.setdefault(_frozen([arm.method, values]), []).append(replace(arm, values=values))
    return [
        replace(
            group[0],
            utilities=pd.concat([arm.utilities for arm in group]).sort_index(axis="columns"),
            tokens=sum((arm.tokens for arm in group), ()),
            seconds=sum((arm.seconds for arm in group), ()),
        )
        for group in groups.values()
    ]


def methods_in(arms: Sequence[Arm]) -> list[str]:
    """Lists the methods of some arms, each once, in their order."""
    return list(dict.fromkeys(arm.method for arm in arms))


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
    keys = dict.fromkeys(key for result in results for key in result.values)
    if not overlap:
        keys.pop(METHODS, None)
    axes = {}
    for key in keys:
        # Lists and dicts cannot be keys, so values are compared by their JSON.
        different = {_frozen(result.values.get(key)): result.values.get(key) for result in results}
        values: list[Any] = list(different.values())
        if len(values) > 1:
            axes[key] = sorted(values) if all(map(is_number, values)) else values
    return axes


def compare_pairs(pairs: Sequence[tuple[Arm, Arm]], seed: int, margin: float) -> dict[str, dict[str, Any]]:
    """Tests each pair's first arm minus its second by `crossed_test`. A test has its number of `seeds`.

    A pair that shares no question at the same seed is left out. Trials of one seed (an attacker at several positions)
    are averaged first, question by question.
    """
    tests = {}
    for arm, reference in pairs:
        differences = (arm.by_seed - reference.by_seed).sort_index()
        differences = differences.dropna(how="all").dropna(how="all", axis="columns")
        if len(differences):
            draws = derive_seed(seed, "compare", arm.name, reference.name)
            test = crossed_test(differences, draws, clusters_of(differences), margin)
            tests[f"{arm.name} vs {reference.name}"] = {**test, "seeds": len(differences)}
    return dict(zip(tests, adjusted_tests([*tests.values()], margin), strict=True))


def natural_pairs(arms: Sequence[Arm], tested: Sequence[tuple[str, str]] = ()) -> list[tuple[Arm, Arm]]:
    """Returns the comparisons that a sweep is made for.

    - Within each setting, the methods of every pair of `tested`.
    - Under attacks: each method against itself without an attack.
    - Else: each setting of a method against the sweep's first, for the methods that the settings change.
    """
    by_setting: dict[str, dict[str, Arm]] = {}
    for arm in arms:
        by_setting.setdefault(_frozen(arm.values), {})[arm.method] = arm
    pairs = [
        (of_setting[first], of_setting[second])
        for of_setting in by_setting.values()
        for first, second in tested
        if {first, second} <= of_setting.keys()
    ]
    for method in methods_in(arms):
        of_method = [arm for arm in arms if arm.method == method]
        first = of_method[0]
        # A method that the settings cannot change (one agent alone, say) answers the same everywhere.
        if all(np.array_equal(arm.utilities, first.utilities, equal_nan=True) for arm in of_method):
            continue
        for arm in of_method:
            reference = first
            # Without attacks in the sweep every arm is a rival, so the first setting becomes the reference.
            if KIND in arm.values:
                reference = next((other for other in of_method if _is_clean(other, arm)), arm)
            if reference is not arm:
                pairs.append((arm, reference))
    return pairs


def _is_clean(arm: Arm, attacked: Arm) -> bool:
    """True for an arm without an attack whose other settings are those of an attacked one."""
    # A clean trial has no attacker, so its position may differ from the attacked arm's.
    others = {key: value for key, value in attacked.values.items() if key not in (KIND, POSITION)}
    return arm.values.get(KIND) in UNATTACKED and others.items() <= arm.values.items()


def _frozen(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def is_number(value: Any) -> bool:
    """True for a number that can be a point on an axis."""
    # A bool is an int to Python.
    return isinstance(value, (int, float)) and not isinstance(value, bool)
