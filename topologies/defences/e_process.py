"""An e-process for each agent, over the questions of an evaluation. It bounds the chance of any false alarm.

Null hypothesis of an agent: in each cluster of discussions, given all clusters before it, the agent makes a claim in a
share of the discussions whose expected value is at most `defence.tolerance`, p. A claim is an answer with a word of no
source: neither the question, its evidence nor an answer that the agent heard has it, and most colleagues' answers of
the round have no such word. A discussion in which all turns of an agent failed has no claim of it. A cluster is a
document: claims about one document come in clumps, and clusters are discussed in a random order, so that the hypothesis
holds at any place of a hard document in the data set.

A discussion has the bet q / p with a claim and (1 - q) / (1 - p) without. A cluster multiplies the agent's wealth by
the mean bet of its discussions, of which the expected value is at most 1 under the hypothesis, however they depend on
each other (Shafer 2021, "Testing by betting"; Vovk and Wang 2021, "E-values", section 3). Of the wealth 1 at the
beginning, the share 1 / (b (b + 1)) enters with block b of clusters. So an agent's honest past hides a later attack
only for a time that grows with the logarithm of its length (Shin, Ramdas and Rinaldo 2023, "E-detectors"). The bets and
the wealth that has not entered are an e-process (Ramdas, Grunwald, Vovk and Shafer 2023, "Game-theoretic statistics").
By Ville's inequality (1939), it ever reaches n / a with probability a / n at most. Over n agents, and however many
questions, any honest agent is isolated with probability `defence.error_rate`, a, at most.

Alarms are raised between blocks of whole clusters, of at least `defence.block` discussions, which take place at once.
So they do not depend on concurrency, and a resumed run finds its wealth in the recorded scores, which are logarithms
of it.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np

from topologies.defences.online import Guarded, Transcript, words
from topologies.method import Method, MethodContext
from topologies.topology import Suspicion
from topologies.wiring import Floats

CLAIMING = 0.5  # q: the bet is best against agents that make a claim in half of their discussions


class EProcesses(Guarded):
    """Discussions without the agents whose e-process raised an alarm in a block before.

    block: least number of discussions between two decisions. log_wealth: of each agent at the beginning of the block,
    float [agents].
    """

    def __init__(self, context: MethodContext) -> None:
        super().__init__(context, claims)
        self.block = context.defence.block
        self.log_wealth = np.full(len(self.agents), np.log(1 / 2))
        self._defence = context.defence
        self._blocks = 0
        self._highest = np.full(len(self.agents), -np.inf)

    def after(self, suspicion: Sequence[Sequence[Suspicion]]) -> "EProcesses":
        """Returns the discussions of the next block; suspicion: the scores of each discussion of each cluster.

        A discussion without scores failed as a whole, and is left out of its cluster.
        """
        log_wealth = self.log_wealth
        for cluster in suspicion:
            log_bets = [np.array(scores[-1]) - self.log_wealth for scores in cluster if scores]
            if log_bets:
                log_wealth = log_wealth + np.log(np.mean(np.exp(log_bets), axis=0))

        later = copy(self)
        later._highest = np.maximum(self._highest, log_wealth)
        later._blocks += 1
        # 1 / (b (b + 1)) enters with block b, from 1.
        entering = -np.log((later._blocks + 1) * (later._blocks + 2))
        later.log_wealth = np.logaddexp(log_wealth, entering)
        return later

    def suspicion(self, transcript: Transcript) -> Floats:
        """Returns the logarithm of each agent's wealth after this discussion alone, float [agents]."""
        p = self._defence.tolerance
        made_claim = super().suspicion(transcript) == 1
        return self.log_wealth + np.where(made_claim, np.log(CLAIMING / p), np.log((1 - CLAIMING) / (1 - p)))

    def weights(self, scores: Floats) -> Floats:
        """Isolates agents for good whose wealth has reached n / a."""
        return np.asarray(self._highest < np.log(len(scores) / self._defence.error_rate), dtype=float)


def claims(transcript: Transcript) -> Floats:
    """Finds agents that have made a claim so far: 1 or 0, NaN without a message, float [agents]."""
    answers = {message.id: frozenset(words(message.answer or "")) for message in transcript.messages}
    without_source = {id for id, answer in answers.items() if answer - transcript.source_words}

    made_claim = np.full(len(transcript.agents), np.nan)
    for message in transcript.messages:
        colleagues = [peer.id for peer in transcript.messages if peer.round == message.round and peer != message]
        most_have_sources = 2 * len(without_source.intersection(colleagues)) < len(colleagues)
        own_suffix = f"/{message.agent}"
        heard_answers = [answers[id] for id in message.heard if id in answers and not id.endswith(own_suffix)]
        has_new_word = bool(answers[message.id].difference(transcript.source_words, *heard_answers))

        place = transcript.agents.index(message.agent)
        made_claim[place] = np.fmax(made_claim[place], float(has_new_word and most_have_sources))
    return made_claim


METHODS = (
    Method(
        "e_process",
        "complete graph without agents whose answers too often have no source",
        EProcesses,
        reads=("defence.error_rate", "defence.tolerance", "defence.block"),
    ),
)
