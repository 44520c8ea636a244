"""MMAPG: multi-modal multi-hop questions by an Adaptive Planning Graph (sections 3.2-3.4, Algorithm 1), and its two
ablations (section 4.3, Appendix A.5).

A planner makes an overall plan and then adds one node after another to a graph that starts as the question (Eq. 4): a
Question, a Retrieval, an Answer or Stop, built on any nodes that are there. A retrieval takes its instruction apart
(Eqs. 5-9), searches texts and pictures separately within a radius, at most so many of each (Eqs. 10-11), has every
candidate examined (Eqs. 12-13) and condenses what bears on the instruction (Eq. 14). An answer is reasoned from its
node's parents alone. After Stop, or the last step, the last Answer node that answered gives the answer, wherever it
stands; where there is none, one is reasoned from the whole graph.

Left open and decided: the most steps (10), the radius and how many candidates (those of the configured retrieval). The
text-related part, the pictures named (targeted retrieval, in the texts of pictures: titles and captions) and what they
show (descriptive retrieval, by vectors) are asked for in one turn; where both ways fit, both are gone. Sources found by
several key phrases come first (reciprocal ranks). Triples come from the knowledge graph, where there is one, and are
examined together. A question with choices is answered by an Answer node only if its instruction repeats the question:
the answer to anything else is none of the choices.

Failures: `planning.Fault` says what is wrong with a node; the planner reads it, and the graph goes on. A
planning step that cannot be read ends the planning, and if nothing was retrieved by then, it is for the question
itself. An instruction that could not be taken apart is searched for as it is, in texts and pictures. A candidate
without a readable examination is left out. What cannot be condensed is passed on uncondensed.

Without planning (`planning=False`), retrieval and reasoning alternate, each step built on the one before, until what
was found is enough. Without retrieval (`retrieval=False`) the instruction itself is searched for by vectors, and what
is nearest is condensed unexamined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial

from actors.messages import (
    Field,
    FieldKind,
    Given,
    Hit,
    Kind,
    Message,
    Modality,
    Question,
    Role,
    Source,
    Status,
    Task,
    Trace,
    Value,
)
from topologies.answers import wording
from topologies.library import PICTURES
from topologies.method import MethodContext, system
from topologies.systems.mmapg.planning import TYPES, Node, content_of, placed, root
from topologies.systems.session import Session, System, about, sources
from topologies.topology import Ask

PLANNER = Role(
    "graph_planner",
    Modality.TEXT,
    "You plan how a question is answered: what has to be known, what to look up next and when to answer. Others carry "
    "it out.",
)
TEXT_EXAMINER = Role(
    "text_examiner",
    Modality.TEXT,
    "You look things up in texts: you say what to search for, examine what was found, and report what bears on the "
    "instruction you were given, nothing else.",
)
PICTURE_EXAMINER = Role(
    "picture_examiner",
    Modality.VISUAL,
    "You examine pictures one at a time: you describe what a picture shows, as far as it bears on the instruction you "
    "were given, and nothing else.",
)
REASONER = Role(
    "reasoner",
    Modality.BOTH,
    "You answer from what your colleagues found and concluded before: nothing else is known to you.",
)
ROLES = (PLANNER, TEXT_EXAMINER, PICTURE_EXAMINER, REASONER)

OVERALL = "Break the question into what has to be found out to answer it, in the order in which it can be found out."
NEXT = (
    "The sub-questions below are the overall plan, the nodes below the graph of what has been done. Decide on the next "
    "node. Stop: the question is answered by a node. Retrieval: look something up. Answer: answer a question from "
    "other nodes. Question: state a question to be answered later. Build it on any nodes, and try another way where "
    "one led to nothing."
)
DECOMPOSE = (
    "This is an instruction to look something up. Split it into what is to be searched for in texts and what in "
    "pictures: key phrases for texts; the titles of pictures where it names some; a description of what the picture "
    "shows where it describes one."
)
EXAMINE = "Check whether the evidence bears on this instruction to look something up, and extract what does."
EXAMINE_PICTURE = "Check whether the picture bears on this instruction to look something up, and say what it shows."
EXAMINE_TRIPLES = "Keep those of the triples that bear on this instruction to look something up."
CONDENSE = "State in a few sentences what was found that answers this instruction to look something up."
REASON = (
    "Say what follows from what was found, whether that is enough to answer the question, and if not, what to look for "
    "next."
)

SUB_QUESTION = Field(FieldKind.SUB_QUESTION, "one thing to find out, as a question that stands alone", many=True)
TYPE = Field(FieldKind.TYPE, "the type of the next node", TYPES)
PARENTS = Field(FieldKind.PARENTS, "numbers of the nodes that it builds on", optional=True, value=Value.NUMBERS)
INSTRUCTION = Field(FieldKind.INSTRUCTION, "what to ask, what to look up, or which question to answer", optional=True)
KEYWORD = Field(FieldKind.KEYWORD, "a key phrase to search texts for", many=True)
VISUAL = Field(FieldKind.VISUAL, "whether a picture must be looked at", ("yes", "no"))
ENTITY = Field(FieldKind.ENTITY, "the title of a picture that is named", many=True, optional=True)
QUERY = Field(FieldKind.QUERY, "what the picture shows", optional=True)
RELEVANT = Field(FieldKind.RELEVANT, "whether it bears on the instruction", ("yes", "no"))
EXTRACT = Field(FieldKind.SUMMARY, "what it says to the instruction", optional=True)
DESCRIPTION = Field(FieldKind.DESCRIPTION, "what the picture shows that bears on the instruction", optional=True)
SUMMARY = Field(FieldKind.SUMMARY, "what was found")
TRIPLE = Field(
    FieldKind.TRIPLE, "a triple that bears on it, as given", many=True, optional=True, most=8, value=Value.TRIPLE
)
THOUGHT = Field(FieldKind.THOUGHT, "what follows")
ENOUGH = Field(FieldKind.ENOUGH, "whether the question can be answered", ("yes", "no"))
SEEK = Field(FieldKind.QUERY, "what to look for next", optional=True)

FUSION_RANKS = 60.0  # the usual constant of reciprocal rank fusion (Cormack et al. 2009)


class Mmapg(System):
    """The planner's graph, `steps` nodes at most, or what is left of it without planning or without retrieval.

    The reach is that of each search; without a radius only the number of candidates counts.
    """

    def __init__(self, context: MethodContext, planning: bool = True, retrieval: bool = True) -> None:
        super().__init__(context)
        self._planning = planning
        self._retrieval = retrieval

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        bare = about(question, await session.own())
        strategy = self._by_plan if self._planning else self._in_sequence
        return session.trace(await strategy(session, bare))

    async def _by_plan(self, session: Session, bare: Question) -> Message:
        overall = await session.ask(PLANNER.name, question=bare, task=Task(OVERALL, (SUB_QUESTION,)))
        guide = tuple(Given(FieldKind.SUB_QUESTION, text) for text in overall.said(SUB_QUESTION.name))
        graph = [root(bare.text)]
        outcomes: dict[int, list[Message]] = {}
        for _ in range(self.context.systems.steps):
            task = Task(NEXT, (TYPE, PARENTS, INSTRUCTION), (*guide, *(node.given() for node in graph)))
            # The planner reads everything that was done so far, not only the nodes' contents.
            findings = [message for messages in outcomes.values() for message in messages]
            planned = await session.ask(PLANNER.name, question=bare, task=task, heard=findings)
            if planned.status is not Status.OK:
                break
            node = placed(graph, planned)
            if node.runs and node.type != "Stop":
                # The planner's message comes first: by it `read_plan` finds a node's outcome in the trace.
                basis = [planned, *(message for parent in node.parents for message in outcomes.get(parent, ()))]
                outcomes[node.number] = await self._carried_out(session, bare, node, basis)
            outcome = outcomes.get(node.number, [])
            # The last message of an outcome is its result; the others led to it.
            graph.append(replace(node, content=content_of(node, outcome[-1] if outcome else None)))
            if node.type == "Stop":
                break
        answered = [
            outcomes[node.number][-1] for node in graph if node.type == "Answer" and self._answers(bare, node, outcomes)
        ]
        if answered:
            return answered[-1]
        if not any(node.type == "Retrieval" for node in graph):
            # 0 is no node's number; the root has 1.
            outcomes[0] = await self._retrieve(session, bare, bare.text, [])
        everything = [message for messages in outcomes.values() for message in messages]
        return await session.ask(REASONER.name, question=bare, heard=everything)

    async def _carried_out(self, session: Session, bare: Question, node: Node, basis: list[Message]) -> list[Message]:
        """The messages that hold a node's content. `basis` is the planner's, then its parents'."""
        if node.type == "Question":
            return basis[:1]
        if node.type == "Retrieval":
            return await self._retrieve(session, bare, node.instruction, basis)
        shown = bare if _repeats(bare, node.instruction) else about(bare, bare.evidence, node.instruction)
        return [await session.ask(REASONER.name, question=shown, heard=basis)]

    @staticmethod
    def _answers(bare: Question, node: Node, outcomes: dict[int, list[Message]]) -> bool:
        outcome = outcomes.get(node.number, [])
        given = bool(outcome) and outcome[-1].answer is not None
        return given and (not bare.choices or _repeats(bare, node.instruction))

    async def _in_sequence(self, session: Session, bare: Question) -> Message:
        """One path: each retrieval is for what the last reasoning still misses."""
        path: list[Message] = []
        instruction = bare.text
        # A retrieval and a reasoning are two nodes, so half as many rounds keep within `steps`.
        for _ in range(self.context.systems.steps // 2):
            retrieved = await self._retrieve(session, bare, instruction, path[-1:])
            task = Task(REASON, (THOUGHT, ENOUGH, SEEK))
            thought = await session.ask(REASONER.name, question=bare, task=task, heard=[*path[-1:], *retrieved])
            path += [*retrieved, thought]
            queries = thought.said(SEEK.name)
            if thought.said(ENOUGH.name) == ("yes",) or not queries:
                break
            instruction = queries[0]
        return await session.ask(REASONER.name, question=bare, heard=path)

    async def _retrieve(
        self, session: Session, bare: Question, instruction: str, basis: Sequence[Message]
    ) -> list[Message]:
        """The results for an instruction, condensed; none where nothing bears on it."""
        request = about(bare, (), instruction)
        if not self._retrieval:
            planned = basis[0] if basis else None
            texts, pictures = await asyncio.gather(
                # No radius: in this ablation the nearest are taken, however far they are.
                session.search(instruction, self.reach.texts, mode="vector", of=planned),
                session.search(instruction, self.reach.pictures, kinds=PICTURES, mode="vector", of=planned),
            )
            if not texts and not pictures:
                return []
            evidence = sources((*texts, *pictures))
            nearest = about(bare, evidence, instruction)
            task = Task(CONDENSE, (SUMMARY,))
            return [await session.ask(REASONER.name, question=nearest, task=task, heard=basis)]
        task = Task(DECOMPOSE, (KEYWORD, VISUAL, ENTITY, QUERY))
        decomposed = await session.ask(TEXT_EXAMINER.name, question=request, task=task, heard=basis)
        candidates, triples = await self._candidates(session, instruction, decomposed)
        examined = await self._examined(session, request, candidates, triples, decomposed)
        bearing = [message for message, _ in examined]
        if not bearing:
            return []
        task = Task(CONDENSE, (SUMMARY,), tuple(line for _, lines in examined for line in lines))
        condensed = await session.ask(TEXT_EXAMINER.name, question=request, task=task, heard=[*basis[:1], *bearing])
        # Findings go on uncondensed; the failed turn stays last, and is heard by nobody.
        return [condensed] if condensed.status is Status.OK else [*bearing, condensed]

    async def _candidates(
        self, session: Session, instruction: str, decomposed: Message
    ) -> tuple[list[Source], tuple[str, ...]]:
        """Sources, texts before pictures, and triples, from the searches that an instruction amounts to."""
        phrases = decomposed.said(KEYWORD.name) or (instruction,)
        # All searches are called for in a fixed order here, and awaited together below.
        in_texts = [
            session.search(phrase, self.reach.texts, radius=self.reach.radius, of=decomposed) for phrase in phrases
        ]
        in_pictures: list[Awaitable[tuple[Hit, ...]]] = []
        if decomposed.said(VISUAL.name) != ("no",):
            titles, descriptions = decomposed.said(ENTITY.name), decomposed.said(QUERY.name)
            in_pictures = [
                session.search(
                    title,
                    self.reach.pictures,
                    kinds=PICTURES,
                    mode="text",
                    radius=self.reach.radius,
                    of=decomposed,
                )
                for title in titles
            ]
            in_pictures += [
                session.search(
                    text,
                    self.reach.pictures,
                    kinds=PICTURES,
                    mode="vector",
                    radius=self.reach.radius,
                    of=decomposed,
                )
                for text in (descriptions if titles or descriptions else (instruction,))
            ]
        edges = session.graph(phrases, self.reach.texts, of=decomposed)
        texts, pictures, triples = await asyncio.gather(asyncio.gather(*in_texts), asyncio.gather(*in_pictures), edges)
        candidates = [*_fused(texts, self.reach.texts), *_fused(pictures, self.reach.pictures)]
        return candidates, tuple(f"{edge.head} | {edge.relation} | {edge.tail}" for edge in triples)

    async def _examined(
        self,
        session: Session,
        request: Question,
        candidates: Sequence[Source],
        triples: Sequence[str],
        decomposed: Message,
    ) -> list[tuple[Message, tuple[Given, ...]]]:
        """The examinations of candidates that bear on the instruction, each with its report."""

        def examination(source: Source) -> Awaitable[Message]:
            picture = source.kind is Kind.IMAGE
            agent = PICTURE_EXAMINER if picture else TEXT_EXAMINER
            task = Task(EXAMINE_PICTURE, (RELEVANT, DESCRIPTION)) if picture else Task(EXAMINE, (RELEVANT, EXTRACT))
            return session.ask(agent.name, question=about(request, (source,)), task=task, heard=[decomposed])

        under_way = [examination(source) for source in candidates]
        if triples:
            task = Task(
                EXAMINE_TRIPLES, (RELEVANT, TRIPLE), tuple(Given(FieldKind.TRIPLE, triple) for triple in triples)
            )
            under_way.append(session.ask(TEXT_EXAMINER.name, question=request, task=task, heard=[decomposed]))
        examined = await asyncio.gather(*under_way)
        relevant: list[tuple[Message, tuple[Given, ...]]] = []
        for place, message in enumerate(examined):
            if message.said(RELEVANT.name) == ("yes",):
                # Beyond the candidates comes the one examination of all triples.
                if place < len(candidates):
                    lines: tuple[Given, ...] = (Given(FieldKind.FOUND, _reported(candidates[place], message)),)
                else:
                    # A "yes" that lists no triples keeps them all.
                    lines = tuple(Given(FieldKind.TRIPLE, triple) for triple in message.said(TRIPLE.name) or triples)
                relevant.append((message, lines))
        return relevant


def _reported(source: Source, message: Message) -> str:
    """An examination's report on a candidate, with its title; the candidate's own text where the report is empty."""
    words = " ".join((*message.said(EXTRACT.name), *message.said(DESCRIPTION.name))) or source.text
    return words if source.title in words else f"{source.title}: {words}"


def _repeats(question: Question, instruction: str) -> bool:
    return wording(question.text) in wording(instruction)


def _fused(rankings: Sequence[Sequence[Hit]], k: int) -> tuple[Source, ...]:
    """The k best of several searches, by the sum of their reciprocal ranks."""
    scores: dict[str, float] = {}
    source_by_id: dict[str, Source] = {}
    for hits in rankings:
        for rank, hit in enumerate(hits):
            scores[hit.source.id] = scores.get(hit.source.id, 0.0) + 1 / (FUSION_RANKS + rank)
            source_by_id.setdefault(hit.source.id, hit.source)
    # `sorted` is stable: equal sums stay in the order in which they were found.
    return tuple(source_by_id[id] for id in sorted(scores, key=lambda id: -scores[id])[:k])


METHODS = (
    system("mmapg_no_planning", "retrieval and reasoning alternate, examined", partial(Mmapg, planning=False), ROLES),
    system(
        "mmapg_no_retrieval", "adaptive planning, nearest sources unexamined", partial(Mmapg, retrieval=False), ROLES
    ),
    system("mmapg", "adaptive planning graph over texts and pictures, examined", Mmapg, ROLES),
)
