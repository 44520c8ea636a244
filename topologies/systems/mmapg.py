"""MMAPG: multi-modal multi-hop questions by an Adaptive Planning Graph (sections 3.2-3.4, Algorithm 1), and its two
ablations (section 4.3, Appendix A.5).

A planner makes an overall plan and then adds nodes to a graph that starts as the question (Eq. 4):
- Question states a question to be answered later.
- Retrieval takes its instruction apart (Eqs. 5-9), searches texts and pictures within a radius, at most so many of each
  (Eqs. 10-11), has every candidate examined (Eqs. 12-13) and condenses the relevant findings (Eq. 14).
- Answer is reasoned from its node's parents, with the question of the plan (node 1).
- Stop ends the plan. After it, or the last step, the last node that was carried out gives the answer if it is an Answer
  that has one; otherwise the answer is reasoned from the whole graph (Algorithm 1, lines 23-26; section 3.3 takes the
  last Answer node at any place, which may be the answer to a sub-question).

Nodes pass on their contents, and of the messages that led to them only findings that no content holds.

Decided here:
- At most ten nodes; radii are cosine distances d (for unit vectors d = r^2 / 2 of the paper's Euclidean r) and, like
  the numbers of candidates, those of the configured retrieval.
- Eqs. 5-9 are one turn, with examples of our own, and the question to a picture (I_tgt, I_descr) is one line.
- Named titles are searched for like key phrases, in texts and by words in titles and captions of pictures (Eq. 8:
  captions have no vectors); descriptions of a picture are searched for by vectors.
- Sources found by several searches come first (reciprocal ranks). Triples of the knowledge graph are examined together.
- A question with choices is answered by an Answer node only if its instruction repeats the question.
- All roles share one model; the paper has two.

Failures: the planner reads the faults of a node (`NodeFault`), and the graph goes on. Two planning steps in a row that
cannot be read end the planning; if nothing was retrieved by then, it is for the question itself. An instruction that
could not be taken apart is searched for as it is. Candidates without a readable examination are left out, and findings
that cannot be condensed go on as they are.

Without planning, retrieval and reasoning alternate until the findings are enough. Without retrieval, the instruction
itself is searched for by vectors, and the nearest sources are condensed unexamined.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from actors.messages import (
    Field,
    FieldKind,
    InputLine,
    Message,
    Modality,
    NodeType,
    Question,
    Role,
    Source,
    Status,
    Task,
    Value,
)
from topologies.answers import wording
from topologies.method import PICTURES, system
from topologies.systems.helpers import fused, pictures_among
from topologies.systems.mmapg_plan import TYPES, PlanNode, content_of, placed
from topologies.systems.session import Session, System, about, input_lines, sources

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
    "You answer from what your colleagues found and concluded before: nothing else is known to you. Where nodes of "
    "their plan are given, node 1 is the question that the whole plan is for.",
)
ROLES = (PLANNER, TEXT_EXAMINER, PICTURE_EXAMINER, REASONER)

OVERALL = "Break the question into what has to be found out to answer it, in the order in which it can be found out."
NEXT = (
    "The sub-questions below are the overall plan, the nodes below the graph of what has been done. Go through what "
    "the nodes say, work out what is still missing, and only then decide on the next node. Retrieval: look something "
    "up. Answer: answer a question from other nodes. Question: state a question to be answered later. Stop: the last "
    "node answers the question itself. Build it on any nodes, and try another way where one led to nothing."
)
DECOMPOSE = (
    "This is an instruction to look something up. Split it into what is to be searched for in texts and what in "
    "pictures: key phrases for texts; the titles of pictures where it names some; a description of what the picture "
    "shows where it describes one; and the question that has to be put to the picture then. Nodes that are given say "
    "what is known already: put names for what the instruction only refers to. "
    # Of things that no benchmark has, so that no example answers a question.
    "Three examples. "
    "'Find out who founded the mill of Tarnby.' has the keywords 'Tarnby mill' and 'founder', visual no, and no more. "
    "'Find out what the man on the cover of Winter Post holds.' has the keyword 'Winter Post', visual yes, the entity "
    "'Winter Post' and the sub-question 'What does the man hold?'. "
    "'Find the lighthouse with green stripes and count the boats before it.' has the keyword 'lighthouse with green "
    "stripes', visual yes, the query 'a lighthouse with green stripes and boats before it' and the sub-question 'How "
    "many boats are before the lighthouse?'."
)
EXAMINE = "Check whether the evidence bears on this instruction to look something up, and extract what does."
EXAMINE_PICTURE = "Check whether the picture bears on this instruction to look something up, and say what it shows."
ASK_PICTURE = (
    "Check whether the picture bears on this instruction to look something up. If so, describe it briefly, and answer "
    "the sub-question below from what it shows."
)
EXAMINE_TRIPLES = "Keep those of the triples that bear on this instruction to look something up."
CONDENSE = "State in a few sentences what was found that answers this instruction to look something up."
REASON = (
    "Say what follows from what was found, whether that is enough to answer the question, and if not, what to look for "
    "next."
)

SUB_QUESTION = Field(FieldKind.SUB_QUESTION, "one thing to find out, as a question that stands alone", many=True)
ANALYSIS = Field(FieldKind.THOUGHT, "step by step, what the nodes say and what is still missing")
TYPE = Field(FieldKind.TYPE, "the type of the next node", TYPES)
PARENTS = Field(FieldKind.PARENTS, "numbers of the nodes that it builds on", optional=True, value=Value.NUMBERS)
INSTRUCTION = Field(FieldKind.INSTRUCTION, "what to ask, what to look up, or which question to answer", optional=True)
KEYWORD = Field(FieldKind.KEYWORD, "a key phrase to search texts for", many=True)
VISUAL = Field(FieldKind.VISUAL, "whether a picture must be looked at", ("yes", "no"))
ENTITY = Field(FieldKind.ENTITY, "the title of a picture that is named", many=True, optional=True)
QUERY = Field(FieldKind.QUERY, "what the picture shows", optional=True)
ASK = Field(FieldKind.SUB_QUESTION, "the question to put to the picture", optional=True)
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

MOST_NODES = 10  # of a plan
UNREAD = 2  # planning steps in a row that cannot be read, each asked for twice, end the planning


class Mmapg(System):
    """Planner's graph, on sources that were examined.

    Every search returns at most `top_k.texts` or `top_k.pictures` candidates within the radius, if there is one.
    """

    async def discuss(self, session: Session) -> Message:
        session.question = question = about(session.question, await session.own())
        overall = await session.ask(PLANNER.name, task=Task(OVERALL, (SUB_QUESTION,)))
        guide = input_lines(FieldKind.SUB_QUESTION, overall.values(SUB_QUESTION.name))
        # Line 2 of Algorithm 1: the graph starts as the question.
        graph = [PlanNode(1, NodeType.QUESTION, (), question.text, question.text)]
        # The messages of each node that was carried out; the last one has its content, the others led to it.
        outcomes: dict[int, list[Message]] = {}
        unread = 0
        for _ in range(MOST_NODES):
            lines = (*guide, *(node.input_line() for node in graph))
            task = Task(NEXT, (ANALYSIS, TYPE, PARENTS, INSTRUCTION), lines)
            plan_turn = await session.ask(PLANNER.name, task=task, heard=findings_of(outcomes.values()))
            unread = 0 if plan_turn.status is Status.OK else unread + 1
            if unread == UNREAD:
                break
            if unread:
                continue

            node = placed(graph, plan_turn)
            outcome: list[Message] = []
            if node.runs and node.type != NodeType.STOP:
                outcome = outcomes[node.number] = await self._carry_out(session, node, graph, outcomes, plan_turn)
            result = outcome[-1] if outcome else None
            graph.append(replace(node, content=content_of(node, result)))
            if node.type == NodeType.STOP:
                break

        # Node 1, the question, is not carried out.
        last_node = graph[max(outcomes, default=1) - 1]
        # Of choices, an answer to anything but the question is none.
        to_the_question = not question.choices or repeats(last_node.instruction, question)
        if last_node.type == NodeType.ANSWER and to_the_question and outcomes[last_node.number][-1].answer is not None:
            return outcomes[last_node.number][-1]
        findings = findings_of(outcomes.values())
        if not any(node.type == NodeType.RETRIEVAL and node.runs for node in graph):
            findings += await self.retrieve(session, question.text)
        lines = (*guide, *(node.input_line() for node in graph))
        return await session.ask(REASONER.name, inputs=lines, heard=findings)

    async def _carry_out(
        self,
        session: Session,
        node: PlanNode,
        graph: Sequence[PlanNode],
        outcomes: Mapping[int, Sequence[Message]],
        plan_turn: Message,
    ) -> list[Message]:
        """Carries a planned node out. The last message has its content, the others led to it."""
        if node.type == NodeType.QUESTION:
            return [plan_turn]
        findings = findings_of(outcomes.get(parent, ()) for parent in node.parents)
        if node.type == NodeType.RETRIEVAL:
            lines = [graph[parent - 1].input_line() for parent in node.parents]
            return await self.retrieve(session, node.instruction, lines, findings, plan_turn)

        question = session.question
        if not repeats(node.instruction, question):
            question = about(question, question.evidence, node.instruction)
        # Node 1 is the question that the answer serves, whether it is among the parents or not.
        lines = [graph[number - 1].input_line() for number in sorted({1, *node.parents})]
        return [await session.ask(REASONER.name, question=question, inputs=lines, heard=findings)]

    async def retrieve(
        self,
        session: Session,
        instruction: str,
        lines: Sequence[InputLine] = (),
        findings: Sequence[Message] = (),
        plan_turn: Message | None = None,
    ) -> list[Message]:
        """Retrieves for an instruction and condenses the results, after its parents' contents and findings.

        planned: the turn with the instruction.
        """
        request = about(session.question, (), instruction)
        task = Task(DECOMPOSE, (KEYWORD, VISUAL, ENTITY, QUERY, ASK), tuple(lines))
        decomposed = await session.ask(TEXT_EXAMINER.name, question=request, task=task, heard=findings)
        candidates, triples = await self._searched(session, instruction, decomposed)
        turns = [self._examine(session, request, source, decomposed) for source in candidates]
        if triples:
            task = Task(EXAMINE_TRIPLES, (RELEVANT, TRIPLE), input_lines(FieldKind.TRIPLE, triples))
            turns.append(session.ask(TEXT_EXAMINER.name, question=request, task=task, heard=[decomposed]))

        relevant: list[Message] = []
        reports: list[InputLine] = []
        # Beyond the candidates comes the one examination of all triples.
        for source, message in zip_longest(candidates, await asyncio.gather(*turns)):
            if message.values(RELEVANT.name) == ("yes",):
                relevant.append(message)
                if source:
                    reports += report_of(source, message)
                else:
                    reports += triples_of(message, triples)
        if not relevant:
            return []
        task = Task(CONDENSE, (SUMMARY,), tuple(reports))
        condensed = await session.ask(TEXT_EXAMINER.name, question=request, task=task)
        if condensed.status is Status.OK:
            return [condensed]
        # Findings go on uncondensed; the failed turn stays last, and no agent hears it.
        return [*relevant, condensed]

    async def _searched(
        self, session: Session, instruction: str, decomposed: Message
    ) -> tuple[Sequence[Source], Sequence[str]]:
        """Returns the candidates and the triples that the parts of an instruction find."""
        top_k = self.top_k
        keywords = decomposed.values(KEYWORD.name) or (instruction,)
        titles: tuple[str, ...] = ()
        descriptions: tuple[str, ...] = ()
        if decomposed.values(VISUAL.name) != ("no",):
            titles = decomposed.values(ENTITY.name)
            descriptions = decomposed.values(QUERY.name)
            if not titles and not descriptions:
                descriptions = (instruction,)
        # Eq. 8: named pictures are searched for in texts too, and key phrases in the words of pictures.
        phrases = dict.fromkeys((*keywords, *titles))
        # All searches are called for in a fixed order here, and awaited together below.
        texts = [session.search(phrase, top_k.texts, radius=top_k.radius, of=decomposed) for phrase in phrases]
        among_pictures = partial(session.search, k=top_k.pictures, kinds=PICTURES, radius=top_k.radius, of=decomposed)
        pictures = [among_pictures(phrase, mode="text") for phrase in phrases]
        pictures += [among_pictures(description, mode="vector") for description in descriptions]
        edges = session.graph(keywords, top_k.texts, of=decomposed)
        text_hits, picture_hits, triples = await asyncio.gather(
            asyncio.gather(*texts), asyncio.gather(*pictures), edges
        )
        candidates = (*fused(text_hits, top_k.texts), *fused(picture_hits, top_k.pictures))
        return candidates, [f"{edge.head} | {edge.relation} | {edge.tail}" for edge in triples]

    def _examine(self, session: Session, request: Question, source: Source, decomposed: Message) -> Awaitable[Message]:
        """Has a candidate examined; a picture alone, with the question to put to it."""
        if pictures_among((source,)):
            put = input_lines(FieldKind.SUB_QUESTION, decomposed.values(ASK.name))
            instruction = ASK_PICTURE if put else EXAMINE_PICTURE
            task = Task(instruction, (RELEVANT, DESCRIPTION), put)
            return session.ask(PICTURE_EXAMINER.name, question=request, evidence=(source,), task=task)
        return session.ask(
            TEXT_EXAMINER.name,
            question=request,
            evidence=(source,),
            task=Task(EXAMINE, (RELEVANT, EXTRACT)),
            heard=[decomposed],
        )


class WithoutPlanning(Mmapg):
    """One path: each retrieval is for the facts that the last reasoning lacks."""

    async def discuss(self, session: Session) -> Message:
        session.question = about(session.question, await session.own())
        path: list[Message] = []
        instruction = session.question.text
        # A retrieval and a reasoning are two nodes, so half as many rounds keep within the limit.
        for _ in range(MOST_NODES // 2):
            retrieved = await self.retrieve(session, instruction, findings=path[-1:])
            task = Task(REASON, (THOUGHT, ENOUGH, SEEK))
            thought = await session.ask(REASONER.name, task=task, heard=[*path[-1:], *retrieved])
            path += [*retrieved, thought]
            queries = thought.values(SEEK.name)
            if thought.values(ENOUGH.name) == ("yes",) or not queries:
                break
            instruction = queries[0]
        return await session.ask(REASONER.name, heard=path)


class WithoutRetrieval(Mmapg):
    """Planner's graph, on the sources nearest to an instruction, however far they are."""

    async def retrieve(
        self,
        session: Session,
        instruction: str,
        lines: Sequence[InputLine] = (),
        findings: Sequence[Message] = (),
        plan_turn: Message | None = None,
    ) -> list[Message]:
        texts, pictures = await asyncio.gather(
            session.search(instruction, self.top_k.texts, mode="vector", of=plan_turn),
            session.search(instruction, self.top_k.pictures, kinds=PICTURES, mode="vector", of=plan_turn),
        )
        if not texts and not pictures:
            return []
        request = about(session.question, sources((*texts, *pictures)), instruction)
        task = Task(CONDENSE, (SUMMARY,), tuple(lines))
        return [await session.ask(REASONER.name, question=request, task=task, heard=findings)]


def repeats(instruction: str, question: Question) -> bool:
    """Tests whether an instruction repeats the question."""
    return wording(question.text) in wording(instruction)


def report_of(source: Source, message: Message) -> tuple[InputLine, ...]:
    """Returns the report on a relevant source: what was extracted from it, or else its text."""
    extracts = (*message.values(EXTRACT.name), *message.values(DESCRIPTION.name))
    report = " ".join(extracts) or source.text
    if source.title not in report:
        report = f"{source.title}: {report}"
    return input_lines(FieldKind.FOUND, [report])


def triples_of(message: Message, triples: Sequence[str]) -> tuple[InputLine, ...]:
    """Returns the triples that bear on the instruction. A "yes" that lists none keeps them all."""
    return input_lines(FieldKind.TRIPLE, message.values(TRIPLE.name) or triples)


def findings_of(outcomes: Iterable[Sequence[Message]]) -> list[Message]:
    """Returns the findings of outcomes that no node's content holds: those before the message with the content."""
    findings: list[Message] = []
    for outcome in outcomes:
        findings.extend(outcome[:-1])
    return findings


METHODS = (
    system("mmapg_no_planning", "retrieval and reasoning alternate, examined", WithoutPlanning, ROLES),
    system("mmapg_no_retrieval", "adaptive planning, nearest sources unexamined", WithoutRetrieval, ROLES),
    system(
        "mmapg",
        "adaptive planning graph over texts and pictures, examined",
        Mmapg,
        ROLES,
        rivals=("cot", "mmapg_no_planning", "mmapg_no_retrieval"),
    ),
)
