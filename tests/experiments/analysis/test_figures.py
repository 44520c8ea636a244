"""Figures are drawn from the records: the right steps, the right edges, every method's name, and the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from experiments.analysis.figures.costs import utility_against_tokens
from experiments.analysis.figures.draw import draw_run
from experiments.analysis.figures.learned import edge_heatmaps, learning_curves
from experiments.analysis.figures.style import PAGE, SMALL, save
from experiments.analysis.summary import Metrics, summarise
from experiments.records.recorder import RunFolder
from tests.experiments.analysis.test_summary import ABOUT
from tests.support.fake_run import AGENTS, METHODS, MODALITIES, make_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=6, questions=8)


@pytest.fixture(scope="module")
def metrics(run: RunFolder) -> Metrics:
    return summarise(run, ABOUT)


@pytest.fixture(scope="module")
def spatial(run: RunFolder) -> Figure:
    return edge_heatmaps(run.learned("m3prune"))["edges-spatial"]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_heat_maps_show_start_thirds_and_end_of_each_stage(run: RunFolder) -> None:
    figures = edge_heatmaps(run.learned("m3prune"))
    assert list(figures) == ["edges-spatial", "edges-temporal"]
    for figure in figures.values():
        assert [title.split(":")[0] for title in titles(figure)] == ["step 0", "step 2", "step 4", "step 6"] * 2


def test_heat_maps_have_senders_down_and_receivers_across(run: RunFolder, spatial: Figure) -> None:
    panel = spatial.axes[7]  # the end of stage 2
    last = np.array(list(run.learned("m3prune").learning())[-1].probabilities["spatial"], dtype=float)
    shown = panel.collections[1].get_array()
    np.testing.assert_array_equal(np.ma.filled(shown, np.nan).reshape(9, 9), last)
    assert panel.yaxis_inverted()
    assert [label.get_text() for label in panel.get_xticklabels()] == list(AGENTS)
    assert [label.get_text() for label in panel.get_xticklabels(minor=True)] == ["text", "visual"]
    assert titles(spatial)[7] == f"step 6: {np.isfinite(last).sum()} edges"


def test_a_pruned_edge_is_told_from_one_that_the_stage_does_not_have(run: RunFolder, spatial: Figure) -> None:
    text = np.array([modality == "text" for modality in MODALITIES])
    exists = (text[:, None] == text[None, :]) & ~np.eye(9, dtype=bool)
    last_of_stage_1 = np.array(list(run.learned("m3prune").learning())[6].probabilities["spatial"], dtype=float)
    crosses = {(row, column) for column, row in np.floor(spatial.axes[3].collections[2].get_offsets().data)}
    gone = exists & ~np.isfinite(last_of_stage_1)
    assert gone.any()
    assert crosses == set(zip(*np.nonzero(gone), strict=True))


def test_edges_that_stage_1_pruned_stay_crossed_in_stage_2(spatial: Figure) -> None:
    end, start = (set(map(tuple, spatial.axes[n].collections[2].get_offsets().data)) for n in (3, 4))
    assert end <= start


def test_a_run_that_learned_nothing_has_only_the_cost_figure(tmp_path: Path, metrics: Metrics) -> None:
    run = RunFolder.create(tmp_path, "x")
    assert edge_heatmaps(run.learned("m3prune")) == {}
    assert learning_curves(run.learned("m3prune")) is None
    assert [path.name for path in draw_run(run, metrics, "EM")] == ["utility-against-tokens.png"]


def test_learning_curves_show_every_term_and_do_not_join_the_stages(run: RunFolder) -> None:
    figure = learning_curves(run.learned("m3prune"))
    assert figure is not None
    shown = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert list(shown)[:4] == ["utility", "rank", "align", "edges left"]
    stages = [np.asarray(line.get_xdata()) for line in shown["utility"].lines[:2]]
    assert [list(x) for x in stages] == [list(range(7)), list(range(7, 14))]


def test_every_method_is_a_labelled_point(metrics: Metrics) -> None:
    (axes,) = utility_against_tokens(metrics, "accuracy").axes
    assert [text.get_text() for text in axes.texts if text.get_text()] == list(METHODS)
    assert axes.get_ylabel().startswith("accuracy")


def test_names_cover_neither_each_other_nor_the_edge_even_where_methods_cost_the_same(metrics: Metrics) -> None:
    row = metrics["methods"]["m3prune"]
    crowded = {f"method_number_{i}": row | {"utility": row["utility"] + 0.01 * i} for i in range(10)}
    figure = utility_against_tokens({**metrics, "methods": crowded}, "EM")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    window = figure.axes[0].get_window_extent()
    assert all(window.x0 <= box.x0 and box.x1 <= window.x1 for box in boxes)


def test_figures_can_be_read_in_print(run: RunFolder, metrics: Metrics, spatial: Figure) -> None:
    curves = learning_curves(run.learned("m3prune"))
    assert curves is not None
    for figure in (spatial, curves, utility_against_tokens(metrics, "EM")):
        assert figure.get_size_inches()[0] <= PAGE
        figure.draw_without_rendering()
        said = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        assert min(text.get_fontsize() for text in said) >= SMALL


def test_a_run_draws_every_figure_with_fonts_inside(run: RunFolder, metrics: Metrics) -> None:
    paths = draw_run(run, metrics, "EM")
    assert [path.stem for path in paths] == [
        "m3prune-edges-spatial",
        "m3prune-edges-temporal",
        "m3prune-learning-curves",
        "utility-against-tokens",
    ]
    for path in paths:
        with Image.open(path) as image:
            assert min(image.size) > 500
        assert b"/FontFile2" in path.with_suffix(".pdf").read_bytes()
        assert b"<text" not in path.with_suffix(".svg").read_bytes()


def test_the_same_records_give_the_same_bytes(run: RunFolder, metrics: Metrics, tmp_path: Path) -> None:
    def files(folder: Path) -> list[bytes]:
        save(edge_heatmaps(run.learned("m3prune"))["edges-temporal"], folder, "edges")
        save(utility_against_tokens(metrics, "EM"), folder, "tokens")
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    first = files(tmp_path / "a")
    assert len(first) == 6
    assert first == files(tmp_path / "b")
    assert not any(b"CreationDate" in content or b"dc:date" in content for content in first)
