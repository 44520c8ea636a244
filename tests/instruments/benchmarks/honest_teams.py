"""Counts the honest agents that each guard silences in planted teams without an attacker.

    python -m tests.instruments.benchmarks.honest_teams [--discussions 400]

Nine agents answer questions by eight on a document. The right answer and three wrong ones stand in the sources. In the
second round an agent takes over the commonest answer that it heard in three of ten discussions.

- good: each agent is right in .8 of the discussions, by itself.
- weak: in .3. invents: the same, and half of its wrong answers stand in no source.
- correlated: three of ten questions mislead the team: an agent then gives the same wrong answer as the others in .9.
- specialist: the first agent is right in .9, the others in .2, where they give the same wrong answer in the rest.

`probes` has one question of each document, as all other watched questions here: 40 of which it knows the answers.

The last line is one JSON object: by team and guard the share of agents that are silenced, in all discussions and, under
`alone`, of right agents in the discussions in which they alone are right.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, cast

import numpy as np

from actors.messages import Kind, Message, Question, Source, Status, Trace
from topologies.defences.blind_guard import blind_guard
from topologies.defences.credit import credit
from topologies.defences.e_process import EProcesses
from topologies.defences.geometric_median import geometric_median
from topologies.defences.online import Guarded, Transcript, outliers, words_shown
from topologies.defences.probes import most_right
from topologies.defences.suspicion import anomaly, disagreement
from topologies.defences.trust import trust
from topologies.method import DefenceSettings, MethodContext, SystemSettings
from topologies.wiring import Bools

AGENTS = tuple(f"agent_{number}" for number in range(9))
RIGHT = "alpha"
WRONG = ("beta", "gamma", "delta")
UNFOUNDED = "omega"
TEAMS = ("good", "weak", "invents", "correlated", "specialist")
GUARDS = {"credit": credit, "trust": trust, "blind_guard": blind_guard, "geometric_median": geometric_median}
WATCHED = {"agreement": disagreement, "anomaly": anomaly}
DOCUMENT = 8  # questions
HALF = 0.5  # of a weight, below which an agent is silenced
Discussion = tuple[Transcript, Bools]


def context(settings: DefenceSettings) -> MethodContext:
    nothing = cast(Any, None)
    return MethodContext("planted", AGENTS, 2, 0, nothing, SystemSettings(), settings, nothing, nothing)


def chances(team: str, draw: np.random.Generator) -> tuple[np.ndarray[Any, Any], bool]:
    """Each agent's chance of a right answer, float [agents], and whether wrong ones are all the same."""
    if team == "specialist":
        return np.array([0.9] + [0.2] * (len(AGENTS) - 1)), True
    if team == "correlated" and draw.random() < 0.3:
        return np.full(len(AGENTS), 0.1), True
    return np.full(len(AGENTS), {"weak": 0.3, "invents": 0.3}.get(team, 0.8)), False


def discussions(team: str, number: int) -> Iterator[Discussion]:
    """Yields discussions, with the agents that were right in both rounds, bool [agents]."""
    draw = np.random.default_rng(TEAMS.index(team))
    source = Source("s", "d", Kind.TEXT, "", f"{RIGHT} {' '.join(WRONG)}, the evidence says")
    for place in range(number):
        question = Question(f"{team}-{place}", "Which one?", evidence=(source,))
        chance, is_shared = chances(team, draw)
        is_right = draw.random(len(AGENTS)) < chance
        wrong = [WRONG[0] if is_shared else str(answer) for answer in draw.choice(WRONG, len(AGENTS))]
        if team == "invents":
            wrong = [UNFOUNDED if draw.random() < 0.5 else answer for answer in wrong]
        first = [RIGHT if right else answer for right, answer in zip(is_right, wrong, strict=True)]
        [(commonest, _)] = Counter(first).most_common(1)
        moves = draw.random(len(AGENTS)) < 0.3
        second = [commonest if move else answer for move, answer in zip(moves, first, strict=True)]
        confidences = draw.uniform(0.5, 0.9, len(AGENTS))
        messages = []
        for round, answers in enumerate((first, second), 1):
            heard = tuple(f"1/{agent}" for agent in AGENTS) if round > 1 else ()
            for agent, answer, confidence in zip(AGENTS, answers, confidences, strict=True):
                text = f"The evidence says {answer}."
                messages.append(Message(f"{round}/{agent}", agent, round, text, answer, float(confidence), heard=heard))
        still_right = np.array([answer == RIGHT for answer in second]) & is_right
        yield Transcript(question, AGENTS, tuple(messages), words_shown(question)), still_right


def by_guard(found: Sequence[Discussion]) -> dict[str, Bools]:
    """Silenced agents of each guard of single discussions and of `e_process`, bool [discussions, agents]."""
    settings = DefenceSettings()
    silent = {}
    for name, guard in GUARDS.items():
        guarded = Guarded(context(settings), guard)
        weights = [guarded.weights(guarded.suspicion(transcript)) for transcript, _ in found]
        silent[name] = np.array(weights) < HALF

    processes = EProcesses(context(settings))
    rows = []
    for start in range(0, len(found), DOCUMENT):
        scores = [processes.suspicion(transcript) for transcript, _ in found[start : start + DOCUMENT]]
        rows += [processes.weights(row) < HALF for row in scores]
        processes = processes.after([[(tuple(row.tolist()),) for row in scores]])
    silent["e_process"] = np.array(rows)
    return silent


def watched(found: Sequence[Discussion]) -> dict[str, Bools]:
    """Agents that are silenced after watching each part of `defence.calibration` discussions, for all of the part."""
    settings = DefenceSettings()
    right = np.array([[answer == RIGHT for answer in transcript.last_answers] for transcript, _ in found])
    silent = {"probes": np.zeros_like(right)}
    for start in range(0, len(found), settings.calibration):
        end = start + settings.calibration
        probes = len(right[start:end])
        silent["probes"][start:end] = right[start:end].sum(axis=0) <= most_right(probes, len(AGENTS), settings)

    for name, suspicion in WATCHED.items():
        rows = []
        for start in range(0, len(found), settings.calibration):
            part = [transcript for transcript, _ in found[start : start + settings.calibration]]
            traces = [
                Trace(transcript.question.id, "full", 0, AGENTS, transcript.messages, None, Status.OK, 0)
                for transcript in part
            ]
            asked = {transcript.question.id: transcript.question for transcript in part}
            rows += [outliers(suspicion(traces, asked))] * len(part)
        silent[name] = np.array(rows)
    return silent


def measure(number: int) -> dict[str, dict[str, dict[str, float | None]]]:
    shares: dict[str, dict[str, dict[str, float | None]]] = {}
    for team in TEAMS:
        found = list(discussions(team, number))
        right = np.array([is_right for _, is_right in found])
        alone = right & (right.sum(axis=1, keepdims=True) == 1)
        shares[team] = {}
        for name, silent in {**watched(found), **by_guard(found)}.items():
            of_alone = silent[alone].tolist()
            shares[team][name] = {"all": float(silent.mean()), "alone": fmean(of_alone) if of_alone else None}
            print(f"{team:12} {name:18} {shares[team][name]}", flush=True)
    return shares


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--discussions", type=int, default=400, dest="number")
    print(json.dumps(measure(**vars(parser.parse_args()))))
