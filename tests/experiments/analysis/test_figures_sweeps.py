"""A sweep's figures: what was varied decides what is drawn, and every mean has its interval and its trials."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from actors.errors import UserError
from experiments.analysis.compare import merge, varied
from experiments.analysis.figures.attacks import against_clean, by_kind
from experiments.analysis.figures.axes import by_setting
from experiments.analysis.figures.costs import Timed, utility_and_seconds
from experiments.analysis.figures.systems import f1_by_supporting
from experiments.config.loading import load
from experiments.records.records import Scored
from experiments.records.trials import TrialResult
from experiments.records.usage import PhaseUsage
from experiments.running.conclude import timed
from tests.support.fake_sweep import draw, make_sweep, read_arms, scored

pytestmark = pytest.mark.slow

METHODS = ("single", "full", "m3prune")
ATTACKS: list[dict[str, Any]] = [
    {"attack.kind": "none"},
    *({"attack.kind": kind, "attack.agents": [i]} for kind in ("input", "response") for i in range(3)),
]


def attacked(method: str, values: Any, seed: int) -> float:
    harm = {"none": 0.0, "input": 0.2, "response": 0.4}[values["attack.kind"]]
    return 0.3 if method == "single" else 0.7 - harm * (0.1 if method == "m3prune" else 1.0)


def pruned(method: str, values: Any, seed: int) -> float:
    return 0.4 if method == "full" else 0.7 - values["pruning.intra_rate"] + 0.5 * values["pruning.inter_rate"]


@pytest.fixture(scope="module")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TrialResult]]:
    folder = tmp_path_factory.mktemp("attacks")
    return folder, make_sweep(folder, ATTACKS, METHODS, attacked, seeds=2)


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TrialResult]]:
    settings = [{"pruning.intra_rate": a, "pruning.inter_rate": b} for a in (0.1, 0.3) for b in (0.1, 0.2, 0.4)]
    folder = tmp_path_factory.mktemp("costs")
    return folder, make_sweep(folder, settings[:-1], ("full", "m3prune"), pruned, seeds=2)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_sweep_over_attacks_draws_kinds_positions_and_costs(attacks: tuple[Path, list[TrialResult]]) -> None:
    folder, results = attacks
    paths = draw(folder, results, "EM")
    assert [path.stem for path in paths] == [
        "attackers-position",
        "attacks",
        "attacks-against-clean",
        "utility-against-tokens",
    ]
    assert all(path.with_suffix(suffix).exists() for path in paths for suffix in (".pdf", ".svg", ".png"))


def test_bars_are_means_over_seeds_and_positions_grouped_by_method(attacks: tuple[Path, list[TrialResult]]) -> None:
    folder, results = attacks
    arms = merge(read_arms(folder, results), over=["attack.agents"])
    axes = by_kind(arms, varied(results)["attack.kind"], "EM").axes[0]
    bars = {
        bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers if hasattr(bars, "patches")
    }
    assert list(bars) == ["clean", "input", "response"]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(METHODS)
    for kind, heights in bars.items():
        for method, height in zip(METHODS, heights, strict=True):
            own = "none" if kind == "clean" else kind
            trials = [r.metrics["methods"][method]["utility"] for r in results if r.values["attack.kind"] == own]
            assert len(trials) == (2 if kind == "clean" else 6)
            assert height == pytest.approx(np.mean(trials))


def test_what_an_attack_changes_is_filled_only_where_the_corrected_test_says_so(
    attacks: tuple[Path, list[TrialResult]],
) -> None:
    folder, results = attacks
    arms = merge(read_arms(folder, results), over=["attack.agents"])
    axes = against_clean(arms, ["none", "input", "response"], "EM").axes[0]
    points = [line for line in axes.lines if len(line.get_xdata()) == 1]
    hit = {round(float(line.get_xdata()[0])): line for line in points}  # the last kind of each method: response
    assert hit[1].get_ydata()[0] < -0.2
    assert hit[1].get_markerfacecolor() != "white"
    assert hit[0].get_ydata()[0] == 0
    assert hit[0].get_markerfacecolor() == "white"


def test_too_many_bars_become_a_table_of_cells(tmp_path: Path) -> None:
    kinds = ("none", "input", "response", "collude", "sleeper", "tamper", "poison")
    methods = tuple(f"method_{i}" for i in range(6))
    settings = [{"attack.kind": kind} for kind in kinds]
    results = make_sweep(tmp_path, settings, methods, lambda *_: 0.5, seeds=1, questions=10)
    figure = by_kind(read_arms(tmp_path, results), kinds, "EM")
    assert len(texts(figure)) == 42
    assert all("±" in text for text in texts(figure))


def test_two_axes_give_a_heat_map_of_what_they_change_and_leave_open_what_was_not_run(
    rates: tuple[Path, list[TrialResult]],
) -> None:
    folder, results = rates
    arms = read_arms(folder, results)
    figure = by_setting(arms, varied(results), "EM")
    panel = figure.axes[0]
    assert panel.get_title() == "m3prune"
    assert "full" in figure.get_suptitle()
    assert len(texts(figure)) == 5
    values = panel.collections[0].get_array()
    assert np.ma.count(values) == 5
    (arm,) = (a for a in arms if a.method == "m3prune" and list(a.values.values()) == [0.3, 0.1])
    assert values[1, 0] == pytest.approx(arm.mean)
    assert (figure.get_supylabel(), figure.get_supxlabel()) == ("pruning.intra_rate", "pruning.inter_rate")


def test_one_axis_gives_lines_with_an_interval_and_every_trial(tmp_path: Path) -> None:
    settings = [{"topology.rounds": n} for n in (4, 2, 8)]
    results = make_sweep(tmp_path, settings, ("full",), lambda m, v, s: v["topology.rounds"] / 10, seeds=3)
    axes = by_setting(read_arms(tmp_path, results), varied(results), "EM").axes[0]
    (line,) = (line for line in axes.lines if line.get_label() == "full")
    assert list(line.get_xdata()) == [2, 4, 8]
    assert list(line.get_ydata()) == sorted(line.get_ydata())
    faint = [line for line in axes.lines if line.get_alpha()]
    assert [len(line.get_ydata()) for line in faint] == [3, 3, 3]
    assert len(axes.collections[0].get_segments()) == 3


def test_three_axes_give_a_panel_for_each_value_of_the_third(tmp_path: Path) -> None:
    settings = [{"a": a, "b": b, "c": c} for a in (1, 2) for b in (1, 2, 3) for c in (1, 2, 3)]
    results = make_sweep(tmp_path, settings, ("m3prune",), lambda m, v, s: v["b"] / 5, seeds=1, questions=10)
    figure = by_setting(read_arms(tmp_path, results), varied(results), "EM")
    assert [axes.get_title() for axes in figure.axes[:2]] == ["m3prune, a 1", "m3prune, a 2"]


def test_a_search_over_many_values_is_drawn_as_points(tmp_path: Path) -> None:
    settings = [{"learner.lr": 0.01 * i, "pruning.rate": 0.5 - 0.01 * i} for i in range(8)]
    results = make_sweep(tmp_path, settings, ("m3prune",), lambda m, v, s: v["pruning.rate"], seeds=1, questions=10)
    figure = by_setting(read_arms(tmp_path, results), varied(results), "EM")
    assert [axes.get_xlabel() for axes in figure.axes] == ["learner.lr", "pruning.rate"]


def test_trials_that_were_stopped_before_they_evaluated_are_not_draw(tmp_path: Path) -> None:
    assert draw(tmp_path, [TrialResult("t", {"a": 1}, 0, {})], "EM") == []


def test_a_trial_without_records_is_named(tmp_path: Path) -> None:
    results = make_sweep(tmp_path, [{"a": 1}, {"a": 2}], ("full",), lambda *_: 0.5, seeds=1, questions=4)
    (tmp_path / "trials" / results[1].name / "scores.jsonl").unlink()
    with pytest.raises(UserError, match=results[1].name):
        draw(tmp_path, results, "EM")


def test_seconds_per_question_are_drawn_where_trials_ran_alone(tmp_path: Path) -> None:
    sets = [{"data.kind": kind} for kind in ("scienceqa", "mmbench")]
    results = make_sweep(tmp_path, sets, ("bdog_debate", "bdog"), lambda *_: 0.5, seeds=2, questions=10)
    for number, result in enumerate(results):
        lines = [
            PhaseUsage("learning", 100.0),
            PhaseUsage("evaluating bdog", 5.0 + number),
            *([PhaseUsage("evaluating bdog_debate", 10.0)] if number else []),
            PhaseUsage("evaluating bdog", 5.0),  # after a resumption
        ]
        folder = tmp_path / "trials" / result.name
        (folder / "usage.jsonl").write_text("".join(f"{line.encode()}\n" for line in lines))
    arms = {(arm.method, arm.values["data.kind"]): arm for arm in read_arms(tmp_path, results)}
    assert arms["bdog", "scienceqa"].seconds == (1.0, 1.1)
    assert arms["bdog", "mmbench"].seconds == (1.2, 1.3)
    # The first trial did not record it.
    assert str(arms["bdog_debate", "scienceqa"].seconds) == "(nan, 1.0)"
    figure = utility_and_seconds([Timed.of(arm) for arm in arms.values()], "accuracy")
    time, utility = figure.axes
    assert [text.get_text() for text in time.get_xticklabels()] == ["kind scienceqa", "kind mmbench"]
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in time.containers}
    assert heights["bdog"] == pytest.approx([1.05, 1.25])
    assert heights["bdog_debate"] == pytest.approx([1.0, 1.0])
    assert utility.get_ylabel() == "accuracy (95% interval)"
    assert "utility-and-seconds" in [path.stem for path in draw(tmp_path, results, "accuracy", timed=True)]
    assert "utility-and-seconds" not in [path.stem for path in draw(tmp_path, results, "accuracy")]


@pytest.mark.parametrize(
    ("words", "is_timed"), [([], True), (["concurrency=2"], False), (["completions.reuse=true"], False)]
)
def test_bdog_s_preset_of_its_times_is_timed(words: list[str], is_timed: bool) -> None:
    config = load(["experiment=bdog_time", "data.root=x", *words])
    assert timed(config) == is_timed


def test_f1_is_drawn_by_supporting_documents_where_these_are_known() -> None:
    def trial(seed: int, tags: bool = True) -> dict[str, dict[str, Scored]]:
        """Questions of one, two and many supporting documents, of which `full` is good at the many."""
        known = [(number, n) for number in ("1", "2", "5 or more") for n in range(8)]
        return {
            method: {
                f"{number}-{n}": replace(
                    scored(method, n, 0.5, seed),
                    f1=1.0 if (number == "5 or more") == (method == "full") else 0.25,
                    tags={"supporting": number} if tags else {},
                )
                for number, n in known
            }
            for method in ("single", "full")
        }

    figure = f1_by_supporting([trial(0), trial(1)])
    assert figure is not None
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "5 or more"]
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert drawn == {"single": [1.0, 1.0, 0.25], "full": [0.25, 0.25, 1.0]}
    assert f1_by_supporting([trial(0, tags=False)]) is None


def test_a_sweep_of_nothing_but_data_shows_f1_by_supporting_documents(tmp_path: Path) -> None:
    def draws(folder: str, settings: list[dict[str, Any]]) -> set[str]:
        results = make_sweep(tmp_path / folder, settings, ("single", "full"), lambda *_: 0.5, seeds=1)
        for path in (tmp_path / folder).glob("trials/*/scores.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            told = [{**line, "tags": {"supporting": str(1 + n % 2)}} for n, line in enumerate(lines)]
            path.write_text("".join(f"{json.dumps(line)}\n" for line in told))
        return {path.stem for path in draw(tmp_path / folder, results, "EM")}

    assert "f1-by-supporting" in draws("plain", [{}])
    assert "f1-by-supporting" not in draws("rounds", [{"topology.rounds": 1}, {"topology.rounds": 2}])
