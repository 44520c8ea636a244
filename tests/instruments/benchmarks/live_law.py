"""Compares the law of learning graphs with what a live team needed: discussions until a liar's edges rank below others.

    python run.py experiment=two_attackers attack=response attack.number=1 methods=[effects_common] learner.early_stop=0
    python -m tests.instruments.benchmarks.live_law <its run folder>... [--method effects_common]

The law's number (`experiments/studies/scaling/law.py`) is computed from the discussions of the first stage, in which
edges are drawn by fair coins, with the scores of their turns and answers. The learner's is read from the probabilities
that it recorded after each step. A row for each run, and one JSON object as the last line.
"""

import argparse
import json
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from actors.messages import Trace
from experiments.config.saved import read
from experiments.jobs import plan_of
from experiments.records.recorder import RunFolder
from experiments.running.inputs import open_dataset, training_items
from experiments.running.recorded_learner import score_step
from experiments.studies.planted.truth import DiscussionSums, Truth
from experiments.studies.scaling.scaled_team import auc_of_liars, law
from topologies.wiring import Bools, Edges

STAGE = 1


def matrices(trace: Trace, rounds: int) -> tuple[Edges[Bools], Edges[Bools]]:
    """The drawn and the allowed edges of a discussion, bool [rounds, sender, receiver]."""
    arrays = []
    for listed in (trace.spatial, trace.temporal, trace.allowed_spatial, trace.allowed_temporal):
        edges = np.zeros((rounds, len(trace.agents), len(trace.agents)), dtype=bool)
        for number, sender, receiver in listed:
            edges[number - 1, sender, receiver] = True
        arrays.append(edges)
    spatial, temporal, allowed_spatial, allowed_temporal = arrays
    return Edges(spatial, temporal), Edges(allowed_spatial, allowed_temporal)


def live_effects(run: RunFolder, graph: RunFolder, cache: Path) -> Truth:
    """Effects of edges in the recorded discussions of the first stage, as `true_effects` of a planted team."""
    config = read(run.config)
    plan = plan_of(config)
    dataset = open_dataset(plan, cache)
    items = {item.question.id: item for item in chain.from_iterable(training_items(plan, dataset, STAGE))}
    traces = list(graph.traces(f"train-{STAGE}"))
    agents = len(traces[0].agents)
    samples = plan.learners[graph.name].samples(config.training.samples)
    sums = DiscussionSums(agents, samples)

    for question, group in groupby(traces, key=lambda trace: trace.question):
        discussions = list(group)
        scores = score_step(plan, dataset, [items[question]], discussions)
        if len(discussions) != samples or np.isnan(scores.utilities).any():
            raise SystemExit(f"{run.path}: {question} has failed or missing discussions")
        # Of `turns`, the agents of the team alone: the decision agent hears by other edges.
        turn_scores = torch.from_numpy(scores.turns[:, :, :agents])
        wirings = [matrices(trace, config.topology.rounds) for trace in discussions]
        drawn = Edges(*(np.stack([edges[kind] for edges, _ in wirings]) for kind in range(2)))
        allowed = Edges(*(np.stack([edges[kind] for _, edges in wirings]) for kind in range(2)))
        index = torch.zeros(samples, dtype=torch.long)
        sums.add(drawn, allowed, turn_scores, torch.from_numpy(scores.utilities), index)
    return sums.truth(readers=np.zeros(agents))


def row(folder: Path, method: str, target: float, cache: Path) -> dict[str, Any]:
    run = RunFolder.open(folder)
    graph = next(graph for graph in run.all_learned() if graph.name == method)
    steps = [step for step in graph.learning() if step.stage == STAGE]
    first = next(iter(graph.traces(f"train-{STAGE}")))
    liars = [first.agents.index(name) for name in first.attacked]
    truth = live_effects(run, graph, cache)

    reached = None
    per_step = truth.discussions // steps[-1].step
    for step in steps:
        probabilities = Edges(*(np.array(step.probabilities[kind], dtype=float) for kind in ("spatial", "temporal")))
        # Pruned edges have no rank.
        if not np.isfinite(probabilities.spatial[liars]).any():
            break
        if auc_of_liars(probabilities, liars) < target:
            reached = None
        elif reached is None:
            reached = step.step * per_step
    return {
        "run": folder.name,
        "agents": len(first.agents),
        "liars": len(liars),
        "discussions": truth.discussions,
        "law, own answers": law(truth, truth.on_receiver, truth.receiver_variance, liars, target),
        "law, final answer": law(truth, truth.on_answer, truth.answer_variance, liars, target),
        method: reached,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--method", default="effects_common")
    parser.add_argument("--auc", type=float, default=0.95)
    parser.add_argument("--cache", type=Path, help="where data sets are kept; by default the cache of the first run")
    arguments = parser.parse_args()
    cache = arguments.cache or arguments.folders[0].parent / "cache"
    rows = [row(folder, arguments.method, arguments.auc, cache) for folder in arguments.folders]
    for measured in rows:
        print("   ".join(f"{name} {value}" for name, value in measured.items()))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
