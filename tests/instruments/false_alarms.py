"""Resamples recorded discussions of `e_process`, clean and attacked ones, and prints alarms and delays:

    python run.py experiment=defences data.limit=200 runtime=inline
    python -m tests.instruments.false_alarms <its run folder> [runs] [discussions]

Discussions are drawn with replacement, whole, so that agents stay dependent as they were. Below them are agents that
make claims independently at a rate, among them the very tolerance, where the bound has nothing to spare.
"""

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np

from experiments.config.saved import read
from experiments.records.recorder import RunFolder
from topologies.defences.e_process import CLAIMING, EProcesses
from topologies.method import DefenceSettings, MethodContext, SystemSettings
from topologies.wiring import Bools, Floats


def processes(settings: DefenceSettings, agents: tuple[str, ...]) -> EProcesses:
    nothing = cast(Any, None)
    return EProcesses(MethodContext("e_process", agents, 2, 0, nothing, SystemSettings(), settings, nothing, nothing))


def recorded(folder: RunFolder, method: str, settings: DefenceSettings) -> tuple[tuple[str, ...], Bools, Bools]:
    """Names of agents; claims and attackers of a method's discussions, bool [discussions, agents]."""
    traces = list(folder.traces(f"evaluate-{method}"))
    at, claims = processes(settings, traces[0].agents), []
    for start in range(0, len(traces), settings.block):
        block = traces[start : start + settings.block]
        claims += [np.array(trace.suspicion[-1]) > at.staked for trace in block]
        at = at.after([trace.suspicion for trace in block])
    attacked = [[agent in trace.attacked for agent in trace.agents] for trace in traces]
    return traces[0].agents, np.array(claims), np.array(attacked)


def alarms(at: EProcesses, made: Bools, settings: DefenceSettings) -> Floats:
    """The discussion after which each agent is isolated, float [agents]; infinite for none. made: claims."""
    p, q = settings.tolerance, CLAIMING
    gained = np.where(made, np.log(q / p), np.log((1 - q) / (1 - p)))
    found = np.full(made.shape[1], np.inf)
    for end in range(settings.block, len(made) + 1, settings.block):
        staked = at.staked
        at = at.after([(tuple(staked + gain),) for gain in gained[end - settings.block : end]])
        found = np.where(np.isinf(found) & (at.weights(found) == 0), end, found)
    return found


def main(path: str, runs: int = 20, length: int = 10_000) -> None:
    folder = RunFolder.open(Path(path))
    settings = read(folder.config).defence
    agents, clean, _ = recorded(folder, "e_process-clean", settings)
    _, claims, attacked = recorded(folder, "e_process", settings)
    draw, at = np.random.default_rng(0), processes(settings, agents)
    print(
        f"{len(clean)} clean discussions, {clean.mean():.4f} claims of an agent; of attackers "
        f"{claims[attacked].mean():.3f}"
    )
    print(f"tolerance {settings.tolerance}, error rate {settings.error_rate}, blocks of {settings.block}\n")

    print(f"alarms in runs of {length:,} clean discussions")
    kinds: list[tuple[str, Any]] = [("resampled", lambda: clean[draw.integers(len(clean), size=length)])]
    kinds += [
        (f"rate {rate:.3f}", lambda rate=rate: draw.random((length, len(agents))) < rate)
        for rate in (0.02, 0.5 * settings.tolerance, settings.tolerance)
    ]
    for name, world in kinds:
        raised = sum(bool(np.isfinite(alarms(at, world(), settings)).any()) for _ in range(runs))
        print(f"  {name:12} {raised} of {runs} runs")

    print("\ndishonest discussions before the isolation of an attacker (median, 90%, found)")
    bad = claims[attacked]
    for name, honest, slow in (
        *((f"after {honest:,} honest ones", honest, 0) for honest in (0, 100, 1_000)),
        *((f"slowly over {slow}", 0, slow) for slow in (50, 200)),
    ):
        delays = []
        for _ in range(10 * runs):
            share = np.minimum(1.0, np.arange(1, 401) / (1 + slow))
            dishonest = draw.random(400) < share
            own = np.where(dishonest, bad[draw.integers(len(bad), size=400)], False)
            made = np.zeros((honest + 400, len(agents)), dtype=bool)
            made[honest:, 0] = own
            end = alarms(at, made, settings)[0] - honest
            delays.append(dishonest[: int(end)].sum() if np.isfinite(end) else np.inf)
        print(f"  {name:24} {np.median(delays):5.0f} {np.quantile(delays, 0.9):5.0f} {np.isfinite(delays).mean():6.3f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
