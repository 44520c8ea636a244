"""The default job over Ray beside the same job in one process on one core.

    python -m tests.instruments.benchmarks.default_job [--runs 3] [key=value ...]

Each run starts with empty caches. Medians; the last line is one JSON object.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from tests.support.paths import ROOT


def seconds(runtime: str, words: list[str]) -> float:
    """The time that the command takes, in a folder of its own; a run in one process keeps to one core."""
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "run.py", "experiment=mmqa_prune", f"runtime={runtime}", f"output={folder}", *words]
        if runtime == "inline":
            os.sched_setaffinity(0, {min(cores)})  # the child inherits it
        start = time.perf_counter()
        try:
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        finally:
            os.sched_setaffinity(0, cores)
        return time.perf_counter() - start


def measure(runs: int, words: list[str]) -> dict[str, object]:
    taken: dict[str, list[float]] = {"ray": [], "inline": []}
    for _ in range(runs):
        for runtime, times in taken.items():
            times.append(seconds(runtime, words))
            print(f"{runtime}: {times[-1]:.1f} s", flush=True)
    ray_s, one_process_s = (statistics.median(times) for times in taken.values())
    return {
        "ray_s": round(ray_s, 1),
        "one_process_s": round(one_process_s, 1),
        "ratio": round(ray_s / one_process_s, 2),
        "runs": {runtime: [round(each, 1) for each in times] for runtime, times in taken.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("words", nargs="*", help="settings of the job", default=["wandb.mode=disabled"])
    print(json.dumps(measure(**vars(parser.parse_args()))))
