"""Measures of learners and of their graphs in a planted world."""

import statistics
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from actors.messages import Modality
from experiments.analysis.monitored import fallen
from experiments.analysis.statistics import known_mean
from experiments.attacks.attack_metrics import auc
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.scenarios import without_messages
from experiments.studies.planted.truth import Truth, discuss_questions, random_wirings
from topologies.learning.effects import among_peers
from topologies.learning.grades import relative_grades
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.wiring import Bools, Edges, Floats, Ints, Wiring, Wirings, into, needed_turns

MONITORED = 200  # evaluated questions that the monitor watches
GRADED = 40  # training questions that grade agents


def worse_agents(team: OpinionTeam, error_rate: float) -> list[int]:
    """Grades agents by their answers to training questions without messages; names those worse than their modality."""
    unconnected = without_messages(random_wirings(team, GRADED, 2))
    scores, _ = discuss_questions(team, unconnected, None, GRADED, "learning")
    visual = torch.tensor([modality == Modality.VISUAL for modality in team.modalities])
    difference = among_peers(scores.double().mean(1), visual)
    number = torch.tensor(GRADED)
    grades = relative_grades(difference.sum(0), (difference**2).sum(0), number, error_rate)
    agents: list[int] = (grades < -1).nonzero().flatten().tolist()
    return agents


def learned_graph(learner: Learner, team: OpinionTeam, evaluated: int) -> tuple[Wirings, Edges[Floats]]:
    """Makes a learner's graph and reading weights, of each evaluated question where they depend on it."""
    features = evaluated_features(learner, team, evaluated)
    return learner.inference_wirings(features), learner.reading(features)


def evaluated_features(learner: Learner, team: OpinionTeam, evaluated: int) -> Floats | None:
    """Features of the evaluated questions [questions, d], for a learner whose graph may depend on them."""
    if not learner.spec.features:
        return None
    features: Floats = team.questions(evaluated, "evaluation").features.numpy()
    return features


def mean_scores(scores: torch.Tensor, utilities: torch.Tensor, speaks: Bools | None) -> Floats:
    """Mean score of each agent's turns, NaN without any, and of final answers [k, agents + 1]."""
    spoken = np.ones(scores.shape)
    if speaks is not None:
        spoken = np.broadcast_to(speaks, scores.shape)
    count = spoken.sum(1)
    means = (scores.numpy() * spoken).sum(1) / np.where(count, count, np.nan)
    return np.column_stack([means, utilities.numpy()])


def monitor_reports(
    learner: Learner, team: OpinionTeam, training_scores: Sequence[Floats]
) -> dict[int, tuple[int, int]]:
    """Watches the first evaluated questions along the learned graph; returns what the monitor reports, by column.

    training_scores: `mean_scores` of each training step.
    """
    wirings, reading = learned_graph(learner, team, MONITORED)
    scores, utilities = discuss_questions(team, wirings, reading, MONITORED)
    steps = np.repeat(range(len(training_scores)), [len(step_scores) for step_scores in training_scores])
    return fallen(
        pd.DataFrame(np.concatenate(training_scores), steps),
        pd.DataFrame(mean_scores(scores, utilities, wirings.speaks)),
        team.modalities,
        error_rate=learner.spec.settings.error_rate,
    )


def edges_left(learner: Learner) -> float:
    """Counts the edges that a learner has left; where rounds have separate edges, the mean over rounds."""
    numbers: dict[str, list[int]] = {}
    for name, number in learner.edges_left().items():
        block, _, _ = name.partition(", round ")
        numbers.setdefault(block, []).append(number)
    return sum(statistics.mean(block_numbers) for block_numbers in numbers.values())


def stopped(learner: Learner) -> Learner:
    """Copies a learner and ends the copy's learning here, in any stage."""
    copy = make_learner(learner.spec)
    copy.load(learner.state())
    # Each `next_stage` prunes with the scores so far, as the end of a stage does.
    while not copy.finished:
        copy.next_stage()
    return copy


def wrongly_cut(learner: Learner, truth: Truth) -> int | None:
    """Counts helpful edges that were cut as certain to harm. Returns None for a learner without certainty."""
    certain_harm = learner.certain_harm()
    if certain_harm is None:
        return None
    wrong_cuts = 0
    for cut, on_receiver, on_answer in zip(certain_harm, truth.on_receiver, truth.on_answer, strict=True):
        wrong_cuts += int((cut & (on_receiver > 0) & (on_answer > 0)).sum())
    return wrong_cuts


def edge_shares(wirings: Wirings, full: Wirings) -> tuple[float, ...]:
    """Shares of the full graph's edges that other wirings have, by kind: spatial, temporal, to the decision agent."""
    shares = []
    for kind in ("spatial", "temporal", "decision"):
        shares.append(float(getattr(wirings, kind).mean() / max(getattr(full, kind).mean(), 1e-9)))
    return tuple(shares)


def price(wirings: Wirings) -> tuple[int, int]:
    """Counts the needed turns of one discussion, and the messages read in them and by the decision agent."""
    # Discussions of a baseline or a learned graph differ in speaking order at most, so that the first is enough.
    speaks = None if wirings.speaks is None else wirings.speaks[0]
    wiring = Wiring.of_matrices(wirings.spatial[0], wirings.temporal[0], wirings.decision[0], speaks=speaks)
    turns = needed_turns(wiring)
    readings = into(turns, wiring.spatial).sum() + into(turns, wiring.temporal).sum() + wiring.decision.sum()
    return int(turns.sum()), int(readings)


def different_turns(wirings: Wirings) -> tuple[int, int]:
    """Counts the different turns among discussions of one question, and the messages read in them.

    Equal turns are of the same agent and round, with equal messages and memories: one completion answers both.
    """
    k, rounds, agents = wirings.order.shape
    discussions = np.arange(k)
    speaks = np.ones((k, rounds, agents), dtype=bool)
    if wirings.speaks is not None:
        speaks = wirings.speaks
    numbers: dict[bytes, int] = {}  # of the different turns, from 1
    readings = 0

    def number_turns(turns: Ints) -> list[int]:
        # turns: agent, round and the agent's last turn, then for each sender the turn that is heard, or 0.
        nonlocal readings
        turn_numbers = []
        for turn in turns:
            key = turn.tobytes()
            if key not in numbers:
                numbers[key] = len(numbers) + 1
                readings += int(np.count_nonzero(turn[3:]))
            turn_numbers.append(numbers[key])
        return turn_numbers

    # Numbers of each agent's last turn, which determine all turns before it, and of its turn in the round before.
    last_turns = np.zeros((k, agents), dtype=np.int64)
    turns_before = last_turns
    for t in range(rounds):
        turns_now = np.zeros_like(last_turns)
        for agent in wirings.order[:, t].T:
            messages = np.where(wirings.spatial[discussions, t, :, agent], turns_now, 0)
            earlier_messages = np.where(wirings.temporal[discussions, t, :, agent], turns_before, 0)
            turns = np.column_stack([agent, np.full(k, t), last_turns[discussions, agent], messages, earlier_messages])
            speaking = speaks[discussions, t, agent]
            turns_now[discussions[speaking], agent[speaking]] = number_turns(turns[speaking])
        turns_before = turns_now
        last_turns = np.where(turns_now > 0, turns_now, last_turns)
    number_turns(np.column_stack([np.full((k, 3), agents), np.where(wirings.decision, turns_before, 0)]))
    return len(numbers), readings


def ranking(learner: Learner, truth: Truth, team: OpinionTeam, evaluated: int) -> dict[str, float | None]:
    """Returns the three AUCs of an `Outcome`, each the mean over kinds of edges, of the graphs that answer."""
    scores = learner.edge_scores(evaluated_features(learner, team, evaluated))
    harmful: dict[str, Edges[Bools]] = {
        "auc_harmful": Edges(*(effect < 0 for effect in truth.on_receiver)),
        "auc_costly": Edges(*(effect < 0 for effect in truth.on_answer)),
    }
    compared = ~np.eye(team.agents, dtype=bool)
    if team.special and team.scenario.ranked != "neither":
        # Edges to an adversary do nothing, because it ignores messages: no rank of theirs is right.
        compared[:, team.special] = False
        from_special = np.isin(np.arange(team.agents), team.special)[:, None].repeat(team.agents, 1)
        low = from_special == (team.scenario.ranked == "below")
        harmful["auc_adversary"] = Edges(low, low)

    return {name: mean_auc(scores, low_edges, compared) for name, low_edges in harmful.items()}


def mean_auc(scores: Edges[Floats], low_edges: Edges[Bools], compared: Bools) -> float | None:
    """Chance that an edge of `low_edges` ranks below another, among `compared` ones; the mean over kinds of edges."""
    aucs = []
    for low, kind_scores in zip(low_edges, scores, strict=True):
        # A learner without temporal edges, or without those between modalities, does not rank them.
        ranked = compared & np.isfinite(kind_scores)
        aucs.append(auc(kind_scores[low & ranked], kind_scores[~low & ranked]))
    # A kind without such edges, or with nothing else, has no AUC and is left out.
    return known_mean(aucs)
