"""Results of the testbed with known truth: means with intervals, two tables and a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.analysis.statistics import bootstrap_interval
from experiments.studies.planted.settings import PlantedSettings
from experiments.studies.planted.worlds import Outcome

Measure = tuple[float, float, float]  # mean, low, high


@dataclass(frozen=True)
class Summary:
    """Means over the teams of one setting, or (None) of all strengths, each with its 95% bootstrap interval."""

    conformity: float | None
    distraction: float | None
    influence: str
    attacked: bool
    learner: str
    worlds: int
    measures: dict[str, Measure]


COLUMNS = {
    "auc_adversary": "AUC adversary",
    "auc_harmful": "AUC harmful",
    "auc_costly": "AUC costly",
    "utility": "utility",
    "share": "of best",
    "turns": "turns",
    "readings": "readings",
    "tokens": "tokens",
    "training": "training",
    "edges": "edges left",
    "wrongly": "wrongly cut",
    "joined": "joined",
}
# Shown with one decimal, the others with three.
COUNTS = ("turns", "readings", "tokens", "training", "edges", "wrongly")
# By the number of questions learned from, as `<name>@<questions>`.
CURVES = {"regret": "regret", "reached": "utility", "ranked": "auc", "spent": "spent"}
Key = tuple[float | None, float | None, str, bool, str]


def summarise(outcomes: Sequence[Outcome], seed: int = 0) -> list[Summary]:
    """Summaries per setting and graph, in the order of the outcomes, then those over all strengths of an influence.

    Regret after q questions is `regret@q`; `CURVES` has the others.
    """
    single: dict[Key, list[Outcome]] = {}
    every: dict[Key, list[Outcome]] = {}
    for outcome in outcomes:
        world, attacked = outcome.world, outcome.world.adversary is not None
        key = (world.influence.value, attacked, outcome.learner)
        single.setdefault((world.conformity, world.distraction, *key), []).append(outcome)
        # Teams with and without adversary are never averaged together, nor what hearing does.
        every.setdefault((None, None, *key), []).append(outcome)
    return [Summary(*key, len(group), _measures(group, seed)) for key, group in (single | every).items()]


def table(summaries: Sequence[Summary]) -> str:
    """One line per setting and graph: means and half the width of their 95% intervals."""
    return _lines(summaries, COLUMNS)


def regret_table(summaries: Sequence[Summary]) -> str:
    """Regret against the number of questions used, one line per setting and learner."""
    learners = [row for row in summaries if any(name.startswith("regret") for name in row.measures)]
    names = dict.fromkeys(name for row in learners for name in row.measures if name.startswith("regret"))
    return _lines(learners, {name: name for name in names})


def write(folder: Path, settings: PlantedSettings, outcomes: Sequence[Outcome], summaries: Sequence[Summary]) -> None:
    """planted.json: the settings, every outcome and their summaries."""
    content = {
        "settings": asdict(settings),
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "summaries": [asdict(row) for row in summaries],
    }
    (folder / "planted.json").write_text(json.dumps(content, indent=1) + "\n")


def metrics(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Means over all strengths as in a run's metrics.json, with methods `answers/attacked/<graph>` and so on."""
    methods = {}
    for row in summaries:
        if row.conformity is None:
            # None for a missing measure: rows of a W&B table need the same columns.
            means = {name: row.measures[name][0] if name in row.measures else None for name in COLUMNS}
            interval = list(row.measures["utility"][1:])
            methods[f"{row.influence}/{_team(row)}/{row.learner}"] = {**means, "ci95": interval}
    return {"methods": methods, "paired": {}}


def _measures(group: Sequence[Outcome], seed: int) -> dict[str, Measure]:
    # Some measures are missing where they have no meaning: a clean team has no adversary to rank.
    values = {name: [(o, getattr(o, name)) for o in group if getattr(o, name) is not None] for name in COLUMNS}
    for field, name in CURVES.items():
        for used in group[0].regret:
            curves = [(outcome, getattr(outcome, field)) for outcome in group]
            values[f"{name}@{used}"] = [(outcome, curve[used]) for outcome, curve in curves if used in curve]
    by_team = {name: _means_by_team(known) for name, known in values.items() if known}
    return {name: (float(np.mean(means)), *bootstrap_interval(means, seed)) for name, means in by_team.items()}


def _means_by_team(known: Sequence[tuple[Outcome, float]]) -> list[float]:
    """A value for each number of a world: those of one number are one team asked the same, at several strengths, and
    tell hardly more together than one of them."""
    teams: dict[int, list[float]] = {}
    for outcome, value in known:
        teams.setdefault(outcome.world.number, []).append(value)
    return [float(np.mean(of_one)) for of_one in teams.values()]


def _lines(summaries: Sequence[Summary], columns: dict[str, str]) -> str:
    width = max([12, *(len(row.learner) for row in summaries)])
    lines = [
        f"{'conformity':>10} {'distraction':>11} {'hearing':8} {'team':8} {'graph':{width}}"
        + "".join(f"{t:>15}" for t in columns.values())
    ]
    for row in summaries:
        setting = f"{'all':>22}" if row.conformity is None else f"{row.conformity:>10g} {row.distraction:>11g}"
        cells = (_cell(row.measures.get(name), name) for name in columns)
        lines.append(
            f"{setting} {row.influence:8} {_team(row):8} {row.learner:{width}}"
            + "".join(f"{cell:>15}" for cell in cells)
        )
    return "\n".join(lines)


def _team(row: Summary) -> str:
    return "attacked" if row.attacked else "clean"


def _cell(measure: Measure | None, name: str) -> str:
    if measure is None:
        return ""
    mean, low, high = measure
    digits = 1 if name in COUNTS else 3
    return f"{mean:.{digits}f} ±{(high - low) / 2:.{digits}f}"
