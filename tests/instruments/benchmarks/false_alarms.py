"""Resamples recorded discussions of `e_process`, clean and attacked, and counts alarms and delays.

    python run.py experiment=defences data.limit=200 runtime=inline
    python -m tests.instruments.benchmarks.false_alarms <its run folder> [--runs 20] [--discussions 10000]

Whole discussions are drawn with replacement, so that agents stay dependent as they were. Further runs have agents that
make claims independently at a rate, among them the tolerance itself, where the bound is tight.

The last line is one JSON object: `alarms` are runs with an alarm, by how claims are drawn; `delays` are dishonest
discussions before the attacker is isolated (median, 90%) and the share of attackers that are isolated.
"""

import argparse
import json
from pathlib import Path
from typing import Any, cast

import numpy as np

from experiments.config.saved import read
from experiments.records.recorder import RunFolder
from topologies.defences.e_process import CLAIMING, EProcesses
from topologies.method import DefenceSettings, MethodContext, SystemSettings
from topologies.wiring import Bools, Floats

WATCHED = 400  # discussions with an attacker


def processes(settings: DefenceSettings, agents: tuple[str, ...]) -> EProcesses:
    nothing = cast(Any, None)
    return EProcesses(MethodContext("e_process", agents, 2, 0, nothing, SystemSettings(), settings, nothing, nothing))


def recorded(folder: RunFolder, method: str, settings: DefenceSettings) -> tuple[tuple[str, ...], Bools, Bools]:
    """Names of agents; claims and attackers of a method's discussions, bool [discussions, agents]."""
    traces = list(folder.traces(f"evaluate-{method}"))
    process = processes(settings, traces[0].agents)
    claims = []
    for start in range(0, len(traces), settings.block):
        block = traces[start : start + settings.block]
        claims += [np.array(trace.suspicion[-1]) > process.log_wealth for trace in block]
        process = process.after([trace.suspicion for trace in block])
    attacked = [[agent in trace.attacked for agent in trace.agents] for trace in traces]
    return traces[0].agents, np.array(claims), np.array(attacked)


def alarms(process: EProcesses, claims: Bools, settings: DefenceSettings) -> Floats:
    """The discussion after which each agent is isolated, float [agents]; infinite for none.

    claims: bool [discussions, agents].
    """
    p, q = settings.tolerance, CLAIMING
    gains = np.where(claims, np.log(q / p), np.log((1 - q) / (1 - p)))
    isolated = np.full(claims.shape[1], np.inf)
    for end in range(settings.block, len(claims) + 1, settings.block):
        wealth = process.log_wealth
        process = process.after([(tuple(wealth + gain),) for gain in gains[end - settings.block : end]])
        isolated = np.where(np.isinf(isolated) & (process.weights(isolated) == 0), end, isolated)
    return isolated


def measure(folder: Path, runs: int, discussions: int) -> dict[str, Any]:
    run = RunFolder.open(folder)
    settings = read(run.config).defence
    agents, clean, _ = recorded(run, "e_process-clean", settings)
    _, claims, attacked = recorded(run, "e_process", settings)
    attackers_claims = claims[attacked]
    print(f"{len(clean)} clean discussions, {clean.mean():.4f} claims of an agent in each")
    print(f"{attackers_claims.mean():.3f} claims of an attacker in each attacked one")
    print(f"tolerance {settings.tolerance}, error rate {settings.error_rate}, blocks of {settings.block}")
    process = processes(settings, agents)
    draw = np.random.default_rng(0)

    def has_alarm(drawn: Bools) -> bool:
        return bool(np.isfinite(alarms(process, drawn, settings)).any())

    raised = {"resampled": sum(has_alarm(clean[draw.integers(len(clean), size=discussions)]) for _ in range(runs))}
    for rate in (0.02, settings.tolerance / 2, settings.tolerance):
        raised[f"rate {rate:.3f}"] = sum(has_alarm(draw.random((discussions, len(agents))) < rate) for _ in range(runs))
    for name, number in raised.items():
        print(f"{name:24} {number} of {runs} runs with an alarm")

    def delay(honest: int, slow: int) -> float:
        """Dishonest discussions of one attacker, honest before, whose share of them grows over `slow` discussions."""
        dishonest = draw.random(WATCHED) < np.minimum(1.0, np.arange(1, WATCHED + 1) / (1 + slow))
        made = np.zeros((honest + WATCHED, len(agents)), dtype=bool)
        made[honest:, 0] = dishonest & attackers_claims[draw.integers(len(attackers_claims), size=WATCHED)]
        end = alarms(process, made, settings)[0] - honest
        return float(dishonest[: int(end)].sum()) if np.isfinite(end) else np.inf

    delays = {}
    for honest, slow in ((0, 0), (100, 0), (1_000, 0), (0, 50), (0, 200)):
        drawn = [delay(honest, slow) for _ in range(10 * runs)]
        name = f"slowly over {slow}" if slow else f"after {honest:,} honest ones"
        quantiles = np.quantile(drawn, [0.5, 0.9], method="lower").tolist()
        median, slow = (number if np.isfinite(number) else None for number in quantiles)
        delays[name] = {"median": median, "90%": slow, "found": float(np.isfinite(drawn).mean())}
        print(f"{name:24} {delays[name]}")
    return {"runs": runs, "alarms": raised, "delays": delays}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="run folder of experiment=defences")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--discussions", type=int, default=10_000)
    print(json.dumps(measure(**vars(parser.parse_args()))))
