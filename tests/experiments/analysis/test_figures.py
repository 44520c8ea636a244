"""A run's figures are drawn from its records: the right steps and edges, every method's name, and the same bytes."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.rcsetup import cycler
from matplotlib.text import Text
from PIL import Image

from actors.errors import UserError
from actors.messages import Message, Question, Status, Trace
from experiments.analysis.compare import arms_of_trials
from experiments.analysis.figures.draw import draw_run
from experiments.analysis.figures.learned import (
    WINDOW,
    draw_graph,
    edge_heatmaps,
    learned_graph,
    learning_curves,
    running_mean,
)
from experiments.analysis.figures.style import COLOURS, PAGE, SMALL, colour, drawing, own_style, save
from experiments.analysis.figures.sweeps import draw_against_tokens, utility_against_tokens
from experiments.analysis.figures.systems import DEBATE, by_paths, changes, condensation, path_arms
from experiments.analysis.marks import read_marks
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import FinishedRun, read_trials
from experiments.analysis.summary import summarise
from experiments.config.config import flat
from experiments.config.loading import load
from experiments.config.saved import save as save_config
from experiments.datasets.item import Item, Score
from experiments.records.recorder import LearningRecorder, Recorder, RunFolder
from experiments.records.trials import RESULTS, TRIALS, TrialResult
from tests.support.fake_run import AGENTS, FACTS, MODALITIES, item, learning_step, make_run
from tests.support.fake_sweep import draw
from tests.support.paths import ROOT
from topologies.systems.bdog import MODERATOR, OPPONENT, PROPONENT, SOLO
from topologies.systems.bdog_graph import Change

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=6, questions=8)


@pytest.fixture(scope="module")
def metrics(run: RunFolder) -> Metrics:
    return summarise(run, FACTS)


@pytest.fixture(scope="module")
def spatial(run: RunFolder) -> Figure:
    return edge_heatmaps(run.learned("m3prune"))["edges-spatial"]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_heat_maps_show_start_thirds_and_end_of_each_stage_senders_down(run: RunFolder, spatial: Figure) -> None:
    figures = edge_heatmaps(run.learned("m3prune"))
    assert list(figures) == ["edges-spatial", "edges-temporal"]
    for figure in figures.values():
        assert [title.split(":")[0] for title in titles(figure)] == ["step 0", "step 2", "step 4", "step 6"] * 2
    panel = spatial.axes[7]  # the end of stage 2
    last = np.array(list(run.learned("m3prune").learning())[-1].probabilities["spatial"], dtype=float)
    shown = panel.collections[1].get_array()
    np.testing.assert_array_equal(np.ma.filled(shown, np.nan).reshape(9, 9), last)
    assert panel.yaxis_inverted()
    assert [label.get_text() for label in panel.get_xticklabels()] == list(AGENTS)
    assert titles(spatial)[7].split()[2] == str(np.isfinite(last).sum())


def test_a_pruned_edge_is_crossed_and_stays_so_in_stage_2(run: RunFolder, spatial: Figure) -> None:
    text = np.array([modality == "text" for modality in MODALITIES])
    exists = (text[:, None] == text[None, :]) & ~np.eye(9, dtype=bool)
    last_of_stage_1 = np.array(list(run.learned("m3prune").learning())[6].probabilities["spatial"], dtype=float)
    end, start = (set(map(tuple, spatial.axes[n].collections[2].get_offsets().data)) for n in (3, 4))
    gone = exists & ~np.isfinite(last_of_stage_1)
    assert gone.any()
    assert {(int(row), int(column)) for column, row in end} == set(
        zip(*map(np.ndarray.tolist, np.nonzero(gone)), strict=True)
    )
    assert end <= start


def test_a_run_that_learned_nothing_has_only_the_cost_figure(run: RunFolder, metrics: Metrics, tmp_path: Path) -> None:
    other = RunFolder.create(tmp_path, "x")
    (other.path / "scores.jsonl").write_bytes((run.path / "scores.jsonl").read_bytes())
    assert edge_heatmaps(other.learned("m3prune")) == {}
    assert learning_curves(other.learned("m3prune")) is None
    assert [path.name for path in draw_run(other, metrics)] == ["utility-against-tokens.png"]
    failed = {"methods": {name: row | {"utility": None} for name, row in metrics["methods"].items()}}
    assert draw_run(other, failed) == []


def test_learning_curves_show_every_term_and_do_not_join_the_stages(run: RunFolder) -> None:
    figure = learning_curves(run.learned("m3prune"))
    assert figure is not None
    shown = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert [title.partition(",")[0] for title in shown][:4] == ["utility", "rank", "align", "spatial edges left"]
    title, utility = next((title, axes) for title, axes in shown.items() if title.startswith("utility"))
    assert [list(line.get_xdata()) for line in utility.lines[:2]] == [list(range(7)), list(range(7, 14))]
    # Utility is averaged, the others are not, and a title tells.
    assert str(WINDOW) in title
    steps = list(run.learned("m3prune").learning())
    assert list(utility.lines[1].get_ydata()) == running_mean([step.terms["utility"] for step in steps[7:]])
    assert list(shown["rank"].lines[0].get_ydata()) == [step.terms["rank"] for step in steps[:7]]


def test_a_term_that_never_changes_is_named_and_has_no_panel(tmp_path: Path) -> None:
    folder = make_run(tmp_path, steps=0, questions=0)
    with LearningRecorder(folder.learned("flat")) as recorder:
        for number in range(3):
            step = replace(learning_step(1, number, 3), terms={"utility": number / 2, "entropy": 0.0})
            recorder.learned(step, {"theta": np.zeros(1, dtype=np.float32)})
    figure = learning_curves(folder.learned("flat"))
    assert figure is not None
    assert not [axes for axes in figure.axes if axes.get_title(loc="left").startswith("entropy")]
    assert "entropy = 0" in figure.get_supylabel()


def test_a_mark_is_where_its_data_is_and_names_its_discussions(run: RunFolder, tmp_path: Path) -> None:
    figure = learning_curves(run.learned("m3prune"))
    assert figure is not None
    path = save(figure, tmp_path, "curves")
    marks = {mark.text: mark for mark in read_marks(path.with_suffix(".json"))}
    first = next(mark for text, mark in marks.items() if text.startswith("stage 1, step 1, rank"))
    second = next(mark for text, mark in marks.items() if text.startswith("stage 2, step 1, rank"))
    assert first.left < second.left
    assert first.link.startswith("m3prune.train-1")
    assert second.link.startswith("m3prune.train-2")
    axes = next(axes for axes in figure.axes if axes.get_title(loc="left") == "rank")
    box = axes.get_position()
    assert box.x0 <= first.left + first.width / 2 <= box.x1
    assert first.top == pytest.approx(1 - box.y1, abs=1e-3)


def test_a_running_mean_has_a_value_for_each_step_and_looks_back_alone() -> None:
    assert running_mean([0, 1, 0, 1, 1], 2) == [0, 0.5, 0.5, 0.5, 1]
    assert running_mean([1, 0, 1], 1) == [1, 0, 1]


def test_the_learned_graph_has_the_edges_of_start_stages_and_end_and_marks_attackers(run: RunFolder) -> None:
    figure = learned_graph(run.learned("m3prune"), attacked=["linker"])
    assert figure is not None
    steps = list(run.learned("m3prune").learning())
    for row, kind in enumerate(("spatial", "temporal")):
        for column, step in enumerate((steps[0], steps[6], steps[-1])):
            values = np.array(step.probabilities[kind], dtype=float)
            np.fill_diagonal(values, np.nan)
            axes = figure.axes[3 * row + column]
            assert f"{np.isfinite(values).sum()} edges" in axes.get_title()
            assert (
                len([patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)])
                == np.isfinite(values).sum()
            )
            assert [len(points.get_offsets()) for points in axes.collections] == [8, 1]
    assert learned_graph(run) is None


def test_figures_are_drawn_into_an_axis_of_one_s_own(run: RunFolder) -> None:
    figure = Figure()
    graph, tokens = figure.subplots(1, 2)
    draw_graph(graph, list(run.learned("m3prune").learning())[-1], "temporal")
    with rc_context({"axes.prop_cycle": cycler(color=["#123456"])}):
        draw_against_tokens(tokens, arms_of_trials([FinishedRun(run)]), "EM")
    assert graph.get_title()
    assert {line.get_color() for line in tokens.lines} == {"#123456"}


def test_the_example_of_the_guide_draws(run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = (ROOT / "docs" / "python.md").read_text().partition("## Figures of your own")[2].partition("\n## ")[0]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    ") or not line)
    code = re.sub(r'"runs/[^"]*"', repr(str(run.path)), code)
    save_config(load(["experiment=mmqa_prune"]), run.config)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "python.md", "exec"), {})
    assert (tmp_path / "mine.pdf").read_bytes().startswith(b"%PDF")


def test_a_style_of_one_s_own_is_laid_over_the_project_s(
    run: RunFolder, metrics: Metrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "mine.mplstyle"
    own.write_text("font.size: 11\naxes.prop_cycle: cycler('color', ['ff0000'])\nsavefig.dpi: 50\n")
    before = rcParams["font.size"]
    with drawing(str(own)):
        assert (rcParams["font.size"], colour(3), rcParams["pdf.fonttype"]) == (11, "#ff0000", 42)
    assert rcParams["font.size"] == before
    monkeypatch.setattr(run, "figures", tmp_path / "figures")
    with drawing(str(own)):
        [*_, small] = draw_run(run, metrics)
    with Image.open(small) as image:
        assert image.size[0] == pytest.approx(PAGE * 50, abs=1)
    with drawing("ggplot"):
        assert colour(0) != COLOURS[0]


@pytest.mark.parametrize("content", [None, b"", b"font.size: large\nlines.linewidth: wide\n", b"\xff\xfe\x00"])
def test_a_style_that_cannot_be_read_is_one_line(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "mine.mplstyle").write_bytes(content)
    for name in (str(tmp_path / "mine.mplstyle"), "nosuchstyle", "https://example.org/x.mplstyle"):
        with pytest.raises(UserError, match=r"figures\.style") as error:
            own_style(name)
        assert "\n" not in str(error.value)


def test_a_run_draws_every_figure_readable_in_print(run: RunFolder, metrics: Metrics, spatial: Figure) -> None:
    curves = learning_curves(run.learned("m3prune"))
    assert curves is not None
    for figure in (spatial, curves, utility_against_tokens(arms_of_trials([FinishedRun(run)]), "EM")):
        assert figure.get_size_inches()[0] <= PAGE
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        assert min(text.get_fontsize() for text in texts) >= SMALL
    with drawing():
        paths = draw_run(run, metrics)
    drawn = "edges-spatial edges-temporal learned-graph learning-curves".split()
    assert [path.stem for path in paths] == [*(f"m3prune-{name}" for name in drawn), "utility-against-tokens"]
    for path in paths:
        with Image.open(path) as image:
            assert min(image.size) > 500
        # Fonts are inside, as outlines.
        assert b"/FontFile2" in path.with_suffix(".pdf").read_bytes()
        assert b"<text" not in path.with_suffix(".svg").read_bytes()


def test_the_same_records_give_the_same_bytes(run: RunFolder, metrics: Metrics, tmp_path: Path) -> None:
    def files(folder: Path) -> list[bytes]:
        with drawing():
            save(edge_heatmaps(run.learned("m3prune"))["edges-temporal"], folder, "edges")
            save(utility_against_tokens(arms_of_trials([FinishedRun(run)]), "EM"), folder, "tokens")
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    first = files(tmp_path / "a")
    assert len(first) == 8  # of each figure PDF, SVG, PNG, and its marks
    assert first == files(tmp_path / "b")
    assert not any(b"CreationDate" in content or b"dc:date" in content for content in first)


def debate(*graphs: tuple[str, ...]) -> Trace:
    """A first graph, then those of proponent and opponent in turn, a moderator closing each round."""
    agents = [SOLO.name, *[PROPONENT.name, OPPONENT.name] * (len(graphs) // 2)]
    turns = []
    for number, (agent, triples) in enumerate(zip(agents, graphs, strict=True)):
        turns.append(Message(f"{number}/{agent}", agent, number, fields=tuple(("Triple", t) for t in triples)))
        if agent == OPPONENT.name:
            turns.append(Message(f"{number}/m", MODERATOR.name, number, fields=(("Answer", "tower 1"),)))
    return Trace("q001", DEBATE, 0, tuple(sorted(set(agents))), tuple(turns), "tower 1", Status.OK, 1)


FIRST = debate(
    ("a | near | b",),
    ("a | near | b", "b | near | c"),
    ("a | near | b", "a | has height | 3"),
    (),  # stated nothing: the graph stays
    ("a | near | b", "a | has height | 4"),
)


def test_bdog_s_changes_are_counted_within_a_round_and_from_the_round_before() -> None:
    within, between = changes([FIRST])
    # The opponent drops c and the relation to it, and gives a a height.
    assert within == {1: [Change(0, 2, 1)], 2: [Change(0, 0, 1)]}
    assert between == {2: [Change(0, 0, 1)]}
    # A discussion counts in the rounds that it had.
    within, _ = changes([FIRST, debate(("a | near | b",), ("a | near | b",), ("a | near | b",))])
    assert [len(within[number]) for number in (1, 2)] == [2, 1]


@pytest.mark.parametrize("debated", [True, False])
def test_bdog_s_figure_is_drawn_where_there_were_debates(debated: bool, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "bdog")
    with Recorder(run) as recorder:
        if debated:
            recorder.evaluated(FIRST, item(1), Score(1.0, 1.0))
    figure = condensation(run)
    assert [len(axes.patches) for axes in figure.axes] == [6, 3] if figure else not debated


def test_mh_mmkg_s_figure_has_accuracy_and_questions_by_the_number_of_paths(tmp_path: Path) -> None:
    results = []
    # With two paths, and only then, an answer is right.
    for most in (1, 2):
        folder = RunFolder(tmp_path / TRIALS / f"most-{most}")
        folder.path.mkdir(parents=True)
        with Recorder(folder) as recorder:
            for id, found in (("q1", 3), ("q2", 1), ("q3", 0)):
                paths = tuple(("A", str(n)) for n in range(min(found, most)))
                for method, followed in (("mh_vanilla", None), ("mh_mmkg", paths)):
                    trace = Trace(id, method, 0, (), (), "yes", Status.OK, 0, paths=followed)
                    recorder.evaluated(trace, Item(Question(id, "?"), ("yes",)), Score(float(len(paths) == 2), 0.0))
        utility = 0.333333 if most == 2 else 0.0
        row = {"utility": utility, "ci95": [0.0, 1.0], "prompt_tokens": 0, "completion_tokens": 0}
        rows = {"methods": dict.fromkeys(("mh_vanilla", "mh_mmkg"), row)}
        results.append(TrialResult(f"most-{most}", {"systems.paths": most}, 0, rows))
    (tmp_path / RESULTS).write_text("".join(f"{result.encode()}\n" for result in results))
    arms, reached = path_arms(read_trials(tmp_path, results))
    # Only of methods that follow paths.
    assert reached == {("mh_mmkg", 1): [2], ("mh_mmkg", 2): [1]}
    lines, bars = by_paths(arms, reached, "EM").axes
    assert [list(line.get_ydata()) for line in lines.lines] == [[0.0, pytest.approx(1 / 3)]]
    assert [bar.get_height() for bar in bars.patches] == [2, 1]
    assert lines.get_ylabel().startswith("EM")
    assert "paths" in [path.stem for path in draw(tmp_path, results, "EM")]


def test_mh_mmkg_s_figures_are_experiments_at_temperature_0() -> None:
    assert dict(flat(load(["experiment=mh_paths"]).sweep.axes)) == {"systems.paths": list(range(1, 11))}
    orders = load(["experiment=mh_orders"])
    assert (orders.methods, orders.systems.paths) == (["mh_dfs", "mh_mmkg"], 3)
    for name in ("mh_mmkg_table", "mh_paths", "mh_orders"):
        assert load([f"experiment={name}"]).agents.temperature == 0
