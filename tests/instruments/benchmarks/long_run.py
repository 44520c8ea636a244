"""Does a run of many turns stay as it was at its beginning: its memory, its speed, its use of the disk?

    python -m tests.instruments.benchmarks.long_run [--turns 1000000] [--sample-s 2] [key=value ...]

Runs `experiment=mmqa_prune` on the embedded reader with so many discussions a step that training takes at least so many
turns, and looks at it from outside every few seconds: the memory of each kind of process, and the files that grow. Its
traces are read meanwhile, from the first line to the last one that is whole. Stops it (SIGTERM) after so many turns.

- `turns_per_s`: in each tenth of the turns. `memory_mb`: what all processes of a kind have for themselves, after the
  first tenth of the turns and at the end. `bytes_per_turn`: on the disk, whatever file it is in.
- `read_turns_per_s`: how fast traces were read while they were written, and `read_share` of what was written by then.

The last line is one JSON object.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from experiments.records.recorder import RunFolder
from tests.support.paths import ROOT

METHOD, STAGE = "m3prune", "train-1"
# 64 samples of each of 8 questions a step: a stage has more than a million turns, of 960 questions.
WORDS = ["experiment=mmqa_prune", f"methods=[{METHOD}]", "training.samples=64", "training.questions_per_step=8"]
WORDS += ["pruning.steps=120", "completions.reuse=false", "wandb.mode=disabled"]
TENTHS = 10
# By the titles that Ray gives its workers.
ACTORS = {"AgentProcess": "agent", "ReplicaProcess": "replica", "LearnerProcess": "learner"}


@dataclass(frozen=True, slots=True)
class Look:
    """What a run was like at one time. `bytes` are those of its traces, `disk` those of all its files."""

    at_s: float
    bytes: int
    disk: int
    memory_mb: dict[str, float]


def looked_at(process: psutil.Process, folder: Path) -> Look:
    files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    memory: Counter[str] = Counter()
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            name = ACTORS.get((re.match(r"ray::(\w+)", one.cmdline()[0]) or ["", ""])[1], "")
            memory["driver" if one == process else name or "ray"] += one.memory_full_info().uss / 1e6
    return Look(
        time.monotonic(),
        traces.stat().st_size if (traces := traces_of(folder)).exists() else 0,
        sum(files),
        {name: round(mb, 1) for name, mb in memory.items()},
    )


def traces_of(folder: Path) -> Path:
    return folder / "learned" / METHOD / "traces" / f"{STAGE}.jsonl"


def read_turns(folder: Path) -> tuple[int, float]:
    """The turns of all traces that can be read now, and the seconds that this took."""
    start = time.monotonic()
    turns = sum(len(trace.turns) for trace in RunFolder(folder).learned(METHOD).traces(STAGE))
    return turns, time.monotonic() - start


def measure(turns: int, sample_s: float, words: list[str]) -> dict[str, object]:
    output = Path(tempfile.mkdtemp(prefix="long"))
    run = psutil.Popen(
        [sys.executable, "run.py", *WORDS, *words, f"output={output}"], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        while not any(traces_of(folder).exists() for folder in output.iterdir()):
            if run.poll() is not None:
                raise SystemExit("the run ended before its first discussion")
            time.sleep(0.1)
        [folder] = [folder for folder in output.iterdir() if traces_of(folder).exists()]
        looks = [looked_at(run, folder)]
        time.sleep(10 * sample_s)
        # Turns are counted by the size of their traces: to read all of them at each look would be the larger work.
        begun, _ = read_turns(folder)
        bytes_per_trace = looked_at(run, folder).bytes / begun
        while run.poll() is None and looks[-1].bytes < turns * bytes_per_trace:
            time.sleep(sample_s)
            looks.append(looked_at(run, folder))
            print(f"{looks[-1].bytes / bytes_per_trace:,.0f} turns, {looks[-1].memory_mb}", file=sys.stderr, flush=True)
        found, read_s = read_turns(folder)
        after = looked_at(run, folder)
        run.send_signal(signal.SIGTERM)
        run.wait()
        return {
            "turns": found,
            "turns_per_s": [round(rate / bytes_per_trace) for rate in rates(looks)],
            "memory_mb": {"after_a_tenth": looks[len(looks) // TENTHS].memory_mb, "at_the_end": looks[-1].memory_mb},
            "bytes_per_turn": round(after.disk / found),
            "read_turns_per_s": round(found / read_s),
            "read_share": round(found * bytes_per_trace / after.bytes, 3),
        }
    finally:
        if run.poll() is None:
            run.kill()
        shutil.rmtree(output, ignore_errors=True)


def rates(looks: list[Look]) -> list[float]:
    """Bytes of traces per second in each tenth of what was written."""
    bounds = [looks[len(looks) * tenth // TENTHS] for tenth in range(TENTHS)] + [looks[-1]]
    return [(b.bytes - a.bytes) / max(b.at_s - a.at_s, 1e-9) for a, b in pairwise(bounds)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--sample-s", type=float, default=2.0)
    parser.add_argument("words", nargs="*", metavar="key=value", help="settings of the run")
    print(json.dumps(measure(**vars(parser.parse_args()))))
