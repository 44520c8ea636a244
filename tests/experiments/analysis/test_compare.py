"""Trials of a sweep are compared on the same questions and seeds, and corrected for how many are compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.compare import (
    Arm,
    compare_pairs,
    merge,
    natural_pairs,
    varied,
)
from experiments.analysis.intervals import crossed_interval
from experiments.analysis.paired import verdict, verdicts
from experiments.config.setting_groups import CompareSettings
from experiments.records.trials import TrialResult
from tests.support.fake_sweep import make_sweep, read_arms

SETTINGS: list[dict[str, Any]] = [{"pruning.rate": rate, "attack.agents": [i]} for rate in (0.5, 0.1) for i in range(2)]


def ability(method: str, values: Any, seed: int) -> float:
    return 0.5 if method == "full" else 0.9 - values["pruning.rate"] + 0.01 * values["attack.agents"][0]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TrialResult]]:
    folder = tmp_path_factory.mktemp("sweep")
    return folder, make_sweep(folder, SETTINGS, ("full", "m3prune"), ability, seeds=3)


@pytest.fixture(scope="module")
def arms(sweep: tuple[Path, list[TrialResult]]) -> list[Arm]:
    return merge(read_arms(*sweep), over=["attack.agents"])


def arm(utilities: list[list[float]], seeds: tuple[int, ...], method: str = "m3prune") -> Arm:
    questions = [f"q{number}" for number in range(len(utilities[0]))]
    columns = pd.MultiIndex.from_arrays([questions, questions], names=("question", "cluster"))
    return Arm(method, {}, pd.DataFrame(utilities, list(seeds), columns))


def compare(arms: list[Arm], reference: Arm) -> dict[str, Any]:
    return compare_pairs([(arm, reference) for arm in arms if arm is not reference], 0, CompareSettings.margin)


def test_varied_keys_have_their_values(sweep: tuple[Path, list[TrialResult]]) -> None:
    _, results = sweep
    assert varied(results) == {"pruning.rate": [0.1, 0.5], "attack.agents": [[0], [1]]}
    results = [replace(results[0], values={"attack.kind": kind, "same": 1} if kind else {}) for kind in ("input", None)]
    assert varied(results) == {"attack.kind": ["input", None], "same": [1, None]}


def test_lists_of_methods_that_have_none_in_common_are_no_setting(sweep: tuple[Path, list[TrialResult]]) -> None:
    team, system, both = (
        replace(sweep[1][0], values=values, metrics={"methods": {method: {} for method in methods}})
        for values, methods in (
            ({"attack.kind": "none"}, ("full", "m3prune")),
            ({"attack.kind": "input", "methods": ["hm_rag"]}, ("hm_rag",)),
            ({"attack.kind": "input", "methods": ["full", "hm_rag"]}, ("full", "hm_rag")),
        )
    )
    assert varied([team, system]) == {"attack.kind": ["none", "input"]}
    assert varied([team, system, both])["methods"] == [None, ["hm_rag"], ["full", "hm_rag"]]


def test_an_arm_holds_every_trial_of_its_setting(sweep: tuple[Path, list[TrialResult]], arms: list[Arm]) -> None:
    expected = [("full", 0.5), ("m3prune", 0.5), ("full", 0.1), ("m3prune", 0.1)]
    assert [(a.method, a.values["pruning.rate"]) for a in arms] == expected
    _, results = sweep
    for a in arms:
        trials = [r for r in results if r.values["pruning.rate"] == a.values["pruning.rate"]]
        assert list(a.utilities.index) == [0, 1, 2, 0, 1, 2]
        assert a.trial_means == pytest.approx([r.metrics["methods"][a.method]["utility"] for r in trials])
        assert a.mean == pytest.approx(np.mean(a.trial_means))
        assert a.ci95[0] < a.mean < a.ci95[1]


def test_a_reference_is_compared_with_all_others_and_the_tests_are_corrected(arms: list[Arm]) -> None:
    reference = arms[0]
    found = compare(arms, reference)
    assert [*found] == [f"{a.name} vs {reference.name}" for a in arms[1:]]
    _, same, strong = found.values()
    assert strong["difference"] == pytest.approx(arms[3].mean - reference.mean)
    assert (strong["n"], strong["seeds"]) == (40, 3)
    assert strong["ci95"][0] > 0
    assert strong["p_value"] < strong["p_holm"] < 0.05
    assert verdict(strong) == "better"
    # The full graph does not depend on the rate.
    assert (same["difference"], same["p_holm"], verdict(same)) == (0, 1, "not known")
    # Forty questions without a difference do not show that there is less than 0.02 of one.
    assert same["ci95"][0] < -0.02


def test_only_questions_at_the_same_seed_pair() -> None:
    nan = float("nan")
    a = arm([[1.0, 1.0, nan], [0.0, nan, 1.0]], (0, 1))
    b = arm([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]], (0, 2), "full")
    (found,) = compare([a, b], b).values()
    assert (found["difference"], found["n"], found["seeds"]) == (0.5, 2, 1)


def test_trials_of_one_seed_are_averaged_before_they_pair() -> None:
    attacked = arm([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], (0, 0, 1))
    clean = arm([[1.0, 1.0], [1.0, 1.0]], (0, 1), "full")
    (found,) = compare([attacked], clean).values()
    assert found["difference"] == pytest.approx((-0.5 - 1.0 + 0.0 + 0.0) / 4)


def test_seeds_do_not_count_as_further_questions() -> None:
    difference = np.array([[1.0] * 6 + [0.0] * 14])
    [one] = compare([arm(difference.tolist(), (0,))], arm([[0.0] * 20], (0,), "full")).values()
    seeds = tuple(range(5))
    [copies] = compare([arm(difference.repeat(5, 0).tolist(), seeds)], arm([[0.0] * 20] * 5, seeds)).values()
    assert copies["p_value"] == pytest.approx(one["p_value"], abs=0.01)


def test_arms_that_share_no_question_are_not_compared() -> None:
    nan = float("nan")
    assert compare([arm([[1.0, nan]], (0,))], arm([[nan, 1.0]], (0,))) == {}
    assert compare([arm([[1.0]], (0,))], arm([[1.0]], (1,))) == {}


def test_a_sweep_compares_each_setting_with_its_first_where_it_changes_anything(arms: list[Arm]) -> None:
    assert [(a.name, b.name) for a, b in natural_pairs(arms)] == [
        ("m3prune, pruning.rate=0.1", "m3prune, pruning.rate=0.5")
    ]
    first, *_ = verdicts(compare_pairs(natural_pairs(arms), 0, CompareSettings.margin), "EM")
    assert all(arm.name in first for arm in natural_pairs(arms)[0])
    assert first.endswith("better.")


def test_under_attacks_each_method_is_compared_with_itself_without_one() -> None:
    clean, attacked = arm([[1.0, 1.0]], (0,)), arm([[0.0, 1.0]], (0,))
    clean = replace(clean, values={"attack.kind": "none", "attack.agents": None})
    attacked = replace(attacked, values={"attack.kind": "input", "attack.agents": [1]})
    other = replace(attacked, method="full")
    assert natural_pairs([clean, attacked, other]) == [(attacked, clean)]


def test_positions_of_an_attacker_repeat_nothing_of_what_was_learned_with_a_seed() -> None:
    trials = arm(np.tile([[1.0, 0.0], [0.0, np.nan], [1.0, 1.0]], 20).tolist(), (0, 0, 1))
    alone = crossed_interval(trials.utilities, 7)
    assert trials.interval(7) == crossed_interval(np.tile([[0.5, 0.0], [1.0, 1.0]], 20), 7) != alone
    for seeds in ([0, 1, 2], [3, 3, 3]):
        assert replace(trials, utilities=trials.utilities.set_axis(seeds)).interval(7) == alone
