"""Resamples recorded discussions of `e_process`, clean and attacked, and counts alarms and delays.

    python run.py experiment=defences data.limit=200 runtime=inline
    python -m tests.instruments.benchmarks.false_alarms <its run folder> [--runs 20] [--discussions 10000]

Whole clusters of discussions (the questions on one document) are drawn with replacement, so that agents and questions
stay dependent as they were. Further runs have agents that make claims at a rate, among them the tolerance itself, where
the bound is tight: independently, and in all discussions of a cluster or in none.

The last line is one JSON object: `alarms` are runs with an alarm, by how claims are drawn; `delays` are dishonest
discussions before the attacker is isolated (median, 90%) and the share of attackers that are isolated.
"""

import argparse
import json
from collections.abc import Iterator, Sequence, Sized
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from actors.messages import Trace
from experiments.config.saved import read
from experiments.records.recorder import RunFolder
from topologies.defences.e_process import CLAIMING, EProcesses
from topologies.method import DefenceSettings, MethodContext, SystemSettings
from topologies.wiring import Bools, Floats

WATCHED = 400  # discussions with an attacker
CLUMP = 8  # discussions on one document, as in the sample
T = TypeVar("T", bound=Sized)


def processes(settings: DefenceSettings, agents: tuple[str, ...]) -> EProcesses:
    nothing = cast(Any, None)
    return EProcesses(MethodContext("e_process", agents, 2, 0, nothing, SystemSettings(), settings, nothing, nothing))


def recorded(folder: RunFolder, method: str, settings: DefenceSettings) -> tuple[tuple[str, ...], list[Bools], Bools]:
    """Names of agents; claims of each cluster, bool [discussions, agents]; and attackers of all discussions."""
    clusters: dict[str, list[Trace]] = {}
    cluster_of = {score.question: score.cluster for score in folder.scores() if score.method == method}
    traces = list(folder.traces(f"evaluate-{method}"))
    for trace in traces:
        clusters.setdefault(cluster_of[trace.question] or trace.question, []).append(trace)

    process = processes(settings, traces[0].agents)
    claims = []
    for block in blocks_of(list(clusters.values()), settings.block):
        for cluster in block:
            claims.append(np.array([np.array(trace.suspicion[-1]) > process.log_wealth for trace in cluster]))
        process = process.after([[trace.suspicion for trace in cluster] for cluster in block])
    attacked = [[agent in trace.attacked for agent in trace.agents] for trace in chain.from_iterable(clusters.values())]
    return traces[0].agents, claims, np.array(attacked)


def blocks_of(clusters: Sequence[T], size: int) -> Iterator[list[T]]:
    """Divides clusters into blocks of at least so many discussions; the last one may have fewer."""
    block: list[T] = []
    for cluster in clusters:
        block.append(cluster)
        if sum(map(len, block)) >= size:
            yield block
            block = []
    if block:
        yield block


def alarms(process: EProcesses, clusters: Sequence[Bools], settings: DefenceSettings) -> Floats:
    """The discussion after which each agent is isolated, float [agents]; infinite for none.

    clusters: claims, bool [discussions, agents] each.
    """
    p, q = settings.tolerance, CLAIMING
    isolated = np.full(clusters[0].shape[1], np.inf)
    discussions = 0
    for block in blocks_of(clusters, settings.block):
        discussions += sum(map(len, block))
        wealth = process.log_wealth
        scores = [wealth + np.where(claims, np.log(q / p), np.log((1 - q) / (1 - p))) for claims in block]
        process = process.after([[(tuple(row),) for row in rows] for rows in scores])
        is_new = np.isinf(isolated) & (process.weights(isolated) == 0)
        isolated = np.where(is_new, discussions, isolated)
    return isolated


def measure(folder: Path, runs: int, discussions: int) -> dict[str, Any]:
    run = RunFolder.open(folder)
    settings = read(run.config).defence
    agents, clean, _ = recorded(run, "e_process-clean", settings)
    _, claims, attacked = recorded(run, "e_process", settings)
    attackers_claims = np.concatenate(claims)[attacked]
    rate = np.concatenate(clean).mean()
    print(f"{sum(map(len, clean))} clean discussions of {len(clean)} clusters, {rate:.4f} claims of an agent in each")
    print(f"{attackers_claims.mean():.3f} claims of an attacker in each attacked one")
    print(f"tolerance {settings.tolerance}, error rate {settings.error_rate}, blocks of {settings.block}")
    process = processes(settings, agents)
    draw = np.random.default_rng(0)

    def has_alarm(clusters: Sequence[Bools]) -> bool:
        return bool(np.isfinite(alarms(process, clusters, settings)).any())

    def resampled() -> list[Bools]:
        clusters: list[Bools] = []
        left = discussions
        while left > 0:
            clusters.append(clean[draw.integers(len(clean))])
            left -= len(clusters[-1])
        return clusters

    def made(rate: float, size: int) -> list[Bools]:
        """Clusters in all of whose discussions an agent makes a claim, or in none."""
        return [np.repeat(draw.random((1, len(agents))) < rate, size, axis=0) for _ in range(discussions // size)]

    raised = {"resampled": sum(has_alarm(resampled()) for _ in range(runs))}
    for rate in (0.02, settings.tolerance / 2, settings.tolerance):
        raised[f"rate {rate:.3f}"] = sum(has_alarm(made(rate, size=1)) for _ in range(runs))
        raised[f"rate {rate:.3f}, clumps"] = sum(has_alarm(made(rate, size=CLUMP)) for _ in range(runs))
    for name, number in raised.items():
        print(f"{name:24} {number} of {runs} runs with an alarm")

    def delay(honest: int, slow: int) -> float:
        """Dishonest discussions of one attacker, honest before, whose share of them grows over `slow` discussions."""
        dishonest = draw.random(WATCHED) < np.minimum(1.0, np.arange(1, WATCHED + 1) / (1 + slow))
        claims = np.zeros((honest + WATCHED, len(agents)), dtype=bool)
        claims[honest:, 0] = dishonest & attackers_claims[draw.integers(len(attackers_claims), size=WATCHED)]
        end = alarms(process, np.split(claims, len(claims)), settings)[0] - honest
        return float(dishonest[: int(end)].sum()) if np.isfinite(end) else np.inf

    delays = {}
    for honest, slow in ((0, 0), (100, 0), (1_000, 0), (0, 50), (0, 200)):
        drawn = [delay(honest, slow) for _ in range(10 * runs)]
        name = f"slowly over {slow}" if slow else f"after {honest:,} honest ones"
        quantiles = np.quantile(drawn, [0.5, 0.9], method="lower").tolist()
        median, ninth_decile = (number if np.isfinite(number) else None for number in quantiles)
        delays[name] = {"median": median, "90%": ninth_decile, "found": float(np.isfinite(drawn).mean())}
        print(f"{name:24} {delays[name]}")
    return {"runs": runs, "alarms": raised, "delays": delays}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="run folder of experiment=defences")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--discussions", type=int, default=10_000)
    print(json.dumps(measure(**vars(parser.parse_args()))))
