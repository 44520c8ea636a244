"""A sweep over Ray beside the same sweep with one process per core, each of which holds its own agents.

    python -m tests.instruments.benchmarks.sweep [experiment=mmqa_attack key=value ...]

Both start with empty caches. The last line is one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from tests.support.paths import ROOT


def seconds(runtime: str, words: list[str]) -> float:
    """The time that the sweep takes."""
    with tempfile.TemporaryDirectory() as folder:
        cores = len(os.sched_getaffinity(0))
        own = [f"runtime={runtime}", f"sweep.parallel={cores}", f"output={folder}", "wandb.mode=disabled"]
        start = time.perf_counter()
        subprocess.run([sys.executable, "run.py", *words, *own], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def measure(words: list[str]) -> dict[str, object]:
    ray_s, inline_s = seconds("ray", words), seconds("inline", words)
    return {
        "ray_s": round(ray_s, 1),
        "one_process_per_core_s": round(inline_s, 1),
        "ratio": round(ray_s / inline_s, 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", default=["experiment=mmqa_attack"], help="the sweep")
    print(json.dumps(measure(**vars(parser.parse_args()))))
