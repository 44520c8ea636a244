"""A sweep's figures: what was varied decides what is drawn, and every mean has its interval and its trials."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from actors.errors import UserError
from experiments.analysis.compare import Arm, merge, varied
from experiments.analysis.figures.sweeps import by_setting, utility_and_seconds
from experiments.analysis.figures.systems import f1_by_supporting
from experiments.config.loading import load
from experiments.records.trials import TrialResult
from experiments.records.usage import PhaseUsage
from experiments.running.conclude import timed
from tests.support.fake_sweep import draw, make_sweep, read_arms

pytestmark = pytest.mark.slow

METHODS = ("single", "full", "m3prune")
ATTACKS: list[dict[str, Any]] = [
    {"attack.kind": "none"},
    *({"attack.kind": kind, "attack.agents": [i]} for kind in ("input", "response") for i in range(3)),
]


def attacked(method: str, values: Any, seed: int) -> float:
    harm = {"none": 0.0, "input": 0.2, "response": 0.4}[values["attack.kind"]]
    return 0.3 if method == "single" else 0.7 - harm * (0.1 if method == "m3prune" else 1.0)


def drawn(folder: Path, settings: list[dict[str, Any]], method: str, ability: Any, seeds: int = 1) -> Figure:
    """The figure of a sweep over settings other than attacks."""
    results = make_sweep(folder, settings, (method,), ability, seeds, questions=10)
    return by_setting(read_arms(folder, results), varied(results), "EM")


@pytest.fixture(scope="module")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TrialResult]]:
    folder = tmp_path_factory.mktemp("attacks")
    return folder, make_sweep(folder, ATTACKS, METHODS, attacked, seeds=2)


@pytest.fixture(scope="module")
def arms(attacks: tuple[Path, list[TrialResult]]) -> list[Arm]:
    return merge(read_arms(*attacks), over=["attack.agents"])


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_sweep_over_attacks_draws_kinds_positions_and_costs(attacks: tuple[Path, list[TrialResult]]) -> None:
    paths = draw(*attacks, "EM")
    names = ["attackers-position", "attacks", "utility-against-tokens"]
    assert [path.stem for path in paths] == names
    assert all(path.with_suffix(suffix).exists() for path in paths for suffix in (".pdf", ".svg", ".png"))


def test_points_are_means_over_seeds_and_positions_of_each_method(
    attacks: tuple[Path, list[TrialResult]], arms: list[Arm]
) -> None:
    _, results = attacks
    axes = by_setting(arms, {"attack.kind": varied(results)["attack.kind"]}, "EM").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "input", "response"]
    lines = {str(line.get_label()): list(line.get_ydata()) for line in axes.lines}
    for method in METHODS:
        for kind, mean in zip(("none", "input", "response"), lines[method], strict=True):
            trials = [r.metrics["methods"][method]["utility"] for r in results if r.values["attack.kind"] == kind]
            assert len(trials) == (2 if kind == "none" else 6)
            assert mean == pytest.approx(np.mean(trials))


def test_two_axes_give_heat_maps_without_values_that_were_not_run(tmp_path: Path) -> None:
    def pruned(method: str, values: Any, seed: int) -> float:
        return 0.4 if method == "full" else 0.7 - values["pruning.intra_rate"] + 0.5 * values["pruning.inter_rate"]

    settings = [{"pruning.intra_rate": a, "pruning.inter_rate": b} for a in (0.1, 0.3) for b in (0.1, 0.2, 0.4)]
    results = make_sweep(tmp_path, settings[:-1], ("full", "m3prune"), pruned, seeds=2)
    arms = read_arms(tmp_path, results)
    figure = by_setting(arms, varied(results), "EM")
    panel = figure.axes[1]
    assert panel.get_title() == "m3prune"
    assert len(texts(figure)) == 10
    values = panel.collections[0].get_array()
    assert np.ma.count(values) == 5
    (arm,) = (a for a in arms if a.method == "m3prune" and list(a.values.values()) == [0.3, 0.1])
    assert values[1, 0] == pytest.approx(arm.mean)
    assert (figure.get_supylabel(), figure.get_supxlabel()) == ("pruning.intra_rate", "pruning.inter_rate")


def test_one_axis_gives_lines_with_an_interval_and_every_trial(tmp_path: Path) -> None:
    settings = [{"topology.rounds": n} for n in (4, 2, 8)]
    axes = drawn(tmp_path, settings, "full", lambda m, v, s: v["topology.rounds"] / 10, seeds=3).axes[0]
    (line,) = (line for line in axes.lines if line.get_label() == "full")
    assert list(line.get_xdata()) == [2, 4, 8]
    assert list(line.get_ydata()) == sorted(line.get_ydata())
    faint = [line for line in axes.lines if line.get_alpha()]
    assert [len(line.get_ydata()) for line in faint] == [3, 3, 3]
    assert len(axes.collections[0].get_segments()) == 3


def test_three_axes_give_panels_and_many_values_give_points(tmp_path: Path) -> None:
    settings = [{"a": a, "b": b, "c": c} for a in (1, 2) for b in (1, 2, 3) for c in (1, 2, 3)]
    figure = drawn(tmp_path / "panels", settings, "m3prune", lambda m, v, s: v["b"] / 5)
    assert [axes.get_title() for axes in figure.axes[:2]] == ["m3prune, a 1", "m3prune, a 2"]
    search = [{"learner.lr": 0.01 * i, "pruning.rate": 0.5 - 0.01 * i} for i in range(8)]
    figure = drawn(tmp_path / "points", search, "m3prune", lambda m, v, s: v["pruning.rate"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["learner.lr", "pruning.rate"]


def test_a_trial_without_records_is_named_and_a_stopped_one_is_not_drawn(tmp_path: Path) -> None:
    assert draw(tmp_path, [TrialResult("t", {"a": 1}, 0, {})], "EM") == []
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
    time, utility = utility_and_seconds([*arms.values()], "accuracy").axes
    assert [text.get_text() for text in time.get_xticklabels()] == ["kind scienceqa", "kind mmbench"]
    assert sorted(bar.get_height() for bar in time.patches) == pytest.approx([1.0, 1.0, 1.05, 1.25])
    assert utility.get_ylabel().startswith("accuracy")
    for is_timed in (True, False):
        names = [path.stem for path in draw(tmp_path, results, "accuracy", timed=is_timed)]
        assert ("utility-and-seconds" in names) is is_timed


@pytest.mark.parametrize(
    ("words", "is_timed"), [([], True), (["concurrency=2"], False), (["completions.reuse=true"], False)]
)
def test_bdog_s_preset_of_its_times_is_timed(words: list[str], is_timed: bool) -> None:
    assert timed(load(["experiment=bdog_time", "data.root=x", *words])) == is_timed


def test_f1_is_drawn_by_supporting_documents_where_these_are_known(tmp_path: Path) -> None:
    def trial(tags: bool = True) -> dict[str, pd.DataFrame]:
        """Questions of one, two and many supporting documents; only `full` is good at the many."""
        numbers = [number for number in ("1", "2", "5 or more") for _ in range(8)]
        answers = {}
        for method in ("single", "full"):
            f1 = [1.0 if (number == "5 or more") == (method == "full") else 0.25 for number in numbers]
            answers[method] = pd.DataFrame({"f1": f1, "tags": [[("supporting", n)] if tags else [] for n in numbers]})
        return answers

    figure = f1_by_supporting([trial(), trial()])
    assert figure is not None
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "5 or more"]
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert lines["single"] == [1.0, 1.0, 0.25]
    assert lines["full"] == [0.25, 0.25, 1.0]
    assert f1_by_supporting([trial(tags=False)]) is None
    # Only of a sweep that varied nothing but data.
    for name, settings in (("plain", [{}]), ("rounds", [{"topology.rounds": 1}, {"topology.rounds": 2}])):
        results = make_sweep(tmp_path / name, settings, ("single", "full"), lambda *_: 0.5, seeds=1)
        for path in (tmp_path / name).glob("trials/*/scores.jsonl"):
            read = [json.loads(line) for line in path.read_text().splitlines()]
            tagged = [{**line, "tags": {"supporting": str(1 + n % 2)}} for n, line in enumerate(read)]
            path.write_text("".join(f"{json.dumps(line)}\n" for line in tagged))
        drawn = {path.stem for path in draw(tmp_path / name, results, "EM")}
        assert ("f1-by-supporting" in drawn) is (name == "plain")
