"""Accuracy and questions by the number of paths that an answer may rest on (MH-MMKG, Fig. 6a)."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.messages import Question, Status, Trace
from experiments.analysis.figures.systems import by_paths, path_answers
from experiments.config.loading import load
from experiments.datasets.item import Item, Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.trials import RESULTS, TRIALS, TrialResult
from experiments.running.methods import methods_of
from tests.support.fake_sweep import draw

FOUND = {"q1": 3, "q2": 1, "q3": 0}
ROW = {"utility": 0.0, "ci95": [0.0, 0.0], "prompt_tokens": 0, "completion_tokens": 0}


@pytest.fixture
def results(tmp_path: Path) -> list[TrialResult]:
    """Two runs, with one and with two paths at most: with two of them, and only then, an answer is right."""
    results = []
    for most in (1, 2):
        folder = RunFolder(tmp_path / TRIALS / f"most-{most}")
        folder.path.mkdir(parents=True)
        with Recorder(folder) as recorder:
            for id, found in FOUND.items():
                paths = tuple(("A", str(n)) for n in range(min(found, most)))
                for method, walked in (("mh_vanilla", None), ("mh_mmkg", paths)):
                    trace = Trace(id, method, 0, (), (), "yes", Status.OK, 0, paths=walked)
                    recorder.evaluated(trace, Item(Question(id, "?"), ("yes",)), Score(float(len(paths) == 2), 0.0))
        rows = {"methods": dict.fromkeys(("mh_vanilla", "mh_mmkg"), ROW)}
        results.append(TrialResult(f"most-{most}", {"systems.paths": most}, 0, rows))
    (tmp_path / RESULTS).write_text("".join(f"{result.encode()}\n" for result in results))
    return results


def test_questions_with_so_many_paths_are_counted_for_methods_that_follow_any(
    tmp_path: Path, results: list[TrialResult]
) -> None:
    answers = path_answers(tmp_path, results)
    assert [(answered.method, answered.most, answered.reached) for answered in answers] == [
        ("mh_mmkg", 1, 2),
        ("mh_mmkg", 2, 1),
    ]


def test_lines_are_accuracy_and_bars_the_questions(tmp_path: Path, results: list[TrialResult]) -> None:
    lines, bars = by_paths(path_answers(tmp_path, results), "EM").axes
    assert [list(line.get_ydata()) for line in lines.lines] == [[0.0, pytest.approx(1 / 3)]]
    assert [bar.get_height() for bar in bars.patches] == [2, 1]
    assert lines.get_ylabel().startswith("EM")


def test_a_sweep_over_the_number_of_paths_draws_them(tmp_path: Path, results: list[TrialResult]) -> None:
    assert "paths" in [path.stem for path in draw(tmp_path, results, "EM")]


def test_the_papers_figures_are_experiments() -> None:
    paths = load(["experiment=mh_paths"])
    assert paths.sweep.axes == {"systems.paths": list(range(1, 11))}
    orders = load(["experiment=mh_orders"])
    assert ([method.name for method in methods_of(orders)], orders.systems.paths) == (["mh_dfs", "mh_mmkg"], 3)


@pytest.mark.parametrize(
    "name", ["mh_mmkg_table", "mh_paths", "mh_orders", *(f"mh_{s}" for s in ("mmkg", "dfs", "offline", "perceptive"))]
)
def test_the_authors_models_are_asked_at_temperature_0(name: str) -> None:
    assert load([f"experiment={name}"]).agents.temperature == 0
