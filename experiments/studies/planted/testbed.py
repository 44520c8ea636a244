"""The testbed with known truth: explores worlds in parallel, records each, and sums them up.

Means with intervals, two tables, a figure and a file.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from pydantic import Field, TypeAdapter

from actors.spawned import cores, spawned
from experiments.analysis.figures.style import PAGE, colour, drawing, line_look, plain, save
from experiments.analysis.intervals import bootstrap_interval
from experiments.analysis.result_table import ResultTable
from experiments.config.config import Config
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.worlds import Outcome, explore, worlds

RECORDS = "worlds.jsonl"  # a line per world: the list of its outcomes
OF_WORLD = TypeAdapter(Annotated[list[Outcome], Field(min_length=1)])


def run(folder: RunFolder, config: Config, tracker: Tracker, model: OpinionModel | None = None) -> list[Outcome]:
    """Explores the worlds that the folder lacks; writes the results of all, and returns their outcomes."""
    settings, model = config.planted, model or OpinionModel()
    planned = worlds(settings, model.text + model.visual)
    # A line that a killed run left incomplete is cut off.
    jsonl.cut(folder.path / RECORDS)
    remedy = "delete the file to explore all worlds again"
    recorded = jsonl.records(folder.path / RECORDS, OF_WORLD.validate_json, remedy)
    explored = {outcomes[0].world: outcomes for outcomes in recorded}
    left = [world for world in planned if world not in explored]
    tasks = [partial(explore, world, config, model) for world in left]
    with Progress() as progress, (folder.path / RECORDS).open("a") as lines:
        bar = progress.phase("exploring worlds", total=len(planned), completed=len(planned) - len(left))
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
    summaries = summarise(outcomes, config.seed)
    content = {
        "settings": asdict(settings),
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "summaries": [asdict(row) for row in summaries],
    }
    (folder.path / "planted.json").write_text(json.dumps(content, indent=1) + "\n")
    drawn = draw(folder.figures, summaries)
    tracker.summary(metrics(summaries), drawn)
    print()
    for table in tables(summaries):
        table.print()
    return outcomes


Measure = tuple[float, float, float]  # mean, low, high


@dataclass(frozen=True)
class PlantedSummary:
    """Means over the teams of one setting, or of all strengths (None), with 95% bootstrap intervals."""

    conformity: float | None
    distraction: float | None
    influence: str
    attacked: bool
    learner: str
    worlds: int
    measures: dict[str, Measure]

    @property
    def team(self) -> str:
        return "attacked" if self.attacked else "clean"


COLUMNS = {
    "auc_adversary": "AUC\nadversary",
    "auc_harmful": "AUC\nharmful",
    "auc_costly": "AUC\ncostly",
    "utility": "utility",
    "share": "of best",
    "random": "random\ngraph",
    "gain": "gain",
    "turns": "turns",
    "readings": "readings",
    "tokens": "tokens",
    "training": "training",
    "edges": "edges\nleft",
    "wrongly": "wrongly\ncut",
    "joined": "joined",
    "reported": "reported\nafter",
    "alarms": "others\nreported",
}
# Shown with one decimal, the others with three.
COUNTS = ("turns", "readings", "tokens", "training", "edges", "wrongly", "reported", "alarms")
# By the number of questions learned from, as `<name>@<questions>`.
CURVES = {"regret": "regret", "reached": "utility", "ranked": "auc", "spent": "spent"}
TEAMS = {True: "one adversary", False: "no adversary"}
AUCS = {True: "AUC: the adversary's edges", False: "AUC: edges that harm"}


def summarise(outcomes: Sequence[Outcome], seed: int = 0) -> list[PlantedSummary]:
    """Summarises by setting and graph, then over all strengths of an influence. `CURVES` are measures `<name>@<q>`."""
    groups: dict[tuple[float | None, float | None, str, bool, str], list[Outcome]] = {}
    for alone in (True, False):
        for outcome in outcomes:
            world = outcome.world
            of = (world.conformity, world.distraction) if alone else (None, None)
            # Teams with and without adversary are never averaged together, nor influences.
            key = (*of, world.influence.value, world.adversary is not None, outcome.learner)
            groups.setdefault(key, []).append(outcome)
    summaries = []
    for key, group in groups.items():
        # Some measures are missing where they have no meaning: a clean team has no adversary to rank.
        values = {name: [(o, getattr(o, name)) for o in group if getattr(o, name) is not None] for name in COLUMNS}
        for field, name in CURVES.items():
            for used in group[0].regret:
                curves = [(outcome, getattr(outcome, field)) for outcome in group]
                values[f"{name}@{used}"] = [(outcome, curve[used]) for outcome, curve in curves if used in curve]
        measures: dict[str, Measure] = {}
        for name, known in values.items():
            # Worlds of one number are one team with the same questions, at several strengths: together they are hardly
            # more evidence than one of them, so each number counts once.
            teams: dict[int, list[float]] = {}
            for outcome, value in known:
                teams.setdefault(outcome.world.number, []).append(value)
            if means := [float(np.mean(of_one)) for of_one in teams.values()]:
                measures[name] = (float(np.mean(means)), *bootstrap_interval(means, seed))
        summaries.append(PlantedSummary(*key, len(group), measures))
    return summaries


def tables(summaries: Sequence[PlantedSummary]) -> Iterator[ResultTable]:
    """Yields the tables of all measures, and of regret by the number of questions: means ± half the 95% interval."""
    learners = [row for row in summaries if any(name.startswith("regret") for name in row.measures)]
    regrets = {name: name for row in learners for name in row.measures if name.startswith("regret")}
    for of_table, columns in ((summaries, COLUMNS), (learners, regrets)):
        rows = []
        for row in of_table:
            cells = ["all" if value is None else f"{value:g}" for value in (row.conformity, row.distraction)]
            for name in columns:
                mean, low, high = row.measures.get(name, (None, 0.0, 0.0))
                digits = 1 if name in COUNTS else 3
                cells.append("" if mean is None else f"{mean:.{digits}f} ±{(high - low) / 2:.{digits}f}")
            rows.append((row.influence, row.team, row.learner, *cells))
        names = ("influence", "team", "graph", "conformity", "distraction", *columns.values())
        yield ResultTable(names, rows, names=3)


def metrics(summaries: Sequence[PlantedSummary]) -> dict[str, Any]:
    """Means over all strengths as in a run's metrics.json, with methods `answers/attacked/<graph>` and so on."""
    methods = {}
    for row in summaries:
        if row.conformity is None:
            # None for a missing measure: rows of a W&B table need the same columns.
            means = {name: row.measures[name][0] if name in row.measures else None for name in COLUMNS}
            methods[f"{row.influence}/{row.team}/{row.learner}"] = {**means, "ci95": list(row.measures["utility"][1:])}
    return {"methods": methods, "paired": {}}


@drawing()
def draw(folder: Path, summaries: Sequence[PlantedSummary]) -> list[Path]:
    """Draws utility above, AUC below, by the messages written and read in training; equal turns count once.

    Over all strengths, with and without an adversary. Returns the PNG's path.
    """
    # None marks the rows over all strengths, of the first influence. Baselines do not learn.
    whole = [row for row in summaries if row.conformity is None and row.influence == summaries[0].influence]
    rows = [row for row in whole if _points(row, "spent")]
    figure = Figure(figsize=(PAGE, 4.8), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", sharey="row", squeeze=False)
    for column, (attacked, team) in enumerate(TEAMS.items()):
        of_team = [row for row in rows if row.attacked == attacked]
        # A line for each learner, its 95% interval behind it.
        for axes, measure in zip(panels[:, column], ("utility", "auc"), strict=True):
            for i, row in enumerate(of_team):
                points = _points(row, measure)
                across = [row.measures[f"spent@{used}"][0] / 1000 for used in points]
                means, low, high = zip(*points.values(), strict=True) if points else ((), (), ())
                axes.plot(across, means, markersize=3, label=row.learner, **line_look(i))
                axes.fill_between(across, low, high, color=colour(i), alpha=0.15, linewidth=0)
                # Budgets are multiples of the paper's.
                if across and across[-1] > 20 * across[0]:
                    axes.set_xscale("log")
            plain(axes)
        panels[0, column].set_title(team)
        panels[1, column].set_title(AUCS[attacked])
        panels[1, column].set_xlabel("training tokens (thousands of messages)")
        # An AUC by chance alone.
        panels[1, column].axhline(0.5, color="black", linewidth=0.6, linestyle=":")
    panels[0, 0].set_ylabel("utility of answers")
    panels[1, 0].set_ylabel("AUC of the ranking")
    # Each learner once, whether or not there are teams of both kinds.
    named = {label: line for axes in panels[0] for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named, loc="outside lower center", ncols=4)
    return [save(figure, folder, "planted-tokens")]


def _points(row: PlantedSummary, measure: str) -> dict[int, Measure]:
    """Reads a measure by the number of questions used, ascending."""
    found = {name.partition("@"): value for name, value in row.measures.items()}
    return dict(sorted((int(used), value) for (name, at, used), value in found.items() if at and name == measure))
