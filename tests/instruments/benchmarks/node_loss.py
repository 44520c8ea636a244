"""What the loss of a node costs a run, and a job of Ray's alone, on two and on four nodes.

    python -m tests.instruments.benchmarks.node_loss [--nodes 2 4] [--words experiment=two_attackers ...]

A run and a bare job go through twice on `PrivateNodes`, once undisturbed and once with a node that vanishes when half
of the records, or calls, are there: its network goes first, so that no connection to it is ended. The bare job has as
many actors as the run, started again and asked again by Ray, and as many calls as the run has turns, each of which
waits so long that all take as long as the undisturbed run's discussions. Seconds are from the moment when all actors
are up to the end. `repeated` counts turns that were answered, and calls that were begun, more than once.

For root on Linux. Prints a table in Markdown; the last line is one JSON object.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from experiments.records.recorder import RunFolder
from experiments.records.usage import total
from tests.instruments.benchmarks.disturbed import Disturbed
from tests.instruments.benchmarks.private_nodes import PrivateNodes
from tests.instruments.benchmarks.recorded import records_in, twice_recorded, written
from tests.support.paths import ROOT

WORDS = ["experiment=two_attackers", "figures=false", "wandb.mode=disabled"]
IN_FLIGHT = 64  # calls of the bare job
LOOK_S = 0.1
UP = "actors up"


def run(words: list[str], nodes: int, lost_at: int | None) -> dict[str, object]:
    """Goes through a run. lost_at: number of records at which the last node vanishes."""
    with (
        tempfile.TemporaryDirectory(prefix="n", dir="/tmp") as place,
        Disturbed(Path(place), words, partial(PrivateNodes, nodes=nodes)) as disturbed,
    ):
        disturbed.reach(0)
        begun = time.monotonic()
        started = re.findall(r"starting replicas and agents: (\d+)/\1,", Path(place, "out").read_text())
        actors = int(started[0])
        while not disturbed.ended:
            if lost_at is not None and records_in(disturbed.folder) >= lost_at:
                disturbed.around.vanish(nodes - 1)
                lost_at = None
            time.sleep(LOOK_S)
        seconds = time.monotonic() - begun
        if disturbed.code:
            raise SystemExit(f"the run failed: {disturbed.said}")
        usage = total(RunFolder(disturbed.folder))
        return {
            "seconds": round(seconds, 1),
            "actors": actors,
            "records": records_in(disturbed.folder),
            "turns": usage.calls + usage.reused,
            "written": written(disturbed.folder),
            "twice": twice_recorded(disturbed.folder),
        }


def bare(calls: int, seconds_each: float, actors: int, nodes: int, is_lost: bool) -> dict[str, float]:
    """Goes through a bare job. is_lost: the last node vanishes after half of the calls."""
    with tempfile.TemporaryDirectory(prefix="n", dir="/tmp") as place:
        around = PrivateNodes(Path(place), nodes)
        begun_calls = Path(place, "calls")
        begun_calls.touch()
        try:
            words = [around.words[0].partition("=")[2], str(begun_calls), str(calls), str(seconds_each), str(actors)]
            job = subprocess.Popen(
                [*around.command, sys.executable, "-m", "tests.instruments.benchmarks.node_loss", "--bare", *words],
                cwd=ROOT,
                env={**around.process_environment(), "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                text=True,
            )
            assert job.stdout is not None
            while UP not in job.stdout.readline():
                if job.poll() is not None:
                    raise SystemExit("the bare job failed")
            begun = time.monotonic()
            while job.poll() is None:
                if is_lost and begun_calls.read_bytes().count(b"\n") >= calls // 2:
                    around.vanish(nodes - 1)
                    is_lost = False
                time.sleep(LOOK_S)
            if job.returncode:
                raise SystemExit("the bare job failed")
            begun_by_call = Counter(begun_calls.read_text().split())
            return {
                "seconds": round(time.monotonic() - begun, 1),
                "repeated": begun_by_call.total() - len(begun_by_call),
            }
        finally:
            around.close()


def bare_job(address: str, file: str, calls: int, seconds_each: float, actors: int) -> None:
    """Is the driver of a bare job. Each call notes its number in a file when it begins."""
    import ray

    class Worker:
        async def call(self, number: int) -> int:
            with open(file, "a") as begun_calls:
                begun_calls.write(f"{number}\n")
            await asyncio.sleep(seconds_each)
            return number

        async def up(self) -> bool:
            return True

    ray.init(address=address, log_to_driver=False)
    options = {"num_cpus": 0, "memory": 1, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": "SPREAD"}
    workers = [ray.remote(Worker).options(**options).remote() for _ in range(actors)]
    ray.get([worker.up.remote() for worker in workers])
    print(UP, flush=True)
    waiting: list[ray.ObjectRef] = []
    for number in range(calls):
        waiting.append(workers[number % actors].call.remote(number))
        if len(waiting) >= IN_FLIGHT:
            _, waiting = ray.wait(waiting)
    ray.get(waiting)


def measure(words: list[str], nodes: int) -> dict[str, object]:
    whole = run(words, nodes, None)
    lost = run(words, nodes, int(whole["records"]) // 2)
    turns = int(whole["turns"])
    seconds_each = float(whole["seconds"]) * IN_FLIGHT / turns
    job = partial(bare, turns, seconds_each, int(whole["actors"]), nodes)
    whole_job, lost_job = job(is_lost=False), job(is_lost=True)
    return {
        "nodes": nodes,
        "turns": turns,
        "run": {
            "seconds": whole["seconds"],
            "seconds_with_loss": lost["seconds"],
            "repeated": int(lost["turns"]) - turns,
            "same_bytes": whole["written"] == lost["written"] and not lost["twice"],
        },
        "ray": {
            "seconds": whole_job["seconds"],
            "seconds_with_loss": lost_job["seconds"],
            "repeated": lost_job["repeated"],
        },
    }


def table(measured: list[dict[str, object]]) -> str:
    lines = [
        "| nodes | job | turns or calls | seconds | with a node lost | repeated | same bytes |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in measured:
        for name, title in (("run", "a run"), ("ray", "Ray alone")):
            job = row[name]
            same = {True: "yes", False: "no", None: ""}[job.get("same_bytes")]
            lines.append(
                f"| {row['nodes']} | {title} | {row['turns']:,} | {job['seconds']:.0f} | "
                f"{job['seconds_with_loss']:.0f} | {job['repeated']:,} | {same} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        address, file, calls, seconds_each, actors = sys.argv[2:]
        bare_job(address, file, int(calls), float(seconds_each), int(actors))
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--words", nargs="+", default=[], help="of the run's command line, after those of WORDS")
    arguments = parser.parse_args()
    measured = [measure([*WORDS, *arguments.words], nodes) for nodes in arguments.nodes]
    print(table(measured))
    print(json.dumps(measured))
