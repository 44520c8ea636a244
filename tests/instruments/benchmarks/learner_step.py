"""What one step of learning costs: draw K wirings, learn from their scores, prune.

    python -m tests.instruments.benchmarks.learner_step [--agents 10 30 100 1000] [--threads 1]

Scores are at hand, so that nothing but the learner is timed; half of the agents are textual, half visual, and steps of
both stages count, so cuts and the end of a stage are among them.

The last line is one JSON object: `ms` is M3Prune's step, by the number of agents; `methods` has all of them; `peak_mb`
is the most memory that the process had by the end of each size, the smaller ones before it included.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner, PruningSettings
from topologies.learning.spec import LearnerSpec
from topologies.learning.variants import VARIANTS

METHODS = tuple(VARIANTS)
WIDTH = 259  # features of a question, with the embedded encoder
STEPS = 40  # of a stage: those that are timed lie evenly among them


def learner_of(method: str, agents: int, rounds: int) -> Learner:
    modalities = ["text"] * (agents - agents // 2) + ["visual"] * (agents // 2)
    pruning, width = PruningSettings(steps=STEPS), WIDTH * VARIANTS[method].by_question
    return make_learner(LearnerSpec(modalities, rounds, 0, VARIANTS[method], pruning=pruning, features=width))


def step(learner: Learner, k: int, scores: np.random.Generator) -> None:
    features = scores.random((1, learner.spec.features)) if learner.spec.features else None
    wirings = learner.sample(k, features=features)
    turn_scores = scores.random((k, learner.rounds, learner.agents)) < 0.5
    learner.learn(wirings, turn_scores.astype(float), turn_scores[:, -1].mean(1))


def times_of(method: str, agents: int, k: int, rounds: int, budget_s: float) -> list[float]:
    """A core's seconds of single steps, in both stages where there are two: at most STEPS of each, as many as fit the
    budget."""
    learner, scores = learner_of(method, agents, rounds), np.random.default_rng(0)
    seconds: list[float] = []
    for _ in range(learner.stages):
        end = time.process_time() + budget_s / learner.stages
        step(learner, k, scores)  # not timed: the first one also moves what the stage has new
        for _ in range(STEPS - 1):
            begun = time.process_time()
            step(learner, k, scores)
            seconds.append(time.process_time() - begun)
            if seconds[-1] + time.process_time() > end:
                break
        learner.next_stage()
    return seconds


def measure(sizes: Sequence[int], k: int, rounds: int, budget_s: float) -> dict[str, Any]:
    methods: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    peak_mb = {}
    for agents in sorted(sizes):
        for method, taken in methods.items():
            seconds = times_of(method, agents, k, rounds, budget_s)
            taken[str(agents)] = round(1000 * statistics.median(seconds), 2)
        peak_mb[str(agents)] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "ms": methods["m3prune"],
        "methods": methods,
        "peak_mb": peak_mb,
        "threads": torch.get_num_threads(),
    }


def print_table(measured: dict[str, Any], sizes: Sequence[int]) -> None:
    print(f"{'ms a step':<14}" + "".join(f"{n:>12,}" for n in sizes))
    for name, row in measured["methods"].items():
        print(f"{name:<14}" + "".join(f"{row[str(n)]:>12,.2f}" if str(n) in row else f"{'-':>12}" for n in sizes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 30, 100, 1000])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=10.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    measured = measure(options.agents, options.k, options.rounds, options.budget_s)
    print_table(measured, options.agents)
    print(json.dumps(measured))
