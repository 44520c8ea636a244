"""Planning graphs, and the retrieval and reasoning that they ask for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.agents.roles import SINGLE
from actors.messages import Kind, Message, Question, Source, Status, Trace, Triple, Turn
from experiments.config.loading import load
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.scripted.replies import answered
from experiments.scripted.speaker import NONSENSE, Reply, ScriptedSpeaker
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from tests.support.topologies import topology
from topologies.systems import mmapg
from topologies.systems.mmapg import ROLES
from topologies.systems.mmapg_plan import NOTHING, TYPES, NodeFault, PlanNode, content_of, placed

ROOT = PlanNode(1, "Question", (), "q", "q")
PLANNER = "graph_planner"
SOURCES = (
    Source("skagen", "skagen", Kind.TEXT, "Skagen Beacon", "Skagen Beacon was built by Winstrup."),
    Source("winstrup", "winstrup", Kind.TEXT, "Winstrup", "Winstrup was born in Aarhus."),
    Source("bus", "bus", Kind.TEXT, "Red Bus", "The Red Bus drives to Odense."),
    Source("beacon", "beacon", Kind.IMAGE, "Skagen Beacon", "a striped lighthouse in fog"),
    Source("coach", "coach", Kind.IMAGE, "Red Bus", "a bus in a street"),
)
POOL = tuple(source.doc for source in SOURCES)
QUESTION = "Where was the builder of the striped lighthouse born?"
ITEM = Item(Question("q", QUESTION), ("Aarhus",), pool=POOL)
CHOOSING = Item(Question("c", QUESTION, ("Aarhus", "Odense")), ("Aarhus",), pool=POOL)

Plan = Sequence[Sequence[str] | None]
Values = Mapping[str, str | Sequence[str] | Callable[[Turn], str | Sequence[str]]]


def message(kind: str, parents: str = "", instruction: str = "do", turn: str = "1/graph_planner") -> Message:
    said = [
        ("Type", kind),
        *([("Parents", parents)] if parents else []),
        *([("Instruction", instruction)] * bool(instruction)),
    ]
    return Message(turn, PLANNER, 1, fields=tuple(said))


planned = st.builds(
    message,
    st.sampled_from(TYPES),
    st.sampled_from(["", "1", "2", "1, 2", "nodes 2 and 3", "7", "0", "none"]),
    st.sampled_from(["", "who built it", "Who built  it", "where he was born"]),
)


@given(st.lists(planned, max_size=9))
def test_whatever_the_planner_says_the_plan_is_an_acyclic_graph_that_grows_from_the_question(
    said: list[Message],
) -> None:
    graph = [ROOT]
    for one in said:
        graph.append(placed(graph, one))
    edges = nx.DiGraph([(parent, node.number) for node in graph for parent in node.parents])
    assert nx.is_directed_acyclic_graph(edges)
    assert [node.number for node in graph] == list(range(1, len(said) + 2))
    assert all(1 in nx.ancestors(edges, node.number) for node in graph[1:])


def read_plan(question: str, turns: Sequence[Message], planner: str) -> tuple[PlanNode, ...]:
    """The planning graph of a discussion, from its turns.

    A node is a message of the planner with a type. Its outcome is among the turns up to the planner's next one: of an
    answer the first, of a retrieval the last summary that is not an examination's.
    """
    graph = [replace(ROOT, instruction=question, content=question)]
    for place, turn in enumerate(turns):
        if turn.agent == planner and turn.values("Type"):
            node = placed(graph, turn)
            after = list(takewhile(lambda later: later.agent != planner, turns[place + 1 :]))
            if node.type == "Retrieval":
                after = [turn for turn in after if turn.values("Summary") and not turn.values("Relevant")]
            outcome = after[0 if node.type == "Answer" else -1] if after else None
            graph.append(replace(node, content=content_of(node, outcome)))
    return tuple(graph)


def test_what_is_wrong_with_a_node_is_recorded() -> None:
    graph = [ROOT, placed([ROOT], message("Retrieval", "1", "who built it"))]
    missing = placed(graph, message("Answer", "2, 9, 3", "answer it"))
    assert (missing.parents, missing.faults, missing.runs) == ((2,), (NodeFault.NO_SUCH_PARENT,), True)
    assert placed(graph, message("Stop")).faults == (NodeFault.STOPS_UNANSWERED,)
    assert placed([*graph, missing], message("Stop")).faults == ()
    assert placed(graph, message("Answer", "2", "")).faults == (NodeFault.NO_INSTRUCTION,)
    again = placed(graph, message("Retrieval", "1", "Who  built it"))
    assert (again.faults, again.runs) == ((NodeFault.REPEATED,), False)
    assert placed(graph, message("Retrieval", "1, 2", "who built it")).faults == ()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("mmapg"), lambda: iter(SOURCES), LexicalEncoder())


def carrying_out(plan: Plan, filled: Values | None = None, answer: Callable[[Turn], str] | None = None) -> Reply:
    """A planner that goes through a plan, one (type, parents, instruction) after another, None where it babbles; and
    agents that fill the fields of their tasks from `filled`."""
    steps = iter(plan)
    known: Values = {
        "Sub-question": ["Who built the striped lighthouse?"],
        "Keyword": ["Skagen Beacon"],
        "Visual": "no",
        "Relevant": lambda turn: "no" if turn.question.evidence[:1] == (SOURCES[2],) else "yes",
        "Summary": "Winstrup built it.",
        "Description": "a lighthouse",
        "Triple": [],
        **(filled or {}),
    }

    def reply(turn: Turn) -> str:
        if turn.task is None:
            return answered(answer(turn) if answer else "Aarhus", 0.5)
        if "Type" in fields(turn):
            step = next(steps)
            if step is None:
                return NONSENSE
            kind, parents, instruction = step
            said = (("Thought", "Node by node."), ("Type", kind), ("Parents", parents), ("Instruction", instruction))
            return "\n".join(f"{name}: {value}" for name, value in said if value)
        lines = []
        for field in turn.task.fields:
            values = known.get(field.name, ())
            values = values(turn) if callable(values) else values
            lines += [f"{field.name}: {value}" for value in ([values] if isinstance(values, str) else values)]
        return "\n".join(lines) or "Well."

    return reply


async def held(name: str, store: Store, script: Reply, item: Item = ITEM, **kept: object) -> tuple[Trace, list[Turn]]:
    config = load(["experiment=mmapg"])
    config.retrieval = RetrievalSettings(texts=3, pictures=2, **kept)
    team = ScriptedSpeaker((SINGLE, *ROLES), script)
    library = LabelledLibrary(Evidence(store, config.retrieval), [item])
    trace = await topology(name, library, config).answer(item.question, team.ask, 3)
    return trace, sorted(team.turns, key=lambda turn: turn.round)


def fields(turn: Turn) -> tuple[str, ...]:
    return tuple(field.name for field in turn.task.fields) if turn.task else ()


def of(turns: Sequence[Turn], *names: str) -> list[Turn]:
    """The turns whose task has these fields first."""
    return [turn for turn in turns if fields(turn)[: len(names)] == names]


def examined_sources(turns: Sequence[Turn]) -> list[Source]:
    """Of each turn that examines a candidate; triples are examined apart."""
    return [turn.question.evidence[0] for turn in of(turns, "Relevant") if fields(turn)[1] != "Triple"]


RETRIEVE = ("Retrieval", "1", "Find who built the striped lighthouse.")
ANSWER = ("Answer", "2", "Where was Winstrup born?")
STOP = ("Stop", "3", "")


async def test_a_plan_is_carried_out_node_by_node_and_its_last_answer_is_the_answer(store: Store) -> None:
    trace, turns = await held("mmapg", store, carrying_out([RETRIEVE, ANSWER, STOP]))
    graph = read_plan(QUESTION, trace.turns, PLANNER)
    assert [(node.type, node.parents, node.content) for node in graph] == [
        ("Question", (), QUESTION),
        ("Retrieval", (1,), "Winstrup built it."),
        ("Answer", (2,), "Aarhus"),
        ("Stop", (3,), ""),
    ]
    assert (trace.answer, trace.status, trace.decision) == ("Aarhus", Status.OK, ("reasoner",))
    last = of(turns, "Thought", "Type")[-1]
    assert last.task is not None
    assert fields(last) == ("Thought", "Type", "Parents", "Instruction")
    assert last.heard == ()
    assert [given.line for given in last.task.inputs] == [
        "Sub-question: Who built the striped lighthouse?",
        f"Node 1: Question: {QUESTION}",
        "Node 2: Retrieval (from 1): Find who built the striped lighthouse. -> Winstrup built it.",
        "Node 3: Answer (from 2): Where was Winstrup born? -> Aarhus",
    ]


async def test_every_candidate_is_examined_alone_and_only_what_bears_is_condensed(store: Store) -> None:
    script = carrying_out([RETRIEVE, ANSWER, STOP], {"Keyword": ["Skagen Beacon", "Red Bus"]})
    _, turns = await held("mmapg", store, script)
    examined = of(turns, "Relevant")
    assert {len(turn.question.evidence) for turn in examined if fields(turn)[1] == "Summary"} == {1}
    assert {source.id for source in examined_sources(turns)} >= {"skagen", "bus"}
    [condensed] = of(turns, "Summary")
    assert condensed.task is not None
    assert sum(given.line.startswith("Found: ") for given in condensed.task.inputs) == len(examined_sources(turns)) - 1
    assert not any(given.line.startswith("Found: Red Bus: Winstrup") for given in condensed.task.inputs)
    assert condensed.heard == ()


async def test_an_answer_is_reasoned_from_its_parents_and_the_question_and_from_nothing_else(store: Store) -> None:
    other = ("Retrieval", "1", "Find where Winstrup was born.")
    first = f"Node 1: Question: {QUESTION}"
    second, third = (
        f"Node {n}: Retrieval (from 1): {told[2]} -> Winstrup built it." for n, told in ((2, RETRIEVE), (3, other))
    )
    for parents, lines in (("2", [second]), ("2, 3", [second, third]), ("1", [])):
        plan = [RETRIEVE, other, ("Answer", parents, "Where was Winstrup born?"), STOP]
        _, turns = await held("mmapg", store, carrying_out(plan))
        [reasoned] = [turn for turn in turns if turn.task is None]
        assert reasoned.question.text == "Where was Winstrup born?"
        assert reasoned.question.evidence == ()
        assert [given.line for given in reasoned.inputs] == [first, *lines]
        assert reasoned.heard == ()


async def test_a_retrieval_knows_the_nodes_that_it_builds_on_by_their_numbers(store: Store) -> None:
    later = ("Retrieval", "2", "Find where the person of node 2 was born.")
    _, turns = await held("mmapg", store, carrying_out([RETRIEVE, later, ANSWER, STOP]))
    decomposed = of(turns, "Keyword")[1]
    assert decomposed.task is not None
    assert [given.line for given in decomposed.task.inputs] == [
        f"Node 2: Retrieval (from 1): {RETRIEVE[2]} -> Winstrup built it."
    ]


async def test_findings_that_could_not_be_condensed_go_on_as_they_are(store: Store) -> None:
    def bears(turn: Turn) -> str:
        return "" if fields(turn) == ("Summary",) else "Winstrup built it."

    _, turns = await held("mmapg", store, carrying_out([RETRIEVE, ANSWER, STOP], {"Summary": bears}))
    [reasoned] = [turn for turn in turns if turn.task is None]
    assert {heard.message.values("Relevant") for heard in reasoned.heard} == {("yes",)}
    assert len(of(turns, "Thought", "Type")[1].heard) == len(reasoned.heard)


def lookups(trace: Trace, base: str) -> list[tuple[str, str]]:
    """The queries of a base, each with the best that it found."""
    return [(lookup.query, *lookup.found[:1]) for lookup in trace.lookups if lookup.base == base]  # type: ignore[misc]


async def test_pictures_that_are_named_are_found_by_title_and_described_ones_by_what_they_show(store: Store) -> None:
    plan = [RETRIEVE, ANSWER, STOP]
    named, _ = await held("mmapg", store, carrying_out(plan, {"Visual": "yes", "Entity": ["Red Bus"]}))
    assert lookups(named, "texts") == [("Skagen Beacon", "skagen"), ("Red Bus", "bus")]
    assert lookups(named, "pictures") == [("Skagen Beacon", "beacon"), ("Red Bus", "coach")]
    shown, turns = await held("mmapg", store, carrying_out(plan, {"Visual": "yes", "Query": "striped lighthouse"}))
    assert lookups(shown, "pictures")[1:] == [("striped lighthouse", "beacon")]
    assert {turn.agent for turn in turns if fields(turn) == ("Relevant", "Description")} == {"picture_examiner"}


async def test_key_phrases_are_searched_for_in_captions_also_where_no_picture_has_to_be_looked_at(store: Store) -> None:
    script = carrying_out([RETRIEVE, ANSWER, STOP], {"Keyword": ["in fog"], "Visual": "no", "Entity": ["Red Bus"]})
    trace, turns = await held("mmapg", store, script)
    assert lookups(trace, "pictures") == [("in fog", "beacon")]
    assert "beacon" in {source.id for source in examined_sources(turns)}


async def test_a_picture_is_asked_the_question_that_the_instruction_has_for_it(store: Store) -> None:
    plan = [RETRIEVE, ANSWER, STOP]
    asking = {"Visual": "yes", "Query": "striped lighthouse", "Sub-question": "How many stripes are there?"}
    for values, put in ((asking, ["Sub-question: How many stripes are there?"]), ({**asking, "Sub-question": []}, [])):
        _, turns = await held("mmapg", store, carrying_out(plan, values))
        [decomposed] = of(turns, "Keyword")
        assert decomposed.task is not None
        assert fields(decomposed)[-1] == "Sub-question"
        assert "has the keywords 'Tarnby mill'" in decomposed.task.instruction
        looked = [turn for turn in turns if turn.agent == "picture_examiner"]
        assert looked
        for turn in looked:
            assert turn.task is not None
            assert [given.line for given in turn.task.inputs] == put
            assert ("sub-question" in turn.task.instruction) == bool(put)
            assert turn.question.text == RETRIEVE[2]


async def test_texts_and_pictures_are_capped_separately_and_kept_within_the_radius(store: Store) -> None:
    values = {"Keyword": ["Skagen Beacon", "Winstrup", "Red Bus"], "Visual": "yes", "Query": "a striped lighthouse"}
    _, turns = await held("mmapg", store, carrying_out([RETRIEVE, ANSWER, STOP], values))
    kinds = [source.kind for source in examined_sources(turns)]
    assert (kinds.count(Kind.TEXT), kinds.count(Kind.IMAGE)) == (3, 2)
    near = values | {"Keyword": ["Skagen Beacon", "Winstrup"]}
    _, turns = await held("mmapg", store, carrying_out([RETRIEVE, ANSWER, STOP], near), radius=0.6)
    found = [source.id for source in examined_sources(turns)]
    assert "beacon" in found
    assert "coach" not in found


async def test_where_nothing_bears_on_the_instruction_the_node_says_so(store: Store) -> None:
    script = carrying_out([RETRIEVE, ANSWER, STOP], {"Relevant": "no"})
    trace, turns = await held("mmapg", store, script)
    assert read_plan(QUESTION, trace.turns, PLANNER)[1].content == NOTHING
    assert not of(turns, "Summary")
    second = of(turns, "Thought", "Type")[1]
    assert second.task is not None
    assert second.task.inputs[-1].line.endswith(f"-> {NOTHING}")


async def test_an_answer_that_something_was_looked_up_after_is_no_longer_the_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [("Retrieval", "1", f"Find more, {n}.") for n in range(9)]
    for plan, most in (([RETRIEVE, ANSWER, *more], 4), ([RETRIEVE, ANSWER, more[0], STOP], 10)):
        monkeypatch.setattr(mmapg, "MOST_NODES", most)
        script = carrying_out(plan, answer=lambda turn: "Aarhus" if turn.question.text == QUESTION else "Winstrup")
        trace, turns = await held("mmapg", store, script)
        assert len(of(turns, "Thought", "Type")) == 4
        assert (turns[-1].task, turns[-1].question.text) == (None, QUESTION)
        lines = [given.line for given in turns[-1].inputs]
        assert "Node 3: Answer (from 2): Where was Winstrup born? -> Winstrup" in lines
        assert "Node 4: Retrieval (from 1): Find more, 0. -> Winstrup built it." in lines
        assert trace.answer == "Aarhus"


@pytest.mark.parametrize(("plan", "steps"), [([STOP], 10), ([], 2), ([RETRIEVE, STOP], 10)])
async def test_the_last_node_that_was_carried_out_answers_if_it_is_an_answer(
    store: Store, plan: Plan, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mmapg, "MOST_NODES", steps)
    script = carrying_out([RETRIEVE, ANSWER, *plan])
    trace, turns = await held("mmapg", store, script)
    # The one answer is the node's: neither a Stop nor a node that repeats another adds anything to the graph.
    assert sum(turn.task is None for turn in turns) == 1
    assert trace.answer == "Aarhus"


@pytest.mark.parametrize("said", ["unknown", None])
async def test_without_an_answer_node_that_answers_one_is_reasoned_from_the_whole_graph(
    store: Store, said: str | None
) -> None:
    plan = [RETRIEVE, ANSWER, STOP] if said else [RETRIEVE, ("Stop", "2", "")]
    answers = iter([said, "Aarhus"] if said else ["Aarhus"])
    trace, turns = await held("mmapg", store, carrying_out(plan, answer=lambda turn: str(next(answers))))
    assert turns[-1].question.text == QUESTION
    assert any(given.outcome == "Winstrup built it." for given in turns[-1].inputs)
    assert trace.answer == "Aarhus"
    stop = read_plan(QUESTION, trace.turns, PLANNER)[-1]
    assert (NodeFault.STOPS_UNANSWERED in stop.faults) == (said is None)


async def test_an_answer_to_something_else_does_not_choose_among_the_choices(store: Store) -> None:
    def answer(turn: Turn) -> str:
        return "Odense" if turn.question.choices else "in Aarhus"

    trace, turns = await held("mmapg", store, carrying_out([RETRIEVE, ANSWER, STOP], answer=answer), CHOOSING)
    assert trace.answer == "Odense"
    asks_it = ("Answer", "2", f"Answer: {QUESTION}")
    trace, turns = await held("mmapg", store, carrying_out([RETRIEVE, asks_it, STOP], answer=answer), CHOOSING)
    assert trace.answer == "Odense"
    assert sum(turn.task is None for turn in turns) == 1


async def test_a_repeated_node_is_not_carried_out_again_and_the_planner_reads_why(store: Store) -> None:
    trace, turns = await held("mmapg", store, carrying_out([RETRIEVE, RETRIEVE, ANSWER, STOP]))
    assert len(of(turns, "Keyword")) == 1
    third = of(turns, "Thought", "Type")[2]
    assert third.task is not None
    assert third.task.inputs[-1].line.endswith(f"[{NodeFault.REPEATED}]")
    assert trace.answer == "Aarhus"


async def test_a_planner_that_cannot_be_understood_leaves_one_retrieval_for_the_question_itself(store: Store) -> None:
    trace, turns = await held("mmapg", store, carrying_out([None, None]))
    [decomposed] = of(turns, "Keyword")
    assert decomposed.question.text == QUESTION
    assert trace.turns[1].status is Status.UNPARSED
    assert trace.answer == "Aarhus"
    assert any(heard.message.values("Summary") for heard in turns[-1].heard)


async def test_one_planning_step_that_cannot_be_read_does_not_end_the_plan(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, turns = await held("mmapg", store, carrying_out([None, RETRIEVE, None, ANSWER, STOP]))
    assert [node.type for node in read_plan(QUESTION, trace.turns, PLANNER)] == [
        *("Question", "Retrieval", "Answer", "Stop")
    ]
    [reasoned] = [turn for turn in turns if turn.task is None]
    assert reasoned.question.text == ANSWER[2]
    assert trace.answer == "Aarhus"
    monkeypatch.setattr(mmapg, "MOST_NODES", 2)
    _, turns = await held("mmapg", store, carrying_out([None, RETRIEVE]))
    assert len(of(turns, "Thought", "Type")) == 2


async def test_an_instruction_that_cannot_be_taken_apart_is_searched_for_as_it_is(store: Store) -> None:
    trace, _ = await held("mmapg", store, carrying_out([RETRIEVE, ANSWER, STOP], {"Keyword": []}))
    assert {(lookup.base, lookup.query) for lookup in trace.lookups if lookup.base != "graph"} == {
        ("texts", RETRIEVE[2]),
        ("pictures", RETRIEVE[2]),
    }


async def test_triples_of_the_knowledge_graph_are_examined_together(store: Store) -> None:
    class WithGraph(LabelledLibrary):
        async def graph(self, *asked: object, **kept: object) -> tuple[Triple, ...]:
            return (Triple("t1", "Winstrup", "was born in", "Aarhus"), Triple("t2", "Red Bus", "drives to", "Odense"))

    script = carrying_out([RETRIEVE, ANSWER, STOP], {"Triple": ["Winstrup | was born in | Aarhus"]})
    team = ScriptedSpeaker(ROLES, script)
    config = load(["experiment=mmapg"])
    config.retrieval = RetrievalSettings(texts=3, pictures=2, radius=None)
    library = WithGraph(Evidence(store, RetrievalSettings()), [ITEM])
    trace = await topology("mmapg", library, config).answer(ITEM.question, team.ask, 3)
    [examined] = of(team.turns, "Relevant", "Triple")
    assert examined.task is not None
    assert len(examined.task.inputs) == 2
    [condensed] = of(team.turns, "Summary")
    assert condensed.task is not None
    assert condensed.task.inputs[-1].line == "Triple: Winstrup | was born in | Aarhus"
    assert [lookup.found for lookup in trace.lookups if lookup.base == "graph"] == [("t1", "t2")]


async def test_without_planning_retrieval_and_reasoning_alternate_on_one_path(store: Store) -> None:
    wanted = iter(["where Winstrup was born", "Aarhus"])
    enough = iter(["no", "yes"])
    values: Values = {
        "Thought": "Winstrup built it.",
        "Enough": lambda turn: next(enough),
        "Query": lambda turn: next(wanted) if fields(turn)[0] == "Thought" else [],
    }
    trace, turns = await held("mmapg_no_planning", store, carrying_out([], values))
    assert not of(turns, "Thought", "Type")
    assert [fields(turn)[0] for turn in turns if turn.task and fields(turn)[0] != "Relevant"] == [
        *("Keyword", "Summary", "Thought"),
        *("Keyword", "Summary", "Thought"),
    ]
    assert [turn.question.text for turn in of(turns, "Keyword")] == [QUESTION, "where Winstrup was born"]
    assert of(turns, "Keyword")[1].heard[0].message.values("Thought")
    assert trace.answer == "Aarhus"


async def test_without_retrieval_the_nearest_sources_are_condensed_unexamined(store: Store) -> None:
    trace, turns = await held("mmapg_no_retrieval", store, carrying_out([RETRIEVE, ANSWER, STOP]))
    assert not of(turns, "Relevant")
    assert not of(turns, "Keyword")
    assert [(lookup.base, lookup.query) for lookup in trace.lookups] == [
        ("texts", RETRIEVE[2]),
        ("pictures", RETRIEVE[2]),
    ]
    [condensed] = of(turns, "Summary")
    assert len(condensed.question.evidence) == 5
    assert trace.answer == "Aarhus"


async def test_readers_plan_look_up_and_answer_questions_of_the_sample(tmp_path: Path) -> None:
    write_sample(tmp_path / "sample", seed=3, train=0, dev=12)
    data = Mmqa.at(tmp_path / "sample")
    items = list(data.evaluate())
    store = Store.open(tmp_path / "index", data.corpus, LexicalEncoder())
    config = load(["experiment=mmapg"])
    library = LabelledLibrary(Evidence(store, config.retrieval), items)
    method = topology("mmapg", library, config)
    right = 0.0
    for item in Random(0).sample(items, 8):
        team = ScriptedSpeaker(ROLES)
        trace = await method.answer(item.question, team.ask, 3)
        graph = read_plan(item.question.text, trace.turns, PLANNER)
        assert [node.type for node in graph[:2]] == ["Question", "Retrieval"]
        assert all(not node.faults for node in graph)
        right += data.score(item, trace.answer).utility
    assert right >= 2
