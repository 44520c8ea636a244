"""BDoG: Blueprint Debate on Graphs (sections 4.1-4.3, Eqs. 1-7), and its two ablations (section 5.4).

A blueprint graph is drawn from question, picture and context (Eq. 2). In every round the proponent improves it (G+,
Eq. 3), the opponent challenges that (G-, Eq. 4), and the moderator merges both and answers for now (G*, Eq. 5). G- is
the next round's blueprint; when it is at most `epsilon` away from this round's (Eq. 6), or after the last round, the
moderator gives the final answer.

Left open and decided: who draws the first graph (the agent that answers alone, as nobody has a side yet); `epsilon` (0,
nothing changed) and the most rounds (3, with which the main results agree, Table 3); the distance (see
`blueprint`). The Size constraint is stated in the prompts and enforced: what exceeds it is cut. Context and picture are
what is part of the question; where nothing is, they are what was retrieved for it. In the final turn the moderator
answers from its last conclusion: for the same answer in the form in which all answers are given.

Failures: a revision that cannot be read, or that states no triple, leaves the graph as it was, such a conclusion is the
union of both graphs, and a round without the opponent's revision ends no debate, since nobody has said that nothing
changes. Without the first graph the debate starts from none.

Without the graph (`graph=False`) the same three talk freely: the moderator sums up each round, which ends the debate
when both sides give the same answer. Without the debate (`debate=False`) the first graph is answered from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actors.messages import Field, FieldKind, Given, Message, Modality, Question, Role, Status, Task, Trace, Value
from topologies.answers import wording
from topologies.method import MethodContext, system
from topologies.single import SINGLE_AGENT
from topologies.systems.bdog.blueprint import SIZE, Blueprint, distance, limited, read_triples, union
from topologies.systems.bdog.blueprints import read_blueprints
from topologies.systems.session import Session, System, about
from topologies.topology import Ask

PROPONENT = Role(
    "proponent",
    Modality.BOTH,
    "You are Mara, who won her school's prizes in science and is trusted for her sound reasoning. In the debate on the "
    "question you are for what is proposed: defend it, and make it better with what you know and see.",
)
OPPONENT = Role(
    "opponent",
    Modality.BOTH,
    "You are Joel, a careful student whom others ask to find the mistakes in their work. In the debate on the question "
    "you are against what is proposed: find what is wrong, missing or beside the point, and put it right.",
)
MODERATOR = Role(
    "moderator",
    Modality.BOTH,
    "You are Ines, who teaches the class and leads the debate on the question. You take no side: keep what both can "
    "agree on or what is better supported, and come to a conclusion.",
)
ROLES = (PROPONENT, OPPONENT, MODERATOR)

LIMITS = f"At least one triple and at most {SIZE} entities, all of which bear on answering the question."
COMPACT = "State the whole graph in as few triples as will do; what you leave out is gone."
DRAW = (
    "Think of the steps that lead to the answer. Then draw a graph of the evidence they need: the entities in the "
    f"question, its context and its pictures, their attributes and how they are related. {LIMITS}"
)
SUPPORT = (
    "The triples below are the blueprint graph for answering the question. Improve it with your own insight towards "
    f"the best answer: correct, add, drop. {LIMITS} {COMPACT} Give the answer to which it leads."
)
CHALLENGE = (
    "The triples below are the graph of the side that is for the blueprint. Look for flaws and gaps in it and state it "
    f"as it ought to be. {LIMITS} {COMPACT} Give the answer to which it leads."
)
CONCLUDE = (
    "The triples below are those of both sides. Merge them into the one graph that leads to the best answer, and where "
    f"they contradict each other decide. {LIMITS} {COMPACT} Give the answer to which it leads."
)
FINAL = "The debate is over. Give the final answer, from the graph that you concluded."
FROM_GRAPH = "Answer from the graph of evidence."
ADVOCATE = "Say which answer you are for and why; meet what was said against it."
DISPUTE = "Say what is wrong with what the other side said, and which answer you are for."
SUM_UP = "Sum up what both sides said in this round, and give the answer to which it leads."

THOUGHT = Field(FieldKind.THOUGHT, "the steps that lead to the answer")
TRIPLE = Field(
    FieldKind.TRIPLE,
    "entity | relation | entity, or entity | has attribute | value",
    many=True,
    optional=True,  # where nothing is known, there is nothing to draw
    value=Value.TRIPLE,
)
ANSWER = Field(FieldKind.ANSWER, "the answer itself in as few words as possible", value=Value.ANSWER)


class Bdog(System):
    """The debate, `rounds` at most, and what is left of it without its graph or without its debate.

    Args:
        graph, debate: False for the ablations.
    """

    def __init__(self, context: MethodContext, graph: bool = True, debate: bool = True) -> None:
        super().__init__(context)
        self._graph = graph
        self._debate = debate
        # Once for the run; the ablation without a graph needs none.
        self._given = read_blueprints(context.systems.blueprints) if graph else {}

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        shown = about(question, await session.own() or question.evidence)
        if not self._graph:
            return session.trace(await self._talk(session, shown))
        blueprint, drawn = await self._first(session, shown)
        if not self._debate:
            # A graph from a file was drawn in no turn that could be heard, so the instruction holds it.
            instruction = (
                FROM_GRAPH if drawn else f"{FROM_GRAPH} {'; '.join(given.line for given in _triples(blueprint))}"
            )
            return session.trace(await session.ask(SINGLE_AGENT, question=shown, heard=drawn, instruction=instruction))
        return session.trace(await self._on_graph(session, shown, blueprint, drawn))

    async def _first(self, session: Session, shown: Question) -> tuple[Blueprint, list[Message]]:
        """G_0, and the turn that drew it."""
        if shown.id in self._given:
            # Graphs that other models wrote may exceed the Size constraint.
            return limited(self._given[shown.id]), []
        drawn = await session.ask(SINGLE_AGENT, question=shown, task=Task(DRAW, (THOUGHT, TRIPLE)))
        return _stated(drawn, Blueprint()), [drawn]

    async def _on_graph(
        self, session: Session, shown: Question, blueprint: Blueprint, opening: Sequence[Message]
    ) -> Message:
        # `systems.rounds` is at least 1, so the loop sets all names that are used after it.
        heard = opening
        for _ in range(self.context.systems.rounds):
            support = Task(SUPPORT, (TRIPLE, ANSWER), _triples(blueprint))
            proponent = await session.ask(PROPONENT.name, question=shown, task=support, heard=heard)
            affirmative = _stated(proponent, blueprint)
            challenge = Task(CHALLENGE, (TRIPLE, ANSWER), _triples(affirmative))
            opponent = await session.ask(OPPONENT.name, question=shown, task=challenge, heard=[proponent])
            negative = _stated(opponent, affirmative)
            merge = Task(CONCLUDE, (TRIPLE, ANSWER), _triples(union(affirmative, negative)))
            both_sides = [proponent, opponent]
            conclusion = await session.ask(MODERATOR.name, question=shown, task=merge, heard=both_sides)
            # Measured from this round's blueprint, before the next one takes its place.
            moved = distance(blueprint, negative)
            blueprint, heard = negative, [opponent]
            # A failed opponent leaves the graph as it was, which must not pass for agreement.
            if opponent.status is Status.OK and moved <= self.context.systems.epsilon:
                break
        # After a failed conclusion the moderator answers from what both sides said.
        closing = [conclusion] if conclusion.status is Status.OK else both_sides
        return await session.ask(MODERATOR.name, question=shown, heard=closing, instruction=FINAL)

    async def _talk(self, session: Session, shown: Question) -> Message:
        """The debate without graphs. The sides hear each other's last words and the moderator's."""
        heard: list[Message] = []
        for _ in range(self.context.systems.rounds):
            proponent = await session.ask(PROPONENT.name, question=shown, heard=heard, instruction=ADVOCATE)
            opponent = await session.ask(OPPONENT.name, question=shown, heard=[proponent], instruction=DISPUTE)
            both_sides = [proponent, opponent]
            summary = await session.ask(MODERATOR.name, question=shown, heard=both_sides, instruction=SUM_UP)
            heard = [opponent, summary]
            if proponent.answer is not None and _same(proponent.answer, opponent.answer):
                break
        return summary


def _stated(message: Message, fallback: Blueprint) -> Blueprint:
    """The graph that a turn states, within the Size constraint; the fallback where it states none."""
    graph = limited(read_triples(message.said(TRIPLE.name)))
    # An empty graph is taken for an unreadable reply: no revision deletes everything.
    return graph if graph.entities else fallback


def _triples(graph: Blueprint) -> tuple[Given, ...]:
    return tuple(Given(FieldKind.TRIPLE, line) for line in graph.lines())


def _same(first: str, second: str | None) -> bool:
    return second is not None and wording(first) == wording(second)


METHODS = (
    system("bdog_debate", "debate of proponent, opponent and moderator", partial(Bdog, graph=False), ROLES),
    system("bdog_graph", "a blueprint graph, and the answer from it", partial(Bdog, debate=False)),
    system("bdog", "debate on a blueprint graph, until it no longer changes", Bdog, ROLES),
)
