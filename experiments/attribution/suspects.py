"""Suspicion of agents from the record alone, and conformal sets of suspects. No model is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from actors.messages import Message, Question, Trace, derive_seed
from topologies.answers import ballot

TIE = 1e-6  # a random part of suspicion: chance orders equal ones, which makes coverage exact


def suspicion(trace: Trace, question: Question, seed: int) -> dict[str, float]:
    """Scores how much each agent spoke for the answer of a discussion, without labels.

    The largest over its turns with the answer of 1, and 1 for not having heard it, and the share of hearers that took
    it over, and a tenth of the confidence; 0 without such a turn.
    """
    answers = {turn.id: ballot(question, turn.answer) for turn in trace.turns}
    final = ballot(question, trace.answer)

    def spoke_for(turn: Message) -> float:
        before = [answers.get(f"{turn.round - 1}/{turn.agent}"), *(answers.get(id) for id in turn.heard)]
        hearers = [other for other in trace.turns if turn.id in other.heard and other.agent != turn.agent]
        taken = [answers[each.id] == final != answers.get(f"{each.round - 1}/{each.agent}", final) for each in hearers]
        return 1.0 + (final not in before) + sum(taken) / max(1, len(taken)) + (turn.confidence or 0.0) / 10

    scores = {agent: TIE * derive_seed(seed, "suspicion", trace.question, agent) / 2.0**63 for agent in trace.agents}
    for agent, tie in scores.items():
        spoken = [turn for turn in trace.turns if turn.agent == agent and answers[turn.id] == final]
        scores[agent] = tie + max(map(spoke_for, spoken), default=0.0)
    return scores


def least_suspicion(culprits: Sequence[float], coverage: float) -> float:
    """The suspicion from which on agents are in the set of suspects (split conformal: Vovk et al. 2005).

    It is the k-th least of those of the culprits of n other failures, k = floor((n + 1)(1 - coverage)). Where failures
    are exchangeable, a set holds a culprit with probability `coverage`, and at most 1 / (n + 1) more. Where n is too
    small for that, all agents are suspects.
    """
    k = math.floor((len(culprits) + 1) * (1 - coverage) + 1e-9)
    return sorted(culprits)[k - 1] if k else -math.inf
