"""The placebo of a method: the same discussions, in which every message is one of another question."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from actors.messages import Heard, Message, Question, Status, Trace, Turn, derive_seed
from topologies.topology import Ask, Topology

NEAREST = 5  # discussions on either side, in the order of their lengths, that messages may come from


class Placebo:
    """Topology whose agents hear messages of another question, of the same senders and rounds.

    The noise control of Bertalanič and Fortuna (2026, arXiv 2605.00914), with all messages of one other discussion, so
    that they agree with each other as a team's do. Graph, agents, turns and weights are the method's; an agent keeps
    its own earlier messages. Where no other discussion has a message, its receiver does not hear it.

    substitutes: other discussions of the method by question, best first (`substitutes`).
    """

    def __init__(self, topology: Topology, substitutes: Mapping[str, Sequence[Trace]]) -> None:
        self.method = topology.method
        self._topology = topology
        self._substitutes = substitutes

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        messages: dict[str, Message] = {}
        for trace in self._substitutes.get(question.id, ()):
            for message in trace.turns:
                if message.status is Status.OK:
                    # An id that no message of this discussion has: none of these was heard.
                    messages.setdefault(message.id, replace(message, id=f"{trace.question}/{message.id}"))

        async def ask_with_substitutes(turn: Turn) -> Message:
            messages_heard: list[Heard] = []
            for original in turn.heard:
                if original.message.agent == turn.agent:
                    messages_heard.append(original)
                elif original.message.id in messages:
                    messages_heard.append(replace(original, message=messages[original.message.id]))
            return await ask(replace(turn, heard=tuple(messages_heard)))

        return await self._topology.answer(question, ask_with_substitutes, seed, sample)


def words_in(trace: Trace) -> int:
    """Counts the words of all messages."""
    return sum(len(turn.content.split()) for turn in trace.turns)


def substitutes(traces: Sequence[Trace], seed: int) -> dict[str, list[Trace]]:
    """Orders other discussions of about the same length for each question, by a seeded draw.

    Those with which it shares no evidence come first.
    """
    words = {trace.question: words_in(trace) for trace in traces}
    by_length = sorted(traces, key=lambda trace: (words[trace.question], trace.question))

    def rank(trace: Trace, candidate: Trace) -> tuple[bool, int]:
        related = not set(trace.evidence).isdisjoint(candidate.evidence)
        return related, derive_seed(seed, "placebo", trace.question, candidate.question)

    by_question = {}
    for place, trace in enumerate(by_length):
        candidates = by_length[max(0, place - NEAREST) : place] + by_length[place + 1 : place + NEAREST + 1]
        by_question[trace.question] = sorted(candidates, key=partial(rank, trace))
    return by_question
