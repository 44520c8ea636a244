"""What one more agent costs: a discussion along a sparse wiring at 10 to 10,000 agents, a step of learning up to 1,000.

    python -m tests.instruments.benchmarks.scale [--agents 10 100 1000 10000]

Agents are instances of four roles, each role one Ray actor, over one replica of the embedded reader; a random graph of
four neighbours each, two rounds, every turn taken, and ten agents whom the decision agent reads. Seconds are those of
the second of two discussions; bytes are what driver, agents and replica hold more at its end, memories not yet
forgotten, than before it. A step of learning draws K wirings among the same candidates, learns from given scores and
prunes; its bytes are the most that a process of its own needed beyond what it had when the libraries were loaded.

The last line is one JSON object: by the number of agents, what a turn (an agent, for learning) took.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import torch

from actors.agents.roles import DECISION, TEXTUAL, VISUAL
from actors.messages import Kind, Question, Role, Source, Status
from actors.reader.reader import Reader, ReaderSettings
from actors.runtime.cluster import Cluster
from actors.runtime.team import LiveSpeaker
from actors.settings import AgentSettings, RaySettings
from topologies.baselines import constant_wiring
from topologies.graphs import candidates_along, regular
from topologies.learning.learner import Learner
from topologies.learning.spec import DENSE
from topologies.learning.variants import M3PRUNE
from topologies.topology import Wired, ask_of, discussion_id

ROLES = (*TEXTUAL[:2], *VISUAL[:2])
ROUNDS = 2
READ = 10
BORN = {"Ana Brix": "Tarn Hollow", "Ole Marsh": "Quay End", "Ida Roe": "Ashby"}
EVIDENCE = tuple(
    Source(f"t{number}", f"t{number}", Kind.TEXT, person, f"{person} was born in {town}, a town by the sea.")
    for number, (person, town) in enumerate(BORN.items())
)


def team_of(agents: int) -> list[Role]:
    """So many instances of the roles, those of one role side by side."""
    numbers = np.bincount(np.arange(agents) % len(ROLES), minlength=len(ROLES)).tolist()
    return [
        replace(role, name=f"{role.name}_{count}", of=role.name)
        for role, number in zip(ROLES, numbers, strict=True)
        for count in range(1, number + 1)
    ]


def resident_bytes() -> int:
    """Of this process, the agents' and the replica's."""
    own = psutil.Process()
    workers = [child for child in own.children(recursive=True) if "ray::" in " ".join(child.cmdline()[:1])]
    return sum(process.memory_info().rss for process in (own, *workers))


async def discussion(cluster: Cluster, agents: int) -> dict[str, float]:
    """Two discussions, the second of which counts."""
    cluster.launch_replicas(partial(Reader, ReaderSettings()), 1, cpus=0, gpus=0, capacity=1024)
    roles = team_of(agents)
    team: LiveSpeaker = cluster.launch_agents((*roles, DECISION), AgentSettings()).speaker()
    await cluster.wait_until_ready()
    begun = time.perf_counter()
    wiring = constant_wiring(regular(agents), agents, ROUNDS, decision=np.arange(agents) < READ)
    wired_s = time.perf_counter() - begun
    walk = Wired("regular", [role.name for role in roles], wiring, every_turn=True)
    for number in range(2):
        question = Question(f"q{number}", "In which town was Ana Brix born?", evidence=EVIDENCE)
        before, begun = resident_bytes(), time.perf_counter()
        trace = await walk.answer(question, ask_of(team), seed=0)
        seconds, held = time.perf_counter() - begun, resident_bytes() - before
        assert len(trace.turns) == ROUNDS * agents + 1
        assert trace.status is Status.OK, trace.turns[-1]
        team.close(discussion_id("regular", question, 0))
    turns = len(trace.turns)
    return {
        "seconds_per_turn": seconds / turns,
        "bytes_per_turn": max(held, 0) / turns,
        "seconds": seconds,
        "wiring_s": wired_s,
        "edges": len(wiring.spatial) + len(wiring.temporal),
    }


def through_actors(agents: int) -> dict[str, float]:
    with Cluster(RaySettings()) as cluster:
        return asyncio.run(discussion(cluster, agents))


def learning(agents: int, k: int, steps: int) -> dict[str, float]:
    """In a process of its own, whose peak of memory is this learner's."""
    torch.set_num_threads(1)
    modalities = ["text" if role.modality == "text" else "visual" for role in team_of(agents)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    learner = Learner(modalities, variant=M3PRUNE, candidates=candidates_along(regular(agents)), rounds=ROUNDS)
    scores, seconds = np.random.default_rng(0), []
    for _ in range(steps):
        begun = time.perf_counter()
        learner.learn(learner.sample(k), np.zeros((k, ROUNDS, agents)), scores.random(k))
        seconds.append(time.perf_counter() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    median = float(np.median(seconds[1:]))
    return {"seconds": median, "seconds_per_agent": median / agents, "bytes_per_agent": 1024 * peak / agents}


def measure(sizes: Sequence[int], k: int, steps: int) -> dict[str, dict[str, dict[str, float]]]:
    spawn = multiprocessing.get_context("spawn")
    learned, held = {}, {}
    for agents in sorted(sizes):
        if agents <= DENSE:
            with spawn.Pool(1) as alone:
                learned[str(agents)] = alone.apply(learning, (agents, k, steps))
        with spawn.Pool(1) as alone:  # Ray's driver, whose memory counts, starts afresh too
            held[str(agents)] = alone.apply(through_actors, (agents,))
    return {"discussion": held, "learning": learned}


def print_table(measured: dict[str, dict[str, dict[str, float]]]) -> None:
    columns = ("ms a turn", "KB a turn", "s in all", "step ms", "us an agent", "KB an agent")
    print(f"{'agents':>8}" + "".join(f"{column:>13}" for column in columns))
    for agents, turn in measured["discussion"].items():
        cells = [1e3 * turn["seconds_per_turn"], turn["bytes_per_turn"] / 1024, turn["seconds"]]
        if step := measured["learning"].get(agents):
            cells += [1e3 * step["seconds"], 1e6 * step["seconds_per_agent"], step["bytes_per_agent"] / 1024]
        print(f"{int(agents):>8,}" + "".join(f"{cell:>13.2f}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 100, 1000, 10000])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    measured = measure(options.agents, options.k, options.steps)
    print_table(measured)
    print(json.dumps({**measured, "load": round(os.getloadavg()[0], 1)}))
