"""Suspicion of agents from the record alone, and conformal sets of suspects. No model is asked."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from actors.messages import Message, Question, Trace, derive_seed
from experiments.config.setting_groups import ExplainSettings
from experiments.records.attribution import Explained, explained
from experiments.records.recorder import RunFolder
from topologies.answers import ballot

COVERAGE = 0.9  # probability with which a set of suspects holds a culprit
TIE = 1e-6  # a random part of suspicion: chance orders equal ones, which makes coverage exact


def suspicion(trace: Trace, question: Question, seed: int) -> dict[str, float]:
    """Scores how much each agent spoke for the answer, without labels.

    It is the largest over its turns with the answer of 1, and 1 for not having heard it, and the share of hearers that
    took it over, and a tenth of the confidence.
    """
    answers = {turn.id: ballot(question, turn.answer) for turn in trace.turns}
    final = ballot(question, trace.answer)

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
        return 1.0 + float(is_new) + share + (turn.confidence or 0.0) / 10

    scores = {}
    for agent in trace.agents:
        tie_breaker = TIE * derive_seed(seed, "suspicion", trace.question, agent) / 2.0**63
        for_final = [turn for turn in trace.turns if turn.agent == agent and answers[turn.id] == final]
        scores[agent] = tie_breaker + max(map(spoke_for, for_final), default=0.0)
    return scores


def least_suspicion(culprits: Sequence[float], coverage: float) -> float:
    """The least suspicion of a suspect.

    It is the k-th least of the culprits of n other failures, k = floor((n + 1)(1 - coverage)). Where failures are
    exchangeable, suspects hold a culprit with probability `coverage`, and at most 1 / (n + 1) more (split conformal:
    Vovk et al. 2005). All agents are suspects where n is too small.
    """
    k = math.floor((len(culprits) + 1) * (1 - coverage) + 1e-9)
    return sorted(culprits)[k - 1] if k else -math.inf


def with_suspects(explanations: Sequence[Explained], settings: ExplainSettings, seed: int) -> list[Explained]:
    """Adds the conformal sets. Another run calibrates them or, where culprits were found, each half the other."""
    if settings.calibration:
        calibrating_run = RunFolder.open(Path(settings.calibration).expanduser())
        threshold = least_suspicion(culprit_suspicions(explained(calibrating_run)), COVERAGE)
        threshold_of_half = [threshold, threshold]
    else:
        halves: list[list[Explained]] = [[], []]
        for explanation in explanations:
            halves[_half(explanation, seed)].append(explanation)
        # The other half calibrates the sets of this one.
        threshold_of_half = [least_suspicion(culprit_suspicions(half), COVERAGE) for half in reversed(halves)]

    with_sets = []
    for explanation in explanations:
        threshold = threshold_of_half[_half(explanation, seed)]
        suspects = [agent for agent, suspicion in explanation.suspicion.items() if suspicion >= threshold]
        with_sets.append(replace(explanation, suspects=tuple(suspects)))
    return with_sets


def culprit_suspicions(explanations: Iterable[Explained]) -> list[float]:
    """Lists the suspicion of the most suspected culprit, of the attacked answers that have one."""
    suspicions = []
    for explanation in explanations:
        if explanation.by == "counterpart" and explanation.culprits:
            suspicions.append(max(explanation.suspicion.get(agent, 0.0) for agent in explanation.culprits))
    return suspicions


def _half(explanation: Explained, seed: int) -> int:
    return derive_seed(seed, "half", explanation.question) % 2
