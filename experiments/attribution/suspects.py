"""Suspicion of agents from the record alone, and conformal sets of suspects. No model is asked."""

import math
from collections.abc import Sequence
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
    """The least suspicion of a suspect.

    It is the k-th least of the culprits of n other failures, k = floor((n + 1)(1 - coverage)). Where failures are
    exchangeable, suspects hold a culprit with probability `coverage`, and at most 1 / (n + 1) more (split conformal:
    Vovk et al. 2005). All agents are suspects where n is too small.
    """
    k = math.floor((len(culprits) + 1) * (1 - coverage) + 1e-9)
    return sorted(culprits)[k - 1] if k else -math.inf


def with_suspects(found: Sequence[Explained], settings: ExplainSettings, seed: int) -> list[Explained]:
    """Adds the conformal sets. Another run calibrates them or, where culprits were found, each half the other."""
    other = settings.calibration and RunFolder.open(Path(settings.calibration).expanduser())
    half = {each.question: derive_seed(seed, "half", each.question) % 2 for each in found}
    culprits = [
        (-1 if other else half[each.question], max(each.suspicion.get(agent, 0.0) for agent in each.culprits))
        for each in (explained(other) if other else found)
        if each.by == "counterpart" and each.culprits
    ]
    least = [least_suspicion([one for of, one in culprits if of != this], COVERAGE) for this in (0, 1)]
    sets = [[a for a, one in each.suspicion.items() if one >= least[half[each.question]]] for each in found]
    return [replace(each, suspects=tuple(of)) for each, of in zip(found, sets, strict=True)]
