"""OmniSearch, ViDoRAG and E-Agent: every step's output decides what happens next; on scripted agents, a real index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from actors.agents.roles import SINGLE
from actors.messages import Hit, Kind, Message, Question, Source, Status, Trace, Turn
from experiments.config.loading import load
from experiments.conformance.scripted import NONSENSE, SYSTEMS, Script, ScriptedTeam, answered, topology
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.evidence.settings import RetrievalSettings
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from topologies.systems.e_agent import planned
from topologies.systems.vidorag.vidorag import relevant

SOURCES = (
    Source("own", "own", Kind.IMAGE, "Harbour", "a striped lighthouse on a cliff"),
    Source("skagen", "skagen", Kind.TEXT, "Skagen Beacon", "Skagen Beacon is a striped lighthouse. Winstrup built it."),
    Source("winstrup", "winstrup", Kind.TEXT, "Winstrup", "Winstrup the architect was born in Aarhus."),
    Source("bread", "bread", Kind.TEXT, "Rye bread", "Rye bread is baked in Odense with seeds."),
    Source("picture", "picture", Kind.IMAGE, "Skagen Beacon", "a striped lighthouse with a red lamp"),
    Source("bus", "bus", Kind.IMAGE, "Bus", "a green bus in a street"),
    Source("far", "far", Kind.TEXT, "Lighthouses", "A striped lighthouse of the corpus that no pool has."),
    Source("secret", "secret", Kind.TEXT, "Lighthouses", "A striped lighthouse that gives the label away."),
)
POOL = tuple(source.doc for source in SOURCES[:6])
QUESTION = Question("q1", "Where was the one who built the striped lighthouse born?")
ITEM = Item(QUESTION, ("Aarhus",), pool=POOL, own=("own",), withheld=("secret",))

Replies = Mapping[str, Sequence[str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("searching"), lambda: iter(SOURCES), LexicalEncoder())


async def held(
    name: str, store: Store, replies: Replies, turns: int = 5, web: str = "corpus"
) -> tuple[Trace, list[Turn]]:
    """One discussion in which each agent says its replies one after another, and the last one again and again."""
    said: dict[str, int] = {}

    def reply(turn: Turn) -> str:
        number = said[turn.agent] = said.get(turn.agent, 0) + 1
        lines = replies[turn.agent]
        return lines[min(number, len(lines)) - 1]

    config = load([f"experiment={name}", f"systems.turns={turns}", f"retrieval.web={web}"])
    config.retrieval = RetrievalSettings(texts=2, pictures=1, web=config.retrieval.web)
    team = ScriptedTeam({role.name: role for role in (SINGLE, *SYSTEMS[name].roles)}, Script(reply))
    library = LabelledLibrary(Evidence(store, config.retrieval), [ITEM])
    trace = await topology(name, library, config).answer(QUESTION, team.ask, 7)
    return trace, sorted(team.turns, key=lambda turn: turn.round)


def shown(turn: Turn) -> list[str]:
    return [source.id for source in turn.question.evidence]


def step(action: str, asked: str = "") -> str:
    lines = ["Thought: something is missing.", f"Action: {action}"]
    return "\n".join([*lines, f"Sub-question: {asked}"] if asked else lines)


FINAL = answered("Aarhus", 0.9)


async def test_omnisearch_looks_each_sub_question_up_where_its_planner_says_and_plans_on_with_what_was_found(
    store: Store,
) -> None:
    plans = [
        step("texts", "Who built the striped lighthouse?"),
        step("pictures", "What does a striped lighthouse look like?"),
        step("web", "Where is a striped lighthouse?"),
        step("answer"),
        FINAL,
    ]
    solved = [answered("Winstrup", 0.8), answered("red", 0.5), answered("unknown", 0.0)]
    trace, turns = await held("omnisearch", store, {"search_planner": plans, "single": solved})
    assert [(lookup.base, lookup.of) for lookup in trace.lookups] == [
        ("texts", "1/search_planner"),
        ("pictures", "3/search_planner"),
        ("web", "5/search_planner"),
    ]
    assert [turn.agent for turn in turns] == ["search_planner", "single"] * 3 + ["search_planner"] * 2
    solver, second, third = turns[1], turns[2], turns[4]
    assert solver.question.text == "Who built the striped lighthouse?"
    assert shown(solver)[:2] == ["own", "skagen"]
    assert second.task is not None
    assert tuple(given.line for given in second.task.given) == (
        "Sub-question: Who built the striped lighthouse?",
        "Found: it is so Answer: Winstrup",
    )
    assert second.recall == 1
    assert set(shown(third)) == {"own", "skagen", trace.lookups[0].found[1], *trace.lookups[1].found}
    assert turns[6].task is not None
    assert turns[6].task.given[-1].line == "Found: nothing that answers it"
    assert [heard.message.id for heard in turns[7].heard] == ["2/single", "4/single", "6/single"]
    assert set(trace.lookups[2].found) == {"far"}
    assert (trace.answer, trace.decision) == ("Aarhus", ("search_planner",))


async def test_omnisearch_stops_after_so_many_searches_and_where_a_plan_cannot_be_read(store: Store) -> None:
    asking = [step("texts", "Who built the striped lighthouse?")]
    trace, _ = await held("omnisearch", store, {"search_planner": asking, "single": [FINAL]}, turns=3)
    assert len(trace.lookups) == 3
    assert (trace.answer, trace.status) == (None, Status.UNPARSED)  # it never gave an answer
    trace, turns = await held("omnisearch", store, {"search_planner": [NONSENSE, FINAL], "single": [FINAL]})
    assert [message.status for message in trace.turns] == [Status.UNPARSED, Status.OK]
    assert (trace.lookups, trace.answer) == ((), "Aarhus")
    assert shown(turns[-1]) == ["own"]


async def test_without_a_web_a_search_there_finds_nothing(store: Store) -> None:
    replies = {
        "search_planner": [step("web", "Where is a striped lighthouse?"), step("answer"), FINAL],
        "single": [FINAL],
    }
    trace, _ = await held("omnisearch", store, replies, web="none")
    assert [lookup.found for lookup in trace.lookups] == [()]


async def test_e_agent_runs_its_plan_once_in_order_and_answers_from_all_of_it(store: Store) -> None:
    plan = (
        "Step: texts | who built the striped lighthouse\nStep: pictures | striped lighthouse\n"
        "Step: web | striped lighthouse\nStep: texts | who built the striped lighthouse"
    )
    trace, turns = await held("e_agent", store, {"tool_planner": [plan], "single": [FINAL]})
    assert [(lookup.base, lookup.query) for lookup in trace.lookups] == [
        ("texts", "who built the striped lighthouse"),
        ("pictures", "striped lighthouse"),
        ("web", "striped lighthouse"),
    ]
    assert [turn.agent for turn in turns] == ["tool_planner", "single"]
    assert shown(turns[0]) == ["own"]
    assert shown(turns[1]) == list(dict.fromkeys(["own", *(id for lookup in trace.lookups for id in lookup.found)]))
    assert trace.answer == "Aarhus"


async def test_e_agent_answers_without_a_search_where_none_is_planned_or_the_plan_cannot_be_read(store: Store) -> None:
    for plan in ("Step: none", NONSENSE):
        trace, turns = await held("e_agent", store, {"tool_planner": [plan], "single": [FINAL]})
        assert (trace.lookups, trace.answer, shown(turns[-1])) == ((), "Aarhus", ["own"])


def test_a_step_without_a_known_tool_or_words_is_no_call() -> None:
    steps = ("texts | a", "`Web` | b | c", "maps | d", "pictures", "pictures |", "texts | a")
    message = Message("1/tool_planner", "tool_planner", 1, fields=tuple(("Step", step) for step in steps))
    assert planned(message) == [("texts", "a"), ("web", "b | c")]


async def test_vidorag_picks_inspects_and_picks_on_until_the_inspector_has_a_draft(store: Store) -> None:
    replies = {
        "seeker": ["Selected: 1", "Selected: 1"],
        "page_inspector": ["Enough: no\nQuery: where Winstrup was born", "Enough: yes\nSelected: 3\nAnswer: Aarhus"],
        "synthesiser": [FINAL],
    }
    trace, turns = await held("vidorag", store, replies)
    agents = ["seeker", "page_inspector", "seeker", "page_inspector", "synthesiser"]
    assert [turn.agent for turn in turns] == agents
    first, inspected, second, again, final = turns
    assert shown(inspected) == ["own", shown(first)[0]]
    assert shown(second) == shown(first)[1:]
    assert [heard.message.id for heard in second.heard] == ["2/page_inspector"]
    assert shown(again) == ["own", shown(first)[0], shown(first)[1]]
    assert shown(final) == ["own", shown(first)[1]]
    assert [heard.message.id for heard in final.heard] == ["4/page_inspector"]
    assert [lookup.base for lookup in trace.lookups] == ["texts", "pictures"]
    assert (trace.answer, trace.decision) == ("Aarhus", ("synthesiser",))


async def test_vidorag_ends_after_so_many_rounds_and_when_nothing_is_left_to_pick(store: Store) -> None:
    replies = {"seeker": ["Selected: 1"], "page_inspector": ["Enough: no"], "synthesiser": [FINAL]}
    trace, _ = await held("vidorag", store, replies, turns=2)
    assert len(trace.turns) == 5
    trace, turns = await held("vidorag", store, replies | {"seeker": ["Selected: 1, 2, 3, 4, 5, 6, 7"]})
    assert [turn.agent for turn in turns] == ["seeker", "page_inspector", "synthesiser"]
    assert set(shown(turns[-1])) == {"own", *shown(turns[0])}
    trace, turns = await held("vidorag", store, replies | {"seeker": ["Selected: 1", "Thought: no more"]})
    assert [turn.agent for turn in turns] == ["seeker", "page_inspector", "seeker", "synthesiser"]


async def test_vidorag_loses_nothing_by_a_seeker_or_an_inspector_that_cannot_be_read(store: Store) -> None:
    replies = {"seeker": [NONSENSE], "page_inspector": [NONSENSE], "synthesiser": [FINAL]}
    trace, turns = await held("vidorag", store, replies)
    assert [turn.agent for turn in turns] == ["seeker", "page_inspector", "synthesiser"]
    assert set(shown(turns[-1])) == {"own", *shown(turns[0])}
    assert trace.turns[1].status is Status.UNPARSED
    assert turns[-1].heard == ()


def test_of_what_was_found_as_much_is_kept_as_the_scores_tell_apart() -> None:
    hits = [Hit(source, score) for source, score in zip(SOURCES, (0.3, 0.9, 0.29, 0.31, 0.88, 0.28), strict=False)]
    assert [hit.score for hit in relevant(hits)] == [0.9, 0.88]
    assert relevant(()) == ()
