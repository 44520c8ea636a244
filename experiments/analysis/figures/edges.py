"""Heat maps of edges' weights while the graph is learned (M3Prune's Figs. 3, 19 and 20)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import QuadMesh
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from experiments.analysis.figures.style import GREY, PAGE, SMALL, probabilities, styled
from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep

# Snapshots per stage: its start, two between, and its end.
MOMENTS = 4
NAMED_AGENTS = 16  # more names than this beside one panel cannot be read
ABSENT: dict[str, Any] = {"facecolor": "white", "edgecolor": "#C8C8C8", "hatch": "//////"}


@styled
def edge_heatmaps(run: RunFolder) -> dict[str, Figure]:
    """For each kind of edge a grid of snapshots: a row per stage, from its start over its thirds to its end.

    Senders down, receivers across, by modality. A pruned edge looks different from one that the stage does not have.
    """
    stages, earlier = _snapshots(run)
    if not stages:
        return {}
    return {f"edges-{_slug(kind)}": _grid(kind, stages, earlier) for kind in stages[0][0].probabilities}


def _slug(kind: str) -> str:
    return kind.replace(", ", "-").replace(" ", "-")


def _snapshots(run: RunFolder) -> tuple[list[list[LearningStep]], dict[str, list[NDArray[np.bool_]]]]:
    """The steps to show by stage, and for every kind and stage the edges that existed at or before its start."""
    # Two passes over the file instead of a list: a record holds whole matrices, and only a few are shown.
    counts: dict[int, int] = {}
    for step in run.learning():
        counts[step.stage] = counts.get(step.stage, 0) + 1
    moments = {
        # A set, because a stage shorter than MOMENTS would show one step twice.
        stage: {round(moment * (count - 1) / (MOMENTS - 1)) for moment in range(MOMENTS)}
        for stage, count in counts.items()
    }
    chosen: dict[int, list[LearningStep]] = {stage: [] for stage in counts}
    seen = dict.fromkeys(counts, 0)
    existed: dict[str, list[NDArray[np.bool_]]] = {}
    for step in run.learning():
        # Only a stage's first record adds edges; later ones can only lose them.
        if not seen[step.stage]:
            for kind in step.probabilities:
                before = existed.setdefault(kind, [])
                # Edges of earlier stages stay in, so that one pruned there still counts as pruned here.
                before.append(np.isfinite(_matrix(step, kind)) | (before[-1] if before else False))
        if seen[step.stage] in moments[step.stage]:
            chosen[step.stage].append(step)
        seen[step.stage] += 1
    return list(chosen.values()), existed


def _matrix(step: LearningStep, kind: str) -> NDArray[np.float64]:
    """Probabilities [senders, receivers], NaN where there is no edge."""
    return np.array(step.probabilities[kind], dtype=float)


def _grid(kind: str, stages: Sequence[Sequence[LearningStep]], existed: dict[str, list[NDArray[np.bool_]]]) -> Figure:
    first = stages[0][0]
    # Agents are the same in all stages, so the first record names them for all.
    names = _names(first) if len(first.agents) <= NAMED_AGENTS else []
    # Inches that the longest name takes, at 0.06 a letter.
    beside = 0.06 * max(map(len, names), default=0)
    side = (PAGE - 1.1 - beside) / MOMENTS
    figure = Figure(figsize=(PAGE, 0.65 + beside + (side + 0.3) * len(stages)), layout="compressed")
    panels = figure.subplots(len(stages), MOMENTS, squeeze=False)
    for n, (row, steps, before) in enumerate(zip(panels, stages, existed[kind], strict=True)):
        last = n == len(stages) - 1
        # A short stage has fewer snapshots than places.
        for panel in row[len(steps) :]:
            panel.set_visible(False)
        for panel, step in zip(row, steps, strict=False):
            image = _panel(panel, step, kind, before)
            _name(panel.xaxis, step, names if last else [], beside, rotation=90)
            _name(panel.yaxis, step, names if panel is row[0] else [], beside, rotation=0)
            panel.set_xlabel("receiver" if last else "")
        row[0].set_ylabel(f"stage {steps[0].stage}: sender")
    figure.colorbar(image, ax=panels, shrink=0.7, aspect=28, pad=0.02, label=f"probability of the edge ({kind})")
    cross = Line2D([], [], linestyle="", marker="x", color=GREY, markersize=4)
    figure.legend([cross, Patch(**ABSENT)], ["pruned", "no such edge"], loc="outside upper right", ncols=2)
    return figure


def _names(step: LearningStep) -> list[str]:
    """Agents' names without the modality that they begin with, which is written once beside its block."""
    return [
        name.removeprefix(f"{modality}_").replace("_", " ")
        for name, modality in zip(step.agents, step.modalities, strict=True)
    ]


def _name(axis: Axis, step: LearningStep, names: list[str], beside: float, rotation: int) -> None:
    """Names agents as major ticks and, further out, each block's modality as minor ones; nothing without names."""
    axis.set_ticks([i + 0.5 for i in range(len(names))], names, rotation=rotation)
    borders = [0, *_borders(step), len(step.agents)] if names else []
    axis.remove_overlapping_locs = False  # a block's middle can be an agent's
    middles = [(start + end) / 2 for start, end in pairwise(borders)]
    blocks = [step.modalities[start] for start in borders[:-1]]
    axis.set_ticks(middles, blocks, minor=True, rotation=90 - rotation, va="center" if not rotation else "top")
    # 72 points to the inch: beyond the names that `beside` leaves room for.
    axis.set_tick_params(which="minor", length=0, pad=4 + 72 * beside, labelsize=SMALL)
    axis.set_tick_params(which="major", length=0, pad=2)


def _borders(step: LearningStep) -> list[int]:
    return [i for i, (a, b) in enumerate(pairwise(step.modalities), start=1) if a != b]


def _panel(panel: Axes, step: LearningStep, kind: str, existed: NDArray[np.bool_]) -> QuadMesh:
    values = np.ma.masked_invalid(_matrix(step, kind))
    n = len(values)
    pruned = existed & np.ma.getmaskarray(values)
    # Three layers: hatching for no edge at all, white over it for a pruned edge, colour for one that is left.
    panel.patch.set(**ABSENT)
    panel.pcolormesh(np.ma.masked_where(~pruned, pruned), cmap=ListedColormap(["white"]))
    # Between the tiny cells of a large team, white lines would hide the colours.
    line = 0.5 if n <= NAMED_AGENTS else 0
    image = panel.pcolormesh(values, cmap=probabilities(), vmin=0, vmax=1, edgecolors="white", linewidth=line)
    rows, columns = np.nonzero(pruned)
    panel.scatter(columns + 0.5, rows + 0.5, marker="x", s=(40 / n) ** 2, color=GREY, linewidth=min(0.7, 9 / n))
    panel.set_aspect("equal")
    # The first sender on top, as in a printed matrix.
    panel.invert_yaxis()
    for border in _borders(step):
        panel.axhline(border, color="black", linewidth=1)
        panel.axvline(border, color="black", linewidth=1)
    panel.set_title(f"step {step.step}: {values.count()} edges", fontsize=SMALL)
    return image
