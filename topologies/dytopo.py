"""DyTopo (Lu et al. 2026): in each round, what agents need is matched with what others offer.

A manager states the round's goal, and from the second round on may end the discussion. Every agent answers with one
reply that also has an offer and a need, in a few words. The sender j is heard by i in the next round where

    cos(encoded need of i, encoded offer of j) > tau

(arXiv 2602.06039). Nothing is learned. A failed turn offers nothing and needs nothing. The decision agent reads the
last round that took place.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from actors.messages import Field, FieldKind, Message, Modality, Question, Role, Task, Trace, Value
from topologies.method import Method, MethodContext
from topologies.systems.helpers import ANSWER
from topologies.systems.session import input_lines
from topologies.topology import DECISION_AGENT, Ask, Discussion, ask_together, heard_equally
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
        self.method = context.method
        self.agents = tuple(context.agents)
        self.rounds = context.rounds
        self._library = context.library
        self._tau = context.systems.match

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        discussion = Discussion(self.method, question, seed, sample)
        last_messages: list[Message] = []
        turns: list[Message] = []
        edges: list[tuple[int, int, int]] = []
        hears = np.zeros((len(self.agents), len(self.agents)), dtype=bool)
        for number in range(1, self.rounds + 1):
            earlier = number - 1
            lead = discussion.turn(MANAGER.name, number, heard_equally(last_messages), recall=earlier, task=LEAD)
            goal = await ask(lead)
            turns.append(goal)
            if number > 1 and goal.values(FieldKind.ENOUGH) == ("yes",):
                break

            edges += [(number, sender, receiver) for sender, receiver in np.argwhere(hears).tolist()]

            task = replace(SPEAK, inputs=input_lines(FieldKind.INSTRUCTION, goal.values(GOAL)))
            round_turns = []
            for agent, senders in zip(self.agents, hears.T, strict=True):
                heard = heard_equally(last_messages[sender] for sender in np.flatnonzero(senders))
                round_turns.append(discussion.turn(agent, number, heard, recall=earlier, task=task))

            last_messages = await ask_together(ask, round_turns)
            turns += last_messages
            if number < self.rounds:
                hears = await self._matched(last_messages)
        turns.append(await ask(discussion.turn(DECISION_AGENT, self.rounds + 1, heard_equally(last_messages))))
        temporal = tuple(edges)
        return discussion.trace(self.agents, turns, temporal=temporal, allowed_temporal=temporal, decision=self.agents)

    async def _matched(self, messages: Sequence[Message]) -> Bools:
        """Decides by a round's messages whom each agent hears in the next one, bool [sender, receiver]."""
        offers = [" ".join(message.values(OFFER)) for message in messages]
        needs = [" ".join(message.values(NEED)) for message in messages]
        # Each text once.
        texts = [text for text in dict.fromkeys([*offers, *needs]) if text]
        if not texts:
            return np.zeros((len(messages), len(messages)), dtype=bool)

        vectors = dict(zip(texts, await self._library.embed(texts), strict=True))
        unstated = np.zeros_like(vectors[texts[0]])
        offer_vectors = np.stack([vectors.get(text, unstated) for text in offers])
        need_vectors = np.stack([vectors.get(text, unstated) for text in needs])
        return matches(offer_vectors, need_vectors, self._tau)


def matches(offers: Floats, needs: Floats, tau: float) -> Bools:
    """Matches needs with offers where their cosine is above tau, bool [sender, receiver]. The offer is the sender's.

    offers, needs: [agents, d], a row of unit length, or of zeros where an agent states none. No agent hears itself.
    """
    are_stated = np.outer(offers.any(1), needs.any(1)) & ~np.eye(len(offers), dtype=bool)
    matched: Bools = (offers @ needs.T > tau) & are_stated
    return matched


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
