"""The smallest difference that a plan can show, against statsmodels and against simulated studies."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student
from statsmodels.stats.power import TTestPower

from experiments.analysis.power import MANY, POWER, Design, Spread, spread_of
from experiments.analysis.statistics import crossed_error
from experiments.config.setting_groups import CompareSettings
from experiments.datasets.item import Score
from experiments.dry_run.power_notes import power_notes
from experiments.records.recorder import Recorder, RunFolder
from tests.support.fake_run import item, trace


def test_without_clusters_it_is_that_of_a_paired_t_test() -> None:
    for n in (20, 100, 1000):
        effect = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
        # Few questions are simulated, with another test than Student's.
        tolerance = 0.25 if n < MANY else 0.01
        assert Design(Spread(0.5), (1,) * n).smallest_difference() == pytest.approx(0.5 * effect, rel=tolerance)


def test_clusters_and_graphs_need_larger_differences_and_seeds_smaller_ones() -> None:
    alone = Design(Spread(0.5), (6,) * 100).smallest_difference()
    clustered = Design(Spread(0.5, 0.142), (6,) * 100).smallest_difference()
    assert clustered / alone == pytest.approx((1 + 5 * 0.142) ** 0.5)
    spread = Spread(0.5, 0.142, 0.05)
    two, five = (Design(spread, (6,) * 100, seeds).smallest_difference() for seeds in (2, 5))
    assert clustered < five < two


def test_four_of_five_studies_show_it() -> None:
    generator = np.random.default_rng(0)
    spread, shown = Spread(0.6, 0.2, 0.03), 0
    difference = Design(spread, (4,) * 40, 4).smallest_difference()
    clusters = np.arange(40).repeat(4)
    for _ in range(150):
        shared = generator.normal(0, 0.6 * 0.2**0.5, 40).repeat(4) + generator.normal(0, 0.6 * 0.8**0.5, 160)
        values = difference + shared + generator.normal(0, 0.03, (4, 1))
        error, freedom = crossed_error(values, clusters)
        shown += 2 * student.sf(abs(values.mean()) / error, freedom) < 0.05
    assert 0.68 < shown / 150 < 0.92


def test_studies_that_are_too_small_show_no_difference_and_a_small_margin_shows_little() -> None:
    assert Design(Spread(0.5), (1,) * 5).smallest_difference() == math.inf
    few = Design(Spread(0.5, 0.15), (8,) * 13)
    assert few.not_worse(0.02) < 0.15
    assert few.not_worse(few.smallest_margin()) >= POWER
    assert few.shown_early(few.smallest_difference()) == 0


def test_a_hundred_questions_of_the_sample_show_differences_early() -> None:
    sample = Design(Spread(0.5, 0.15), (2,) * 50)
    assert 0.4 < sample.shown_early(sample.smallest_difference()) < POWER


def test_the_spread_of_trials_is_found_again() -> None:
    generator = np.random.default_rng(1)
    clusters = np.arange(300).repeat(4)
    trials = []
    for _ in range(40):
        shared = generator.normal(0, 0.2**0.5, 300).repeat(4) + generator.normal(0, 0.8**0.5, 1200)
        trials.append((shared + generator.normal(0, 0.2), clusters))
    found = spread_of(trials)
    assert found.questions == pytest.approx(1, abs=0.03)
    assert found.correlation == pytest.approx(0.2, abs=0.03)
    assert found.graphs == pytest.approx(0.2, abs=0.06)


def test_an_earlier_run_gives_the_variance_of_the_pairs_that_it_has(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text("")
    with Recorder(run) as recorder:
        for number in range(20):
            for method in ("a", "b"):
                score = float(method == "b" or number % 2)
                recorder.evaluated(trace(number, method), item(number), Score(score, score))
    compare = CompareSettings(variance_from=str(run.path))
    (line,) = power_notes(compare, [1] * 100, [("a", "b"), ("a", "c")])
    assert f"a and b {Design(Spread(0.5), (1,) * 100).smallest_difference():.3f} " in line
    assert f"({Design(Spread(0.5), (1,) * 100).not_worse(compare.margin):.0%})" in line
    assert " c " not in line
    shown, not_worse = power_notes(CompareSettings(), [1] * 100, [("a", "b")], seeds=3)
    assert f"{Design(Spread(0.5, 0.15), (1,) * 100, 3).smallest_difference():.3f}" in shown
    assert "show not worse by compare.margin=0.05" in not_worse
    early = CompareSettings(stop=["a", "b"])
    assert any("compare.stop shows" in note for note in power_notes(early, [8] * 13, [("a", "b")]))
