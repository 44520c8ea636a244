"""Time to explain 100 failures of the default team, next to the time to hold the discussions.

    python -m tests.instruments.benchmarks.attribution [explain.by=silence ...]

Both in one process, with the embedded reader. `ratio` is the core's time per failure over that per discussion. The
discussions are held twice, with and without the attack.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

FAILURES, QUESTIONS = 100, 180


def timed(*words: str) -> tuple[float, float]:
    """Seconds on the clock and of a core."""
    begun, before = time.monotonic(), os.times()
    subprocess.run([sys.executable, "run.py", *words], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - begun, cpu


def measure(options: list[str]) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        attack = ["attack=response", "attack.clean=true", "figures=false", "wandb.mode=disabled"]
        words = ["experiment=full", f"data.limit={QUESTIONS}", *attack, "runtime=inline", f"output={folder}"]
        running, running_cpu = timed(*words)
        [run] = Path(folder).glob("2*")
        explaining, explaining_cpu = timed(f"explain={run}", f"explain.answers={FAILURES}", *options)
        found = [json.loads(line) for line in (run / "attribution.jsonl").read_text().splitlines()]
    return {
        "failures": len(found),
        "running_s": running,
        "explaining_s": explaining,
        "running_cpu_s": running_cpu,
        "explaining_cpu_s": explaining_cpu,
        "ratio": explaining_cpu / len(found) / (running_cpu / (2 * QUESTIONS)),
        "tokens_share": sum(each["tokens"] for each in found) / sum(each["recorded"] for each in found),
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:])))
