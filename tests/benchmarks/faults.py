"""Runs small jobs, disturbs each at a random moment, resumes it where that ended it, and compares what it wrote.

    python -m tests.benchmarks.faults [--seeds 3] [--kinds agent-killed disk-full ...] [--jobs training sweep ...]

A seed decides the moment (after which of its records) and the victim. A fault is survived where all metrics and traces
are those of an undisturbed run to the byte, no turn or score is recorded twice, whatever ended the run said so in one
line, and no process, shared memory or temporary file is left (but those files of a driver that was killed). Prints a
table in Markdown; the last line is one JSON object.

For root on Linux: file systems and networks of each trial's own show what is left in shared memory, fill up, and break.
What a machine lacks for a kind is said in one line, and the kind left out. Not tried: a file system that becomes
read-only (the kernel refuses that while files are open). Evidence is searched in the driver, so that a lost retriever
is a lost driver.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks.around import Around, Clock
from tests.benchmarks.disturbed import Disturbed
from tests.benchmarks.endpoint import Endpoint
from tests.benchmarks.private_nodes import PrivateNodes
from tests.benchmarks.recorded import records_in, twice_recorded, written

SMALL = ["experiment=mmqa_prune", "pruning.steps=3", "training.samples=4", "concurrency=8", "ray.hung_s=10"]
SMALL += ["topology.text=[critic,scientist]", "topology.visual=[critic]", "completions.reuse=false"]
JOBS = {
    "training": ["methods=[m3prune]", "data.limit=6"],
    "evaluation": ["methods=[full,random]", "data.limit=24"],
    "judging": ["methods=[single,full]", "data.limit=24", "judge=reader"],
    "sweep": ["methods=[single,m3prune]", "data.limit=4", "sweep.seeds=2", "sweep.parallel=2"],
    "endpoint": ["methods=[m3prune]", "data.limit=12"],
}
RUNS = ("training", "evaluation", "judging", "sweep")
ON_NODES = ("training", "evaluation", "judging")
AGENT, LEARNER, REPLICA = (rf"ray::{name}Actor\b" for name in ("Agent", "Stateful", "Replica"))
TRIAL = r"ray::.*Trainable"  # Tune's name for it
Fault = Callable[[Disturbed, random.Random], None]
KINDS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "agent-killed": (lambda run, chance: run.kill(AGENT, chance), RUNS),
    "agent-stopped": (lambda run, chance: run.stop(AGENT, chance), RUNS),
    "learner-killed": (lambda run, chance: run.kill(LEARNER, chance), ("training",)),
    "learner-stopped": (lambda run, chance: run.stop(LEARNER, chance), ("training",)),
    "replica-killed": (lambda run, chance: run.kill(REPLICA, chance), RUNS),
    "replica-stopped": (lambda run, chance: run.stop(REPLICA, chance), RUNS),
    "trial-killed": (lambda run, chance: run.kill(TRIAL, chance), ("sweep",)),
    "trial-stopped": (lambda run, chance: run.stop(TRIAL, chance), ("sweep",)),
    "driver-killed": (lambda run, chance: run.kill_driver(), RUNS),
    "driver-paused": (lambda run, chance: run.pause_driver(), RUNS),
    "interrupted": (lambda run, chance: run.interrupt(), RUNS),
    "interrupted-twice": (lambda run, chance: run.interrupt(times=2), RUNS),
    "agent-stopped-then-interrupted": (lambda run, chance: run.stop(AGENT, chance) or run.interrupt(), RUNS),
    "terminated": (lambda run, chance: run.terminate(), RUNS),
    "disk-full": (lambda run, chance: run.fill(), RUNS),
    "folder-moved": (lambda run, chance: run.move(), ("training", "evaluation", "judging")),
    "record-torn": (lambda run, chance: run.tear(chance), ("training", "evaluation", "judging")),
    "wandb-killed": (lambda run, chance: run.kill(r".*wandb-core", chance), ("training", "evaluation")),
    "wandb-stopped": (lambda run, chance: run.stop(r".*wandb-core", chance), ("training", "evaluation")),
    "replies-late": (lambda run, chance: run.around.fail("late", chance), ("endpoint",)),
    "replies-twice": (lambda run, chance: run.around.fail("twice", chance), ("endpoint",)),
    "replies-cut": (lambda run, chance: run.around.fail("cut", chance), ("endpoint",)),
    "replies-refused": (lambda run, chance: run.around.fail("refused", chance), ("endpoint",)),
    "replies-garbled": (lambda run, chance: run.around.fail("garbled", chance), ("endpoint",)),
    "endpoint-away": (lambda run, chance: run.around.go_away(), ("endpoint",)),
    "node-killed": (lambda run, chance: run.around.kill(chance.choice([1, 2])), ON_NODES),
    "node-vanished": (lambda run, chance: run.around.vanish(chance.choice([1, 2])), ON_NODES),
    "head-node-killed": (lambda run, chance: run.around.kill(0), ON_NODES),
    "network-cut": (lambda run, chance: run.around.cut(*chance.sample(range(3), 2)), ON_NODES),
    "clock-ahead": (lambda run, chance: run.around.jump(3600), RUNS),
    "clock-back": (lambda run, chance: run.around.jump(-3600), RUNS),
}
AROUND = {"node": PrivateNodes, "head": PrivateNodes, "network": PrivateNodes, "clock": Clock}


@dataclass
class Outcome:
    """One disturbed run; `wrong` is empty where it survived."""

    kind: str
    job: str
    seed: int
    resumed: int
    said: str
    seconds: float
    wrong: list[str]


@contextmanager
def place() -> Iterator[Path]:
    """A folder with a short name, as Ray's sockets need; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def words(job: str, kind: str) -> list[str]:
    return [*SMALL, *JOBS[job], f"wandb.mode={'offline' if kind.startswith('wandb') else 'disabled'}"]


def around(job: str, kind: str) -> type[Around]:
    return Endpoint if job == "endpoint" else AROUND.get(kind.partition("-")[0], Around)


def undisturbed(job: str) -> tuple[dict[str, bytes], int]:
    """What a job writes, and the number of its records."""
    with place() as folder, Disturbed(folder, words(job, ""), around(job, "")) as run:
        run.wait()
        if run.code:
            raise SystemExit(f"the undisturbed {job} failed: {run.said}")
        return written(run.folder), records_in(run.folder)


def disturbed(job: str, kind: str, seed: int, expected: dict[str, bytes], records: int) -> Outcome:
    chance, begun = random.Random(f"{job} {kind} {seed}"), time.monotonic()
    wrong: list[str] = []
    with place() as folder, Disturbed(folder, words(job, kind), around(job, kind)) as run:
        run.reach(chance.randrange(records))
        time.sleep(chance.random() / 5)
        try:
            if run.ended:
                raise LookupError("it had ended")
            KINDS[kind][0](run, chance)
        except LookupError as error:
            wrong.append(f"was not disturbed: {error}")
        run.wait()
        said, resumed = run.said, 0
        while run.code and resumed < 3:
            wrong += [f"said: {run.said}"] if not run.said_in_one_line else []
            wrong += [f"left {what}" for what in run.left()]
            resumed += 1
            run.resume()
        wrong += [f"ended with {run.code}: {run.said}"] if run.code else []
        wrong += [f"left {what}" for what in run.left()]
        found = written(run.folder)
        wrong += [f"{name} is another" for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
        wrong += twice_recorded(run.folder)
    return Outcome(kind, job, seed, resumed, said, round(time.monotonic() - begun, 1), list(dict.fromkeys(wrong)))


def table(outcomes: list[Outcome]) -> str:
    """Faults by kind, in Markdown."""
    lines = ["| fault | tried | went on | resumed | survived |", "|---|---|---|---|---|"]
    tried = Counter(outcome.kind for outcome in outcomes)
    for kind, number in tried.items():
        mine = [outcome for outcome in outcomes if outcome.kind == kind]
        resumed, well = sum(outcome.resumed > 0 for outcome in mine), sum(not outcome.wrong for outcome in mine)
        lines.append(f"| {kind.replace('-', ' ')} | {number} | {number - resumed} | {resumed} | {well} |")
    return "\n".join(lines)


def measure(seeds: int, kinds: list[str], jobs: list[str], first_seed: int) -> dict[str, object]:
    outcomes: list[Outcome] = []
    lacking = {kind: missing for kind in kinds if (missing := around("", kind).missing())}
    for kind, missing in lacking.items():
        print(f"{kind} is not tried: there is no {missing}", file=sys.stderr)
    kinds = [kind for kind in kinds if kind not in lacking]
    jobs = [job for job in jobs if any(job in KINDS[kind][1] for kind in kinds)]
    expected = {job: undisturbed(job) for job in jobs}
    for seed in range(first_seed, first_seed + seeds):
        for kind in kinds:
            able = [job for job in KINDS[kind][1] if job in jobs]
            if not able:
                continue
            # A seed tries each kind on one job, the next seed on the next one.
            job = able[(seed + kinds.index(kind)) % len(able)]
            outcomes.append(disturbed(job, kind, seed, *expected[job]))
            print(json.dumps(asdict(outcomes[-1])), file=sys.stderr, flush=True)
    print(table(outcomes))
    failed = [asdict(outcome) for outcome in outcomes if outcome.wrong]
    return {"tried": len(outcomes), "survived": len(outcomes) - len(failed), "failed": failed}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="times that each kind is tried")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    print(json.dumps(measure(**vars(parser.parse_args()))))
