"""The placebo of a method: the same discussions, in which every message is one of another question."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from actors.messages import Message, Question, Status, Trace, Turn, derive_seed
from topologies.topology import Ask, Topology

NEAREST = 5  # discussions on either side, in the order of their lengths, that messages may come from


class Placebo:
    """Topology whose agents hear messages of another question, of the same senders and rounds.

    The noise control of Bertalanič and Fortuna (2026, arXiv 2605.00914), with all messages of one other discussion, so
    that they agree with each other as a team's do. Graph, agents, turns and weights are the method's; an agent keeps
    its own earlier messages. Where no donor has a message, its receiver does not hear it.

    donors: discussions of the method by question, best first (`donors`).
    """

    def __init__(self, topology: Topology, donors: Mapping[str, Sequence[Trace]]) -> None:
        self.method = topology.method
        self._topology, self._donors = topology, donors

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        foreign: dict[str, Message] = {}
        # The first donor that has a message comes last, and stays.
        for donor in reversed(self._donors.get(question.id, ())):
            heard = (message for message in donor.turns if message.status is Status.OK)
            # An id that no message of this discussion has: none of these was heard.
            foreign |= {message.id: replace(message, id=f"{donor.question}/{message.id}") for message in heard}

        async def misheard(turn: Turn) -> Message:
            heard = []
            for each in turn.heard:
                if each.message.agent == turn.agent:
                    heard.append(each)
                elif message := foreign.get(each.message.id):
                    heard.append(replace(each, message=message))
            return await ask(replace(turn, heard=tuple(heard)))

        return await self._topology.answer(question, misheard, seed, sample)


def donors(traces: Sequence[Trace], seed: int) -> dict[str, list[Trace]]:
    """Orders other discussions of about the same length for each question, by a seeded draw.

    Those with which it shares no evidence come first.
    """
    words = {trace.question: sum(len(turn.content.split()) for turn in trace.turns) for trace in traces}
    order = sorted(traces, key=lambda trace: (words[trace.question], trace.question))

    def rank(trace: Trace, other: Trace) -> tuple[bool, int]:
        related = not set(trace.evidence).isdisjoint(other.evidence)
        return related, derive_seed(seed, "placebo", trace.question, other.question)

    return {
        trace.question: sorted(
            (other for other in order[max(0, place - NEAREST) : place + NEAREST + 1] if other is not trace),
            key=lambda other: rank(trace, other),
        )
        for place, trace in enumerate(order)
    }
