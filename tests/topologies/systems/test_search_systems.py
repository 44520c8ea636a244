"""OmniSearch, ViDoRAG and E-Agent: every step's output decides what happens next; on scripted agents, a real index."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from actors.agents.roles import SINGLE
from actors.messages import Hit, Kind, Message, Modality, Question, Source, Status, Trace, Turn
from actors.prompting.prompt import shared_part
from experiments.config.loading import load
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.scripted.replies import answered
from experiments.scripted.speaker import NONSENSE, ScriptedSpeaker
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from tests.support.topologies import SYSTEMS, topology
from topologies.systems import omnisearch, vidorag
from topologies.systems.e_agent import tool_calls
from topologies.systems.omnisearch import SOLVE, UNFOUND
from topologies.systems.vidorag import relevant

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
BLIND = replace(ITEM, pool=tuple(set(POOL) - {"own"}), own=())
# Pages of a report: each has its words as a passage and is a picture; one passage is no page.
PAGES = (
    Source("page-1:text", "page-1", Kind.TEXT, "Report, page 1", "The harbour was built in 1858."),
    Source("page-1", "page-1", Kind.IMAGE, "Report, page 1", "The harbour was built in 1858."),
    Source("page-2:text", "page-2", Kind.TEXT, "Report, page 2", "The harbour has a striped lighthouse."),
    Source("page-2", "page-2", Kind.IMAGE, "Report, page 2", "The harbour has a striped lighthouse."),
    Source("note", "note", Kind.TEXT, "Note", "The striped lighthouse of the harbour was painted."),
)

Replies = Mapping[str, Sequence[str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("searching"), lambda: iter(SOURCES), LexicalEncoder())


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("paged"), lambda: iter(PAGES), LexicalEncoder())


async def held(
    name: str, store: Store, replies: Replies, web: str = "corpus", item: Item = ITEM, texts: int = 2
) -> tuple[Trace, list[Turn]]:
    """One discussion in which each agent says its replies one after another, and the last one again and again."""
    said: dict[str, int] = {}

    def reply(turn: Turn) -> str:
        number = said[turn.agent] = said.get(turn.agent, 0) + 1
        lines = replies[turn.agent]
        return lines[min(number, len(lines)) - 1]

    config = load([f"experiment={name}", f"retrieval.web={web}"])
    config.retrieval = RetrievalSettings(texts=texts, pictures=1, web=config.retrieval.web)
    team = ScriptedSpeaker((SINGLE, *SYSTEMS[name].roles), reply)
    library = LabelledLibrary(Evidence(store, config.retrieval), [item])
    trace = await topology(name, library, config).answer(item.question, team.ask, 7)
    return trace, sorted(team.turns, key=lambda turn: turn.round)


def shown(turn: Turn) -> list[str]:
    return [source.id for source in turn.question.evidence]


def numbered(turn: Turn) -> dict[str, str]:
    """The sources by their numbers, as the prompt lists them."""
    text, pictures = shared_part(turn.question, Modality.BOTH)
    lines = dict(re.findall(r"^\[(\d+)\] (.*)$", text, re.MULTILINE))
    assert len(lines) == len(turn.question.evidence)
    assert {picture.id for picture in pictures} <= lines.keys()
    return lines


def step(action: str, asked: str = "", query: str = "", answer: str = "") -> str:
    lines = ["Thought: something is missing.", f"Action: {action}"]
    said = {"Sub-question": asked, "Query": query, "Answer": answer}
    return "\n".join([*lines, *(f"{name}: {value}" for name, value in said.items() if value)])


def found(trace: Trace) -> list[tuple[str, str]]:
    return [(lookup.base, lookup.query) for lookup in trace.lookups]


FINAL = answered("Aarhus", 0.9)


async def test_omnisearch_looks_each_sub_question_up_where_its_planner_says_and_plans_on_with_what_was_found(
    store: Store,
) -> None:
    plans = [
        step("texts", "Who built the striped lighthouse?"),
        step("pictures", "What does a striped lighthouse look like?"),
        step("web", "Where is a striped lighthouse?"),
        step("finish"),
        FINAL,
    ]
    solved = [answered("Winstrup", 0.8), answered("unknown", 0.0)]
    trace, turns = await held("omnisearch", store, {"search_planner": plans, "single": solved})
    assert [(lookup.base, lookup.of) for lookup in trace.lookups] == [
        ("texts", "1/search_planner"),
        ("pictures", "3/search_planner"),
        ("web", "4/search_planner"),
    ]
    agents = ["search_planner", "single", "search_planner", "search_planner", "single"]
    assert [turn.agent for turn in turns] == [*agents, "search_planner", "search_planner"]
    solver, second, third = turns[1], turns[2], turns[3]
    assert solver.question.text == "Who built the striped lighthouse?"
    assert shown(solver)[:2] == ["own", "skagen"]
    assert second.task is not None
    assert tuple(given.line for given in second.task.inputs) == (
        "Sub-question: Who built the striped lighthouse?",
        "Found: it is so Answer: Winstrup",
    )
    assert (second.recall, shown(second)) == (1, ["own"])
    assert third.question.evidence == second.question.evidence
    assert turns[5].task is not None
    assert [given.line for given in turns[5].task.inputs][-1] == "Found: nothing that answers it"
    assert [heard.message.id for heard in turns[6].heard] == ["2/single", "5/single"]
    assert set(trace.lookups[2].found) == {"far"}
    assert (trace.answer, trace.decision) == ("Aarhus", ("search_planner",))


async def test_omnisearch_s_planner_reads_pictures_itself_and_of_texts_only_what_the_solver_says(store: Store) -> None:
    plans = [
        step("pictures", "What does a bus look like?", "green bus"),
        step("texts", "Who built it?", "Winstrup"),
        step("finish", answer="Aarhus"),
    ]
    trace, turns = await held("omnisearch", store, {"search_planner": plans, "single": [answered("Winstrup", 0.8)]})
    assert [turn.agent for turn in turns] == ["search_planner", "search_planner", "single", "search_planner"]
    assert [shown(turn) for turn in turns if turn.agent != "single"] == [["own"], ["own", "bus"], ["own", "bus"]]
    assert turns[1].task is not None
    assert [given.line for given in turns[1].task.inputs] == [
        "Sub-question: What does a bus look like?",
        "Found: pictures, shown to you: Bus",
    ]
    assert (trace.answer, trace.status, trace.decision) == ("Aarhus", Status.OK, ("search_planner",))


async def test_a_source_has_one_number_for_omnisearch_s_planner_and_solver(store: Store) -> None:
    plans = [
        step("texts", "Who built the striped lighthouse?"),
        step("pictures", "What does a bus look like?", "green bus"),
        step("texts", "Who bakes it?", "Rye bread"),
        step("finish", answer="Aarhus"),
    ]
    _, turns = await held("omnisearch", store, {"search_planner": plans, "single": [FINAL]}, texts=1)
    planner, solver = numbered(turns[-1]), numbered(turns[-2])
    assert {number: line.partition(":")[0] for number, line in solver.items()} == {"1": "Harbour", "4": "Rye bread"}
    assert planner == {"1": "Harbour", "3": "Bus"}


async def test_omnisearch_searches_for_the_query_and_solves_the_sub_question_one_for_the_other_where_it_is_missing(
    store: Store,
) -> None:
    plans = [
        step("texts", "Who built the striped lighthouse?", "Skagen Beacon"),
        step("texts", query="Rye bread"),
        step("texts", "Who was born in Aarhus?"),
        step("finish", answer="Aarhus"),
    ]
    trace, turns = await held("omnisearch", store, {"search_planner": plans, "single": [FINAL]})
    assert [lookup.query for lookup in trace.lookups] == ["Skagen Beacon", "Rye bread", "Who was born in Aarhus?"]
    solved = [turn.question.text for turn in turns if turn.agent == "single"]
    assert solved == ["Who built the striped lighthouse?", "Rye bread", "Who was born in Aarhus?"]


async def test_omnisearch_searches_by_the_question_s_own_picture_where_it_has_one(store: Store) -> None:
    plans = [step("similar"), step("finish", answer="Aarhus")]
    trace, turns = await held("omnisearch", store, {"search_planner": plans, "single": [FINAL]})
    assert found(trace) == [("pictures", "source own")]
    assert [shown(turn) for turn in turns] == [["own"], ["own", "picture"]]
    assert trace.answer == "Aarhus"
    # Where it has none, no such search is offered, and a plan that names it cannot be read.
    trace, turns = await held("omnisearch", store, {"search_planner": plans, "single": [FINAL]}, item=BLIND)
    assert [turn.task is not None and "similar" in turn.task.instruction for turn in turns] == [False, False]
    assert (trace.lookups, trace.turns[0].status) == ((), Status.UNPARSED)


async def test_omnisearch_stops_after_so_many_searches_and_where_a_plan_cannot_be_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = [step("texts", "Who built the striped lighthouse?")]
    monkeypatch.setattr(omnisearch, "MOST_SEARCHES", 3)
    trace, _ = await held("omnisearch", store, {"search_planner": asking, "single": [FINAL]})
    assert len(trace.lookups) == 3
    assert (trace.answer, trace.status) == (None, Status.UNPARSED)  # it never gave an answer
    trace, turns = await held("omnisearch", store, {"search_planner": [NONSENSE, FINAL], "single": [FINAL]})
    assert [message.status for message in trace.turns] == [Status.UNPARSED, Status.OK]
    assert (trace.lookups, trace.answer) == ((), "Aarhus")
    assert shown(turns[-1]) == ["own"]


async def test_without_a_web_a_search_there_finds_nothing(store: Store) -> None:
    replies = {
        "search_planner": [step("web", "Where is a striped lighthouse?"), step("finish"), FINAL],
        "single": [FINAL],
    }
    trace, turns = await held("omnisearch", store, replies, web="none")
    assert [lookup.found for lookup in trace.lookups] == [()]
    assert [turn.instruction for turn in turns if turn.agent == "single"] == [UNFOUND]
    _, turns = await held("omnisearch", store, replies)
    assert [turn.instruction for turn in turns if turn.agent == "single"] == [SOLVE]


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


async def test_e_agent_searches_by_the_question_s_own_picture_where_it_has_one(store: Store) -> None:
    replies = {"tool_planner": ["Step: similar | the tower\nStep: texts | who built it"], "single": [FINAL]}
    trace, turns = await held("e_agent", store, replies)
    assert found(trace) == [("pictures", "source own"), ("texts", "who built it")]
    assert shown(turns[1])[:2] == ["own", "picture"]
    trace, turns = await held("e_agent", store, replies, item=BLIND)
    assert turns[0].task is not None
    assert "similar" not in turns[0].task.instruction
    assert (trace.lookups, trace.turns[0].status) == ((), Status.UNPARSED)


async def test_e_agent_answers_without_a_search_where_none_is_planned_or_the_plan_cannot_be_read(store: Store) -> None:
    for plan in ("Step: none", NONSENSE):
        trace, turns = await held("e_agent", store, {"tool_planner": [plan], "single": [FINAL]})
        assert (trace.lookups, trace.answer, shown(turns[-1])) == ((), "Aarhus", ["own"])
        # There is nothing in it to judge or to go by.
        assert turns[-1].heard == ()


def test_a_step_without_a_known_tool_or_words_is_no_call() -> None:
    steps = (
        "texts | a",
        "`Web` | b | c",
        "maps | d",
        "pictures",
        "pictures |",
        "texts | a",
        "similar |",
        "similar | e",
    )
    message = Message("1/tool_planner", "tool_planner", 1, fields=tuple(("Step", step) for step in steps))
    assert tool_calls(message) == [("texts", "a"), ("web", "b | c"), ("similar", "")]


def seek(*numbers: int) -> str:
    return f"Thought: these bear on it.\nSelected: {', '.join(map(str, numbers)) or 'none'}"


def missing(*kept: int) -> str:
    numbers = ", ".join(map(str, kept)) or "none"
    return f"Thought: not all is there.\nEnough: no\nQuery: where Winstrup was born\nSelected: {numbers}"


def draft(*rests_on: int, answer: str = "Aarhus") -> str:
    numbers = ", ".join(map(str, rests_on)) or "none"
    return f"Thought: all is there.\nEnough: yes\nSelected: {numbers}\nAnswer: {answer}"


async def test_vidorag_picks_inspects_and_picks_on_until_the_inspector_has_a_draft(store: Store) -> None:
    replies = {"seeker": [seek(1), seek(2)], "page_inspector": [missing(1), draft(2)], "synthesiser": [FINAL]}
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
    assert [lookup.base for lookup in trace.lookups] == ["texts", "pictures", "pictures"]
    assert (trace.answer, trace.decision) == ("Aarhus", ("synthesiser",))


async def test_vidorag_takes_a_draft_that_rests_on_all_that_was_read_for_the_answer(store: Store) -> None:
    replies = {"seeker": [seek(1, 2)], "page_inspector": [draft(1, 2, answer="Odense")], "synthesiser": [FINAL]}
    trace, turns = await held("vidorag", store, replies)
    assert [turn.agent for turn in turns] == ["seeker", "page_inspector"]
    assert (trace.answer, trace.status, trace.decision) == ("Odense", Status.OK, ("page_inspector",))
    unknown = {**replies, "page_inspector": [draft(1, 2, answer="unknown")]}
    trace, turns = await held("vidorag", store, unknown)
    assert (turns[-1].agent, trace.answer) == ("synthesiser", "Aarhus")


async def test_vidorag_keeps_what_the_inspector_names_and_never_shows_the_rest_again(store: Store) -> None:
    replies = {"seeker": [seek(1, 2), seek(3)], "page_inspector": [missing(2), missing()], "synthesiser": [FINAL]}
    _, turns = await held("vidorag", store, replies, texts=3)
    agents = ["seeker", "page_inspector", "seeker", "page_inspector", "synthesiser"]
    assert [turn.agent for turn in turns] == agents
    _, second, third = shown(turns[0])
    assert shown(turns[2]) == [third]
    assert shown(turns[3]) == ["own", second, third]
    assert shown(turns[4]) == ["own"]


async def test_vidorag_s_agents_call_a_source_by_the_same_number_whatever_they_are_shown(store: Store) -> None:
    replies = {"seeker": [seek(2), seek(1)], "page_inspector": [missing(2), draft(1)], "synthesiser": [FINAL]}
    _, turns = await held("vidorag", store, replies, texts=3)
    assert [len(turn.question.evidence) for turn in turns] == [3, 2, 2, 3, 2]
    named: dict[str, set[str]] = {}
    for turn in turns:
        for number, line in numbered(turn).items():
            named.setdefault(number, set()).add(line)
    assert sorted(named) == ["1", "2", "3", "4"]
    assert {len(lines) for lines in named.values()} == {1}


async def test_vidorag_shows_pages_as_pictures_each_once_though_words_found_them(paged: Store) -> None:
    item = Item(Question("q", "When was the harbour built?"), ("1858",), pool=("page-1", "page-2", "note"))
    replies = {"seeker": [seek(1)], "page_inspector": [draft()], "synthesiser": [FINAL]}
    trace, turns = await held("vidorag", paged, replies, item=item)
    texts, pictures = trace.lookups[:2]
    assert set(texts.found) == {"page-1:text", "page-2:text", "note"}
    assert len(pictures.found) == 2
    assert sorted(shown(turns[0])) == sorted(set(shown(turns[0])))
    assert {"page-1"} < set(shown(turns[0])) <= {"page-1", "page-2", "note"}


async def test_vidorag_ends_after_so_many_rounds_and_when_nothing_is_left_to_pick(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspector = [missing(1, 2, 3, 4, 5, 6, 7)]
    replies = {"seeker": [seek(1), seek(2)], "page_inspector": inspector, "synthesiser": [FINAL]}
    monkeypatch.setattr(vidorag, "MOST_ROUNDS", 2)
    trace, _ = await held("vidorag", store, replies)
    assert len(trace.turns) == 5
    trace, turns = await held("vidorag", store, replies | {"seeker": [seek(1, 2, 3, 4, 5, 6, 7)]})
    assert [turn.agent for turn in turns] == ["seeker", "page_inspector", "synthesiser"]
    assert set(shown(turns[-1])) == {"own", *shown(turns[0])}
    trace, turns = await held("vidorag", store, replies | {"seeker": [seek(1), seek()]})
    assert [turn.agent for turn in turns] == ["seeker", "page_inspector", "seeker", "synthesiser"]


async def test_vidorag_loses_nothing_by_a_seeker_or_an_inspector_that_cannot_be_read(store: Store) -> None:
    replies = {"seeker": [NONSENSE], "page_inspector": [NONSENSE], "synthesiser": [FINAL]}
    trace, turns = await held("vidorag", store, replies)
    assert [turn.agent for turn in turns] == ["seeker", "page_inspector", "synthesiser"]
    assert set(shown(turns[-1])) == {"own", *shown(turns[0])}
    assert trace.turns[1].status is Status.UNPARSED
    assert turns[-1].heard == ()


async def test_vidorag_s_agents_give_their_reasons_before_they_judge(store: Store) -> None:
    replies = {"seeker": [seek(1)], "page_inspector": [draft(2)], "synthesiser": [FINAL]}
    _, turns = await held("vidorag", store, replies)
    for turn in turns[:2]:
        assert turn.task is not None
        assert (turn.task.fields[0].name, turn.task.fields[0].optional) == ("Thought", False)


def test_of_what_was_found_as_much_is_kept_as_the_scores_tell_apart_but_five_at_least_and_no_more_than_wanted() -> None:
    high = {2: 5, 7: 7, 14: 10}
    for number, kept in high.items():
        scores = [0.9 - 0.001 * n for n in range(number)] + [0.3 - 0.001 * n for n in range(20 - number)]
        hits = [Hit(SOURCES[0], score) for score in reversed(scores)]
        assert [hit.score for hit in relevant(hits, 10)] == scores[:kept]
    assert [hit.score for hit in relevant(hits, 3)] == scores[:3]
    assert relevant((), 10) == ()
    assert len(relevant(hits[:1], 10)) == 1
