"""Defences that act while a team talks: before each turn, a guard weighs the messages that the agent would hear.

A guard sees the question, its evidence and the messages so far. It knows neither a label nor the number of attackers,
and treats honest agents and compromised ones alike. A message that is changed on its way is seen as it was sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from string import ascii_lowercase

import numpy as np

from actors.messages import Message, Question, Status, Trace, Turn
from topologies.answers import ballot, text_form
from topologies.baselines import wired
from topologies.method import Method, MethodContext
from topologies.topology import DECISION_AGENT, Ask, Suspicion
from topologies.wiring import Bools, Floats

OUTLIER = 3.0  # robust standard deviations above the median
LEAST = 0.1  # above the median, where nearly all are equal


@dataclass(frozen=True)
class Transcript:
    """A discussion so far.

    messages: of the team, in the order of their turns. Failed ones are left out: they are no evidence against anyone.
    source_words: all words of the question, its choices and its evidence.
    """

    question: Question
    agents: tuple[str, ...]
    messages: tuple[Message, ...]
    source_words: frozenset[str]

    @property
    def last_messages(self) -> list[Message | None]:
        """Each agent's last message; None before its first."""
        last_message = {message.agent: message for message in self.messages}
        return [last_message.get(agent) for agent in self.agents]

    @property
    def last_answers(self) -> list[str | None]:
        """Answer of each agent's last message in its form for comparisons; None without one."""
        return [answer_of(self.question, message) for message in self.last_messages]


Guard = Callable[[Transcript], Floats]
"""Suspicion of each agent, float [agents], more for a likelier attacker; from 0 to 1 for `Guarded` itself."""


class Guarded:
    """Discussions of the complete graph. Before each turn, a guard weighs the messages that are heard.

    Agents speak one after another there, so that the guard's view of a turn depends on no timing. The weight of a
    sender multiplies that of its edge; the others' stay, as for a failed turn. With weight 0 it is isolated: neither
    another agent nor the decision agent hears it. The trace has suspicion and weights after each round.
    """

    def __init__(self, context: MethodContext, guard: Guard) -> None:
        self.method = context.method
        self.agents = tuple(context.agents)
        self._topology = wired(context)
        self._guard = guard

    def suspicion(self, transcript: Transcript) -> Floats:
        """Returns the guard's suspicion of each agent, float [agents]."""
        return self._guard(transcript)

    def weights(self, scores: Floats) -> Floats:
        """Weighs agents by 1 minus suspicion, over the largest, and isolates outliers; float [agents]."""
        trust = 1 - scores
        weights: Floats = trust / max(trust.max(), 1e-9) * ~outliers(scores)
        return weights

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        source_words = words_shown(question)
        messages: list[Message] = []

        def scores_and_weights(rounds: int) -> tuple[Floats, Floats]:
            """Suspicion and weights by the messages of the first rounds."""
            earlier = tuple(message for message in messages if message.round <= rounds)
            scores = self.suspicion(Transcript(question, self.agents, earlier, source_words))
            weights = self.weights(scores)
            # With all isolated, there would be no discussion.
            return scores, weights if weights.any() else np.ones(len(weights))

        async def guarded_ask(turn: Turn) -> Message:
            _, weights = scores_and_weights(turn.round)
            weight_of = dict(zip(self.agents, weights.tolist(), strict=True)) | {turn.agent: 1.0}
            weighed = [replace(heard, weight=heard.weight * weight_of[heard.message.agent]) for heard in turn.heard]
            message = await ask(replace(turn, heard=tuple(heard for heard in weighed if heard.weight > 0)))
            if turn.agent != DECISION_AGENT and message.status is Status.OK:
                messages.append(message)
            return message

        trace = await self._topology.answer(question, guarded_ask, seed, sample)

        rounds = max(turn.round for turn in trace.turns if turn.agent != DECISION_AGENT)
        by_round = [scores_and_weights(round) for round in range(1, rounds + 1)]
        return replace(
            trace,
            suspicion=_rounded([scores for scores, _ in by_round]),
            weights=_rounded([weights for _, weights in by_round]),
        )


def _rounded(rows: Sequence[Floats]) -> Suspicion:
    # The last bits of a sum may differ between machines. Adding 0 takes the sign of a zero.
    return tuple(tuple((np.round(row, 6) + 0.0).tolist()) for row in rows)


def guarded(name: str, description: str, guard: Guard) -> Method:
    """Makes the method of a guard."""
    return Method(name, f"complete graph that {description}", lambda context: Guarded(context, guard))


def outliers(scores: Floats) -> Bools:
    """Finds scores more than `OUTLIER` robust deviations, and `LEAST`, above the median, bool [agents].

    Fewer than half are found, the highest. The deviation is that of `robust_z`.
    """
    highest = most_suspicious(scores, (len(scores) - 1) // 2)
    return highest & (robust_z(scores[:, None])[:, 0] > OUTLIER) & (scores > np.median(scores) + LEAST)


def most_suspicious(suspicion: Floats, number: int) -> Bools:
    """Picks so many agents of the largest suspicion, bool [agents]; of equal ones the first.

    Raises ValueError unless at least one agent is left.
    """
    if not 0 <= number < len(suspicion):
        raise ValueError(f"of {len(suspicion)} agents, 0 to {len(suspicion) - 1} can be silenced, not {number}")
    is_chosen = np.zeros(len(suspicion), dtype=bool)
    # Negated for the largest first; stable, so that the first of equal ones is chosen.
    is_chosen[np.argsort(-suspicion, kind="stable")[:number]] = True
    return is_chosen


def robust_z(values: Floats) -> Floats:
    """Distance from the column's median in robust standard deviations, float [agents, features].

    The deviation is 1.4826 MAD, or, where more than half of a column are equal, 1.2533 times the mean absolute
    deviation (Iglewicz and Hoaglin 1993). NaN (no occasion) and columns without any deviation count 0.
    """
    scores = np.zeros_like(values)
    for column, feature in enumerate(values.T):
        present = ~np.isnan(feature)
        if not present.any():
            continue
        distances = feature[present] - np.median(feature[present])
        # The two factors make either deviation estimate the standard deviation of normal data.
        deviation = 1.4826 * np.median(np.abs(distances)) or 1.2533 * np.mean(np.abs(distances))
        if deviation:
            scores[present, column] = distances / deviation
    return scores


def answer_of(question: Question, message: Message | None) -> str | None:
    """Returns a message's answer in its form for comparisons; None without a usable one."""
    if message is None or message.status is not Status.OK:
        return None
    return ballot(question, message.answer)


def one_hot(answers: Sequence[str | None]) -> Floats:
    """Answers as vectors over all different ones, float [answers, different]; zeros for None."""
    different = sorted({answer for answer in answers if answer is not None})
    matrix = np.zeros((len(answers), len(different)))
    for row, answer in enumerate(answers):
        if answer is not None:
            matrix[row, different.index(answer)] = 1.0
    return matrix


def words_shown(question: Question) -> frozenset[str]:
    """All words of a question, its choices and its evidence."""
    evidence = [f"{source.title} {source.text}" for source in question.evidence]
    text = " ".join([question.text, *question.choices, *evidence])
    # Letters name choices.
    return frozenset(words(text)) | frozenset(ascii_lowercase[: len(question.choices)])


@lru_cache(maxsize=2_000)  # answers are read before every turn
def words(text: str) -> tuple[str, ...]:
    """The words of a text in the form in which answers are compared: folded, numbers as numbers."""
    return tuple((text_form(text) or "").split())
