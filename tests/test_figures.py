"""Figures are drawn from the records: the right steps, the right blocks, every method's name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from experiments.figures import draw, edge_heatmaps, learning_curves, utility_against_tokens
from experiments.recorder import RunFolder
from experiments.summary import Metrics, summarise
from tests.fake_run import AGENTS, METHODS, make_run
from tests.test_summary import ABOUT


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=6, questions=8)


@pytest.fixture(scope="module")
def metrics(run: RunFolder) -> Metrics:
    return summarise(run, ABOUT)


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_heat_maps_show_start_thirds_and_end_of_the_stage_that_trains_them(run: RunFolder) -> None:
    figures = edge_heatmaps(run)
    assert list(figures) == [
        f"edges-{group}-{kind}" for group in ("intra", "inter") for kind in ("spatial", "temporal")
    ]
    for figure in figures.values():
        assert [title.split(":")[0] for title in titles(figure)] == ["step 0", "step 2", "step 4", "step 6"] * 2


def test_heat_maps_have_senders_down_and_receivers_across(run: RunFolder) -> None:
    panel = edge_heatmaps(run)["edges-inter-spatial"].axes[3]  # visual to text, end of stage 2
    assert [label.get_text() for label in panel.get_xticklabels()] == list(AGENTS[:5])
    last = list(run.learning())[-1].probabilities["spatial"]
    expected = np.array([row[:5] for row in last[5:]], dtype=float)
    shown = np.ma.filled(panel.collections[0].get_array(), np.nan).reshape(4, 5)
    np.testing.assert_array_equal(shown, expected)
    assert panel.yaxis_inverted()
    assert titles(panel.figure)[3] == f"step 6: {np.isfinite(expected).sum()} edges"  # type: ignore[arg-type]


def test_without_an_inter_graph_there_is_no_inter_figure(run: RunFolder, tmp_path: Path) -> None:
    other = RunFolder.create(tmp_path, "x")
    lines = (run.path / "learning.jsonl").read_bytes().splitlines(keepends=True)
    (other.path / "learning.jsonl").write_bytes(b"".join(lines[:7]))
    assert list(edge_heatmaps(other)) == ["edges-intra-spatial", "edges-intra-temporal"]


def test_a_run_that_learned_nothing_has_only_the_cost_figure(tmp_path: Path, metrics: Metrics) -> None:
    run = RunFolder.create(tmp_path, "x")
    assert edge_heatmaps(run) == {}
    assert learning_curves(run) is None
    assert [path.name for path in draw(run, metrics, "EM")] == ["utility-against-tokens.png"]


def test_learning_curves_show_every_term_and_do_not_join_the_stages(run: RunFolder) -> None:
    figure = learning_curves(run)
    assert figure is not None
    shown = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert list(shown) == ["utility", "rank", "align", "edges left"]
    stages = [np.asarray(line.get_xdata()) for line in shown["utility"].lines[:2]]
    assert [list(x) for x in stages] == [list(range(7)), list(range(7, 14))]


def test_every_method_is_a_labelled_point(metrics: Metrics) -> None:
    (axes,) = utility_against_tokens(metrics, "accuracy").axes
    assert [text.get_text() for text in axes.texts] == list(METHODS)
    assert axes.get_ylabel().startswith("accuracy")


def test_names_do_not_cover_each_other_even_where_methods_cost_the_same(metrics: Metrics) -> None:
    figure = utility_against_tokens(metrics, "EM")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_figures_are_written_as_png_and_pdf(run: RunFolder, metrics: Metrics) -> None:
    paths = draw(run, metrics, "EM")
    assert len(paths) == 6
    for path in paths:
        with Image.open(path) as image:
            assert min(image.size) > 600
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
