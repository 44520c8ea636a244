"""A heat map of every edge's effect on the final answer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from experiments.analysis.figures.style import drawing, heat, save
from experiments.analysis.run_facts import Metrics
from experiments.records.recorder import RunFolder

NAMED_AGENTS = 25  # more names than this on one axis cannot be read


@drawing()
def draw_edge_effects(run: RunFolder, metrics: Metrics) -> list[Path]:
    """Draws the figure into the run folder. Returns the PNG's path."""
    return [save(edge_effects(metrics), run.figures, "edge-effects")]


def edge_effects(metrics: Metrics) -> Figure:
    """Draws effects on the final answer in a panel per kind of edge.

    Senders are down, receivers across. Orange edges help, purple ones harm, white ones do nothing; a star marks an
    effect that is shown after Holm's correction, and hatching a missing edge. The scale is symmetric about zero.
    """
    agents = metrics["agents"]
    kinds = [kind for kind in metrics["kinds"] if kind != "all"]
    # The decision agent is one receiver, so its panel has one column, drawn two wide.
    widths = [2 if kind == "decision" else max(len(agents), 2) for kind in kinds]
    size = min(max(2.6, 0.3 * len(agents)), 6.0)
    figure = Figure(figsize=(1.8 + size * sum(widths) / len(agents), 1.4 + size), layout="constrained")
    panels = figure.subplots(1, len(kinds), squeeze=False, width_ratios=widths)[0]
    # 1 where all effects are zero, because a scale from 0 to 0 has no colours.
    largest = max((abs(edge["answer_effect"]["mean"]) for edge in metrics["edges"]), default=0) or 1.0
    for axes, kind in zip(panels, kinds, strict=True):
        edges = [edge for edge in metrics["edges"] if edge["kind"] == kind]
        image = _draw_kind(axes, kind, edges, agents, largest)
    figure.colorbar(image, ax=list(panels), shrink=0.9, aspect=25, label="effect on the final answer")
    figure.supxlabel("receiver")
    figure.supylabel("sender")
    return figure


def _draw_kind(axes: Axes, kind: str, edges: Sequence[Metrics], agents: Sequence[str], largest: float) -> QuadMesh:
    """Draws the edges of one kind, in colours for effects up to `largest`. Returns the image."""
    receivers = ["decision"] if kind == "decision" else agents
    # Mean effects [senders, receivers], NaN where there is no edge.
    effects = np.full((len(agents), len(receivers)), np.nan)
    for edge in edges:
        sender = edge["sender"]
        receiver = 0 if kind == "decision" else edge["receiver"]
        effects[sender, receiver] = edge["answer_effect"]["mean"]
        if edge["answer_effect"]["shown"]:
            axes.text(receiver + 0.5, sender + 0.55, "*", ha="center", va="center", fontsize=11)
    # Orange and purple, unlike red and green, differ for readers with any colour vision.
    colours = colormaps["PuOr_r"].with_extremes(bad=(0, 0, 0, 0))
    image = heat(
        axes,
        effects,
        _readable(agents),
        _readable(receivers),
        cmap=colours,
        vmin=-largest,
        vmax=largest,
        edgecolors="#DDDDDD",
    )
    axes.tick_params("x", rotation=90)
    axes.label_outer()
    axes.set_title(kind)
    return image


def _readable(names: Sequence[str]) -> Sequence[str]:
    """Names of an axis; none where they are too many to be read."""
    return names if len(names) <= NAMED_AGENTS else []
