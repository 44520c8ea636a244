"""DyTopo (Lu et al. 2026): in each round, what agents need is matched with what others offer.

A manager states the round's goal, and from the second round on may end the discussion. Every agent answers with one
reply that also has an offer and a need, in a few words. The sender j is heard by i in the next round where

    cos(encoded need of i, encoded offer of j) > tau

(arXiv 2602.06039). Nothing is learned. A failed turn offers nothing and needs nothing. The decision agent reads the
last round that was held.
"""

import asyncio
from dataclasses import replace

import numpy as np

from actors.messages import Field, FieldKind, Message, Modality, Question, Role, Task, Trace, Value
from topologies.method import Method, MethodContext
from topologies.systems.helpers import ANSWER
from topologies.systems.session import input_lines
from topologies.topology import DECISION_AGENT, Ask, Discussion, heard_equally
from topologies.wiring import Bools, Floats

MANAGER = Role(
    "manager",
    Modality.BOTH,
    "You lead a team that discusses the question in rounds. Before each round you read what its members said last and "
    "decide what they should find out next.",
)
NEED, OFFER, GOAL = "Need", "Offer", "Goal"
LEAD = Task(
    "State the goal of the next round in one sentence, and whether the team has what it needs to answer.",
    (
        Field(FieldKind.QUERY, "the goal of the next round", label=GOAL),
        Field(FieldKind.ENOUGH, "whether the team can answer without another round", ("yes", "no")),
    ),
)
SPEAK = Task(
    "Work towards the goal of this round and answer the question. Also state in a few words what you can offer to the "
    "others and what you need from them.",
    (
        Field(FieldKind.THOUGHT, "the reasons for the answer, in a few sentences"),
        Field(FieldKind.SUMMARY, "what you can offer to the others, in a few words", label=OFFER),
        Field(FieldKind.QUERY, "what you need from the others, in a few words", label=NEED),
        ANSWER,
        Field(FieldKind.CONFIDENCE, "how sure you are, a number from 0 to 1", optional=True, value=Value.SHARE),
    ),
    answers=True,
)


class DyTopo:
    """Rounds in which each agent hears those whose offers met its need in the round before."""

    def __init__(self, context: MethodContext) -> None:
        self.method, self.agents, self.rounds = context.method, tuple(context.agents), context.rounds
        self._library, self._tau = context.library, context.systems.match

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        agents, held = self.agents, Discussion(self.method, question, seed, sample)
        last: list[Message] = []
        spoken: list[Message] = []
        edges: list[tuple[int, int, int]] = []
        hears = np.zeros((len(agents), len(agents)), dtype=bool)
        for number in range(1, self.rounds + 1):
            goal = await ask(held.turn(MANAGER.name, number, heard_equally(last), recall=number - 1, task=LEAD))
            spoken.append(goal)
            if number > 1 and goal.values(FieldKind.ENOUGH) == ("yes",):
                break
            edges += [(number, int(j), int(i)) for j, i in np.argwhere(hears)]
            task = replace(SPEAK, inputs=input_lines(FieldKind.INSTRUCTION, goal.values(GOAL)))
            heard = [heard_equally(last[j] for j in np.flatnonzero(column)) for column in hears.T]
            turns = (
                held.turn(agent, number, of_agent, recall=number - 1, task=task)
                for agent, of_agent in zip(agents, heard, strict=True)
            )
            last = list(await asyncio.gather(*map(ask, turns)))
            spoken += last
            if number < self.rounds:
                stated = [[" ".join(message.values(name)) for message in last] for name in (OFFER, NEED)]
                texts = list(dict.fromkeys(text for each in stated for text in each if text))
                vectors = dict(zip(texts, await self._library.embed(texts), strict=True)) if texts else {}
                none = np.zeros_like(next(iter(vectors.values()), np.zeros(1)))
                offers, needs = (np.stack([vectors.get(text, none) for text in each]) for each in stated)
                hears = matches(offers, needs, self._tau)
        decision = await ask(held.turn(DECISION_AGENT, self.rounds + 1, heard_equally(last)))
        taken = tuple(edges)
        return held.trace(agents, (*spoken, decision), temporal=taken, allowed_temporal=taken, decision=agents)


def matches(offers: Floats, needs: Floats, tau: float) -> Bools:
    """Matches needs with offers where their cosine is above tau, bool [sender, receiver]. The offer is the sender's.

    offers, needs: [agents, d], a row of unit length, or of zeros where an agent states none. No agent hears itself.
    """
    stated = np.outer(offers.any(1), needs.any(1)) & ~np.eye(len(offers), dtype=bool)
    found: Bools = (offers @ needs.T > tau) & stated
    return found


METHODS = (
    Method(
        "dytopo",
        "each round's needs and offers, matched, decide who hears whom",
        DyTopo,
        roles=(MANAGER,),
        reads=("systems.match",),
        rivals=("single", "full", "random"),
    ),
)
