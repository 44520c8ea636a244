"""The figures of a run, from its records and metrics: each learned graph's edges over training and learning curves, how
debates change their blueprint, and cost against utility."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from experiments.analysis.figures.blueprints import DEBATE, condensation
from experiments.analysis.figures.curves import learning_curves
from experiments.analysis.figures.edges import edge_heatmaps
from experiments.analysis.figures.seconds import Timed, utility_and_seconds
from experiments.analysis.figures.style import save_all
from experiments.analysis.figures.tokens import utility_against_tokens
from experiments.analysis.scores import by_method, seconds_per_question
from experiments.analysis.summary import Metrics
from experiments.records.recorder import RunFolder


def draw(run: RunFolder, metrics: Metrics, metric: str, timed: bool = False, at_once: int = 1) -> list[Path]:
    """Every figure that the run has records for, as PDF, SVG and PNG in its folder; the PNGs' paths are returned.

    `metric` names the data set's utility (EM, accuracy). A `timed` run held one discussion at a time and took nothing
    from the completion cache, so that seconds per question can be compared. `at_once` figures are saved at a time.
    """
    figures: dict[str, Figure] = {}
    for graph in run.all_learned():
        figures |= {f"{graph.name}-{name}": figure for name, figure in edge_heatmaps(graph).items()}
        if curves := learning_curves(graph):
            figures[f"{graph.name}-learning-curves"] = curves
    if DEBATE in metrics["methods"] and (blueprints := condensation(run)):
        figures["blueprint-changes"] = blueprints
    figures["utility-against-tokens"] = utility_against_tokens(metrics, metric)
    if timed:
        figures["utility-and-seconds"] = utility_and_seconds(_timed(run, metrics), metric)
    return save_all(figures, run.figures, at_once)


def _timed(run: RunFolder, metrics: Metrics) -> list[Timed]:
    seconds = seconds_per_question(run, by_method(run))
    return [
        Timed(method, "", (seconds[method],), row["utility"], tuple(row["ci95"]))
        for method, row in metrics["methods"].items()
    ]
