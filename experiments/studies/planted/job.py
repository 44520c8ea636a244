"""`experiment=planted`: every world in a process of its own, recorded as it comes, then tables, a figure and a file."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

from actors.errors import UserError
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.studies.planted import figure, report
from experiments.studies.planted.settings import PlantedSettings
from experiments.studies.planted.worlds import Outcome, World, explore, worlds
from topologies.learning.settings import LearnerSettings, PruningSettings

RECORDS = "worlds.jsonl"  # a line per world: the list of its outcomes


def run(
    folder: RunFolder,
    settings: PlantedSettings,
    learner: LearnerSettings,
    pruning: PruningSettings,
    samples: int,
    seed: int,
    tracker: Tracker,
) -> None:
    """Explore the worlds that the folder does not hold yet. Raises UserError on settings that make no sense."""
    records = folder.path / RECORDS
    try:
        planned = worlds(settings)
        explored = read_records(records)
        left = [world for world in planned if world not in explored]
        with Progress() as progress, records.open("a") as lines:
            bar = progress.phase("exploring worlds", total=len(planned), done=len(planned) - len(left))
            task = partial(explore, settings=settings, learner=learner, pruning=pruning, samples=samples, seed=seed)
            for outcomes in _explored(task, left):
                explored[outcomes[0].world] = outcomes
                lines.write(json.dumps([asdict(outcome) for outcome in outcomes], separators=(",", ":")) + "\n")
                lines.flush()
                bar.advance()
    except ValueError as error:
        raise UserError(str(error)) from error
    outcomes = [outcome for world in planned for outcome in explored[world]]
    summaries = report.summarise(outcomes, seed)
    report.write(folder.path, settings, outcomes, summaries)
    drawn = figure.draw(folder.figures, summaries)
    tracker.summary(report.metrics(summaries), drawn)
    print(f"\n{report.table(summaries)}\n\n{report.regret_table(summaries)}")


def read_records(path: Path) -> dict[World, list[Outcome]]:
    """Outcomes by world that are recorded already; a line that a killed run left incomplete is cut off."""
    jsonl.cut(path)
    recorded = jsonl.records(path, _outcomes, "delete the file to explore all worlds again")
    return {outcomes[0].world: outcomes for outcomes in recorded}


def _outcomes(line: str) -> list[Outcome]:
    return [_outcome(**fields) for fields in json.loads(line)]


def _outcome(world: dict[str, float], regret: dict[str, float], **others: float) -> Outcome:
    return Outcome(
        World(**world),  # type: ignore[arg-type]
        regret={int(used): value for used, value in regret.items()},
        **others,  # type: ignore[arg-type]
    )


def _explored(task: Callable[[World], list[Outcome]], left: Sequence[World]) -> Iterator[list[Outcome]]:
    """In the order in which they are done, which changes nothing in them: a process of one thread for every core."""
    cores = min(len(os.sched_getaffinity(0)), len(left))
    if not cores:
        return
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn"), initializer=_begin) as pool:
        futures = [pool.submit(task, world) for world in left]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer, once
