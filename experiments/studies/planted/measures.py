"""Measures of learners and of their graphs in a planted world."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from experiments.analysis.monitored import fallen
from experiments.analysis.statistics import known_mean
from experiments.attacks.attack_metrics import auc
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.truth import Truth, held
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.wiring import Bools, Edges, Floats, Wiring, Wirings, into, needed_turns

MONITORED = 200  # evaluated questions that the monitor watches


def along(learner: Learner, team: OpinionTeam, evaluated: int) -> tuple[Wirings, Edges[Floats]]:
    """Makes a learner's graph and reading weights, of each evaluated question where they depend on it."""
    seen = team.questions(evaluated, "evaluation").features.numpy() if learner.spec.features else None
    return learner.inference_wirings(seen), learner.reading(seen)


def of_columns(scores: torch.Tensor, utilities: torch.Tensor, speaks: Bools | None) -> Floats:
    """Mean score of each agent's turns, NaN without any, and of final answers [k, agents + 1]."""
    spoken = np.ones(scores.shape) if speaks is None else np.broadcast_to(speaks, scores.shape)
    count = spoken.sum(1)
    own = (scores.numpy() * spoken).sum(1) / np.where(count, count, np.nan)
    return np.column_stack([own, utilities.numpy()])


def watched(learner: Learner, team: OpinionTeam, scores: Sequence[Floats]) -> dict[int, tuple[int, int]]:
    """Watches the first evaluated questions along the learned graph; returns what the monitor reports, by column.

    scores: `of_columns` of each training step.
    """
    graph, number = along(learner, team, MONITORED), np.repeat(range(len(scores)), [len(each) for each in scores])
    trained = pd.DataFrame(np.concatenate(scores), number)
    evaluated = pd.DataFrame(of_columns(*held(team, *graph, MONITORED), graph[0].speaks))
    return fallen(trained, evaluated, team.modalities, learner.spec.settings.error_rate)


def edges_left(learner: Learner) -> float:
    """Counts the edges that a learner has left; where rounds have separate edges, the mean over rounds."""
    of_blocks: dict[str, list[int]] = {}
    for name, left in learner.edges_left().items():
        of_blocks.setdefault(name.partition(", round ")[0], []).append(left)
    return sum(statistics.mean(left) for left in of_blocks.values())


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
    cut = learner.certain_harm()
    if cut is None:
        return None
    return sum(
        int((sure & (receiver > 0) & (answer > 0)).sum())
        for sure, receiver, answer in zip(cut, truth.on_receiver, truth.on_answer, strict=True)
    )


def shares(wirings: Wirings, full: Wirings) -> tuple[float, ...]:
    """Shares of the full graph's edges that other wirings have, by kind: spatial, temporal, to the decision agent."""
    names = ("spatial", "temporal", "decision")
    return tuple(float(getattr(wirings, name).mean() / max(getattr(full, name).mean(), 1e-9)) for name in names)


def price(wirings: Wirings) -> tuple[int, int]:
    """Counts the needed turns of one discussion, and the messages read in them and by the decision agent."""
    # Discussions of a baseline or a learned graph differ in speaking order at most, so that the first is enough.
    speaks = None if wirings.speaks is None else wirings.speaks[0]
    wiring = Wiring.of_matrices(wirings.spatial[0], wirings.temporal[0], wirings.decision[0], speaks=speaks)
    taken = needed_turns(wiring)
    heard = sum(int(into(taken, edges).sum()) for edges in (wiring.spatial, wiring.temporal))
    return int(taken.sum()), heard + int(wiring.decision.sum())


def different_turns(wirings: Wirings) -> tuple[int, int]:
    """Counts the different turns among discussions of one question, and the messages read in them.

    Equal turns are of the same agent and round, with equal messages and memories: one completion answers both. Each
    turn is known by a hash of 64 bits of these.
    """
    k, rounds, agents = wirings.order.shape
    speaks = np.ones((k, rounds, agents), dtype=bool) if wirings.speaks is None else wirings.speaks
    odd = np.random.default_rng(0).integers(2**63, size=(3, rounds + 1, agents + 1), dtype=np.uint64) | np.uint64(1)
    # Hashes of each agent's last turn, which determine all turns before it, and of its turn in the round before.
    own, before, each = *np.zeros((2, k, agents), np.uint64), np.arange(k)
    turns, read = [], []

    def add(agent: Any, t: int, now: Any, then: Any, spoken: Any, last: Any) -> Any:
        heard = (now * spoken * odd[0, t, :agents] + then * before * odd[1, t, :agents]).sum(1, dtype=np.uint64)
        mixed = (odd[2, t, agent] + heard + last * odd[2, 0, agents]) * np.uint64(0x9E3779B97F4A7C15)
        turns.append(mixed ^ (mixed >> np.uint64(29)))
        read.append(now.sum(1) + then.sum(1))
        return turns[-1]

    for t in range(rounds):
        spoken = np.zeros((k, agents), np.uint64)
        for agent in wirings.order[:, t].T:
            part = speaks[each, t, agent]
            now = wirings.spatial[each, t, :, agent] & (spoken > 0)
            then = wirings.temporal[each, t, :, agent] & (before > 0)
            turn = add(agent, t, now, then, spoken, own[each, agent])
            spoken[each, agent] = turn * part
            turns[-1], read[-1] = turn[part], read[-1][part]
        before, own = spoken, np.where(spoken > 0, spoken, own)
    add(agents, rounds, wirings.decision & (before > 0), np.zeros_like(wirings.decision), before, np.uint64(0))
    different, first = np.unique(np.concatenate(turns), return_index=True)
    return len(different), int(np.concatenate(read)[first].sum())


def ranking(scores: Edges[Floats], truth: Truth, team: OpinionTeam) -> dict[str, float | None]:
    """Returns the three AUCs of an `Outcome`, each the mean over kinds of edges."""
    agents = len(scores.spatial)
    costs: dict[str, Edges[Bools]] = {
        "auc_harmful": Edges(*(effect < 0 for effect in truth.on_receiver)),
        "auc_costly": Edges(*(effect < 0 for effect in truth.on_answer)),
    }
    compared = ~np.eye(agents, dtype=bool)
    if team.special and team.scenario.ranked != "neither":
        # Edges to an adversary do nothing, because it ignores messages: no rank of theirs is right.
        compared[:, team.special] = False
        of_special = np.isin(np.arange(agents), team.special)[:, None].repeat(agents, 1)
        costs["auc_adversary"] = Edges(*[of_special == (team.scenario.ranked == "below")] * 2)
    # A learner without temporal edges, or without those between modalities, does not rank them.
    ranked = [compared & np.isfinite(score) for score in scores]
    means: dict[str, float | None] = {}
    for name, kinds in costs.items():
        aucs = [auc(s[bad & at], s[~bad & at]) for bad, at, s in zip(kinds, ranked, scores, strict=True)]
        # A kind without harmful edges, or with nothing else, has no AUC and is left out.
        means[name] = known_mean(aucs)
    return means
