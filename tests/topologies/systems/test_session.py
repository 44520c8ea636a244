"""A discussion that goes step by step: its numbers, its lookups, and what its trace says."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Literal

from actors.messages import Hit, Kind, Message, Question, Search, Source, Status, Triple, Turn
from experiments.records.records import decode_trace, encode_trace
from topologies.method import PICTURES
from topologies.systems.session import Session, about, sources

QUESTION = Question("q", "Who built the bridge?", ("Ann", "Bob"))
BRIDGE = Source("s1", "d1", Kind.TEXT, "Bridge", "Ann built the bridge.")


class Shelf:
    """A library of one source and one triple, which answers later searches first."""

    def __init__(self) -> None:
        self.delay = 0.02

    async def own(self, question: Question) -> tuple[Source, ...]:
        return ()

    async def search(self, question: Question, search: Search) -> tuple[Hit, ...]:
        self.delay /= 2
        await asyncio.sleep(self.delay)
        return (Hit(BRIDGE, 1.0),) if BRIDGE.kind in (search.kinds or ()) else ()

    async def graph(
        self, question: Question, words: Sequence[str], k: int, *, level: Literal["entity", "theme"] = "entity"
    ) -> tuple[Triple, ...]:
        return (Triple("t1", "Ann", "built", "bridge"),)

    async def neighbours(self, question: Question, entity: str) -> tuple[Triple, ...]:
        return ()

    async def entity(
        self, question: Question, name: str, k: int | None = None, *, near: str = ""
    ) -> tuple[Source, ...]:
        return ()

    async def web(self, question: Question, query: str, k: int) -> tuple[Hit, ...]:
        return ()


class Team:
    """Agents that answer later turns first."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    async def ask(self, turn: Turn) -> Message:
        self.turns.append(turn)
        await asyncio.sleep(0.02 / turn.round)
        status = Status.FAILED if turn.agent == "broken" else Status.OK
        return Message(
            f"{turn.round}/{turn.agent}", turn.agent, turn.round, answer="Ann", status=status, seed=turn.seed
        )


async def test_turns_and_searches_are_numbered_as_they_are_called_for_and_not_as_they_end() -> None:
    team = Team()
    session = Session("m", QUESTION, team.ask, Shelf(), seed=1)
    first, second = await asyncio.gather(session.ask("a"), session.ask("b"))
    found = await asyncio.gather(
        session.search("bridge", 3, of=first),
        session.search("bridge", 3, kinds=PICTURES, of=second),
        session.graph(["Ann"], 2),
    )
    assert [len(hits) for hits in found] == [1, 0, 1]
    last = await session.ask("a", question=about(QUESTION, sources(found[0])), heard=[first, second], remembers=True)
    assert [turn.searched for turn in sorted(team.turns, key=lambda turn: turn.round)] == [False, False, True]
    trace = session.trace(last)
    assert [turn.id for turn in trace.turns] == ["1/a", "2/b", "3/a"]
    assert [(lookup.base, lookup.of, lookup.found) for lookup in trace.lookups] == [
        ("texts", "1/a", ("s1",)),
        ("pictures", "2/b", ()),
        ("graph", "", ("t1",)),
    ]
    assert trace.agents == ("a", "b")
    assert trace.evidence == ("s1",)
    assert (trace.answer, trace.decision) == ("Ann", ("a",))
    assert team.turns[2].recall == 1
    assert decode_trace(encode_trace(trace)) == trace


async def test_the_answer_of_a_task_that_asked_for_one_closes_a_discussion_as_any_answer_does() -> None:
    async def ask(turn: Turn) -> Message:
        said = (("Thought", "It was her."), ("Answer", "Ann")) if turn.agent == "a" else (("Thought", "Who knows."),)
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, fields=said)

    session = Session("m", QUESTION, ask, Shelf(), seed=1)
    told, silent = await session.ask("a"), await session.ask("b")
    assert (session.trace(told).answer, session.trace(told).decision) == ("Ann", ("a",))
    assert (session.trace(silent).answer, session.trace(silent).status) == (None, Status.OK)


class Gallery(Shelf):
    """A library whose pictures are found in one order by any picture, with scores by the query."""

    scores: ClassVar = {"p1": (0.9, 0.8, 0.5), "p2": (0.2, 0.7, 0.6)}

    async def search(self, question: Question, search: Search) -> tuple[Hit, ...]:
        assert isinstance(search.query, Source)
        hits = [
            Hit(picture(id), score) for id, score in zip("p1 p2 p3".split(), self.scores[search.query.id], strict=True)
        ]
        return tuple(sorted(hits, key=lambda hit: -hit.score))[: search.k]


def picture(id: str) -> Source:
    return Source(id, id, Kind.IMAGE, id, "")


async def test_pictures_like_some_are_each_once_with_their_best_score_and_never_these_themselves() -> None:
    session = Session("m", QUESTION, Team().ask, Gallery(), seed=1)
    one = await session.alike([picture("p1")], 1)
    assert [(hit.source.id, hit.score) for hit in one] == [("p2", 0.8)]
    both = await session.alike([picture("p1"), picture("p2")], 2)
    assert [(hit.source.id, hit.score) for hit in both] == [("p3", 0.6)]
    assert await session.alike([], 2) == ()
    assert [(lookup.base, lookup.query) for lookup in session.trace("Ann").lookups] == [
        ("pictures", "source p1"),
        ("pictures", "source p1"),
        ("pictures", "source p2"),
    ]


async def test_a_failed_turn_is_not_heard_and_stays_in_the_trace() -> None:
    team = Team()
    session = Session("m", QUESTION, team.ask, Shelf(), seed=1)
    broken = await session.ask("broken")
    await session.ask("a", heard=[broken])
    assert team.turns[1].heard == ()
    assert [turn.status for turn in session.trace("Ann").turns] == [Status.FAILED, Status.OK]


async def test_a_discussion_that_came_to_nothing_has_no_answer() -> None:
    session = Session("m", QUESTION, Team().ask, Shelf(), seed=1)
    await session.ask("a")
    trace = session.trace(None)
    assert (trace.answer, trace.status, trace.decision) == (None, Status.UNPARSED, ())


def test_a_question_in_the_place_of_the_question_has_no_choices_to_choose_from() -> None:
    assert about(QUESTION, [BRIDGE]).choices == QUESTION.choices
    other = about(QUESTION, [BRIDGE], "Where is it?")
    assert (other.id, other.text, other.choices) == ("q", "Where is it?", ())
