"""BDoG: Blueprint Debate on Graphs (sections 4.1-4.3, Eqs. 1-7), and its two ablations (section 5.4).

A blueprint graph is drawn from question, picture and context (Eq. 2). In every round the proponent improves it (G+,
Eq. 3), the opponent challenges that (G-, Eq. 4), and the moderator, who alone sees the choices, reads both, merges them
(G*, Eq. 5) and answers. The sides state graphs and no answers, and each reads one graph: the proponent the opponent's
last, the opponent the proponent's. G- is the next round's blueprint; when it is at most `epsilon` away from this
round's (Eq. 6), or after the last round, the debate is over, and the moderator's last answer is its answer.

Left open and decided: who draws the first graph (an agent that works alone, as nobody has a side yet); `epsilon` (0,
nothing changed) and the most rounds (3: three of the four main results are Table 3's after three rounds, one is that
after two); the distance (see `blueprint`). The Size constraint is stated in the prompts and enforced.

Different from the authors' code: it holds two rounds and never ends early (`systems.rounds=2 systems.epsilon=null`),
asks for three entities in the first graph and sets no size later (`systems.size`), has no G*, and reads no graph:
whatever was replied is pasted into the next prompt. Here graphs are parsed, as Eq. 6 needs them. Graphs from a file go
by the question's id and are whole; theirs go by position and are cut. An answer that cannot be read is wrong; theirs is
matched by GPT-3.5 or drawn at random.

Failures: a revision that cannot be read, or that states no triple, leaves the graph as it was, and ends no debate,
since nobody has said that nothing changes. Where the last conclusion cannot be read, the one before it counts. Without
the first graph the debate starts from none.

Without the graph (`graph=False`) both sides state their thoughts and no answer, at first by themselves, later on the
other's words of the round before; after all rounds the moderator's last answer counts, of which the sides hear none.
The published code means this and cannot run it (it asks for prompts that it does not have). Without the debate
(`debate=False`), for which there is no code, the question is answered from the first graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from actors.messages import Field, FieldKind, Given, Message, Modality, Question, Role, Status, Task, Trace, Value
from topologies.method import MethodContext, system
from topologies.systems.bdog.blueprint import Blueprint, distance, limited, read_triples
from topologies.systems.bdog.blueprints import read_blueprints
from topologies.systems.helpers import pictures_among
from topologies.systems.session import Session, System
from topologies.systems.solo import ANSWER, IN_VIEW, SOLO, in_view
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

COMPACT = "State the whole graph in as few triples as will do; what you leave out is gone."
NO_ANSWER = "Do not answer the question."
DRAW = (
    "Think of the steps that lead to the answer. Then draw a graph of the evidence they need: the entities in "
    f"{{shown}}, their attributes and how they are related. {NO_ANSWER}"
)
SUPPORT = (
    "The triples below are the blueprint graph for answering the question. Improve it with your own insight: correct, "
    f"add what bears on the question, drop the rest. {NO_ANSWER} {COMPACT}"
)
SUPPORT_NONE = (
    "The blueprint graph for answering the question is still empty. State it by your own insight, with what bears on "
    f"the question and nothing else. {NO_ANSWER} {COMPACT}"
)
CHALLENGE = (
    "The triples below are the graph of the side that is for the blueprint. Look for flaws and gaps in it and state it "
    f"as it ought to be. {NO_ANSWER} {COMPACT}"
)
CHALLENGE_NONE = (
    "The side that is for the blueprint has stated no graph. State the graph for answering the question as it ought to "
    f"be. {NO_ANSWER} {COMPACT}"
)
CONCLUDE = (
    "The lines Triple 1 are the graph of the side that is for the blueprint, the lines Triple 2 that of the side "
    "against it. Merge them into the one graph that leads to the best answer, and where they contradict each other "
    f"decide. {COMPACT} Give the answer to which it leads."
)
CONCLUDE_ONE = (
    "The lines Triple 2 are the graph of the side against the blueprint; the side that is for it has stated none. Make "
    f"of it the one graph that leads to the best answer. {COMPACT} Give the answer to which it leads."
)
CONCLUDE_NONE = (
    "Neither side has stated a graph. State the one graph that leads to the best answer. "
    f"{COMPACT} Give the answer to which it leads."
)
FROM_GRAPH = "The triples below are a graph of the evidence. Answer the question from it, without any explanation."
FROM_NONE = "Answer the question without any explanation."
ADVOCATE = f"Say what speaks for one way of answering the question and why. {NO_ANSWER}"
DISPUTE = f"Say what is doubtful or easily overlooked about the question, and why. {NO_ANSWER}"
DEFEND = f"Meet what the other side said, and make your own case better. {NO_ANSWER}"
ATTACK = f"Say what is wrong or missing in what the other side said. {NO_ANSWER}"
SETTLE = "Weigh what both sides said in this round, and answer the question without any explanation."

THOUGHT = Field(FieldKind.THOUGHT, "the steps that lead to the answer")
CASE = Field(FieldKind.THOUGHT, "your case, in a few sentences")
TRIPLE = Field(
    FieldKind.TRIPLE,
    "entity | relation | entity, or entity | has attribute | value",
    many=True,
    optional=True,  # where nothing is known, there is nothing to draw
    expected=True,  # a debate without graphs is none
    value=Value.TRIPLE,
)


class Bdog(System):
    """The debate, `rounds` at most, and what is left of it without its graph or without its debate.

    Args:
        graph, debate: False for the ablations.
    """

    def __init__(self, context: MethodContext, graph: bool = True, debate: bool = True) -> None:
        super().__init__(context)
        self._graph = graph
        self._debate = debate
        settings = context.systems
        self._size = settings.size if graph else 0
        # No fixed number as the least: the form of the reply offers none where nothing is known.
        self._limits = (
            f"As many triples as the answer takes, and at most {self._size} entities, all of which bear on answering "
            "the question."
        )
        # Once for the run; the ablation without a graph needs none.
        self._given = read_blueprints(settings.blueprints) if graph else {}

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        shown = await in_view(session, self.context)
        # Only who answers sees the choices.
        asked = replace(shown, choices=())
        if not self._graph:
            return session.trace(await self._talk(session, shown, asked))
        blueprint = await self._first(session, asked)
        if not self._debate:
            task = Task(FROM_GRAPH if blueprint else FROM_NONE, (ANSWER,), _triples(blueprint))
            return session.trace(await session.ask(SOLO.name, question=shown, task=task))
        return session.trace(await self._on_graph(session, shown, asked, blueprint))

    async def _first(self, session: Session, asked: Question) -> Blueprint:
        """G_0: as it was given, or drawn now."""
        if asked.id in self._given:
            # Graphs that other models wrote may exceed the Size constraint.
            return limited(self._given[asked.id], self._size)
        task = Task(f"{DRAW.format(shown=_shown(asked))} {self._limits}", (THOUGHT, TRIPLE))
        return self._stated(await session.ask(SOLO.name, question=asked, task=task))

    async def _on_graph(self, session: Session, shown: Question, asked: Question, blueprint: Blueprint) -> Message:
        """The debate from a blueprint on; the moderator's last conclusion that can be read."""
        epsilon = self.context.systems.epsilon
        conclusions: list[Message] = []
        for _ in range(self.context.systems.rounds):
            support = self._revision(SUPPORT if blueprint else SUPPORT_NONE, blueprint)
            affirmative = self._stated(await session.ask(PROPONENT.name, question=asked, task=support)) or blueprint
            challenge = self._revision(CHALLENGE if affirmative else CHALLENGE_NONE, affirmative)
            stated = self._stated(await session.ask(OPPONENT.name, question=asked, task=challenge))
            negative = stated or affirmative
            merge = self._merge(affirmative, negative)
            conclusions.append(await session.ask(MODERATOR.name, question=shown, task=merge))
            # Measured from this round's blueprint, before the next one takes its place.
            moved = distance(blueprint, negative)
            blueprint = negative
            # An opponent who stated no graph left it as it was, which must not pass for agreement.
            if stated and epsilon is not None and moved <= epsilon:
                break
        return _last_read(conclusions)

    def _revision(self, orders: str, graph: Blueprint) -> Task:
        return Task(f"{orders} {self._limits}", (TRIPLE,), _triples(graph))

    def _merge(self, affirmative: Blueprint, negative: Blueprint) -> Task:
        # There is no graph of one side alone but the opponent's, who otherwise leaves the proponent's as it was.
        orders = CONCLUDE if affirmative else CONCLUDE_ONE if negative else CONCLUDE_NONE
        given = (*_triples(affirmative, 1), *_triples(negative, 2))
        return Task(f"{orders} {self._limits}", (TRIPLE, ANSWER), given)

    async def _talk(self, session: Session, shown: Question, asked: Question) -> Message:
        """The debate without graphs; the moderator's last answer that can be read."""
        answers: list[Message] = []
        # What each side heard of the other is from the round before, so that neither has the first word.
        before: list[Message] = []
        for number in range(self.context.systems.rounds):
            first, second = (DEFEND, ATTACK) if number else (ADVOCATE, DISPUTE)
            proponent = await session.ask(PROPONENT.name, question=asked, task=Task(first, (CASE,)), heard=before[1:])
            opponent = await session.ask(OPPONENT.name, question=asked, task=Task(second, (CASE,)), heard=before[:1])
            before = [proponent, opponent]
            answers.append(
                await session.ask(MODERATOR.name, question=shown, task=Task(SETTLE, (ANSWER,)), heard=before)
            )
        return _last_read(answers)

    def _stated(self, message: Message) -> Blueprint:
        """The graph that a turn states, within the Size constraint; an empty one, which is false, where it states none.

        An empty graph is taken for an unreadable reply: no revision deletes everything.
        """
        return limited(read_triples(message.said(TRIPLE.name)), self._size)


def _shown(question: Question) -> str:
    """What there is to draw from, in words."""
    pictures = pictures_among(question.evidence)
    parts = ["the question"]
    parts += ["its context"] if len(pictures) < len(question.evidence) else []
    parts += ["its pictures"] if pictures else []
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _last_read(messages: Sequence[Message]) -> Message:
    """The last message that could be read; the last of all where none could. There is at least one."""
    return next((message for message in reversed(messages) if message.status is Status.OK), messages[-1])


def _triples(graph: Blueprint, side: int | None = None) -> tuple[Given, ...]:
    return tuple(Given(FieldKind.TRIPLE, line, side) for line in graph.lines())


_OF_GRAPHS = ("size", "blueprints")
METHODS = (
    system(
        "bdog_debate",
        "debate of proponent, opponent and moderator",
        partial(Bdog, graph=False),
        ROLES,
        (*IN_VIEW, "rounds"),
    ),
    system(
        "bdog_graph",
        "a blueprint graph, and the answer from it",
        partial(Bdog, debate=False),
        (SOLO,),
        (*IN_VIEW, *_OF_GRAPHS),
    ),
    system(
        "bdog",
        "debate on a blueprint graph, until it no longer changes",
        Bdog,
        (SOLO, *ROLES),
        (*IN_VIEW, *_OF_GRAPHS, "rounds", "epsilon"),
    ),
)
