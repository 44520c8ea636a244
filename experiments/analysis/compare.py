"""Compares the trials of a sweep: means with intervals, and paired tests. P-values are corrected for their number."""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd

from actors.messages import derive_seed
from experiments.analysis.grouping import grouped
from experiments.analysis.intervals import Interval, crossed_interval
from experiments.analysis.paired import adjusted_tests
from experiments.analysis.result_table import shown
from experiments.analysis.run_facts import Metrics, Settings
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
    measures: the method's row in the metrics.json of each trial.
    group: the name of its discussions in the page of its run, where there is one run.
    """

    method: str
    values: Settings
    utilities: pd.DataFrame
    tokens: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    measures: tuple[Metrics, ...] = ()
    group: str = ""

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
    def ci95(self) -> Interval:
        """95% interval of the mean, over questions and trials (`crossed_interval`)."""
        # The draws are seeded by the name alone, so an interval is the same in every figure and after a resumption.
        return self.interval(derive_seed(0, "interval", self.name))

    def interval(self, draws: int) -> Interval:
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
        settings = [f"{key}={shown(value)}" for key, value in sorted(self.values.items())]
        return ", ".join([self.method, *settings])


def clusters_of(utilities: pd.DataFrame) -> pd.Index:
    """Returns the cluster of each question of an arm's utilities."""
    return utilities.columns.get_level_values("cluster")


def trial_arm(
    method: str,
    values: Settings,
    seed: int,
    scores: pd.Series,
    clusters: pd.Series | pd.Index,
) -> Arm:
    """Makes the arm of a method in one trial, from its scores and clusters by question."""
    columns = pd.MultiIndex.from_arrays([scores.index, clusters], names=("question", "cluster"))
    return Arm(method, values, pd.DataFrame([scores.to_numpy()], [seed], columns))


def arms_of_trials(trials: Sequence[FinishedRun]) -> list[Arm]:
    """Makes an arm for each trial and method, with all of the trial's values."""
    arms = []
    for trial in trials:
        phases = by_phase(trial.folder)
        rows = trial.metrics.get("methods", {})
        for method in rows or trial.answers:
            if method in trial.answers:
                answers = trial.answers[method]
                arm = trial_arm(
                    method,
                    trial.values,
                    trial.seed,
                    scores=answers["utility"],
                    clusters=answers["cluster"],
                )
                # From the records rather than metrics.json, which rounds and has no value per question.
                tokens = float(answers["tokens"].mean())
                phase = phases.get(f"{EVALUATING}{method}")
                seconds = phase.seconds / len(answers) if phase else math.nan
                measures = (rows[method],) if rows else ()
                arms.append(
                    replace(
                        arm,
                        tokens=(tokens,),
                        seconds=(seconds,),
                        measures=measures,
                    )
                )
    return arms


def arms_of(trials: Sequence[Arm], results: Sequence[TrialResult]) -> list[Arm]:
    """Merges the arms of trials into those of a sweep. Their settings are the keys that vary among `results`."""
    keys = varied(results)
    arms = []
    for arm in trials:
        values = {key: arm.values.get(key) for key in keys}
        arms.append(replace(arm, values=values))
    return merge(arms)


def merge(arms: Sequence[Arm], over: Collection[str] = ()) -> list[Arm]:
    """Merges arms of one method and setting into one. The keys `over` do not count as setting and are dropped."""
    groups = grouped(arms, key=lambda arm: frozen([arm.method, without(arm.values, over)]))
    merged = []
    for group in groups.values():
        arm = Arm(
            method=group[0].method,
            values=without(group[0].values, over),
            utilities=pd.concat([arm.utilities for arm in group]).sort_index(axis="columns"),
            tokens=sum((arm.tokens for arm in group), ()),
            seconds=sum((arm.seconds for arm in group), ()),
            measures=sum((arm.measures for arm in group), ()),
        )
        merged.append(arm)
    return merged


def without(values: Settings, keys: Collection[str]) -> dict[str, Any]:
    """Leaves out some keys of a trial's values."""
    return {key: value for key, value in values.items() if key not in keys}


def arms_by_method(arms: Sequence[Arm]) -> dict[str, list[Arm]]:
    """Groups arms by method, in their order."""
    return grouped(arms, key=lambda arm: arm.method)


def varied(results: Sequence[TrialResult]) -> dict[str, list[Any]]:
    """Returns the varied keys of a sweep with their values.

    Numbers ascend, other values are in their order. None is the default of a trial without the key. `methods` is no
    setting where the trials' lists share no method, because an answer's method then identifies its trial.
    """
    methods: dict[str, set[str]] = {}  # by the list of methods that the trials have
    for result in results:
        method_list = frozen(result.values.get(METHODS))
        methods.setdefault(method_list, set()).update(result.metrics.get("methods", {}))
    overlap = sum(map(len, methods.values())) > len(set().union(*methods.values()))

    # A dict rather than a set: it keeps the order of first appearance, which tables and figures follow.
    keys = dict.fromkeys(chain.from_iterable(result.values for result in results))
    if not overlap:
        keys.pop(METHODS, None)
    axes = {}
    for key in keys:
        # Lists and dicts cannot be keys, so values are compared by their JSON.
        by_json = {frozen(result.values.get(key)): result.values.get(key) for result in results}
        values: list[Any] = list(by_json.values())
        if all(map(is_number, values)):
            values.sort()
        if len(values) > 1:
            axes[key] = values
    return axes


def compare_pairs(pairs: Sequence[tuple[Arm, Arm]], seed: int, margin: float) -> dict[str, Metrics]:
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
            test = crossed_test(differences, draws, clusters_of(differences), margin=margin)
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
        by_setting.setdefault(frozen(arm.values), {})[arm.method] = arm
    pairs = []
    for setting_arms, (method, rival) in product(by_setting.values(), tested):
        if {method, rival} <= setting_arms.keys():
            pairs.append((setting_arms[method], setting_arms[rival]))

    for method_arms in arms_by_method(arms).values():
        reference = method_arms[0]
        # A method that the settings cannot change (one agent alone, say) answers the same everywhere.
        if all(np.array_equal(arm.utilities, reference.utilities, equal_nan=True) for arm in method_arms):
            continue
        for arm in method_arms:
            # Without attacks in the sweep every arm is a rival, so the first setting becomes the reference.
            if KIND in arm.values:
                reference = next((clean for clean in method_arms if _is_clean(clean, arm)), arm)
            if reference is not arm:
                pairs.append((arm, reference))
    return pairs


def _is_clean(arm: Arm, attacked: Arm) -> bool:
    """True for an arm without an attack whose other settings are those of an attacked one."""
    # A clean trial has no attacker, so its position may differ from the attacked arm's.
    settings = without(attacked.values, (KIND, POSITION))
    return arm.values.get(KIND) in UNATTACKED and settings.items() <= arm.values.items()


def frozen(value: Any) -> str:
    """Writes a value as text that is a key, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True)


def is_number(value: Any) -> bool:
    """True for a number that can be a point on an axis."""
    # A bool is an int to Python.
    return isinstance(value, (int, float)) and not isinstance(value, bool)
