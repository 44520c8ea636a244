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
    Turn,
    derive_seed,
)
from topologies.method import PICTURES, TEXTS, Library, MethodContext, query_of
from topologies.topology import Ask, Discussion, heard_equally

Result = TypeVar("Result", Hit, Triple, Source)  # of a search


class Session:
    """One discussion. A turn's `round` is its number in it, so that its id, `<number>/<agent>`, gives its place.

    Turns and searches are numbered when they are called. Several may be under way at once, if they are called at one
    place in the code (`asyncio.gather`): calls must never depend on which of them ends first.

    question: as turns show it; a system may set other evidence.
    paths, descriptions: of the trace, for systems that search a graph for paths.
    """

    def __init__(self, method: str, question: Question, ask: Ask, library: Library, seed: int, sample: int = 0) -> None:
        self.question = question
        self.paths: tuple[tuple[str, ...], ...] | None = None
        self.descriptions: tuple[tuple[str, str], ...] = ()
        self._discussion = Discussion(method, question, seed, sample)
        self._ask = ask
        self._library = library
        # By place; None until the turn is answered, or the search is over.
        self._messages: list[Message | None] = []
        self._lookups: list[Lookup | None] = []
        self._turns_of: dict[str, int] = {}  # number of turns by agent, in the order of first turns
        self._evidence: dict[str, None] = {}  # ids of all sources that any turn was shown, in order

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
        # Numbered here, as a coroutine starts only when it is awaited.
        self._messages.append(None)
        earlier_turns = self._turns_of.get(agent, 0)
        self._turns_of[agent] = earlier_turns + 1
        recall = earlier_turns if remembers else 0

        question = question or self.question
        if evidence is not None:
            question = about(question, evidence)
        self._evidence |= dict.fromkeys(source.id for source in question.evidence)
        turn = self._discussion.turn(
            agent,
            len(self._messages),
            heard_equally(heard),
            question=question,
            recall=recall,
            instruction=instruction,
            task=task,
            inputs=tuple(inputs),
            searched=bool(self._lookups),
        )
        if scene:
            turn = replace(turn, seed=derive_seed(self._discussion.seed, "scene", scene, agent))
        return self._take(turn)

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
        search = Search(query, k, frozenset(kinds), mode=mode, radius=radius)
        if docs is not None:
            search = replace(search, docs=frozenset(docs))
        if pages is not None:
            search = replace(search, pages=frozenset(pages))
        base = "pictures" if search.kinds == PICTURES else "texts"
        # A picture as query has no words for the record.
        words = query if isinstance(query, str) else f"source {query.id}"
        return self._note(self._library.search(self.question, search), base, words, of)

    async def pictures(self, own_sources: Sequence[Source], k: int, radius: float | None) -> tuple[Source, ...]:
        """Returns the question's own pictures, or else (MultimodalQA) the k best for its words."""
        pictures = tuple(source for source in own_sources if source.kind is Kind.IMAGE)
        return pictures or sources(await self.search(query_of(self.question), k, kinds=PICTURES, radius=radius))

    def alike(self, pictures: Sequence[Source], k: int, *, of: Message | None = None) -> Awaitable[tuple[Hit, ...]]:
        """Finds the k pictures most like each of some pictures: each once, with its best score, best first."""
        # More by their number: they may be indexed too, and are left out of the results.
        most = k + len(pictures) if k else 0
        searches = [self.search(picture, most, kinds=PICTURES, mode="vector", of=of) for picture in pictures]
        return _merged(searches, {picture.id for picture in pictures}, k)

    def web(self, query: str, k: int, *, of: Message | None = None) -> Awaitable[tuple[Hit, ...]]:
        """Searches the web (`Library.web`)."""
        return self._note(self._library.web(self.question, query, k), "web", query, of)

    def graph(
        self, words: Sequence[str], k: int, *, themes: bool = False, of: Message | None = None
    ) -> Awaitable[tuple[Triple, ...]]:
        """Searches edges of the knowledge graph near entities, or with `themes` near relations (`Library.graph`)."""
        query = "; ".join(words)
        if themes:
            return self._note(self._library.graph(self.question, words, k, level="theme"), "themes", query, of)
        return self._note(self._library.graph(self.question, words, k, level="entity"), "graph", query, of)

    def neighbours(self, entity: str) -> Awaitable[tuple[Triple, ...]]:
        """Returns all edges of an entity."""
        return self._note(self._library.neighbours(self.question, entity), "neighbours", entity)

    def entity(
        self, name: str, k: int | None = None, *, near: str = "", of: Message | None = None
    ) -> Awaitable[tuple[Source, ...]]:
        """Returns an entity's description and pictures (`Library.entity`)."""
        return self._note(self._library.entity(self.question, name, k, near=near), "entity", name, of)

    def trace(self, answer: Message | str | None) -> Trace:
        """Writes the trace.

        answer: the turn that closed the discussion, an answer of no turn (a vote), or None.
        """
        status = Status.OK
        decision: tuple[str, ...] = ()
        if isinstance(answer, Message):
            status = answer.status
            decision = (answer.agent,)
            answer = answer_of(answer)
        elif answer is None:
            # A vote without a winner counts as an answer that could not be read.
            status = Status.UNPARSED
        return self._discussion.trace(
            self._turns_of,
            # A turn that was called and cancelled has no message.
            [message for message in self._messages if message],
            answer=answer,
            status=status,
            evidence=tuple(self._evidence),
            decision=decision,
            lookups=tuple(lookup for lookup in self._lookups if lookup),
            paths=self.paths,
            descriptions=self.descriptions,
        )

    async def _take(self, turn: Turn) -> Message:
        message = await self._ask(turn)
        self._messages[turn.round - 1] = message
        return message

    def _note(
        self, search: Awaitable[tuple[Result, ...]], base: str, query: str, of: Message | None = None
    ) -> Awaitable[tuple[Result, ...]]:
        """Runs a search and records its results at its place among the lookups."""
        # The place is taken now, as searches under way at once may end in any order.
        place = len(self._lookups)
        self._lookups.append(None)

        async def noted() -> tuple[Result, ...]:
            results = await search
            ids = [result.source.id if isinstance(result, Hit) else result.id for result in results]
            turn = of.id if of else ""
            self._lookups[place] = Lookup(base, query, tuple(ids), turn)
            return results

        return noted()


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
    answers = message.values(FieldKind.ANSWER)
    if answers:
        return answers[-1]
    return message.answer


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
    if numbered:
        return tuple(InputLine(kind, text, number) for number, text in enumerate(texts, 1))
    return tuple(InputLine(kind, text) for text in texts)


def sources(hits: Sequence[Hit]) -> tuple[Source, ...]:
    """Returns the sources of hits, in their order."""
    return tuple(hit.source for hit in hits)


async def _merged(searches: Sequence[Awaitable[tuple[Hit, ...]]], queries: Collection[str], k: int) -> tuple[Hit, ...]:
    """Returns the k best pictures of each search, without the queries: each once, with its best score, best first."""
    best: dict[str, Hit] = {}
    for hits in await asyncio.gather(*searches):
        for hit in [hit for hit in hits if hit.source.id not in queries][:k]:
            earlier = best.setdefault(hit.source.id, hit)
            best[hit.source.id] = max(earlier, hit, key=attrgetter("score"))
    return tuple(sorted(best.values(), key=attrgetter("score"), reverse=True))
