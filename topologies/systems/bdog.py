"""BDoG: Blueprint Debate on Graphs (sections 4.1-4.3, Eqs. 1-7), and its two ablations (section 5.4).

1. A blueprint graph is drawn from question, picture and context (Eq. 2), and the steps that lead to the answer are
   stated, f_t(Q), which all agents of the debate read.
2. In every round the proponent improves it (G+, Eq. 3) and the opponent challenges that (G-, Eq. 4). The moderator, who
   alone sees the choices, reads both, merges them (G*, Eq. 5) and answers. The sides state graphs and no answers, and
   each reads one graph: the proponent the opponent's last, the opponent the proponent's.
3. G- is the next round's blueprint. When it is at most `epsilon` away from this round's (Eq. 6), or after the last
   round, the debate is over, and the moderator's last answer is its answer.

Decided here: an agent that works alone draws the first graph, as no agent has a side yet; `epsilon` is 0 (nothing
changed), and the most rounds are 3 (Table 3); the distance is in bdog_graph.py. The Size constraint is stated in the
prompts and enforced. With several debaters a side (section 4.3 has equal numbers and no order), a round is one pair
after the other: each proponent reads the graph of the opponent before it, and the moderator the last pair's two graphs.

Failures: a revision that cannot be read, or that states no triple, leaves the graph as it was, and ends no debate. If
the last conclusion cannot be read, the one before it counts. Without the first graph the debate starts from none.

Without the graph (`WithoutGraph`) both sides state their thoughts and no answer, at first by themselves, later on the
other's words of the round before; after all rounds the moderator's last answer counts, of which the sides hear none.
Without the debate (`debate=False`) the question is answered from the first graph.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from actors.messages import Field, FieldKind, InputLine, Message, Modality, Role, Status, Task, Value
from topologies.method import MethodContext, SystemSettings, system
from topologies.systems.bdog_graph import Blueprint, distance, limited, read_triples
from topologies.systems.bdog_scene_graphs import read_blueprints
from topologies.systems.helpers import ANSWER, SOLO, pictures_among, show_own
from topologies.systems.session import Session, System, input_lines

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
PROPONENTS = (
    PROPONENT,
    Role(
        "proponent_2",
        Modality.BOTH,
        "You are Timo, who builds models of everything and tries out an idea before he believes it. In the debate on "
        "the question you are for what is proposed: defend it, and make it better with what you know and see.",
    ),
    Role(
        "proponent_3",
        Modality.BOTH,
        "You are Lena, who reads the most books of her class and forgets none. In the debate on the question you are "
        "for what is proposed: defend it, and make it better with what you know and see.",
    ),
)
OPPONENTS = (
    OPPONENT,
    Role(
        "opponent_2",
        Modality.BOTH,
        "You are Nadia, who asks for the reason of every claim. In the debate on the question you are against what is "
        "proposed: find what is wrong, missing or beside the point, and put it right.",
    ),
    Role(
        "opponent_3",
        Modality.BOTH,
        "You are Paul, who looks at a picture twice and notices small things. In the debate on the question you are "
        "against what is proposed: find what is wrong, missing or beside the point, and put it right.",
    ),
)

PAIRS = tuple(zip(PROPONENTS, OPPONENTS, strict=True))

# The Size constraint of section 4.1. No fixed number as the least: a reply may have no triple where nothing is known.
SIZE = 20  # the authors' code: 3, in the first graph alone
LIMITS = (
    f"As many triples as the answer takes, and at most {SIZE} entities, all of which bear on answering the question."
)
COMPACT = "State the whole graph in as few triples as will do; what you leave out is gone."
STEPS = "The line Thought has steps that lead to the answer, as the agent saw them who drew the first graph."
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
    """Debate on a graph, of at most `systems.rounds`, or an answer from its first graph."""

    def __init__(self, context: MethodContext, debate: bool = True) -> None:
        super().__init__(context)
        self._debate = debate
        self._first_graphs = read_blueprints(context.systems.blueprints)
        self._pairs = PAIRS[: context.systems.debaters] if debate else ()

    async def discuss(self, session: Session) -> Message:
        await show_own(session, self.context)
        blueprint, steps = await self._first_graph(session)
        if not self._debate:
            instruction = FROM_GRAPH if blueprint else FROM_NONE
            return await session.ask(SOLO.name, task=Task(instruction, (ANSWER,), _triples(blueprint)))

        # Only the agent that answers sees the choices.
        question = replace(session.question, choices=())
        rules = LIMITS
        if steps:
            rules = f"{LIMITS} {STEPS}"
        epsilon = self.context.systems.epsilon
        conclusions: list[Message] = []
        for _ in range(self.context.systems.rounds):
            negative = blueprint
            all_opposed = True
            for proponent, opponent in self._pairs:
                support = f"{SUPPORT if negative else SUPPORT_NONE} {rules}"
                task = Task(support, (TRIPLE,), (*steps, *_triples(negative)))
                proposed = stated_graph(await session.ask(proponent.name, question=question, task=task))
                affirmative = proposed or negative

                challenge = f"{CHALLENGE if affirmative else CHALLENGE_NONE} {rules}"
                task = Task(challenge, (TRIPLE,), (*steps, *_triples(affirmative)))
                opposed = stated_graph(await session.ask(opponent.name, question=question, task=task))
                negative = opposed or affirmative
                all_opposed = all_opposed and bool(opposed)

            # Only the opponent can state a graph alone: a missing one of theirs is the proponent's.
            merge = CONCLUDE_NONE
            if negative:
                merge = CONCLUDE if affirmative else CONCLUDE_ONE
            graphs = (*_triples(affirmative, 1), *_triples(negative, 2))
            task = Task(f"{merge} {rules}", (TRIPLE, ANSWER), (*steps, *graphs))
            conclusions.append(await session.ask(MODERATOR.name, task=task))

            unchanged = epsilon is not None and distance(blueprint, negative) <= epsilon
            blueprint = negative
            # An opponent who stated no graph left it as it was, which must not pass for agreement.
            if all_opposed and unchanged:
                break
        return last_readable(conclusions)

    async def _first_graph(self, session: Session) -> tuple[Blueprint, tuple[InputLine, ...]]:
        """Returns the first blueprint graph and the steps that lead to the answer, from a file or an agent."""
        question = replace(session.question, choices=())
        if question.id in self._first_graphs:
            # Graphs of other models may exceed the Size constraint, and come without steps.
            return limited(self._first_graphs[question.id], SIZE), ()
        pictures = pictures_among(question.evidence)
        parts = ["the question"]
        if len(pictures) < len(question.evidence):
            parts.append("its context")
        if pictures:
            parts.append("its pictures")
        draw = DRAW.format(shown=" and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])))
        drawing = await session.ask(SOLO.name, question=question, task=Task(f"{draw} {LIMITS}", (THOUGHT, TRIPLE)))
        return stated_graph(drawing), input_lines(FieldKind.THOUGHT, drawing.values(THOUGHT.name))


class WithoutGraph(System):
    """Debate in words, of `systems.rounds`."""

    async def discuss(self, session: Session) -> Message:
        await show_own(session, self.context)
        question = replace(session.question, choices=())
        conclusions: list[Message] = []
        # Each side hears the other's case of the round before, so that neither has the first word.
        cases: list[Message] = []
        advocate = Task(ADVOCATE, (CASE,))
        dispute = Task(DISPUTE, (CASE,))
        for _ in range(self.context.systems.rounds):
            proponent = await session.ask(PROPONENT.name, question=question, task=advocate, heard=cases[1:])
            opponent = await session.ask(OPPONENT.name, question=question, task=dispute, heard=cases[:1])
            cases = [proponent, opponent]
            advocate = Task(DEFEND, (CASE,))
            dispute = Task(ATTACK, (CASE,))
            conclusions.append(await session.ask(MODERATOR.name, task=Task(SETTLE, (ANSWER,)), heard=cases))
        return last_readable(conclusions)


def stated_graph(message: Message) -> Blueprint:
    """Reads a turn's graph, within the Size constraint. It is empty, and so false, where the turn states none."""
    return limited(read_triples(message.values(TRIPLE.name)), SIZE)


def last_readable(messages: Sequence[Message]) -> Message:
    """Returns the last readable message, or the last of all. There is at least one."""
    return next((message for message in reversed(messages) if message.status is Status.OK), messages[-1])


def _triples(graph: Blueprint, side: int | None = None) -> tuple[InputLine, ...]:
    return tuple(InputLine(FieldKind.TRIPLE, line, side) for line in graph.lines())


def debate_roles(settings: SystemSettings) -> tuple[Role, ...]:
    """Returns the agents of a debate: `systems.debaters` a side, and one moderator (section 4.3)."""
    return (SOLO, *PROPONENTS[: settings.debaters], *OPPONENTS[: settings.debaters], MODERATOR)


METHODS = (
    system(
        "bdog_debate",
        "debate of proponent, opponent and moderator",
        WithoutGraph,
        ROLES,
        reads=("systems.context", "systems.rounds"),
    ),
    system(
        "bdog_graph",
        "a blueprint graph, and the answer from it",
        partial(Bdog, debate=False),
        (SOLO,),
        reads=("systems.context", "systems.blueprints"),
    ),
    system(
        "bdog",
        "debate on a blueprint graph, until it no longer changes",
        Bdog,
        (SOLO, *ROLES),
        roles_by=debate_roles,
        reads=("systems.context", "systems.rounds", "systems.debaters", "systems.epsilon", "systems.blueprints"),
        rivals=("cot", "bdog_debate", "bdog_graph"),
        settings={"agents.temperature": 0, "systems.context": "retrieved"},
    ),
)
