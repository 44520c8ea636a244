"""`experiment=planted`: explores worlds in parallel, records each one, then writes tables, a figure and a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from actors.errors import UserError
from actors.spawned import cores, spawned
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.studies.planted import report
from experiments.studies.planted.settings import Influence, PlantedSettings
from experiments.studies.planted.worlds import Outcome, World, explore, worlds
from topologies.learning.learner_settings import LearnerSettings, PruningSettings

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
    """Explores the worlds that the folder lacks and sums up all. Raises UserError on settings that make no sense."""
    from experiments.studies.planted import figure  # imports matplotlib

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
                # A killed run loses at most the worlds that are being explored.
                lines.flush()
                bar.advance()
    # Settings are checked deep inside, by code that knows no users.
    except ValueError as error:
        raise UserError(str(error)) from error
    # In the planned order: worlds finish in any order, and the file must not depend on it.
    outcomes = [outcome for world in planned for outcome in explored[world]]
    summaries = report.summarise(outcomes, seed)
    report.write(folder.path, settings, outcomes, summaries)
    drawn = figure.draw(folder.figures, summaries)
    tracker.summary(report.metrics(summaries), drawn)
    print(f"\n{report.table(summaries)}\n\n{report.regret_table(summaries)}")


def read_records(path: Path) -> dict[World, list[Outcome]]:
    """Recorded outcomes by world; a line that a killed run left incomplete is cut off."""
    jsonl.cut(path)
    recorded = jsonl.records(path, _outcomes, "delete the file to explore all worlds again")
    return {outcomes[0].world: outcomes for outcomes in recorded}


def _outcomes(line: str) -> list[Outcome]:
    outcomes = [_outcome(**fields) for fields in json.loads(line)]
    if not outcomes:
        raise ValueError("expected the outcomes of a world")
    return outcomes


def _outcome(world: dict[str, float], **others: Any) -> Outcome:
    # JSON turns integer keys into text.
    read = {
        name: {int(used): number for used, number in value.items()} if isinstance(value, dict) else value
        for name, value in others.items()
    }
    return Outcome(World(**{**world, "influence": Influence(world["influence"])}), **read)  # type: ignore[arg-type]


def _explored(task: Callable[[World], list[Outcome]], left: Sequence[World]) -> Iterator[list[Outcome]]:
    """Outcomes of each world as it finishes, from one single-threaded process per core."""
    if not left:
        return
    with spawned([partial(task, world) for world in left], cores(), _begin) as futures:
        for future in as_completed(futures):
            yield future.result()


def _begin() -> None:
    # One process per core already fills the machine; more threads would only compete.
    torch.set_num_threads(1)
