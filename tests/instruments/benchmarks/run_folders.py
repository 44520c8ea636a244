"""What run folders of real size cost those that read them: seconds, CPU and peak memory of each reader.

    python -m tests.instruments.benchmarks.run_folders <folder> [--kinds run sample sweep list] [--questions 2441]
        [--discussions 19500] [--trials 1000] [--runs 500 5000]

Makes in `folder`, where they are not there, one small real run for each kind, and from it:
- run: 12 methods, of which one learned a graph, on so many questions;
- sample: so many discussions of few turns, which a report embeds whole (the generated sample has questions for 19,600);
- sweep: so many trials, five of each setting;
- list: folders of so many runs.
Records are the small run's under other questions of the same data set, scored by their own labels and written by the
run's own recorder, so that `resume=` computes and accepts them. `turns/` is left out, as of a replay.

Then each reader reads them in a process of its own: tables from Python, `table=`, `resume=`, `report=`, and the viewer,
whose first page is asked for cold and warm. Seconds are of the wall clock; the viewer's memory is its peak so far.

`crowd` asks a viewer of the first list for the page while 200 others listen to its changes, and while 1,100 connections
have sent half a request. It measures how long a listener waits for its first event, and how long half-sent requests
stay open.

The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil

from actors.messages import Trace
from experiments.config.loading import varied
from experiments.config.saved import read, save
from experiments.jobs import plan_of
from experiments.records.jsonl import append_to
from experiments.records.recorder import TIMINGS, TURNS, Recorder, RunFolder
from experiments.records.run_files import write_atomically
from experiments.records.start import STARTS
from experiments.records.timings import times_of_turns, timing_file
from experiments.records.trials import RESULTS, TRIALS, TrialResult, read_results
from experiments.running.inputs import open_dataset
from experiments.sweeps.expansion import plan_sweep
from tests.support.paths import ROOT

MODULE = "tests.instruments.benchmarks.run_folders"
COMMON = ("experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "topology.rounds=2")
TWELVE = "methods=[closed_book,single,full,chain,star,debate,ring,majority,cot,mmapg,agreement,effects]"
FEW_TURNS = "methods=[closed_book,single,sp,cot,ccot]"
SEEDS = 5
# The small real run of each kind.
BASES = {
    "run": (TWELVE, "data.limit=20"),
    "sample": (FEW_TURNS, "data.limit=20"),
    "sweep": ("methods=[single,full]", "data.limit=10", "sweep.axes.concurrency=[1]", f"sweep.seeds={SEEDS}"),
    "list": ("methods=[single,full]", "data.limit=10"),
}
KINDS = [*BASES, "crowd"]
KB = 1024
LISTENERS = 200
HALF_SENT = 1_100
IDLE_S = 10
# Files of a run that need not differ from one to the next.
SHARED = (".png", ".svg", ".pdf", ".html", ".safetensors")


@dataclass(frozen=True)
class Cost:
    """Of one reader."""

    seconds: float
    cpu_s: float
    peak_mb: float


def measured(name: str, *words: str, cwd: Path = ROOT) -> Cost:
    """Runs a program of Python and returns its cost. Raises RuntimeError with its last lines where it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{name}: {' '.join(words)}:\n{output[-3000:]}")
    cost = Cost(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / KB)
    print_row(name, cost)
    return cost


def print_row(name: str, cost: Cost) -> None:
    print(f"{name:44}{cost.seconds:9.2f} s{cost.cpu_s:9.2f} s CPU{cost.peak_mb:9,.0f} MB", flush=True)


# Folders


def base_of(kind: str, folder: Path) -> RunFolder:
    """Finds or makes the small real run of a kind."""
    output = folder / "bases" / kind
    if not output.is_dir():
        words = [*COMMON, *BASES[kind], f"output={output}", f"cache={folder / 'cache'}"]
        measured(f"{kind}: the small run", "-u", "run.py", *words)
    (path,) = output.iterdir()
    return RunFolder.open(path)


def make_run(base: RunFolder, target: Path, questions: int) -> None:
    """Makes a run of so many questions, with the base's training and its discussions under other questions.

    It is not concluded: `resume=` does that.
    """
    output = target.parent
    config = read(base.config)
    config = replace(varied(config, {"data.limit": questions, "output": str(output)}), resume=None)
    made = RunFolder(target)
    target.mkdir(parents=True)
    save(config, made.config)
    for name in (STARTS, "usage.jsonl", "run.log", "model.json"):
        shutil.copy(base.path / name, target / name)
    learned = base.path / "learned"
    if learned.is_dir():
        shutil.copytree(learned, target / "learned", ignore=shutil.ignore_patterns(TURNS))
    watched = base.trace_file("calibrate")
    if watched.exists():
        made.trace_file("calibrate").parent.mkdir()
        shutil.copy(watched, made.trace_file("calibrate"))

    plan = plan_of(config)
    dataset = open_dataset(plan, config.cache_folder)
    items = list(dataset.evaluate())
    (target / TIMINGS).mkdir()
    with Recorder(made) as recorder:
        for method in plan.evaluated:
            phase = f"evaluate-{method}"
            times = times_of_turns(base, phase)
            for item, trace in zip(items, cycle(base.traces(phase)), strict=False):
                question = item.question.id
                discussion = renamed(trace, question)
                recorder.evaluated(discussion, item, dataset.score(item, trace.answer))
                time_of_trace = times.get((trace.question, trace.sample))
                if time_of_trace:
                    line = replace(time_of_trace, question=question)
                    append_to(timing_file(made, phase), line.encode())


def renamed(trace: Trace, question: str) -> Trace:
    """The same discussion of another question."""
    return replace(trace, question=question)


def make_sweep(base: RunFolder, target: Path, trials: int) -> None:
    """Makes a finished sweep, each trial with the records of the base's trial of its seed."""
    values = list(range(1, trials // SEEDS + 1))
    config = read(base.config)
    config = varied(config, {"sweep.axes": {"concurrency": values}, "output": str(target.parent)})
    unfinished = target.with_name(f".{target.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save(config, unfinished / "config.yaml")
    for name in (STARTS, "run.log"):
        shutil.copy(base.path / name, unfinished / name)
    results = {result.seed: result for result in read_results(base.path)}
    lines: list[str] = []
    for trial in plan_sweep(config).trials:
        result = results[trial.seed]
        folder = unfinished / TRIALS / trial.name
        copy_run(base.path / TRIALS / result.name, folder)
        trial.config.wandb.group = target.name
        save(trial.config, folder / "config.yaml")
        lines.append(TrialResult(trial.name, trial.values, trial.seed, result.metrics).encode())
    write_atomically(unfinished / RESULTS, "".join(f"{line}\n" for line in lines).encode())
    unfinished.rename(target)


def copy_run(source: Path, target: Path) -> None:
    """Copies a run. Large files that need not differ are shared by hard links."""

    def copy(file: str, place: str) -> None:
        if file.endswith(SHARED):
            os.link(file, place)
        else:
            shutil.copy2(file, place)

    shutil.copytree(source, target, copy_function=copy)


def make_list(base: RunFolder, target: Path, runs: int) -> None:
    """Makes a folder of runs, each with a seed and a time of its own. Every tenth was stopped before its result."""
    unfinished = target.with_name(f".{target.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    config = base.config.read_text()
    began = datetime(2026, 1, 1)
    for number in range(runs):
        run = unfinished / f"{began + timedelta(minutes=number):%Y%m%d-%H%M%S}-mmqa_prune"
        copy_run(base.path, run)
        (run / "config.yaml").write_text(re.sub(r"(?m)^seed: \d+$", f"seed: {number}", config))
        if number % 10 == 0:
            (run / "metrics.json").unlink()
    unfinished.rename(target)


# Readers


def read_tables(path: str) -> None:
    """Reads a run's tables from Python, as docs/python.md does."""
    from experiments.api import load_run

    run = load_run(path)
    print(run.scores.to_pandas().groupby("method")["utility"].mean())
    print(len(run.discussions.to_arrow()), sum(batch.num_rows for batch in run.turns.batches()), len(run.results))


def view(folder: Path, pages: Sequence[str], name: str) -> dict[str, Cost]:
    """Asks a new server for pages, in this order, each twice."""
    words = [sys.executable, "-u", "run.py", f"view={folder}"]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split(" at ")[1].split()[0]
        server = psutil.Process(process.pid)
        costs: dict[str, Cost] = {}
        for page in pages:
            for state in ("cold", "warm"):
                costs[f"{page or 'list'} {state}"] = asked(server, f"{address}{page}")
                print_row(f"{name}: {page[-30:] or 'list'} {state}", costs[f"{page or 'list'} {state}"])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    return costs


def asked(server: psutil.Process, address: str) -> Cost:
    """Asks for a page, and returns what that cost the server."""
    before = sum(server.cpu_times()[:2])
    started = time.perf_counter()
    with urlopen(address) as page:
        content = page.read()
    seconds = time.perf_counter() - started
    if not content:
        raise RuntimeError(f"{address}: empty")
    peak_kb = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())
    assert peak_kb is not None
    return Cost(seconds, sum(server.cpu_times()[:2]) - before, int(peak_kb[1]) / KB)


async def crowd(folder: Path) -> dict[str, Any]:
    """Asks a new server for its list alone, among listeners, and among half-sent requests too."""
    words = [sys.executable, "-u", "run.py", f"view={folder}"]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().split(" at ")[1].split()[0]
    server = psutil.Process(process.pid)
    place = urlsplit(address)
    costs: dict[str, Any] = {}

    async def page(name: str) -> None:
        costs[name] = asdict(await asyncio.to_thread(asked, server, address))
        print(f"crowd: the list, {name}", costs[name], flush=True)

    async def connected(request: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writers.append(writer)
        writer.write(request.encode())
        return reader

    async def first_event_s() -> float:
        started = time.perf_counter()
        reader = await connected(f"GET {place.path}events HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n")
        await reader.readuntil(b"data: ")
        return time.perf_counter() - started

    async def open_s() -> float:
        started = time.perf_counter()
        try:
            reader = await connected(f"GET {place.path} HTTP/1.1\r\nHost:")
            await reader.read()
        except ConnectionError:
            pass  # there are too many
        return time.perf_counter() - started

    writers: list[asyncio.StreamWriter] = []
    try:
        await page("cold")
        await page("warm")
        costs["seconds to the first event"] = sorted(await asyncio.gather(*(first_event_s() for _ in range(LISTENERS))))
        await page(f"with {LISTENERS} listeners")
        cpu_before_s = sum(server.cpu_times()[:2])
        await asyncio.sleep(IDLE_S)
        costs["CPU seconds a second of listeners"] = (sum(server.cpu_times()[:2]) - cpu_before_s) / IDLE_S
        half_sent = [asyncio.create_task(open_s()) for _ in range(HALF_SENT)]
        await asyncio.sleep(1)
        costs["connections among half-sent requests"] = len(server.net_connections()) - 1
        try:
            await page(f"with {HALF_SENT:,} half-sent requests")
        except OSError as error:
            costs["refused"] = str(error)
        costs["seconds that half-sent requests stayed open"] = sorted(await asyncio.gather(*half_sent))
        costs["connections afterwards"] = len(server.net_connections()) - 1
        await page("afterwards")
    finally:
        for writer in writers:
            writer.close()
        process.send_signal(signal.SIGINT)
        process.wait()
    for name in ("seconds to the first event", "seconds that half-sent requests stayed open"):
        costs[name] = {"median": costs[name][len(costs[name]) // 2], "longest": costs[name][-1]}
    return costs


def python(part: str, *arguments: str) -> tuple[str, ...]:
    """The words of a program that does one part of this module."""
    return ("-c", f"import sys; from {MODULE} import *; {part}", *arguments)


def read_run(kind: str, run: Path, cache: Path) -> Iterator[tuple[str, Cost]]:
    """Measures the readers of one run, or sweep."""
    named_again = f"cache={cache}"
    if not (run / "metrics.json").exists() and kind != "sweep":
        yield "conclude", measured(f"{kind}: resume=, concluded the first time", "run.py", f"resume={run}", named_again)
    yield "resume", measured(f"{kind}: resume= of the finished folder", "run.py", f"resume={run}", named_again)
    yield "tables", measured(f"{kind}: load_run and its tables", *python("read_tables(sys.argv[1])", str(run)))
    yield "table", measured(f"{kind}: table=", "run.py", f"table=[{run}]")
    if kind != "sweep":
        yield "report", measured(f"{kind}: report=", "run.py", f"report={run}", named_again)
    pages = ["", f"run/{run.name}/"]
    if kind != "sweep":
        pages += [f"run/{run.name}/index.json", f"run/{run.name}/pairs.json", f"run/{run.name}/?whole"]
    for page, cost in view(run, pages, kind).items():
        yield f"view {page}", cost


def main(options: argparse.Namespace) -> None:
    folder = options.folder.absolute()
    results: dict[str, dict[str, object]] = {}
    sizes = {"run": options.questions, "sample": options.discussions // 5, "sweep": options.trials}
    makers = {"run": "make_run", "sample": "make_run", "sweep": "make_sweep", "list": "make_list"}

    def made(kind: str, size: int) -> Path:
        base = base_of(kind, folder)
        target = folder / f"{kind}-{size}"
        if kind != "list":
            target = target / f"{kind}-{size}"
        if not target.exists():
            part = f"{makers[kind]}(RunFolder.open(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]))"
            measured(f"{kind}: the folder of {size:,}", *python(part, str(base.path), str(target), str(size)))
        return target

    for kind in options.kinds:
        if kind == "crowd":
            results[kind] = asyncio.run(crowd(made("list", options.runs[0])))
            print(results[kind])
        elif kind == "list":
            for size in options.runs:
                results[f"list {size}"] = {
                    page: asdict(cost) for page, cost in view(made(kind, size), [""], f"list of {size:,}").items()
                }
        else:
            results[kind] = {
                name: asdict(cost) for name, cost in read_run(kind, made(kind, sizes[kind]), folder / "cache")
            }
    print(json.dumps({**results, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--questions", type=int, default=2441)
    parser.add_argument("--discussions", type=int, default=19_500)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--runs", type=int, nargs="+", default=[500, 5000])
    main(parser.parse_args())
