"""`experiment=planted`: explores worlds in parallel, records each one, then writes tables, figures and a file."""

from __future__ import annotations

import json
from concurrent.futures import as_completed
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from actors.spawned import cores, spawned
from experiments.config.study_settings import Influence, PlantedConfig
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.studies.planted import planted_report
from experiments.studies.planted.opinions import OpinionModel
from experiments.studies.planted.worlds import Outcome, PlantedWorld, explore, worlds

CURVES = tuple(planted_report.CURVES)
RECORDS = "worlds.jsonl"  # a line per world: the list of its outcomes


def run(folder: RunFolder, config: PlantedConfig, tracker: Tracker, model: OpinionModel | None = None) -> None:
    """Explores the worlds that the folder lacks, and writes the results of all."""
    settings, model = config.planted, model or OpinionModel()
    planned = worlds(settings, model.text + model.visual)
    explored = read_records(folder.path / RECORDS)
    left = [world for world in planned if world not in explored]
    tasks = [partial(explore, world, config, model) for world in left]
    with Progress() as progress, (folder.path / RECORDS).open("a") as lines:
        bar = progress.phase("exploring worlds", total=len(planned), done=len(planned) - len(left))
        # One single-threaded process per core: more threads would only compete.
        with spawned(tasks, cores(), partial(torch.set_num_threads, 1)) as futures:
            for future in as_completed(futures):
                outcomes = future.result()
                explored[outcomes[0].world] = outcomes
                lines.write(json.dumps([asdict(outcome) for outcome in outcomes], separators=(",", ":")) + "\n")
                # A killed run loses at most the worlds that are being explored.
                lines.flush()
                bar.advance()
    # In the planned order: worlds finish in any order, and the file must not depend on it.
    outcomes = [outcome for world in planned for outcome in explored[world]]
    summaries = planted_report.summarise(outcomes, config.seed)
    planted_report.write(folder.path, settings, outcomes, summaries)
    drawn = planted_report.draw(folder.figures, summaries)
    tracker.summary(planted_report.metrics(summaries), drawn)
    print()
    for table in planted_report.tables(summaries):
        table.print()


def read_records(path: Path) -> dict[PlantedWorld, list[Outcome]]:
    """Reads recorded outcomes by world; a line that a killed run left incomplete is cut off."""
    jsonl.cut(path)
    recorded = jsonl.records(path, _outcomes, "delete the file to explore all worlds again")
    return {outcomes[0].world: outcomes for outcomes in recorded}


def _outcomes(line: str) -> list[Outcome]:
    outcomes = []
    for fields in json.loads(line):
        world = fields["world"] | {"influence": Influence(fields["world"]["influence"])}
        # JSON turns integer keys into text.
        curves = {name: {int(used): number for used, number in fields[name].items()} for name in CURVES}
        outcomes.append(Outcome(**fields | curves | {"world": PlantedWorld(**world)}))
    if not outcomes:
        raise ValueError("expected the outcomes of a world")
    return outcomes
