"""MH-MMKG: the search for paths by itself, and the agents that judge where it goes on and when it is enough."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.agents.roles import SINGLE
from actors.completions.cache import CachedModel, Reuse
from actors.messages import Completion, Kind, Prompted, Request, Status, Task, Triple, Turn
from actors.models import Model
from experiments.config.loading import load
from experiments.conformance.observed import ObservedDiscussion, ObservedLibrary, observe_discussion
from experiments.datasets.item import Item
from experiments.datasets.mh import ADVICE, Mh
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.metrics.answer_metrics import PATH_METRICS, path_metrics
from experiments.scripted.replies import answered
from experiments.scripted.speaker import NONSENSE, Reply, ScriptedSpeaker
from retrieval.embed import make_encoder
from retrieval.store import Store
from tests.support.mh_release import write_picture, write_small
from tests.support.topologies import topology
from topologies.systems.mh_mmkg import ROLES, SETTINGS
from topologies.systems.mh_mmkg_paths import GraphPath, Order, PathSearch

pytestmark = pytest.mark.slow


def edge(head: str, tail: str) -> Triple:
    return Triple(f"{head}{tail}", head, "leads to", tail)


TREE = [edge(*pair) for pair in ("AB", "AC", "BD", "BE", "CF", "FG", "GA", "EC")]


def walked(
    edges: Sequence[Triple], order: Order, enough: Collection[str] = (), *, directed: bool = True, **limits: int
) -> tuple[list[str], PathSearch]:
    """The entities in the order in which they are met when everything is found useful, and the walk."""
    walk = PathSearch("A", order, **limits)
    walk.judge([(GraphPath(("A",)), "A" in enough)])
    met = ["A"]
    while batch := walk.batch():
        grown = [new for path in batch for new in walk.grow(path, walk.ahead(path, edges, directed))]
        walk.judge([(path, path.end in enough) for path in grown])
        met += [path.end for path in grown]
    return met, walk


def test_breadth_first_meets_the_near_before_the_far() -> None:
    assert "".join(walked(TREE, "breadth")[0]) == "ABCDEFG"


def test_depth_first_follows_the_first_neighbour_to_its_end() -> None:
    assert "".join(walked(TREE, "depth")[0]) == "ABCDEFG"
    deep = [edge(*pair) for pair in ("AB", "AC", "BD", "DE", "CF")]
    assert "".join(walked(deep, "depth")[0]) == "ABCDEF"
    assert "".join(walked(deep, "breadth")[0]) == "ABCDFE"


def test_a_path_that_is_enough_is_closed_and_does_not_go_on() -> None:
    met, walk = walked(TREE, "breadth", enough="BF")
    assert "D" not in met
    assert [path.entities for path in walk.result()] == [("A", "B"), ("A", "C", "F")]
    assert [edge.id for edge in walk.result()[1].edges] == ["AC", "CF"]


def test_the_walk_ends_as_soon_as_enough_paths_are_closed() -> None:
    met, walk = walked(TREE, "breadth", enough="BCDEFG", paths=1)
    assert [path.end for path in walk.result()] == ["B"]
    assert "F" not in met


def test_paths_have_an_end_where_they_grow_too_long_and_the_walk_where_it_meets_too_many() -> None:
    line = [edge(*pair) for pair in ("AB", "BC", "CD", "DE")]
    assert "".join(walked(line, "breadth", longest=3)[0]) == "ABC"
    star = [edge("A", str(n)) for n in range(9)]
    assert len(walked(star, "breadth", most=4)[0]) == 5


def test_directed_edges_are_not_followed_back() -> None:
    edges = [edge("B", "A"), edge("A", "C")]
    assert walked(edges, "breadth")[0] == ["A", "C"]
    assert walked(edges, "breadth", directed=False)[0] == ["A", "B", "C"]


def test_names_that_differ_in_case_are_one_entity() -> None:
    assert walked([edge("a", "B"), edge("b", "A"), edge("B", "c")], "breadth")[0] == ["A", "B", "c"]


pairs = st.tuples(st.sampled_from("ABCDEFGH"), st.sampled_from("ABCDEFGH"))


@given(st.lists(pairs, max_size=30), st.sampled_from(["breadth", "depth"]), st.sets(st.sampled_from("BCDEFGH")))
def test_no_entity_is_met_twice_and_there_is_an_end(
    links: list[tuple[str, str]], order: Order, enough: set[str]
) -> None:
    edges = [edge(*link) for link in links]
    met, walk = walked(edges, order, enough, paths=99, longest=99)
    assert len(set(met)) == len(met)
    reachable = {"A"}
    while more := {e.tail for e in edges if e.head in reachable - enough} - reachable:
        reachable |= more
    assert set(met) == reachable
    for path in walk.closed:
        assert len(path.edges) == len(path.entities) - 1
        assert path.entities[0] == "A"


@dataclass
class Release:
    """The small release with its index and its knowledge graph."""

    items: dict[str, Item]
    library: LabelledLibrary


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    root = tmp_path_factory.mktemp("small")
    write_small(root)
    return released(root)


def released(root: Path) -> Release:
    data = Mh.at(root)
    items = {item.question.id: item for item in data.evaluate()}
    evidence = Evidence(Store.open(root / "index", data.corpus, make_encoder("lexical")), RetrievalSettings())
    return Release(items, LabelledLibrary(evidence, items.values(), triples=data.triples))


def knows(enough: Collection[str], says: Mapping[str, str] | None = None) -> Reply:
    """Agents that start at Roarer, find everything useful, and are content where a path ends at one of `enough`;
    `says` are other replies, by agent."""

    def reply(turn: Turn) -> str:
        if turn.agent in (says or {}):
            return (says or {})[turn.agent]
        return reply_to(turn.task, enough, f"as {turn.agent} sees it.")

    return reply


def reply_to(task: Task | None, enough: Collection[str], description: str) -> str:
    if task is None:
        return answered("Bite", 0.9)
    lines = [given.text for given in task.inputs if given.kind == "Candidate"]
    fields = {field.name: field for field in task.fields}
    said = []
    if "Entity" in fields:
        said.append("Entity: Roarer")
    if "Selected" in fields:
        # One alone is the topic.
        wanted = [lines.index("Roarer")] if fields["Selected"].most == 1 else range(len(lines))
        said.append(f"Selected: {', '.join(str(n + 1) for n in wanted)}")
    if "Enough" in fields:
        said.append(f"Enough: {'yes' if judged_end(task) in enough else 'no'}")
    if "Description" in fields:
        said.append(f"Description: {description}")
    return "\n".join(said)


def judged_end(task: Task) -> str:
    """The entity that a validator is told the path leads to."""
    return task.instruction.split("graph to ")[1].split(", are enough")[0]


class Counted:
    """A model that finds everything useful and nothing enough, and counts the scenes that it was asked to describe."""

    def __init__(self) -> None:
        self.scenes = 0

    async def complete(self, request: Request) -> Completion:
        assert isinstance(request.parts, Prompted)
        self.scenes += "What do the pictures of" in request.shared
        return Completion(request.id, reply_to(request.parts.task, (), "as perceiver sees it."))


async def held(
    release: Release,
    setting: str,
    question: str,
    reply: Reply,
    *,
    failing: Collection[str] = (),
    paths: int = 5,
    model: Model | None = None,
) -> ObservedDiscussion:
    team = ScriptedSpeaker((*ROLES, SINGLE), model or reply, failing=failing)
    watched = ObservedLibrary(release.library, {})
    config = load(["experiment=mh_mmkg", "data=mh", f"systems.paths={paths}"])
    return await observe_discussion(topology(setting, watched, config), release.items[question].question, team, watched)


async def test_agents_perceive_choose_a_topic_expand_and_validate_until_paths_are_enough(release: Release) -> None:
    seen = await held(release, "mh_mmkg", "Roarer_Spin", knows(["Roarer Bite", "Roarer Roar"]))
    agents = [turn.agent for turn in seen.trace.turns]
    assert agents[:3] == ["perceiver", "topic_selector", "validator"]
    assert agents[-1] == "summarizer"
    assert seen.trace.paths == (
        ("Roarer", "Roarer Ground Phase", "Roarer Spin", "Roarer Bite"),
        ("Roarer", "Roarer Ground Phase", "Roarer Spin", "Roarer Roar"),
    )
    assert path_metrics(seen.trace.paths, release.items["Roarer_Spin"].paths)["path_recall"] == 1.0
    assert seen.trace.answer == "Bite"


async def test_the_summariser_reads_the_paths_as_text_with_what_is_known_on_the_way(release: Release) -> None:
    seen = await held(release, "mh_mmkg", "Roarer_Spin", knows(["Roarer Bite"]))
    last = seen.team.turns[-1].question.evidence
    assert seen.team.turns[-1].heard == ()
    texts = [source.text for source in last if source.kind is Kind.TEXT]
    assert texts == [
        "Roarer is known as the King.",
        "Roarer has phase Roarer Ground Phase.",
        "It stands on the ground.",
        "Roarer Ground Phase has attack Roarer Spin.",
        "as validator sees it.",
        "Roarer Spin continues with (if the hunter is near) Roarer Bite.",
        "Hurts.",
        "as validator sees it.",
    ]
    assert {source.doc for source in last if source.kind is Kind.IMAGE} == {"Roarer_Spin:picture"}


async def test_only_online_sees_an_entity_s_pictures_with_the_question(release: Release) -> None:
    for setting, by in (("mh_mmkg", "validator"), ("mh_offline", "perceiver"), ("mh_perceptive", "")):
        seen = await held(release, setting, "Roarer_Spin", knows(["Roarer Bite"]))
        watching = {
            (turn.agent, turn.question.text == seen.question.text)
            for turn in seen.team.turns
            for source in turn.question.evidence
            if source.doc == "Roarer Bite" and source.kind is Kind.IMAGE
        }
        assert watching == ({(by, by == "validator")} if by else set())
        told = [source.text for source in seen.team.turns[-1].question.evidence if source.doc == "Roarer Bite"]
        assert told == ["Hurts.", f"as {by} sees it." if by else "It snaps at the hunter."]


async def test_a_topic_s_own_pictures_are_not_shown(tmp_path: Path) -> None:
    write_small(tmp_path)
    sheet = tmp_path / "mmkg" / "Roarer" / "Node.xlsx"
    book = openpyxl.load_workbook(sheet)
    [row] = [row for row in book.worksheets[0].iter_rows(min_row=2) if row[0].value == "Roarer"]
    row[1].value = "Roarer.png"
    book.save(sheet)
    write_picture(tmp_path / "mmkg" / "Roarer" / "Knowledge_Images" / "Roarer.png")
    seen = await held(release := released(tmp_path), "mh_mmkg", "Roarer_Spin", knows(["Roarer Bite"]))
    assert any(source.kind is Kind.IMAGE for source in await release.library.entity(seen.question, "Roarer"))
    shown = {source.doc for turn in seen.team.turns for source in turn.question.evidence if source.kind is Kind.IMAGE}
    assert "Roarer" not in shown
    assert "Roarer Bite" in shown


async def test_offline_the_summariser_is_told_what_the_question_s_picture_shows_and_does_not_see_it(
    release: Release,
) -> None:
    last = (await held(release, "mh_offline", "Roarer_Spin", knows(["Roarer Bite"]))).team.turns[-1]
    assert not any(source.kind is Kind.IMAGE for source in last.question.evidence)
    assert [heard.message.agent for heard in last.heard] == ["perceiver"]


async def test_where_no_path_is_enough_the_answer_is_given_without_knowledge_and_no_path_is_right(
    release: Release,
) -> None:
    seen = await held(release, "mh_mmkg", "Roarer_Spin", knows([]))
    assert seen.trace.paths == ()
    last = seen.team.turns[-1]
    assert ({source.doc for source in last.question.evidence}, last.instruction) == ({"Roarer_Spin:picture"}, "")
    metrics = path_metrics(seen.trace.paths, release.items["Roarer_Spin"].paths)
    assert metrics == dict.fromkeys(PATH_METRICS, 0.0)


async def test_people_s_words_on_pictures_that_are_not_there_help_no_agent_that_sees(release: Release) -> None:
    for setting in ("mh_vanilla", "mh_offline", "mh_mmkg", "mh_dfs"):
        for question in release.items:
            seen = await held(release, setting, question, knows([]))
            read = [source for turn in seen.team.turns for source in turn.question.evidence]
            assert all(source.image for source in read if source.kind is Kind.IMAGE)
            told = [source.text for source in read if source.kind is not Kind.IMAGE]
            told += [given.text for turn in seen.team.turns if turn.task for given in turn.task.inputs]
            # Captions of "Roar" and "White Roarer Bite", which have no picture, and of a question that has none.
            assert not any(words in text for text in told for words in ("It roars.", "It snaps.", "It bites."))
            asked = {
                turn.task.instruction: {field.name for field in turn.task.fields}
                for turn in seen.team.turns
                if turn.task
            }
            assert not any("Description" in fields for said, fields in asked.items() if "to Roarer Roar," in said)


async def test_offline_a_scene_is_described_once_for_all_questions(release: Release, tmp_path: Path) -> None:
    model = Counted()
    cached = CachedModel(model, Reuse(str(tmp_path), "scripted", disk_gb=0.01, memory_mb=1))
    for question in ("Roarer_Spin", "Roarer_Spin#2"):
        seen = await held(release, "mh_offline", question, knows([]), model=cached)
        scenes = [turn for turn in seen.team.turns if turn.question.text.startswith("What do the pictures of")]
        assert [turn.question.evidence[0].doc for turn in scenes] == ["Roarer Spin", "Roarer Bite"]
        assert dict(seen.trace.descriptions) == dict.fromkeys(["Roarer Spin", "Roarer Bite"], "as perceiver sees it.")
    cached.close()
    assert model.scenes == 2


async def test_both_orders_validate_in_their_order_what_lies_before_them(release: Release) -> None:
    """Where all is useful and nothing enough, depth first is the order of the authors' code: what was chosen of one
    entity is judged together, and then each of it is followed to its end."""
    validated = {}
    for setting in ("mh_mmkg", "mh_dfs"):
        seen = await held(release, setting, "Roarer_Spin", knows([]))
        validated[setting] = [
            judged_end(turn.task) for turn in seen.team.turns if turn.agent == "validator" and turn.task
        ]
    near = ["Roarer", "Fire Element", "Roarer Ground Phase", "White Roarer"]
    far = ["Roarer Bite", "Roarer Roar"]
    assert validated["mh_mmkg"] == [*near, "Roarer Spin", "White Roarer Bite", *far]
    assert validated["mh_dfs"] == [*near, "Roarer Spin", *far, "White Roarer Bite"]


async def test_the_data_set_s_advice_is_the_expander_s_alone(release: Release) -> None:
    seen = await held(release, "mh_mmkg", "Roarer_Spin", knows([]))
    advised = {turn.agent for turn in seen.team.turns if turn.task and ADVICE in turn.task.instruction}
    assert advised == {"expander"}


async def test_a_path_is_shown_in_full_although_another_one_shares_its_beginning(release: Release) -> None:
    last = (await held(release, "mh_knowledgeable", "Roarer_Spin", knows([]))).team.turns[-1]
    texts = [source.text for source in last.question.evidence]
    assert texts.count("Roarer has phase Roarer Ground Phase.") == len(release.items["Roarer_Spin"].paths) == 2


async def test_a_question_s_picture_is_no_picture_of_its_monster(release: Release) -> None:
    question = release.items["Roarer_Spin"].question
    assert [source.doc for source in await release.library.entity(question, "Roarer")] == ["Roarer"]


async def test_without_sight_agents_read_what_people_wrote_of_the_question_s_picture(release: Release) -> None:
    for setting in ("mh_vanilla_plus", "mh_knowledgeable", "mh_perceptive"):
        seen = await held(release, setting, "Roarer_Spin", knows(["Roarer Bite"]))
        assert not any(source.kind is Kind.IMAGE for turn in seen.team.turns for source in turn.question.evidence)
        assert all("It turns." in [s.text for s in turn.question.evidence] for turn in seen.team.turns)


async def test_vanilla_answers_at_once_and_has_no_paths_to_be_scored_by(release: Release) -> None:
    seen = await held(release, "mh_vanilla", "Roarer_Spin", knows([]))
    assert [turn.agent for turn in seen.trace.turns] == ["summarizer"]
    assert (seen.trace.paths, seen.library.results) == (None, [])


async def test_knowledgeable_reads_the_annotated_paths_and_no_other_setting_does(release: Release) -> None:
    seen = await held(release, "mh_knowledgeable", "Roarer_Bite", knows([]))
    texts = [source.text for source in seen.team.turns[-1].question.evidence]
    assert texts == [
        "It bites.",
        "Roarer is known as the King.",
        "Roarer has subspecies White Roarer.",
        "White Roarer has attack White Roarer Bite.",
        "It snaps.",
    ]
    assert seen.trace.paths is None


async def test_as_many_paths_are_read_as_are_asked_for(release: Release) -> None:
    every = knows(["Roarer Ground Phase", "White Roarer", "Fire Element"])
    for wanted, found in ((1, 1), (2, 2), (5, 3)):
        seen = await held(release, "mh_mmkg", "Roarer_Spin", every, paths=wanted)
        assert len(seen.trace.paths or ()) == found


async def test_a_topic_that_is_enough_by_itself_is_a_path(release: Release) -> None:
    seen = await held(release, "mh_mmkg", "Roarer_Pure Text1", knows(["Roarer"]))
    assert seen.trace.paths == (("Roarer",),)
    assert [turn.agent for turn in seen.trace.turns] == ["topic_selector", "validator", "summarizer"]
    assert path_metrics(seen.trace.paths, release.items["Roarer_Pure Text1"].paths) == {
        "path_precision": 1.0,
        "path_recall": 1.0,
    }


@pytest.mark.parametrize("agent", [role.name for role in ROLES])
async def test_an_agent_that_is_of_no_use_leaves_its_part_undone(release: Release, agent: str) -> None:
    reply = knows(["Roarer Bite"], {agent: NONSENSE})
    for seen in (
        await held(release, "mh_mmkg", "Roarer_Spin", knows(["Roarer Bite"]), failing=[agent]),
        await held(release, "mh_mmkg", "Roarer_Spin", reply),
    ):
        assert {turn.status for turn in seen.trace.turns if turn.agent != agent} <= {Status.OK}
        assert (seen.trace.answer is None) == (agent == "summarizer")
        match agent:
            case "topic_selector" | "expander" | "validator":
                assert seen.trace.paths == ()
            case _:
                assert seen.trace.paths == (("Roarer", "Roarer Ground Phase", "Roarer Spin", "Roarer Bite"),)


async def test_embedded_readers_go_through_every_setting(release: Release) -> None:
    for setting in SETTINGS:
        watched = ObservedLibrary(release.library, {})
        team = ScriptedSpeaker((*ROLES, SINGLE))
        for item in release.items.values():
            method = topology(setting, watched, load(["experiment=mh_mmkg", "data=mh"]))
            seen = await observe_discussion(method, item.question, team, watched)
            assert {turn.status for turn in seen.trace.turns} == {Status.OK}
