"""Means over planted worlds, with intervals, and their tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.analysis.intervals import bootstrap_interval
from experiments.analysis.result_table import ResultTable
from experiments.studies.planted.worlds import Outcome

Measure = tuple[float, float, float]  # mean, low, high
GraphKey = tuple[float | None, float | None, str, bool, str]  # the first fields of a `PlantedSummary`

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
    "discussions": "discussions",
    "warned": "warned",
    "edges": "edges\nleft",
    "wrongly": "wrongly\ncut",
    "joined": "joined",
    "reported": "reported\nafter",
    "alarms": "others\nreported",
}
# Shown with one decimal, the others with three.
COUNTS = ("turns", "readings", "tokens", "training", "discussions", "edges", "wrongly", "reported", "alarms")
# By the number of questions learned from, as `<name>@<questions>`.
CURVES = {"regret": "regret", "reached": "utility", "ranked": "auc", "spent": "spent"}


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


def summarise_worlds(outcomes: Sequence[Outcome], seed: int = 0) -> list[PlantedSummary]:
    """Summarises by setting and graph, then over all strengths of an influence. `CURVES` are measures `<name>@<q>`."""
    by_setting: dict[GraphKey, list[Outcome]] = {}
    over_strengths: dict[GraphKey, list[Outcome]] = {}
    for outcome in outcomes:
        world = outcome.world
        # Teams with and without adversary are never averaged together, nor influences.
        graph = (world.influence.value, world.adversary is not None, outcome.learner)
        by_setting.setdefault((world.conformity, world.distraction, *graph), []).append(outcome)
        over_strengths.setdefault((None, None, *graph), []).append(outcome)
    groups = [*by_setting.items(), *over_strengths.items()]
    return [PlantedSummary(*key, len(group), _measures(group, seed)) for key, group in groups]


def _measures(group: Sequence[Outcome], seed: int) -> dict[str, Measure]:
    names = list(COLUMNS)
    for curve in CURVES.values():
        names += [f"{curve}@{questions}" for questions in group[0].regret]
    values = [(outcome.world.number, _values(outcome)) for outcome in group]

    measures: dict[str, Measure] = {}
    for name in names:
        # Worlds of one number are one team with the same questions, at several strengths: together they are hardly
        # more evidence than one of them, so each number counts once.
        team_values: dict[int, list[float]] = {}
        for number, outcome_values in values:
            # Some measures are missing where they have no meaning: a clean team has no adversary to rank.
            value = outcome_values.get(name)
            if value is not None:
                team_values.setdefault(number, []).append(value)
        if team_values:
            means = [float(np.mean(numbers)) for numbers in team_values.values()]
            measures[name] = (float(np.mean(means)), *bootstrap_interval(means, seed))
    return measures


def _values(outcome: Outcome) -> dict[str, float | None]:
    """Maps all measures of an outcome by name, those of curves as `<name>@<questions>`."""
    values = {name: getattr(outcome, name) for name in COLUMNS}
    for field, name in CURVES.items():
        for questions, value in getattr(outcome, field).items():
            values[f"{name}@{questions}"] = value
    return values


def planted_tables(summaries: Sequence[PlantedSummary]) -> Iterator[ResultTable]:
    """Yields the tables of all measures, and of regret by the number of questions: means ± half the 95% interval."""
    yield _table(summaries, COLUMNS)
    regrets: dict[str, str] = {}
    learners = []
    for summary in summaries:
        names = [name for name in summary.measures if name.startswith("regret")]
        regrets |= dict(zip(names, names, strict=True))
        if names:
            learners.append(summary)
    yield _table(learners, regrets)


def _table(summaries: Sequence[PlantedSummary], columns: Mapping[str, str]) -> ResultTable:
    rows = []
    for summary in summaries:
        cells = []
        for strength in (summary.conformity, summary.distraction):
            cells.append("all" if strength is None else f"{strength:g}")
        for name in columns:
            cell = ""
            if name in summary.measures:
                mean, low, high = summary.measures[name]
                digits = 1 if name in COUNTS else 3
                cell = f"{mean:.{digits}f} ±{(high - low) / 2:.{digits}f}"
            cells.append(cell)
        rows.append((summary.influence, summary.team, summary.learner, *cells))
    headers = ("influence", "team", "graph", "conformity", "distraction", *columns.values())
    return ResultTable(headers, rows, names=3)


def planted_metrics(summaries: Sequence[PlantedSummary]) -> dict[str, Any]:
    """Means over all strengths as in a run's metrics.json, with methods `answers/attacked/<graph>` and so on."""
    methods = {}
    for summary in summaries:
        if summary.conformity is None:
            # None for a missing measure: rows of a W&B table need the same columns.
            row: dict[str, Any] = dict.fromkeys(COLUMNS)
            for name in COLUMNS:
                if name in summary.measures:
                    row[name] = summary.measures[name][0]
            row["ci95"] = list(summary.measures["utility"][1:])
            methods[f"{summary.influence}/{summary.team}/{summary.learner}"] = row
    return {"methods": methods, "paired": {}}
