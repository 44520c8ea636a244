"""What one step of learning costs: draw K wirings, learn from their scores, prune.

    python -m tests.instruments.benchmarks.learner_step [--agents 10 30 100 1000] [--threads 1] [--profile 100]

Scores are at hand, so that nothing but the learner is timed; half of the agents are textual, half visual, and steps of
both stages count, so cuts and the end of a stage are among them. `per_edge_loop` is how published code takes such a
step: an autograd scalar, a draw and a logarithm for each edge, in Python, with a search for a cycle before each edge
is added. It runs where one step ends within `--loop-s`, as its smaller sizes foretell.

The last line is one JSON object: `ms` is M3Prune's step, by the number of agents; `methods` has all of them;
`peak_mb` the most
memory that the process had by the end of each size, the smaller ones before it included.
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
from topologies.learning.variants import VARIANTS, LearnedMethod

METHODS = tuple(LearnedMethod)
WIDTH = 259  # features of a question, with the embedded encoder
STEPS = 40  # of a stage: those that are timed lie evenly among them


def learner_of(method: LearnedMethod, agents: int, rounds: int) -> Learner:
    modalities = ["text"] * (agents - agents // 2) + ["visual"] * (agents // 2)
    pruning, width = PruningSettings(steps=STEPS), WIDTH * VARIANTS[method].by_question
    return make_learner(LearnerSpec(modalities, rounds, 0, VARIANTS[method], pruning=pruning, features=width))


def step(learner: Learner, k: int, scores: np.random.Generator) -> None:
    features = scores.random((1, learner.spec.features)) if learner.spec.features else None
    wirings = learner.sample(k, features=features)
    turn_scores = scores.random((k, learner.rounds, learner.agents)) < 0.5
    learner.learn(wirings, turn_scores.astype(float), turn_scores[:, -1].mean(1))


def times_of(method: LearnedMethod, agents: int, k: int, rounds: int, budget_s: float) -> list[float]:
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


class PerEdgeLoop:
    """A learner as published code has it: one probability, draw and log per edge, edges added unless they close a
    cycle (after AgentPrune; Zhang et al. 2025, own words)."""

    def __init__(self, agents: int, rounds: int) -> None:
        self.agents, self.rounds = agents, rounds
        self.logits = {kind: torch.zeros(agents * agents, requires_grad=True) for kind in ("spatial", "temporal")}
        self.optimiser = torch.optim.Adam(self.logits.values(), lr=0.1)

    def step(self, k: int, utilities: Sequence[float]) -> None:
        losses = [-self.log_probability() * utility for utility in utilities[:k]]
        self.optimiser.zero_grad()
        torch.stack(losses).mean().backward()
        self.optimiser.step()

    def log_probability(self) -> torch.Tensor:
        logs = [torch.zeros(())]
        for number in range(self.rounds):
            hears: list[set[int]] = [set() for _ in range(self.agents)]
            for kind in ("spatial", "temporal") if number else ("spatial",):
                for edge, logit in enumerate(self.logits[kind]):
                    sender, receiver = divmod(edge, self.agents)
                    if kind == "spatial" and (sender == receiver or self._reaches(hears, receiver, sender)):
                        continue
                    p = torch.sigmoid(logit)
                    if torch.rand(1) < p:
                        logs.append(torch.log(p))
                        if kind == "spatial":
                            hears[receiver].add(sender)
                    else:
                        logs.append(torch.log(1 - p))
        return torch.stack(logs).sum()

    @staticmethod
    def _reaches(hears: Sequence[set[int]], start: int, end: int) -> bool:
        """Whether a path leads from `start` to `end`, followed backwards."""
        seen, waiting = {end}, [end]
        while waiting:
            for sender in hears[waiting.pop()] - seen:
                seen.add(sender)
                waiting.append(sender)
        return start in seen


def loop_ms(sizes: Sequence[int], k: int, rounds: int, limit_s: float) -> dict[str, float]:
    taken: dict[str, float] = {}
    for agents in sorted(sizes):
        smaller = [(int(size), ms / 1000) for size, ms in taken.items()]
        # At least quadratic; the search for cycles makes it more.
        if smaller and smaller[-1][1] * (agents / smaller[-1][0]) ** 2 > limit_s:
            break
        loop, scores = PerEdgeLoop(agents, rounds), np.random.default_rng(0)
        begun = time.perf_counter()
        loop.step(k, scores.random(k).tolist())
        taken[str(agents)] = round(1000 * (time.perf_counter() - begun), 1)
    return taken


def profile(method: LearnedMethod, agents: int, k: int, rounds: int) -> str:
    learner, scores = learner_of(method, agents, rounds), np.random.default_rng(0)
    step(learner, k, scores)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as found:
        step(learner, k, scores)
    table: str = found.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=40)
    return f"{method}, {agents} agents\n{table}"


def measure(sizes: Sequence[int], k: int, rounds: int, budget_s: float, loop_s: float) -> dict[str, Any]:
    methods: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    peak_mb = {}
    for agents in sorted(sizes):
        for method, taken in methods.items():
            seconds = times_of(LearnedMethod(method), agents, k, rounds, budget_s)
            taken[str(agents)] = round(1000 * statistics.median(seconds), 2)
        peak_mb[str(agents)] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "ms": methods[LearnedMethod.M3PRUNE],
        "methods": methods,
        "per_edge_loop": loop_ms(sizes, k, rounds, loop_s),
        "peak_mb": peak_mb,
        "threads": torch.get_num_threads(),
    }


def print_table(measured: dict[str, Any], sizes: Sequence[int]) -> None:
    rows = {**measured["methods"], "per_edge_loop": measured["per_edge_loop"]}
    print(f"{'ms a step':<14}" + "".join(f"{n:>12,}" for n in sizes))
    for name, row in rows.items():
        print(f"{name:<14}" + "".join(f"{row[str(n)]:>12,.2f}" if str(n) in row else f"{'-':>12}" for n in sizes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 30, 100, 1000])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=10.0)
    parser.add_argument("--loop-s", type=float, default=60.0)
    parser.add_argument("--profile", type=int, nargs="*", default=[])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for size in options.profile:
        for method in METHODS:
            print(profile(method, size, options.k, options.rounds))
    measured = measure(options.agents, options.k, options.rounds, options.budget_s, options.loop_s)
    print_table(measured, options.agents)
    print(json.dumps(measured))
