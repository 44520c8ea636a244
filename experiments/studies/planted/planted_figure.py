"""Figures of the testbed: regret by questions used, and utility and AUC by the cost of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.figures.style import COLOURS, LINES, MARKERS, PAGE, nth, plain, save, styled
from experiments.studies.planted.planted_report import Measure, PlantedSummary

THOUSAND = 1000  # messages
TEAMS = {True: "one adversary", False: "no adversary"}
AUCS = {True: "AUC: the adversary's edges", False: "AUC: edges that harm"}


def draw(folder: Path, summaries: Sequence[PlantedSummary]) -> list[Path]:
    """Draws both figures over all strengths, with and without an adversary. Returns the PNGs' paths."""
    # None marks the rows over all strengths, of the first influence. Baselines do not learn.
    whole = [row for row in summaries if row.conformity is None and row.influence == summaries[0].influence]
    learners = [row for row in whole if _points(row, "spent")]
    return [_regret(folder, learners), _tokens(folder, learners)]


@styled
def _regret(folder: Path, rows: Sequence[PlantedSummary]) -> Path:
    figure = Figure(figsize=(PAGE, 2.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (attacked, team) in zip(panels, TEAMS.items(), strict=True):
        _panel(axes, [row for row in rows if row.attacked == attacked], "regret", lambda row, used: used)
        axes.set_title(team)
        axes.set_xlabel("questions used")
    panels[0].set_ylabel("regret (best reachable utility minus own)")
    # Zero is shown, and so is anything below: a learner can beat the greedy best.
    panels[0].set_ylim(bottom=min(0.0, panels[0].get_ylim()[0]))
    panels[1].legend()
    return save(figure, folder, "planted-regret")


@styled
def _tokens(folder: Path, rows: Sequence[PlantedSummary]) -> Path:
    """Draws utility above, AUC below, by the messages written and read in training; equal turns count once."""
    figure = Figure(figsize=(PAGE, 4.8), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", sharey="row", squeeze=False)
    for column, (attacked, team) in enumerate(TEAMS.items()):
        of_team = [row for row in rows if row.attacked == attacked]
        for axes, measure in zip(panels[:, column], ("utility", "auc"), strict=True):
            _panel(axes, of_team, measure, lambda row, used: row.measures[f"spent@{used}"][0] / THOUSAND)
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
    return save(figure, folder, "planted-tokens")


def _panel(
    axes: Axes, rows: Sequence[PlantedSummary], measure: str, place: Callable[[PlantedSummary, int], float]
) -> None:
    """Draws a line for each learner, its 95% interval behind it."""
    for i, row in enumerate(rows):
        points, colour = _points(row, measure), nth(COLOURS, i)
        across = [place(row, used) for used in points]
        means, low, high = zip(*points.values(), strict=True) if points else ((), (), ())
        look: Any = {"color": colour, "linestyle": nth(LINES, i), "marker": nth(MARKERS, i)}
        axes.plot(across, means, markersize=3, label=row.learner, **look)
        axes.fill_between(across, low, high, color=colour, alpha=0.15, linewidth=0)
    plain(axes)


def _points(row: PlantedSummary, measure: str) -> dict[int, Measure]:
    """A measure by the number of questions used, ascending."""
    found = {name.partition("@"): value for name, value in row.measures.items()}
    return dict(sorted((int(used), value) for (name, at, used), value in found.items() if at and name == measure))
