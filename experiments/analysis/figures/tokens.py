"""Utility of answers against their cost in tokens (M3Prune's Figs. 4, 21 and 22)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.figures.labels import label
from experiments.analysis.figures.style import COLOURS, COLUMN, MARKERS, PAGE, nth, plain, styled
from experiments.analysis.summary import Metrics

CROWD = 6  # more names than this need the width of a page
COST = "prompt and completion tokens per question"


@styled
def utility_against_tokens(metrics: Metrics, metric: str) -> Figure:
    """Each method's utility, with its 95% interval, against its tokens per question."""
    methods = metrics["methods"]
    figure = Figure(figsize=(COLUMN, 2.6) if len(methods) <= CROWD else (PAGE, 3.6), layout="constrained")
    axes = figure.add_subplot()
    xs = [tokens_of(row) for row in methods.values()]
    bars = [(row["ci95"][0], row["utility"], row["ci95"][1]) for row in methods.values()]
    # A mean can lie outside its own interval by rounding; a negative length is an error to matplotlib.
    for i, (x, (low, y, high)) in enumerate(zip(xs, bars, strict=True)):
        axes.errorbar(
            x,
            y,
            yerr=[[max(y - low, 0)], [max(high - y, 0)]],
            fmt=nth(MARKERS, i),
            color=nth(COLOURS, i),
            markersize=5,
            capsize=2,
            elinewidth=0.8,
        )
    cost_axis(axes, xs)
    axes.set_ylabel(f"{metric} (bars: 95% interval)")
    # Room for names beside the outer points.
    axes.margins(x=0.15, y=0.08)
    plain(axes)
    figure.draw_without_rendering()  # the layout must stand before names are fitted into it
    label(axes, list(methods), xs, bars)
    return figure


def tokens_of(row: Metrics) -> float:
    """Tokens per question of one method's row of metrics.json."""
    return float(row["prompt_tokens"] + row["completion_tokens"])


def cost_axis(axes: Axes, tokens: Sequence[float]) -> None:
    """Tokens across, on a logarithmic scale where the dearest costs over twenty times the cheapest."""
    # A method without model calls costs nothing, and a logarithm has no zero.
    if min(tokens) > 0 and max(tokens) > 20 * min(tokens):
        axes.set_xscale("log")
    axes.set_xlabel(COST)
