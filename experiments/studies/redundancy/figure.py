"""A heat map of every edge's effect, on the final answer and on its receiver's own answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.figures import style
from experiments.analysis.summary import Metrics
from experiments.records.recorder import RunFolder
from topologies.wiring import Floats

NAME = "edge-effects"
SIDES = {"answer_effect": "final answer", "receiver_effect": "receiver's own answers"}
NAMED_AGENTS = 25  # more names than this on one axis cannot be read
NO_EDGE = "#BBBBBB"
SHOWN = "*"


def draw(run: RunFolder, metrics: Metrics) -> list[Path]:
    """The figure in the run folder; the PNG's path is returned."""
    return [style.save(edge_effects(metrics), run.figures, NAME)]


def edge_effects(metrics: Metrics) -> Figure:
    """A row for the final answer and one for receivers, a panel per kind of edge: senders down, receivers across.

    Orange edges help, purple ones harm, white ones do nothing; a star marks what is shown after Holm's correction, and
    hatching where there is no edge. Both rows have one scale each, symmetric about zero.
    """
    agents = metrics["agents"]
    kinds = [kind for kind in metrics["kinds"] if kind != "all"]
    # The decision agent is one receiver, so its panel has one column, drawn two wide.
    widths = [1 if kind == "decision" else len(agents) for kind in kinds]
    size = min(max(2.6, 0.3 * len(agents)), 6.0)
    figure = Figure(
        figsize=(1.8 + size * sum(max(w, 2) for w in widths) / len(agents), 1.4 + 2 * size), layout="constrained"
    )
    panels = figure.subplots(len(SIDES), len(kinds), squeeze=False, width_ratios=[max(w, 2) for w in widths])
    # Orange and purple, unlike red and green, differ for readers with any colour vision.
    colours = colormaps["PuOr_r"].with_extremes(bad=(0, 0, 0, 0))
    for row, (side, title) in zip(panels, SIDES.items(), strict=True):
        # 1 where all effects are zero, because a scale from 0 to 0 has no colours.
        most = max((abs(edge[side]["mean"]) for edge in metrics["edges"]), default=0) or 1.0
        for axes, kind in zip(row, kinds, strict=True):
            values, shown = _matrices(metrics, kind, side)
            image = axes.pcolormesh(
                np.ma.masked_invalid(values), cmap=colours, vmin=-most, vmax=most, edgecolors="#DDDDDD", linewidth=0.5
            )
            for sender, receiver in np.argwhere(shown).tolist():
                axes.text(receiver + 0.5, sender + 0.55, SHOWN, ha="center", va="center", fontsize=11)
            _name(
                axes,
                agents,
                ["decision"] if kind == "decision" else agents,
                kind == kinds[0],
                side == "receiver_effect",
            )
            axes.set_title(f"{kind}", fontsize=10)
        label = f"effect on the {title}"
        figure.colorbar(image, ax=list(row), shrink=0.9, aspect=25, label=label)
    figure.supxlabel("receiver", fontsize=10)
    figure.supylabel("sender", fontsize=10)
    return figure


def _matrices(metrics: Metrics, kind: str, side: str) -> tuple[Floats, Floats]:
    """Mean effects [senders, receivers], NaN where there is no edge, and where an effect is shown (1) or not (0)."""
    n = len(metrics["agents"])
    values, shown = (np.full((n, 1 if kind == "decision" else n), fill) for fill in (np.nan, 0.0))
    for edge in metrics["edges"]:
        if edge["kind"] == kind:
            place = edge["sender"], 0 if kind == "decision" else edge["receiver"]
            values[place] = edge[side]["mean"]
            shown[place] = edge[side]["shown"]
    return values, shown


def _name(axes: Axes, senders: list[str], receivers: list[str], left: bool, bottom: bool) -> None:
    axes.invert_yaxis()
    axes.patch.set(facecolor="white", edgecolor=NO_EDGE, hatch="////")
    axes.tick_params(length=0, labelsize=8)
    named = len(senders) <= NAMED_AGENTS
    axes.set_yticks(np.arange(len(senders)) + 0.5 if left and named else [], senders if left and named else [])
    across = bottom and len(receivers) <= NAMED_AGENTS
    axes.set_xticks(np.arange(len(receivers)) + 0.5 if across else [], receivers if across else [], rotation=90)
