"""One discussion of a system that goes step by step: numbers its turns, searches for it, writes its trace."""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TypeVar

from actors.messages import (
    FieldKind,
    Hit,
    InputLine,
    Kind,
    Lookup,
    Message,
    Question,
    Search,
    SearchMode,
    Source,
    Status,
    Task,
    Trace,
    Triple,
    derive_seed,
)
from topologies.method import PICTURES, TEXTS, Library, MethodContext, query_of
from topologies.topology import Ask, Discussion, heard_equally

F = TypeVar("F", Hit, Triple, Source)  # what a search finds


class Session:
    """One discussion. A turn's `round` is its number in it, so that its id, `<number>/<agent>`, gives its place.

    Turns and searches are numbered when they are called. Several may be under way at once, if they are called at one
    place in the code (`asyncio.gather`): calls must never depend on which of them ends first.
    """

    def __init__(self, method: str, question: Question, ask: Ask, library: Library, seed: int, sample: int = 0) -> None:
        self.question = question  # as turns show it; a system may set other evidence
        self._discussion = Discussion(method, question, seed, sample)
        self._ask = ask
        self._library = library
        self._turns: list[Message | None] = []  # by number; None until the turn is answered
        self._spoken: dict[str, int] = {}  # turns by agent, in the order of first turns, which is the trace's
        self._read: dict[str, None] = {}  # an ordered set: ids of all sources that any turn was shown
        self._lookups: list[Lookup | None] = []  # in the order of the calls; None until the results are there
        # Of the trace, for systems that search a graph for paths.
        self.paths: tuple[tuple[str, ...], ...] | None = None
        self.descriptions: tuple[tuple[str, str], ...] = ()

    def ask(
        self,
        agent: str,
        *,
        question: Question | None = None,
        evidence: Sequence[Source] | None = None,
        task: Task | None = None,
        heard: Sequence[Message] = (),
        instruction: str = "",
        inputs: Sequence[InputLine] = (),
        remembers: bool = False,
        scene: str = "",
    ) -> Awaitable[Message]:
        """Takes one turn. Failure is in the message's status, never an exception.

        question: a question in place of the discussion's own; evidence: its sources, in place of those it has.
        task: a task to do instead of answering.
        heard: messages to read; failed ones are left out.
        inputs: lines for an answer; a task has its own.
        remembers: the agent reads all its earlier messages of this discussion (none of its turns may be under way).
        scene: the subject of a turn that, with its seed, does not depend on the question: it is computed once.
        """
        # Turns are numbered here and not in `answered`: a coroutine starts only when it is awaited.
        self._turns.append(None)
        number = len(self._turns)
        # Before this turn is counted: an agent remembers only the earlier ones.
        recall = self._spoken.get(agent, 0) if remembers else 0
        self._spoken[agent] = self._spoken.get(agent, 0) + 1
        shown = question or self.question
        shown = shown if evidence is None else about(shown, evidence)
        self._read |= dict.fromkeys(source.id for source in shown.evidence)
        turn = self._discussion.turn(
            agent,
            number,
            heard_equally(heard),
            question=shown,
            recall=recall,
            instruction=instruction,
            task=task,
            inputs=tuple(inputs),
            searched=bool(self._lookups),
        )
        if scene:
            turn = replace(turn, seed=derive_seed(self._discussion.seed, "scene", scene, agent))

        async def answered() -> Message:
            self._turns[number - 1] = message = await self._ask(turn)
            return message

        return answered()

    async def own(self) -> tuple[Source, ...]:
        """Returns the sources that are part of the question itself."""
        return await self._library.own(self.question)

    def search(
        self,
        query: str | Source,
        k: int,
        *,
        kinds: Collection[Kind] = TEXTS,
        mode: SearchMode = "hybrid",
        radius: float | None = None,
        docs: Collection[str] | None = None,
        pages: Collection[str] | None = None,
        of: Message | None = None,
    ) -> Awaitable[tuple[Hit, ...]]:
        """Searches passages and rows, or pictures, by `Library.search`; `of` is the turn that asked for it."""
        base = "pictures" if set(kinds) == PICTURES else "texts"
        # A picture as query has no words for the record.
        words = query if isinstance(query, str) else f"source {query.id}"
        among = (None if docs is None else frozenset(docs), None if pages is None else frozenset(pages))
        search = self._library.search(self.question, Search(query, k, frozenset(kinds), mode, radius, *among))
        return self._noted(search, base, words, of)

    async def pictures(self, own: Sequence[Source], k: int, radius: float | None) -> tuple[Source, ...]:
        """Returns the question's own pictures, or else (MultimodalQA) the k best for its words."""
        shown = tuple(source for source in own if source.kind is Kind.IMAGE)
        return shown or sources(await self.search(query_of(self.question), k, kinds=PICTURES, radius=radius))

    def alike(self, pictures: Sequence[Source], k: int, *, of: Message | None = None) -> Awaitable[tuple[Hit, ...]]:
        """Finds the k pictures most like each of some pictures: each once, with its best score, best first."""
        # More by their number: they may be indexed too, and are dropped below.
        searches = [
            self.search(picture, k + len(pictures) if k else 0, kinds=PICTURES, mode="vector", of=of)
            for picture in pictures
        ]

        async def merged() -> tuple[Hit, ...]:
            best: dict[str, Hit] = {}
            given = {picture.id for picture in pictures}
            for hits in await asyncio.gather(*searches):
                for hit in [hit for hit in hits if hit.source.id not in given][:k]:
                    known = best.setdefault(hit.source.id, hit)
                    best[hit.source.id] = max(known, hit, key=attrgetter("score"))
            return tuple(sorted(best.values(), key=attrgetter("score"), reverse=True))

        return merged()

    def web(self, query: str, k: int, *, of: Message | None = None) -> Awaitable[tuple[Hit, ...]]:
        """Searches the web (`Library.web`)."""
        return self._noted(self._library.web(self.question, query, k), "web", query, of)

    def graph(
        self, words: Sequence[str], k: int, *, themes: bool = False, of: Message | None = None
    ) -> Awaitable[tuple[Triple, ...]]:
        """Searches edges of the knowledge graph near entities, or with `themes` near relations (`Library.graph`)."""
        search = self._library.graph(self.question, words, k, level="theme" if themes else "entity")
        return self._noted(search, "themes" if themes else "graph", "; ".join(words), of)

    def neighbours(self, entity: str) -> Awaitable[tuple[Triple, ...]]:
        """Returns all edges of an entity."""
        return self._noted(self._library.neighbours(self.question, entity), "neighbours", entity, None)

    def entity(
        self, name: str, k: int | None = None, *, near: str = "", of: Message | None = None
    ) -> Awaitable[tuple[Source, ...]]:
        """Returns an entity's description and pictures (`Library.entity`)."""
        return self._noted(self._library.entity(self.question, name, k, near=near), "entity", name, of)

    def trace(self, answer: Message | str | None) -> Trace:
        """Writes the trace.

        answer: the turn that closed the discussion, an answer of no turn (a vote), or None.
        """
        closed = answer if isinstance(answer, Message) else None
        # A vote without a winner counts as an answer that could not be read.
        status = Status.UNPARSED if answer is None else Status.OK
        return self._discussion.trace(
            self._spoken,
            # A turn that was called and cancelled has no message.
            [turn for turn in self._turns if turn is not None],
            answer=answer_of(closed) if closed else answer,
            status=closed.status if closed else status,
            evidence=tuple(self._read),
            decision=(closed.agent,) if closed else (),
            lookups=tuple(lookup for lookup in self._lookups if lookup is not None),
            paths=self.paths,
            descriptions=self.descriptions,
        )

    def _noted(
        self, search: Awaitable[tuple[F, ...]], base: str, query: str, of: Message | None
    ) -> Awaitable[tuple[F, ...]]:
        """Runs a search and records its results at its place among the lookups."""
        # The place is taken now, as searches under way at once may end in any order.
        self._lookups.append(None)
        place = len(self._lookups) - 1

        async def recorded_search() -> tuple[F, ...]:
            found = await search
            ids = tuple(each.source.id if isinstance(each, Hit) else each.id for each in found)
            self._lookups[place] = Lookup(base, query, ids, of.id if of else "")
            return found

        return recorded_search()


class System:
    """Topology that goes step by step. A system derives from it and writes `discuss`."""

    def __init__(self, context: MethodContext) -> None:
        self.method = context.method
        self.context = context
        self.top_k = context.top_k

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = Session(self.method, question, ask, self.context.library, seed, sample)
        return session.trace(await self.discuss(session))

    async def discuss(self, session: Session) -> Message | str | None:
        """Takes the steps of one discussion and returns its answer, as `Session.trace` expects it."""
        raise NotImplementedError


def answer_of(message: Message) -> str | None:
    """Returns the answer of a message or of a field in a task's reply, or None."""
    stated = message.values(FieldKind.ANSWER)
    return stated[-1] if stated else message.answer


def about(question: Question, evidence: Sequence[Source], text: str | None = None) -> Question:
    """Returns the question with other evidence; with `text`, another question, which has no choices."""
    if text is None:
        return replace(question, evidence=tuple(evidence))
    return replace(question, text=text, choices=(), evidence=tuple(evidence))


def in_order(question: Question, order: Sequence[Source]) -> Question:
    """Numbers a question's evidence by the order of these sources, in every turn."""
    return replace(question, order=tuple(source.id for source in order))


def input_lines(kind: FieldKind, texts: Iterable[str], numbered: bool = False) -> tuple[InputLine, ...]:
    """Writes texts as input lines of one kind, numbered from 1 or without numbers."""
    return tuple(InputLine(kind, text, number if numbered else None) for number, text in enumerate(texts, 1))


def sources(hits: Sequence[Hit]) -> tuple[Source, ...]:
    """Returns the sources of hits, in their order."""
    return tuple(hit.source for hit in hits)
