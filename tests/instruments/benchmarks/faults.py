"""Runs small jobs, disturbs each at random moments, resumes it where that ended it, and compares what it wrote.

    python -m tests.instruments.benchmarks.faults [--faults 20]
        [--kinds agent-killed disk-full ...] [--jobs training sweep ...] [--at-once 2] [--record faults.jsonl]

A seed decides the moments (after which of its records) and the victims. A run meets up to four faults of a kind, one
after another, and only one where nothing is left to break. They are survived where all metrics and traces are those of
an undisturbed run to the byte, no turn or score is recorded twice, whatever ended the run said so in one line, and no
process, shared memory or temporary file is left (but those files of a driver that was killed). Some kinds are there
from the start, as little shared memory is, and end before a run is resumed. Prints a table in
Markdown, in which all faults of a run that went wrong count as lost; the last line is one JSON object. Hours may be
spread over several calls: what is recorded in a file is not tried again and is in the table.

For root on Linux: file systems and networks of each trial's own show what is left in shared memory, fill up, and break.
What a machine lacks for a kind is said in one line, and the kind left out. Not tried: a file system that becomes
read-only (the kernel refuses that while files are open). Evidence is searched in the driver, so that a lost retriever
is a lost driver.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.instruments.benchmarks.around import Around, Clock, FewFiles, LittleMemory, SmallSharedMemory
from tests.instruments.benchmarks.disturbed import Disturbed
from tests.instruments.benchmarks.endpoint import Endpoint
from tests.instruments.benchmarks.private_nodes import PrivateNodes
from tests.instruments.benchmarks.recorded import of_training, records_in, twice_recorded, written
from tests.instruments.benchmarks.shared_folder import SharedFolder

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
NO_SWEEP = ("training", "evaluation", "judging")
AGENT = r"ray::AgentProcess\b"
LEARNER = r"ray::LearnerProcess\b"
REPLICA = r"ray::ReplicaProcess\b"
TRIAL = r"ray::(TrialProcess|.*Trainable)\b"
RAYLET = r"\S*/raylet/raylet "


@dataclass(frozen=True)
class Kind:
    """What befalls a run, and the jobs that it can befall.

    After one that `ends` the run this is waited for, as a second fault would befall what is ending already. One that
    `stays` for the rest of the run comes once. One of a phase comes in it: start, training, evaluation or report.
    """

    befall: Callable[[Disturbed, random.Random], object]
    jobs: tuple[str, ...]
    ends: bool = False
    stays: bool = False
    phase: str = ""

    def moment(self, chance: random.Random, records: int, training: int) -> int:
        """After how many of the run's records it comes; before its agents are up for -1."""
        match self.phase:
            case "start":
                return -1
            case "training":
                return chance.randrange(training)
            case "evaluation":
                return chance.randrange(training, records)
            case "report":
                return records
        return chance.randrange(records)


def from_the_start(run: Disturbed, chance: random.Random) -> None:
    """Does nothing: the fault is what the run has around it."""


KINDS = {
    "agent-killed": Kind(lambda run, chance: run.kill(AGENT, chance), RUNS),
    "agent-stopped": Kind(lambda run, chance: run.stop(AGENT, chance), RUNS),
    "learner-killed": Kind(lambda run, chance: run.kill(LEARNER, chance), ("training",)),
    "learner-stopped": Kind(lambda run, chance: run.stop(LEARNER, chance), ("training",)),
    "replica-killed": Kind(lambda run, chance: run.kill(REPLICA, chance), RUNS),
    "replica-stopped": Kind(lambda run, chance: run.stop(REPLICA, chance), RUNS),
    "trial-killed": Kind(lambda run, chance: run.kill(TRIAL, chance), ("sweep",)),
    "trial-stopped": Kind(lambda run, chance: run.stop(TRIAL, chance), ("sweep",)),
    "raylet-killed": Kind(lambda run, chance: run.kill(RAYLET, chance), RUNS, ends=True),
    "driver-killed": Kind(lambda run, chance: run.kill_driver(), RUNS, ends=True),
    "driver-paused": Kind(lambda run, chance: run.pause_driver(), RUNS),
    "interrupted": Kind(lambda run, chance: run.interrupt(), RUNS, ends=True),
    "interrupted-twice": Kind(lambda run, chance: run.interrupt(times=2), RUNS, ends=True),
    "agent-stopped-then-interrupted": Kind(
        lambda run, chance: run.stop(AGENT, chance) or run.interrupt(), RUNS, ends=True
    ),
    "terminated": Kind(lambda run, chance: run.terminate(), RUNS, ends=True),
    "disk-full": Kind(lambda run, chance: run.fill(), RUNS, ends=True),
    "disk-full-at-start": Kind(lambda run, chance: run.fill(), NO_SWEEP, ends=True, stays=True, phase="start"),
    "disk-full-in-training": Kind(lambda run, chance: run.fill(), ("training",), ends=True, phase="training"),
    "disk-full-in-evaluation": Kind(lambda run, chance: run.fill(), NO_SWEEP, ends=True, phase="evaluation"),
    "disk-full-in-report": Kind(lambda run, chance: run.fill(), NO_SWEEP, ends=True, stays=True, phase="report"),
    "folder-shared": Kind(from_the_start, RUNS, stays=True),
    "folder-moved": Kind(lambda run, chance: run.move(), NO_SWEEP, ends=True),
    "record-torn": Kind(lambda run, chance: run.tear(chance), NO_SWEEP, ends=True),
    "wandb-killed": Kind(lambda run, chance: run.kill(r".*wandb-core", chance), ("training", "evaluation"), stays=True),
    "wandb-stopped": Kind(
        lambda run, chance: run.stop(r".*wandb-core", chance), ("training", "evaluation"), stays=True
    ),
    "replies-late": Kind(lambda run, chance: run.around.fail("late", chance), ("endpoint",)),
    "replies-twice": Kind(lambda run, chance: run.around.fail("twice", chance), ("endpoint",)),
    "replies-cut": Kind(lambda run, chance: run.around.fail("cut", chance), ("endpoint",)),
    "replies-refused": Kind(lambda run, chance: run.around.fail("refused", chance), ("endpoint",)),
    "replies-garbled": Kind(lambda run, chance: run.around.fail("garbled", chance), ("endpoint",)),
    "redirected": Kind(lambda run, chance: run.around.move(), ("endpoint",), ends=True),
    "endpoint-away": Kind(lambda run, chance: run.around.go_away(), ("endpoint",), ends=True),
    "node-killed": Kind(lambda run, chance: run.around.kill(chance.choice([1, 2])), NO_SWEEP, stays=True),
    "node-vanished": Kind(lambda run, chance: run.around.vanish(chance.choice([1, 2])), NO_SWEEP, stays=True),
    "head-node-killed": Kind(lambda run, chance: run.around.kill(0), NO_SWEEP, ends=True),
    "network-cut": Kind(lambda run, chance: run.around.cut(*chance.sample(range(3), 2)), NO_SWEEP),
    "clock-ahead": Kind(lambda run, chance: run.around.jump(3600), RUNS),
    "clock-back": Kind(lambda run, chance: run.around.jump(-3600), RUNS),
    "shared-memory-small": Kind(from_the_start, RUNS, stays=True),
    "files-few": Kind(from_the_start, RUNS, stays=True),
    "memory-little": Kind(from_the_start, RUNS, stays=True),
}
AROUND: dict[str, type[Around]] = {
    "node": PrivateNodes,
    "head": PrivateNodes,
    "network": PrivateNodes,
    "clock": Clock,
    "folder-shared": SharedFolder,
    "shared-memory-small": SmallSharedMemory,
    "files-few": FewFiles,
    "memory-little": LittleMemory,
}
TIMES = 4  # faults of a run, of those kinds that may come again


@dataclass
class Outcome:
    """One disturbed run; `wrong` is empty where it survived all its faults."""

    kind: str
    job: str
    seed: int
    faults: int
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
    if job == "endpoint":
        return Endpoint
    return AROUND.get(kind) or AROUND.get(kind.partition("-")[0], Around)


def undisturbed(job: str) -> tuple[dict[str, bytes], int, int]:
    """What a job writes, and the number of its records and of those of its training."""
    with place() as folder, Disturbed(folder, words(job, ""), around(job, "")) as run:
        run.wait()
        if run.code:
            raise SystemExit(f"the undisturbed {job} failed: {run.said}")
        return written(run.folder), records_in(run.folder), of_training(run.folder)


def disturbed(job: str, kind: str, seed: int, expected: dict[str, bytes], records: int, training: int) -> Outcome:
    chance, begun = random.Random(f"{job} {kind} {seed}"), time.monotonic()
    outcome = Outcome(kind, job, seed, faults=0, resumed=0, said="", seconds=0, wrong=[])
    with place() as folder, Disturbed(folder, words(job, kind), around(job, kind)) as run:
        times = 1 if KINDS[kind].stays else TIMES
        for moment in sorted(KINDS[kind].moment(chance, records, training) for _ in range(times)):
            run.reach(moment)
            time.sleep(chance.random() / 5)
            if KINDS[kind].befall is from_the_start:
                outcome.faults += 1
                break
            if resume(run, outcome):
                run.reach(moment)
            if run.ended:
                break
            try:
                KINDS[kind].befall(run, chance)
            except LookupError:  # whom it would have met was not there
                continue
            outcome.faults += 1
            if KINDS[kind].ends:
                run.wait()
        run.wait()
        while resume(run, outcome):
            run.wait()
        ended = [f"ended with {run.code}: {run.said}"] if run.code else []
        left = [f"left {what}" for what in run.left()]
        found = written(run.folder)
        others = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
        outcome.wrong += [*ended, *left, *(f"{name} is another" for name in others), *twice_recorded(run.folder)]
    outcome.seconds = round(time.monotonic() - begun, 1)
    return outcome


def resume(run: Disturbed, outcome: Outcome) -> bool:
    """Goes on with a run that has ended before its time, as long as it has been no more often than it was disturbed."""
    if not run.ended or not run.code or outcome.resumed > outcome.faults:
        return False
    outcome.said = outcome.said or run.said
    outcome.wrong += [] if run.said_in_one_line else [f"said: {run.said}"]
    outcome.wrong += [f"ended with {run.code}: {run.said}"] if run.code == 1 else []
    outcome.wrong += [f"left {what}" for what in run.left()]
    outcome.resumed += 1
    run.resume()
    return True


def table(outcomes: list[Outcome]) -> str:
    """Faults by kind, in Markdown."""
    lines = ["| fault | runs | faults | went on | resumed | survived |", "|---|---|---|---|---|---|"]
    total = [0] * 5
    for kind in dict.fromkeys(outcome.kind for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.kind == kind and outcome.faults]
        faults, resumed = sum(outcome.faults for outcome in mine), sum(outcome.resumed for outcome in mine)
        survived = sum(outcome.faults for outcome in mine if not outcome.wrong)
        counts = [len(mine), faults, faults - resumed, resumed, survived]
        total = [sum(both) for both in zip(total, counts, strict=True)]
        lines.append(f"| {kind.replace('-', ' ')} | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, f"| all | {' | '.join(map(str, total))} |"])


def measure(
    faults: int, kinds: list[str], jobs: list[str], first_seed: int, at_once: int, record: Path | None
) -> dict[str, object]:
    earlier = [Outcome(**json.loads(line)) for line in record.open()] if record and record.exists() else []
    lacking = {kind: missing for kind in kinds if (missing := around("", kind).missing())}
    for kind, missing in lacking.items():
        print(f"{kind} is not tried: there is no {missing}", file=sys.stderr)
    jobs = [job for job in jobs if any(job in KINDS[kind].jobs for kind in kinds)]
    able = {kind: [job for job in KINDS[kind].jobs if job in jobs] for kind in kinds if kind not in lacking}

    def tried(kind: str) -> list[Outcome]:
        """Runs with other seeds, each on the next of its jobs, until it has met enough faults or found none to meet."""
        outcomes = [outcome for outcome in earlier if outcome.kind == kind]
        while able[kind] and sum(one.faults for one in outcomes) < faults and len(outcomes) < 2 * faults:
            seed = first_seed + len(outcomes)
            job = able[kind][(seed + list(able).index(kind)) % len(able[kind])]
            outcomes.append(disturbed(job, kind, seed, *expected[job]))
            line = json.dumps(asdict(outcomes[-1]))
            print(line, file=sys.stderr, flush=True)
            if record:
                with record.open("a") as file:
                    file.write(f"{line}\n")
        return outcomes

    with ThreadPoolExecutor(at_once) as pool:
        expected = dict(zip(jobs, pool.map(undisturbed, jobs), strict=True))
        outcomes = [one for kind in pool.map(tried, able) for one in kind]
    print(table(outcomes))
    failed = [asdict(outcome) for outcome in outcomes if outcome.wrong]
    met, lost = sum(outcome.faults for outcome in outcomes), sum(int(one["faults"]) for one in failed)
    # A kind whose victim was never there tells nothing.
    not_met = [kind for kind in able if not any(outcome.faults for outcome in outcomes if outcome.kind == kind)]
    return {"tried": met, "survived": met - lost, "failed": failed, "not_met": not_met}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=1, help="of each kind, at least")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--at-once", type=int, default=1, help="runs beside each other, of different kinds")
    parser.add_argument("--record", type=Path)
    print(json.dumps(measure(**vars(parser.parse_args()))))
