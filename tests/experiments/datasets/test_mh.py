"""MH-Benchmark: the real question list, and a knowledge graph in the layout of the release."""

import io
import shutil
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actors.errors import UserError
from actors.messages import Kind, Question, Status, Trace
from experiments.analysis.run_facts import RunFacts
from experiments.analysis.run_table import run_table
from experiments.analysis.summary import summarise
from experiments.config.loading import load
from experiments.datasets.item import Item, Score
from experiments.datasets.mh import ADVICE, Mh
from experiments.metrics.answer_metrics import PATH_METRICS, path_metrics
from experiments.planning.topologies import make_topology
from experiments.records.recorder import Recorder, RunFolder
from tests.support.mh_release import write_graph_of, write_sheet, write_small
from topologies.baselines import Single
from topologies.method import Method, MethodContext


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Mh:
    """The release's own 238 questions over a graph made of their paths."""
    root = tmp_path_factory.mktemp("mh")
    (root / "questions_mh").mkdir()
    shutil.copy(shared_data / "mh" / "question_list.xlsx", root / "questions_mh")
    write_graph_of(root / "questions_mh" / "question_list.xlsx", root)
    return Mh.at(root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_small(tmp_path)
    return tmp_path


def test_all_238_questions_of_the_release_are_read_each_under_an_id_of_its_own(real: Mh) -> None:
    items = list(real.evaluate())
    assert len({item.question.id for item in items}) == len(items) == 238
    assert Counter(item.tags["task"] for item in items) == {
        "individual information": 24,
        "attack recognition": 109,
        "combo premonition": 28,
        "condition awareness": 29,
        "proc effect insight": 35,
        "cross monster analysis": 13,
    }
    assert Counter(item.tags["hops"] for item in items) == {"0": 24, "1": 116, "2": 72, "3": 24, "4": 2}
    assert len({item.tags["monster"] for item in items}) == 22
    assert sum(len(item.paths) for item in items) == 265


def test_real_questions_name_their_monster_and_what_is_given_beside_the_picture(real: Mh) -> None:
    items = {item.question.id: item for item in real.evaluate()}
    asked = items["Zinogre_Headbutt2"]
    assert asked.question.text == (
        "In Monster Hunter: World, in a fight with Zinogre: Zinogre is under Charged Phase and hunter is on his left "
        "side. The input battle screen is showing the beginning of an attack action of Zinogre. Tell me the possible "
        "attack actions immediately following this attack?"
    )
    assert asked.paths == (("Zinogre", "Zinogre Charged Phase", "Zinogre Headbutt", "Zinogre Shoulder Charge"),)
    assert not any("{}" in item.question.text or "  " in item.question.text for item in items.values())
    assert items["Zinogre_Pure Text1"].own == ()
    assert items["Rathalos_Retreating Fireball#2"].gold == ("On Air Phase",)


def test_every_annotated_path_can_be_followed_in_the_graph(real: Mh) -> None:
    edges = {(triple.head, triple.tail) for triple in real.triples()}
    steps = {edge for item in real.evaluate() for path in item.paths for edge in pairwise(path)}
    assert steps <= edges
    assert len({triple.id for triple in real.triples()}) == len(edges) > len(steps)


def test_the_corpus_holds_every_entity_and_picture_once_and_the_pool_is_made_of_it(real: Mh) -> None:
    sources = list(real.corpus())
    assert len({source.id for source in sources}) == len(sources)
    docs = {source.doc for source in sources}
    for item in real.evaluate():
        assert {*item.pool, *item.supporting, *item.own} <= docs
        assert set(item.own) <= set(item.pool)
    pictures = [source for source in sources if source.doc == "Zinogre_Devour:picture"]
    assert [(picture.kind, picture.image) for picture in pictures] == [(Kind.IMAGE, None)]
    assert pictures[0].text.startswith("Zinogre crouches")


def test_questions_not_evaluated_are_there_to_learn_from(real: Mh) -> None:
    some = Mh.at(real.folder.root, train=20, limit=50, seed=3)
    evaluated = [item.question.id for item in some.evaluate()]
    learned = [item.question.id for item in some.train()]
    assert (len(evaluated), len(learned)) == (50, 20)
    assert not set(evaluated) & set(learned)
    assert list(real.train()) == []


def test_entities_have_their_information_frames_in_order_and_caption(root: Path) -> None:
    sources = {source.id: source for source in Mh.at(root).corpus()}
    assert sources["Roarer"].text == "Roarer is known as the King."
    bite = [source for source in sources.values() if source.doc == "Roarer Bite"]
    assert [(source.kind, source.text) for source in bite] == [
        (Kind.TEXT, "Hurts."),
        (Kind.IMAGE, "It snaps at the hunter."),
        (Kind.IMAGE, "It snaps at the hunter."),
    ]
    frames = [source.image for source in sources.values() if source.doc == "Roarer_Spin:picture"]
    assert [Path(frame or "").stem for frame in frames] == ["frame-9", "frame-10", "frame-101"]
    assert sources["Roarer_Bite:picture:1"].image is None
    assert not any(source.title == "Fire Element" for source in sources.values())


def test_edges_have_their_condition_and_either_name_of_the_sheet_will_do(root: Path) -> None:
    triples = {triple.id: triple for triple in Mh.at(root).triples()}
    assert "Roarer Spin | continues with (if the hunter is near) | Roarer Bite" in triples
    assert "Roarer | has subspecies | White Roarer" in triples
    assert "White Roarer | has attack | White Roarer Bite" in triples
    assert "Roarer | fears | Fire Element" in triples


def test_the_data_set_says_whether_the_edges_of_its_graph_lead_one_way() -> None:
    def context(data: str) -> MethodContext:
        contexts: list[MethodContext] = []

        def make(context: MethodContext) -> Single:
            contexts.append(context)
            return Single(context.method)

        unused: Any = None
        make_topology(Method("mine", "", make), load(["experiment=sp", f"data={data}"]), (), {}, unused)
        return contexts[0]

    assert (context("mh").directed, context("mh").advice) == (True, ADVICE)
    assert (context("sample").directed, context("sample").advice) == (False, "")


def answered(paths: tuple[tuple[str, ...], ...] | None) -> Trace:
    return Trace("q", "mh_mmkg", 0, (), (), "yes", Status.OK, 0, paths=paths)


def labelled(*paths: tuple[str, ...]) -> Item:
    return Item(Question("q", "Which?"), ("yes",), paths=paths)


def test_paths_are_compared_whole_and_by_their_edges() -> None:
    item = labelled(("A", "B", "C"), ("A", "D"))
    found = answered((("A", "B"), ("a", "d"), ("A", "E"), ("A", "B", "F")))
    metrics = path_metrics(found.paths, item.paths)
    assert metrics == {"path_precision": 1 / 4, "path_recall": 1 / 2, "edge_precision": 2 / 4, "edge_recall": 2 / 3}
    assert path_metrics(answered(item.paths).paths, item.paths) == dict.fromkeys(PATH_METRICS, 1.0)


def test_a_search_that_found_nothing_scores_nothing_and_a_method_without_one_has_no_score() -> None:
    item = labelled(("A", "B"))
    assert path_metrics(answered(()).paths, item.paths) == dict.fromkeys(PATH_METRICS, 0.0)
    assert path_metrics(answered(None).paths, item.paths) == {}
    assert path_metrics(answered((("A",),)).paths, labelled().paths) == {}


def test_path_figures_stand_in_metrics_and_table_of_methods_that_have_them(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    with Recorder(run) as recorder:
        for method, paths in (("mh_vanilla", None), ("mh_mmkg", (("A", "B"), ("A", "C")))):
            for id, gold in (("q1", ("A", "B")), ("q2", ("A",))):
                item = replace(labelled(gold), question=Question(id, "Which?"))
                recorder.evaluated(replace(answered(paths), method=method, question=id), item, Score(1.0, 1.0))
    about = RunFacts("x", "reader", "mh", "EM", ("mh_vanilla", "mh_mmkg"), (("mh_mmkg", "mh_vanilla"),))
    metrics = summarise(run, about)
    assert not set(PATH_METRICS) & metrics["methods"]["mh_vanilla"].keys()
    assert [metrics["methods"]["mh_mmkg"][name] for name in PATH_METRICS] == [0.25, 0.5, 0.5, 1.0]
    table = run_table(metrics)
    shown = dict(zip(table.columns, table.rows[1], strict=True))
    assert shown["method"] == "mh_mmkg"
    assert (shown["path\nP/R"], shown["edge\nP/R"]) == ("0.25/0.50", "0.50/1.00")
    output = io.StringIO()
    table.print(Console(file=output))
    assert all(cell in output.getvalue() for cell in ("0.25/0.50", "0.50/1.00"))
    assert "…" not in output.getvalue()


@pytest.mark.parametrize(
    ("sheet", "column", "cell", "says"),
    [
        ("Node", 0, "two\nlines", "row 3: name: "),
        ("Node", 1, "x" * 600, r"row 3: picture: .*\b512\b"),
        ("Relations", 1, "leads\u2028to", "row 3: relation: "),
        ("Relations", 4, "a\x85b", "row 3: tail: "),
    ],
)
def test_a_cell_of_the_graph_that_no_entity_or_edge_can_have_is_named_by_file_row_and_column(
    root: Path, sheet: str, column: int, cell: str, says: str
) -> None:
    path = next(root.glob(f"mmkg/*/{sheet}.xlsx"))
    row = ["A", "b", "", "", "C"]
    row[column] = cell
    write_sheet(path, ["h"] * 5, [["A", "", "", "", "B"], row])
    graph = Mh.at(root)
    with pytest.raises(UserError, match=says) as refused:
        assert not [*graph.corpus(), *graph.triples()]
    assert str(path) in str(refused.value)
