"""From the command to the first discussion on record, and to the line that refuses a wrong word, on a warm disk.

    python -m tests.instruments.benchmarks.starts [--runs 5] [--beside <another checkout>] [key=value ...]

What is compared takes turns within a round; each run ends once its first discussion is recorded. Beside them stands a
script that starts Ray and nine actors that do nothing. Medians; the last line is one JSON object.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.paths import ROOT

BARE_RAY = """
import ray
ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
@ray.remote(num_cpus=0)
class Empty:
    def ready(self): pass
actors = [Empty.remote() for _ in range(9)]
ray.get([actor.ready.remote() for actor in actors])
print("up", flush=True)
"""
POLL_S = 0.02
LATEST_S = 300.0


def first_discussion(checkout: Path, output: Path, words: list[str]) -> float:
    """Seconds until a trace of the run has a line; the run is interrupted then."""
    before = set(output.glob("*-mmqa_prune"))
    command = [sys.executable, "run.py", "experiment=mmqa_prune", f"output={output}", *words]
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=checkout, env=_alone(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_heeding
    )
    while not _recorded(output, before):
        if process.poll() is not None or time.perf_counter() - started > LATEST_S:
            process.kill()
            raise SystemExit(f"no discussion was recorded: {' '.join(command)}")
        time.sleep(POLL_S)
    taken = time.perf_counter() - started
    process.send_signal(signal.SIGINT)
    process.wait()
    return taken


def refusal(checkout: Path) -> float:
    """Seconds until a key that there is not is refused."""
    started = time.perf_counter()
    command = [sys.executable, "run.py", "experiment=mmqa_prune", "no.such.key=1"]
    done = subprocess.run(command, cwd=checkout, env=_alone(), capture_output=True, check=False)
    assert done.returncode == 2, done.stderr
    return time.perf_counter() - started


def bare_ray() -> float:
    """Seconds until a script has started Ray and nine actors that do nothing."""
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", BARE_RAY], env=_alone(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n", "Ray did not start"
        return time.perf_counter() - started


def _recorded(output: Path, before: set[Path]) -> bool:
    runs = set(output.glob("*-mmqa_prune")) - before
    return any(trace.stat().st_size for run in runs for trace in run.glob("**/traces/*.jsonl"))


def _alone() -> dict[str, str]:
    """The environment without a path on which another checkout may lie."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _heeding() -> None:
    """What a shell starts in the background ignores SIGINT, and hands that down."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def measure(runs: int, beside: Path | None, words: list[str]) -> dict[str, dict[str, float]]:
    checkouts = {"here": ROOT} | ({"beside": beside.resolve()} if beside else {})
    with tempfile.TemporaryDirectory() as folder:
        asked: dict[tuple[str, str], Callable[[], float]] = {}
        for name, checkout in checkouts.items():
            for runtime in ("ray", "inline"):
                said = [f"runtime={runtime}", "wandb.mode=disabled", *words]
                asked[name, runtime] = lambda c=checkout, o=Path(folder) / name, s=said: first_discussion(c, o, s)
            asked[name, "refusal"] = lambda c=checkout: refusal(c)
        asked["peers", "bare_ray"] = bare_ray
        taken: dict[tuple[str, str], list[float]] = {key: [] for key in asked}
        # The first round warms disk and caches.
        for number in range(runs + 1):
            for key, once in asked.items():
                seconds = once()
                print(f"{' '.join(key)}: {seconds:.2f} s{'' if number else ' (not counted)'}", flush=True)
                taken[key] += [seconds] if number else []
    medians: dict[str, dict[str, float]] = {}
    for (name, what), times in taken.items():
        medians.setdefault(name, {})[what] = round(statistics.median(times), 2)
    return medians


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn with this one")
    parser.add_argument("words", nargs="*", help="settings of the job", default=[])
    print(json.dumps(measure(**vars(parser.parse_args()))))
