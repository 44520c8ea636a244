"""An e-process for each agent, over the questions of an evaluation. It bounds the chance of any false alarm.

Null hypothesis of an agent: in each discussion, given all discussions before it, the agent makes a claim with a
probability of at most `defence.tolerance`, p. A claim is an answer with a word of no source: neither the question, its
evidence nor an answer that the agent heard has it, and most colleagues' answers of the round have no such word.

A discussion multiplies the agent's wealth by q / p with a claim and by (1 - q) / (1 - p) without. The expected value of
this bet is at most 1 under the hypothesis (Shafer 2021, "Testing by betting"). Of the wealth 1 at the beginning, the
share 1 / (b (b + 1)) enters with block b of discussions. So an agent's honest past hides a later attack only for a time
that grows with the logarithm of its length (Shin, Ramdas and Rinaldo 2023, "E-detectors"). The bets and the wealth that
has not entered are an e-process (Ramdas, Grunwald, Vovk and Shafer 2023, "Game-theoretic statistics"). By Ville's
inequality (1939), it ever reaches n / a with probability a / n at most. Over n agents, and however many questions, any
honest agent is isolated with probability `defence.error_rate`, a, at most.

Alarms are raised between blocks of `defence.block` discussions, which are held at once. So they do not depend on
concurrency, and a resumed run finds its wealth in the recorded scores, which are logarithms of it.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np

from topologies.defences.online import Guarded, Talk, words
from topologies.method import Method, MethodContext
from topologies.topology import Suspicion
from topologies.wiring import Floats

CLAIMING = 0.5  # q: the bet is best against agents that make a claim in half of their discussions


class EProcesses(Guarded):
    """Discussions without the agents whose e-process raised an alarm in a block before."""

    def __init__(self, context: MethodContext) -> None:
        super().__init__(context, claims)
        self.block = context.defence.block
        self._defence, self._blocks = context.defence, 0
        self.staked = np.full(len(self.agents), np.log(1 / 2))
        self._highest = np.full(len(self.agents), -np.inf)

    def after(self, suspicion: Sequence[Suspicion]) -> "EProcesses":
        """Returns the discussions of the next block; suspicion: the scores of each discussion of this one."""
        later = copy(self)
        wealth = self.staked + sum(np.array(rows[-1]) - self.staked for rows in suspicion if rows)
        later._highest = np.maximum(self._highest, wealth)
        later._blocks += 1
        # 1 / (b (b + 1)) enters with block b, from 1.
        later.staked = np.logaddexp(wealth, -np.log((later._blocks + 1) * (later._blocks + 2)))
        return later

    def suspicion(self, talk: Talk) -> Floats:
        """Returns the logarithm of each agent's wealth after this discussion, float [agents]."""
        p, made = self._defence.tolerance, super().suspicion(talk)
        # No evidence of an agent without a message, whose turns all failed.
        gained = np.select([made == 1, made == 0], [np.log(CLAIMING / p), np.log((1 - CLAIMING) / (1 - p))], 0.0)
        return np.asarray(self.staked + gained)

    def weights(self, scores: Floats) -> Floats:
        """Isolates agents for good whose wealth has reached n / a."""
        return np.asarray(self._highest < np.log(len(scores) / self._defence.error_rate), dtype=float)


def claims(talk: Talk) -> Floats:
    """Finds agents that have made a claim so far: 1 or 0, NaN without a message, float [agents]."""
    answers = {message.id: frozenset(words(message.answer or "")) for message in talk.messages}
    made = np.full(len(talk.agents), np.nan)
    for message in talk.messages:
        colleagues = [each for each in talk.messages if each.round == message.round and each is not message]
        strange = sum(bool(answers[each.id] - talk.known) for each in colleagues)
        others = (answers.get(id, frozenset()) for id in message.heard if not id.endswith(f"/{message.agent}"))
        claim = bool(answers[message.id].difference(talk.known, *others)) and 2 * strange < len(colleagues)
        place = talk.agents.index(message.agent)
        made[place] = np.fmax(made[place], float(claim))
    return made


METHODS = (
    Method(
        "e_process",
        "complete graph without agents whose answers too often have no source",
        EProcesses,
        reads=("defence.error_rate", "defence.tolerance", "defence.block"),
    ),
)
