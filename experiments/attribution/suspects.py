"""Suspicion of agents from the record alone, and conformal sets of suspects. No model is asked."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from actors.messages import Message, Question, Trace, derive_seed
from experiments.config.setting_groups import ExplainSettings
from experiments.records.attribution import Explained, explained
from experiments.records.recorder import RunFolder
from topologies.answers import ballot
from topologies.defences.online import words, words_shown
from topologies.topology import DECISION_AGENT

COVERAGE = 0.9  # probability with which a set of suspects holds a culprit
TIE = 1e-6  # a random part of suspicion, which orders equal ones


def suspicion(trace: Trace, question: Question, seed: int) -> dict[str, float]:
    """Scores how likely each agent is to have made the answer what it is, without labels.

    It is the sum of how much it spoke for the answer, of the share of its answers' words that stand in no source, and
    of the share of the answers that it heard and did not share. It spoke for the answer by the largest over its turns
    with the answer of 1, and 1 for not having heard it, and the share of hearers that took it over, and a tenth of the
    confidence. The decision agent, which always gives the answer, has no 1 for it.
    """
    answers = {turn.id: ballot(question, turn.answer) for turn in trace.turns}
    final = ballot(question, trace.answer)
    source_words = words_shown(question)

    def spoke_for(turn: Message) -> float:
        answer_before = answers.get(f"{turn.round - 1}/{turn.agent}")
        heard_answers = [answers.get(id) for id in turn.heard]
        is_new = final != answer_before and final not in heard_answers
        taken_over = []
        for hearer in trace.turns:
            if turn.id in hearer.heard and hearer.agent != turn.agent:
                hearer_before = answers.get(f"{hearer.round - 1}/{hearer.agent}", final)
                taken_over.append(answers[hearer.id] == final != hearer_before)
        share = taken_over.count(True) / max(1, len(taken_over))
        return float(turn.agent != DECISION_AGENT) + float(is_new) + share + (turn.confidence or 0.0) / 10

    scores = {}
    speakers = [turn.agent for turn in trace.turns]
    for agent in dict.fromkeys((*trace.agents, *speakers)):
        turns = [turn for turn in trace.turns if turn.agent == agent]
        for_final = [spoke_for(turn) for turn in turns if answers[turn.id] == final]
        without_source = []
        differs = []
        for turn in turns:
            without_source += [word not in source_words for word in words(turn.answer or "")]
            heard_answers = [answers[id] for id in turn.heard if id in answers and not id.endswith(f"/{agent}")]
            differs += [answer != answers[turn.id] for answer in heard_answers]
        tie_breaker = TIE * derive_seed(seed, "suspicion", trace.question, agent) / 2.0**63
        scores[agent] = max(for_final, default=0.0) + tie_breaker
        for share in (without_source, differs):
            scores[agent] += fmean(share or [0])
    return scores


def set_size(ranks: Sequence[int], agents: int, coverage: float) -> int:
    """Returns how many agents, the most suspected first, are suspects.

    It is the k-th least rank (from 1) of the culprits of n other failures, k = ceil((n + 1) coverage). Where failures
    are exchangeable, suspects hold a culprit with at least this probability (conformal prediction: Vovk et al. 2005).
    All agents are suspects where n is too small.
    """
    k = math.ceil((len(ranks) + 1) * coverage - 1e-9)
    return agents if k > len(ranks) else sorted(ranks)[k - 1]


def with_suspects(explanations: Sequence[Explained], settings: ExplainSettings) -> list[Explained]:
    """Adds the conformal sets. Another run calibrates them or, where culprits were found, all other explanations do.

    Suspicion is not fitted to the explanations, so that leaving out the one in question keeps the coverage, as the
    jackknife+ (Barber et al. 2021) does for a score that is.
    """
    calibrating: Sequence[Explained] = explanations
    if settings.calibration:
        calibrating = list(explained(RunFolder.open(Path(settings.calibration).expanduser())))
    ranks = [rank for explanation in calibrating if (rank := culprit_rank(explanation))]

    with_sets = []
    for explanation in explanations:
        other_ranks = list(ranks)
        own_rank = culprit_rank(explanation)
        if own_rank and not settings.calibration:
            other_ranks.remove(own_rank)
        order = most_suspected(explanation)
        size = set_size(other_ranks, len(order), COVERAGE)
        with_sets.append(replace(explanation, suspects=tuple(order[:size])))
    return with_sets


def most_suspected(explanation: Explained) -> list[str]:
    """Lists the agents, the most suspected first."""
    return sorted(explanation.suspicion, key=lambda agent: -explanation.suspicion[agent])


def culprit_rank(explanation: Explained) -> int:
    """Ranks the most suspected culprit of an attacked answer, from 1. Returns 0 where none was found."""
    order = most_suspected(explanation)
    ranks = [order.index(agent) + 1 for agent in explanation.culprits if agent in order]
    return min(ranks) if ranks and explanation.by == "counterpart" else 0
