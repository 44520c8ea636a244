"""A heat map of every edge's effect, on the final answer and on its receiver's own answers."""

from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from experiments.analysis.figures.style import drawing, heat, save
from experiments.analysis.summary import Metrics
from experiments.records.recorder import RunFolder

SIDES = {"answer_effect": "final answer", "receiver_effect": "receiver's own answers"}
NAMED_AGENTS = 25  # more names than this on one axis cannot be read


@drawing()
def draw(run: RunFolder, metrics: Metrics) -> list[Path]:
    """Draws the figure into the run folder. Returns the PNG's path."""
    return [save(edge_effects(metrics), run.figures, "edge-effects")]


def edge_effects(metrics: Metrics) -> Figure:
    """Draws effects on the final answer and on receivers, a row each, in a panel per kind of edge.

    Senders are down, receivers across. Orange edges help, purple ones harm, white ones do nothing; a star marks an
    effect that is shown after Holm's correction, and hatching a missing edge. Both rows have one scale each, symmetric
    about zero.
    """
    agents = metrics["agents"]
    kinds = [kind for kind in metrics["kinds"] if kind != "all"]
    # The decision agent is one receiver, so its panel has one column, drawn two wide.
    widths = [2 if kind == "decision" else max(len(agents), 2) for kind in kinds]
    size = min(max(2.6, 0.3 * len(agents)), 6.0)
    figure = Figure(figsize=(1.8 + size * sum(widths) / len(agents), 1.4 + 2 * size), layout="constrained")
    panels = figure.subplots(len(SIDES), len(kinds), squeeze=False, width_ratios=widths)
    # Orange and purple, unlike red and green, differ for readers with any colour vision.
    colours = colormaps["PuOr_r"].with_extremes(bad=(0, 0, 0, 0))
    for row, (side, title) in zip(panels, SIDES.items(), strict=True):
        # 1 where all effects are zero, because a scale from 0 to 0 has no colours.
        most = max((abs(edge[side]["mean"]) for edge in metrics["edges"]), default=0) or 1.0
        for axes, kind in zip(row, kinds, strict=True):
            receivers = ["decision"] if kind == "decision" else agents
            # Mean effects [senders, receivers], NaN where there is no edge.
            values = np.full((len(agents), len(receivers)), np.nan)
            for edge in (edge for edge in metrics["edges"] if edge["kind"] == kind):
                place = edge["sender"], 0 if kind == "decision" else edge["receiver"]
                values[place] = edge[side]["mean"]
                if edge[side]["shown"]:
                    axes.text(place[1] + 0.5, place[0] + 0.55, "*", ha="center", va="center", fontsize=11)
            down = agents if len(agents) <= NAMED_AGENTS else []
            across = receivers if len(receivers) <= NAMED_AGENTS else []
            image = heat(axes, values, down, across, cmap=colours, vmin=-most, vmax=most, edgecolors="#DDDDDD")
            axes.tick_params("x", rotation=90)
            axes.label_outer()
            axes.set_title(kind)
        figure.colorbar(image, ax=list(row), shrink=0.9, aspect=25, label=f"effect on the {title}")
    figure.supxlabel("receiver")
    figure.supylabel("sender")
    return figure
