"""Blueprint graphs, real ones among them, and the debate on them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import UserError
from actors.messages import FieldKind, Kind, Question, Source, Status, Trace, Turn
from experiments.analysis.figures.systems import changes
from experiments.config.loading import load
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.jobs import plan_of
from experiments.scripted.speaker import NONSENSE, ScriptedSpeaker
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from tests.support.topologies import topology
from topologies.systems import bdog
from topologies.systems.bdog import (
    CHALLENGE,
    CHALLENGE_NONE,
    CONCLUDE,
    CONCLUDE_NONE,
    CONCLUDE_ONE,
    SUPPORT,
    SUPPORT_NONE,
    debate_roles,
)
from topologies.systems.bdog_graph import Blueprint, blueprint, change, distance, limited, read_triples
from topologies.systems.bdog_scene_graphs import read_blueprints, read_scene_graph

HINT = Source("hint", "hint", Kind.TEXT, "Ecosystems", "In the tundra the caribou eats lichen.")
WEB = Source("web", "web", Kind.IMAGE, "Ecosystems", "a food web with a bear and a mushroom")
ELSEWHERE = Source("elsewhere", "elsewhere", Kind.TEXT, "Lichen", "Lichen is a fungus with an alga.")
ITEM = Item(
    Question("q", "Which of these has matter of the lichen?", ("bilberry", "mushroom")),
    ("mushroom",),
    pool=("hint", "web", "elsewhere"),
    own=("hint", "web"),
)
G0 = ("lichen | is eaten by | caribou", "lichen | has colour | grey", "bear | preys on | caribou")

names = st.sampled_from(["lichen", "Lichen", "caribou", "bear (brown)", "soil.", "soil"]) | st.text(
    "aB .;,|é-", max_size=5
)
relations = st.sampled_from(["is", "is eaten by", "has colour", "preys on"])
edges = st.tuples(names, relations, names)
graphs = st.builds(blueprint, st.lists(edges, max_size=8), st.lists(names, max_size=2))


@given(graphs, graphs, graphs)
def test_the_distance_of_blueprints_is_a_metric(a: Blueprint, b: Blueprint, c: Blueprint) -> None:
    assert distance(a, b) == distance(b, a) >= 0
    assert distance(a, a) == 0
    assert distance(a, c) <= distance(a, b) + distance(b, c)
    same = (a.entities, a.relations, a.attributes) == (b.entities, b.relations, b.attributes)
    assert (distance(a, b) == 0) == same


@given(graphs)
def test_a_blueprint_reads_back_as_it_was_written(graph: Blueprint) -> None:
    assert read_triples(graph.lines()) == graph


@given(graphs, st.integers(0, 6))
def test_the_size_constraint_keeps_the_first_entities_and_only_what_is_said_of_them(graph: Blueprint, n: int) -> None:
    kept = limited(graph, n)
    assert len(kept.entities) == min(n, len(kept.entities)) <= n
    assert set(kept.triples) <= set(graph.triples)
    if len(graph.entities) <= n:
        assert kept == graph


def test_entities_relations_and_changed_attributes_are_counted() -> None:
    before = read_triples(G0)
    after = read_triples(
        ["Lichen | is  eaten by | Caribou", "lichen | has colour | green", "mushroom | grows on | soil"]
    )
    assert change(before, after) == (3, 2, 1)  # + mushroom, soil, grows on; - bear, preys on; ~ the colour
    assert distance(before, after) == 6


def test_lines_that_are_no_triples_are_left_out_and_a_bare_name_is_an_entity_alone() -> None:
    graph = read_triples(["a | b", "a |  | c", "a | b | c | d", "(lichen | is | grey)", "soil"])
    assert graph == Blueprint((("lichen", "is", "grey"),), ("soil",))


# In the shapes in which GPT-4 and Gemini wrote the authors' graphs, with other things.
SCENES = {
    "attributes by name, relations by what they are": (
        {
            "objects": [
                {"object": "moss", "attributes": {"colour": "green"}, "relationships": {"grows on": ["rock", "bark"]}}
            ]
        },
        ["moss | has colour | green", "moss | grows on | rock", "moss | grows on | bark"],
    ),
    "relations with a partner": (
        {"objects": [{"object": "hare", "attributes": ["white"], "relationship": {"with": "moss", "action": "eats"}}]},
        ["hare | is | white", "hare | eats | moss"],
    ),
    "ids in relations, at any depth": (
        {
            "scene": {
                "objects": [{"id": 1, "name": "hare"}, {"id": 2, "name": "moss"}],
                "relationships": [{"source": 1, "target": 2, "relationship": "eats"}],
            }
        },
        ["hare | eats | moss"],
    ),
    "nodes and edges": (
        {
            "nodes": [{"id": "hare", "type": "animal", "diet": "moss"}],
            "edges": [{"source": "hare", "target": "moss", "type": "eats"}],
        },
        ["hare | has type | animal", "hare | has diet | moss", "hare | eats | moss"],
    ),
    "objects by name, attributes with values": (
        {"objects": [{"hare": {"attributes": [{"attribute": "speed", "value": "high"}, {"wild": True}]}}]},
        ["hare | has speed | high", "hare | has wild | true"],
    ),
    "several ends, no name of the relation": (
        {"objects": ["hare"], "relationships": [{"subject": ["hare", "owl"], "object": {"type": "moss"}}]},
        ["hare | related to | moss", "owl | related to | moss"],
    ),
    "a list of objects": ([{"name": "hare", "attributes": []}, {"name": "owl"}], ["hare", "owl"]),
}


@pytest.mark.parametrize("shape", SCENES)
def test_scene_graphs_are_read_in_the_shapes_of_the_authors_files(shape: str, tmp_path: Path) -> None:
    scene, lines = SCENES[shape]
    text = json.dumps(scene)
    assert read_scene_graph(f"Here: ```json\n{text}```") == read_triples(lines)
    (file := tmp_path / "graphs.json").write_text(json.dumps({"1": text, "2": {"kg": text}, "3": text[:-2]}))
    assert read_blueprints(str(file)) == dict.fromkeys(("1", "2"), read_triples(lines))


def test_a_graph_that_is_cut_off_is_not_read_as_a_smaller_one() -> None:
    whole = '{"objects": [{"name": "lichen", "attributes": ["grey"]}, {"name": "bear"}]}'
    assert read_scene_graph(f"Here it is: ```json\n{whole}\n```") == read_triples(["lichen | is | grey", "bear"])
    assert not any(map(read_scene_graph, (whole[:-3], "There is no graph.", "{}")))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("bdog"), lambda: iter((HINT, WEB, ELSEWHERE)), LexicalEncoder())


Reply = Callable[[Turn], Sequence[str] | None]


def debating(graphs: Reply, answer: Callable[[Turn], str | None] = lambda turn: "mushroom") -> Reply:
    """Agents that state the graph that a function of the turn gives, or babble where either function gives None."""

    def reply(turn: Turn) -> str:
        assert turn.task is not None
        names = [field.name for field in turn.task.fields]
        stated, said = graphs(turn), answer(turn)
        if ("Triple" in names and stated is None) or ("Answer" in names and said is None):
            return NONSENSE
        lines = ["Thought: so it is."] if "Thought" in names else []
        if "Triple" in names:
            lines += [f"Triple: {triple}" for triple in stated or ("none",)]
        return "\n".join([*lines, *([f"Answer: {said}"] if "Answer" in names else [])])

    return reply


async def held(
    name: str, store: Store, script: Reply, item: Item = ITEM, keys: Sequence[str] = ()
) -> tuple[Trace, list[Turn]]:
    config = load(["experiment=bdog_table", *keys])
    team = ScriptedSpeaker(debate_roles(config.systems), script)
    library = LabelledLibrary(Evidence(store, RetrievalSettings()), [item])
    trace = await topology(name, library, config).answer(item.question, team.ask, 3)
    return trace, team.turns


def given_triples(turn: Turn) -> set[str]:
    assert turn.task is not None
    return {given.text for given in turn.task.inputs if given.kind is FieldKind.TRIPLE}


def given_steps(turn: Turn) -> list[str]:
    assert turn.task is not None
    return [given.text for given in turn.task.inputs if given.kind is FieldKind.THOUGHT]


def speakers(trace: Trace) -> list[str]:
    return [turn.agent for turn in trace.turns]


def rounds_of(trace: Trace) -> int:
    return speakers(trace).count("moderator")


async def test_each_side_revises_the_others_graph_and_the_moderator_reads_both_and_answers(store: Store) -> None:
    stated = {1: G0, 2: (*G0, "soil | feeds | mushroom"), 3: ("soil | feeds | mushroom",), 4: ("lichen | is | grey",)}
    trace, turns = await held("bdog", store, debating(lambda t: stated[t.round]), keys=["systems.rounds=1"])
    assert speakers(trace) == ["solo", "proponent", "opponent", "moderator"]
    assert given_triples(turns[1]) == set(stated[1])
    assert given_triples(turns[2]) == set(stated[2])
    assert turns[3].task is not None
    assert [given.line for given in turns[3].task.inputs] == [
        "Thought: so it is.",
        *(f"Triple 1: {triple}" for triple in stated[2]),
        "Triple 2: soil | feeds | mushroom",
    ]
    assert (trace.answer, trace.decision) == ("mushroom", ("moderator",))


async def test_two_debaters_a_side_take_turns_and_the_moderator_reads_the_last_pair(store: Store) -> None:
    stated = {n: (*G0, f"soil | feeds | mushroom {n}") for n in range(1, 7)}
    keys = ["systems.rounds=1", "systems.debaters=2"]
    trace, turns = await held("bdog", store, debating(lambda t: stated[t.round]), keys=keys)
    assert speakers(trace) == ["solo", "proponent", "opponent", "proponent_2", "opponent_2", "moderator"]
    for turn in range(1, 5):
        assert given_triples(turns[turn]) == set(stated[turn])
    assert given_triples(turns[5]) == {*stated[4], *stated[5]}
    within, between = changes([trace])
    assert [len(rounds) for rounds in within.values()] == [2]
    assert not between


def test_a_debate_launches_as_many_debaters_a_side_as_the_settings_ask_for() -> None:
    plan = plan_of(load(["experiment=bdog_table", "methods=[bdog]", "systems.debaters=3"]))
    names = [role.name for role in plan.roles.launched]
    assert [name for name in names if name.startswith("proponent")] == ["proponent", "proponent_2", "proponent_3"]
    assert [name for name in names if name.startswith("opponent")] == ["opponent", "opponent_2", "opponent_3"]
    instructions = {role.instruction for role in plan.roles.launched}
    assert len(instructions) == len(plan.roles.launched)


async def test_debaters_state_no_answer_see_no_choices_and_read_a_graph_once(store: Store) -> None:
    _, turns = await held("bdog", store, debating(lambda t: G0 if t.round < 4 else G0[:1]))
    for turn in turns:
        assert turn.task is not None
        answers = turn.agent == "moderator"
        assert ("Answer" in [field.name for field in turn.task.fields]) == answers
        assert bool(turn.question.choices) == answers
        assert (turn.heard, turn.recall) == ((), 0)
        lines = [given.line for given in turn.task.inputs]
        assert len(set(lines)) == len(lines)


async def test_all_in_a_debate_read_the_steps_of_the_first_graph(store: Store, tmp_path: Path) -> None:
    _, turns = await held("bdog", store, debating(lambda t: G0))
    assert [given_steps(turn) for turn in turns] == [[]] + [["so it is."]] * (len(turns) - 1)
    # No steps come with a graph of a file, nor from a turn that cannot be read.
    (file := tmp_path / "graphs.json").write_text(json.dumps({"q": '{"objects": [{"name": "lichen"}]}'}))
    for script, keys in ((lambda t: G0, [f"systems.blueprints={file}"]), (lambda t: None if t.round == 1 else G0, [])):
        _, turns = await held("bdog", store, debating(script), keys=keys)
        assert not any(map(given_steps, turns))
        assert not any("Thought" in turn.task.instruction for turn in turns if turn.task)


async def test_the_moderator_s_answer_of_the_last_round_counts_and_nobody_overrules_it(store: Store) -> None:
    script = debating(
        lambda t: (f"lichen | is eaten by | animal {t.round}",), lambda t: "bilberry" if t.round < 8 else "mushroom"
    )
    trace, turns = await held("bdog", store, script)
    assert len(turns) == 1 + 3 * 3
    assert (trace.answer, trace.turns[-1].values("Answer")) == ("mushroom", ("mushroom",))


async def test_where_the_last_conclusion_cannot_be_read_the_one_before_it_counts(store: Store) -> None:
    moving: Reply = lambda t: (f"lichen | is eaten by | animal {t.round}",)  # noqa: E731
    trace, _ = await held("bdog", store, debating(moving, lambda t: None if t.round == 10 else "bilberry"))
    assert (trace.answer, trace.status) == ("bilberry", Status.OK)
    trace, _ = await held("bdog", store, debating(moving, lambda t: None))
    assert (trace.answer, trace.status) == (None, Status.UNPARSED)


async def test_the_next_rounds_blueprint_is_the_opponents_and_the_debate_ends_when_it_no_longer_moves(
    store: Store,
) -> None:
    after = {1: G0, 3: G0[:2], 6: G0[:1], 9: G0[:1]}
    script = debating(lambda t: after.get(t.round, ("soil | feeds | mushroom",)))
    trace, turns = await held("bdog", store, script, keys=["systems.rounds=5"])
    assert given_triples(turns[4]) == set(G0[:2])
    assert given_triples(turns[7]) == set(G0[:1])
    assert rounds_of(trace) == 3  # the third round's blueprint is the second's


@pytest.mark.parametrize(("epsilon", "rounds"), [("0", 3), ("1", 2), ("2", 1), ("null", 5)])
async def test_a_larger_epsilon_ends_the_debate_earlier_and_none_never(store: Store, epsilon: str, rounds: int) -> None:
    after = {1: G0, 3: G0[:2], 6: G0[:1], 9: G0[:1], 12: G0[:1], 15: G0[:1]}
    assert distance(read_triples(G0), read_triples(G0[:2])) == 2
    assert distance(read_triples(G0[:2]), read_triples(G0[:1])) == 1
    script = debating(lambda t: after.get(t.round, G0))
    trace, _ = await held("bdog", store, script, keys=["systems.rounds=5", f"systems.epsilon={epsilon}"])
    assert rounds_of(trace) == rounds


async def test_a_graph_beyond_the_size_constraint_is_cut_before_others_read_it(store: Store) -> None:
    script = debating(lambda t: tuple(f"thing {n} | is | big" for n in range(40)))
    _, turns = await held("bdog", store, script)
    assert [len(given_triples(turn)) for turn in turns[1:3]] == [bdog.SIZE] * 2
    assert all(turn.task and f"at most {bdog.SIZE} entities" in turn.task.instruction for turn in turns)


@pytest.mark.parametrize(
    ("stated", "orders"),
    [
        ({1: G0}, (SUPPORT, CHALLENGE, CONCLUDE)),
        ({2: G0}, (SUPPORT_NONE, CHALLENGE, CONCLUDE)),
        ({3: G0}, (SUPPORT_NONE, CHALLENGE_NONE, CONCLUDE_ONE)),
        ({}, (SUPPORT_NONE, CHALLENGE_NONE, CONCLUDE_NONE)),
    ],
    ids=["drawn", "by the proponent", "by the opponent", "never"],
)
async def test_no_turn_speaks_of_a_graph_that_nobody_has_stated(
    stated: dict[int, tuple[str, ...]], orders: tuple[str, ...], store: Store
) -> None:
    _, turns = await held("bdog", store, debating(lambda t: stated.get(t.round, ())), keys=["systems.rounds=1"])
    said = [turn.task.instruction for turn in turns[1:] if turn.task]
    assert [text.startswith(order) for text, order in zip(said, orders, strict=True)] == [True] * 3
    shown = [{line.number for line in turn.task.inputs if line.number} for turn in turns[1:] if turn.task]
    assert shown[2] == {number for number in (1, 2) if f"Triple {number}" in said[2]}
    assert not any("At least one" in text for text in said), "the form of the reply offers none"


async def test_a_graph_is_drawn_of_what_there_is(store: Store) -> None:
    for own, words in (
        (("hint", "web"), "in the question, its context and its pictures,"),
        (("web",), "in the question and its pictures,"),
        (("hint",), "in the question and its context,"),
        ((), "in the question,"),
    ):
        _, turns = await held("bdog_graph", store, debating(lambda t: G0), item=replace(ITEM, own=own))
        assert turns[0].task is not None
        assert words in turns[0].task.instruction


async def test_a_revision_that_cannot_be_read_leaves_the_graph_as_it_was(store: Store) -> None:
    script = debating(lambda t: None if t.round in (2, 4) else G0 if t.round == 1 else G0[:1])
    trace, turns = await held("bdog", store, script)
    assert [turn.status for turn in trace.turns[:4]] == [Status.OK, Status.UNPARSED, Status.OK, Status.UNPARSED]
    assert given_triples(turns[2]) == set(G0)
    assert given_triples(turns[3]) == set(G0)
    assert trace.answer == "mushroom"


@pytest.mark.parametrize("silent", [("opponent",), ("proponent", "opponent")])
@pytest.mark.parametrize("said", [(), None], ids=["none", "nothing readable"])
async def test_a_graph_that_an_opponent_does_not_state_ends_no_debate(
    said: Sequence[str] | None, silent: Sequence[str], store: Store
) -> None:
    trace, turns = await held("bdog", store, debating(lambda t: said if t.agent in silent else G0))
    assert rounds_of(trace) == 3
    assert given_triples(turns[-1]) == set(G0)
    assert {turn.status for turn in trace.turns if turn.agent == "opponent"} == {
        Status.UNPARSED if said is None else Status.OK
    }


async def test_without_a_first_graph_the_debate_starts_from_none(store: Store) -> None:
    script = debating(lambda t: None if t.round == 1 else G0)
    _, turns = await held("bdog", store, script)
    assert given_triples(turns[1]) == set()
    assert given_triples(turns[2]) == set(G0)


async def test_context_and_picture_are_the_questions_own_and_only_where_asked_for_what_was_retrieved(
    store: Store,
) -> None:
    retrieved = Item(Question("r", "What is lichen?", evidence=(ELSEWHERE,)), ("fungus",), pool=("elsewhere",))
    for keys, item, seen in (
        ((), ITEM, {"hint", "web"}),
        ((), retrieved, set()),
        (("systems.context=retrieved",), retrieved, {"elsewhere"}),
    ):
        _, turns = await held("bdog", store, debating(lambda t: G0), item, keys)
        assert {source.id for turn in turns for source in turn.question.evidence} == seen


async def test_debate_without_graph_begins_apart_then_each_hears_the_other_s_round_before(store: Store) -> None:
    answer: Callable[[Turn], str] = lambda t: "bilberry" if t.round == 3 else "mushroom"  # noqa: E731
    trace, turns = await held("bdog_debate", store, debating(lambda t: None, answer), keys=["systems.rounds=2"])
    assert speakers(trace) == ["proponent", "opponent", "moderator"] * 2
    assert [turn.heard for turn in trace.turns] == [
        (),
        (),
        ("1/proponent", "2/opponent"),
        ("2/opponent",),
        ("1/proponent",),
        ("4/proponent", "5/opponent"),
    ]
    forms = [[field.name for field in turn.task.fields] for turn in turns if turn.task]
    assert forms == [["Thought"], ["Thought"], ["Answer"]] * 2
    assert [bool(turn.question.choices) for turn in turns] == [False, False, True] * 2
    assert (trace.answer, trace.decision) == ("mushroom", ("moderator",))


async def test_graph_without_debate_is_one_agents_answer_from_its_own_graph(store: Store) -> None:
    trace, turns = await held("bdog_graph", store, debating(lambda t: G0))
    assert speakers(trace) == ["solo", "solo"]
    assert given_triples(turns[1]) == set(G0)
    assert (turns[1].question.choices, trace.answer) == (ITEM.question.choices, "mushroom")


async def test_a_blueprint_of_a_file_replaces_the_drawn_one(store: Store, tmp_path: Path) -> None:
    graph = {"objects": [{"name": "lichen", "relationships": [{"with": "caribou", "relationship": "feeds"}]}]}
    file = tmp_path / "graphs.json"
    for id, first, known in (("q", "proponent", {"lichen | feeds | caribou"}), ("other", "solo", set())):
        file.write_text(json.dumps({id: json.dumps(graph), "third": "no graph"}))
        for method in ("bdog", "bdog_graph"):
            trace, turns = await held(method, store, debating(lambda t: G0), keys=[f"systems.blueprints={file}"])
            assert speakers(trace)[0] == (first if method == "bdog" else "solo")
            assert given_triples(turns[0]) == known
    # Cut to the size.
    objects = [{"name": f"thing {n}", "attributes": ["big"]} for n in range(40)]
    file.write_text(json.dumps({"q": {"kg": json.dumps(objects)}}))
    _, turns = await held("bdog", store, debating(lambda t: G0), keys=[f"systems.blueprints={file}"])
    assert len(given_triples(turns[0])) == bdog.SIZE


def test_a_graph_with_a_number_of_thousands_of_digits_is_drawn_anew() -> None:
    assert not read_scene_graph('{"objects": [' + "9" * 10_000 + "]}")


@pytest.mark.parametrize("text", ["[]", "{", None, "9" * 10_000, "[" * 100_000])
def test_a_plan_refuses_a_file_that_is_none_of_blueprints_in_one_line(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "graphs.json"
    if text is not None:
        file.write_text(text)
    config = load(["experiment=bdog_table", "data.root=/x", f"systems.blueprints={file}"])
    with pytest.raises(UserError, match=r"systems\.blueprints=") as error:
        plan_of(config)
    assert "\n" not in str(error.value)
