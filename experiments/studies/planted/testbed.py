"""The testbed with known truth: explores worlds in parallel, records each, and writes their summaries."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import Annotated, Any

import torch
from pydantic import Field, TypeAdapter

from actors.spawned import cores, spawned
from experiments.config.config import Config
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.studies.planted.exploration import explore
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.planted_figure import draw_curves
from experiments.studies.planted.planted_summary import planted_metrics, planted_tables, summarise_worlds
from experiments.studies.planted.worlds import Outcome, worlds

RECORDS = "worlds.jsonl"  # a line per world: the list of its outcomes
WORLD_OUTCOMES = TypeAdapter(Annotated[list[Outcome], Field(min_length=1)])


def run(folder: RunFolder, config: Config, tracker: Tracker) -> list[Outcome]:
    """Explores the worlds that the folder lacks; writes the results of all, and returns their outcomes."""
    model = OpinionModel()
    tasks = {
        world: partial(explore, world, config, model) for world in worlds(config.planted, model.text + model.visual)
    }
    outcomes = outcomes_of(folder, tasks, WORLD_OUTCOMES)
    summaries = summarise_worlds(outcomes, config.seed)
    write_results(folder, "planted.json", config.planted, outcomes, summaries)
    tracker.summary(planted_metrics(summaries), draw_curves(folder.figures, summaries))
    print()
    for table in planted_tables(summaries):
        table.print()
    return outcomes


def write_results(
    folder: RunFolder, name: str, settings: Any, outcomes: Sequence[Any], summaries: Sequence[Any]
) -> None:
    """Writes a study's settings, outcomes and summaries, dataclasses all of them."""
    content = {
        "settings": asdict(settings),
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "summaries": [asdict(summary) for summary in summaries],
    }
    folder.write(name, json.dumps(content, indent=1) + "\n")


def outcomes_of(
    folder: RunFolder, tasks: Mapping[Any, Callable[[], list[Any]]], adapter: TypeAdapter[Any]
) -> list[Any]:
    """Explores the worlds that the folder lacks, by their tasks; returns the outcomes of all, each with its `world`.

    adapter: of the list of a world's outcomes.
    """
    # A line that a killed run left incomplete is cut off.
    jsonl.cut(folder.path / RECORDS)
    remedy = "delete the file to explore all worlds again"
    recorded_outcomes = jsonl.records(folder.path / RECORDS, adapter.validate_json, remedy)
    explored = {outcomes[0].world: outcomes for outcomes in recorded_outcomes}
    missing = [task for world, task in tasks.items() if world not in explored]
    with Progress() as progress:
        bar = progress.phase("exploring worlds", total=len(tasks), completed=len(tasks) - len(missing))
        # One single-threaded process per core: more threads would only compete.
        with spawned(missing, cores(), partial(torch.set_num_threads, 1)) as futures:
            for future in as_completed(futures):
                outcomes = future.result()
                explored[outcomes[0].world] = outcomes
                line = json.dumps([asdict(outcome) for outcome in outcomes], separators=(",", ":"))
                # A killed run loses at most the worlds that are being explored.
                jsonl.append_to(folder.path / RECORDS, line)
                bar.advance()

    # In the order of the tasks: worlds finish in any order, and the file must not depend on it.
    return list(chain.from_iterable(explored[world] for world in tasks))
