"""The figures of a run, from its records and metrics: edges over training, cost against utility, learning curves.

Figures are objects of their own, never pyplot's, so that drawing has no global state. Colours are Okabe and Ito's and
viridis, which readers with any colour vision, and a grey printer, tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from experiments.recorder import RunFolder
from experiments.records import LearningStep
from experiments.summary import Metrics

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "*", "v", "P", "X")
BLOCKS = {
    "intra": (("text", "text"), ("visual", "visual")),
    "inter": (("visual", "text"), ("text", "visual")),
}
MOMENTS = 4
NAMED_AGENTS = 25  # more names than this on one axis cannot be read
NO_EDGE = "#BBBBBB"

_Curve = dict[int, list[tuple[int, float]]]  # by stage: (training step, value)
_Box = tuple[float, float, float, float]  # left, right, bottom, top, in points


def draw(run: RunFolder, metrics: Metrics, metric: str) -> list[Path]:
    """Every figure that the run has records for, as PNG and PDF in its folder; the PNGs' paths are returned."""
    figures = edge_heatmaps(run)
    if curves := learning_curves(run):
        figures["learning-curves"] = curves
    figures["utility-against-tokens"] = utility_against_tokens(metrics, metric)
    run.figures.mkdir(exist_ok=True)
    paths = []
    for name, figure in figures.items():
        figure.savefig(run.figures / f"{name}.pdf", metadata={"CreationDate": None})
        figure.savefig(path := run.figures / f"{name}.png", dpi=180)
        paths.append(path)
    return paths


def edge_heatmaps(run: RunFolder) -> dict[str, Figure]:
    """Edge probabilities at the start, at 1/3 and 2/3 and at the end of the stage that trains them (M3Prune's Fig. 19).

    One figure per pair of blocks (intra, inter) and kind of edge, by name; a row of panels per block, with senders
    down, receivers across, and hatching where there is no edge.
    """
    figures = {}
    for group, steps in _moments(run).items():
        for kind in steps[0].probabilities:
            figures[f"edges-{group}-{kind}"] = _heatmap(steps, kind, BLOCKS[group])
    return figures


def _moments(run: RunFolder) -> dict[str, list[LearningStep]]:
    """Per group of blocks the recorded steps to show, out of the first stage in which it has edges."""
    stages: dict[str, int] = {}
    counts: dict[int, int] = {}
    for step in run.learning():
        counts[step.stage] = counts.get(step.stage, 0) + 1
        for group, blocks in BLOCKS.items():
            if group not in stages and any(_has_edges(step, block) for block in blocks):
                stages[group] = step.stage
    wanted = {
        stage: {round(moment * (count - 1) / (MOMENTS - 1)) for moment in range(MOMENTS)}
        for stage, count in counts.items()
    }
    chosen: dict[str, list[LearningStep]] = {group: [] for group in stages}
    seen = dict.fromkeys(counts, 0)
    for step in run.learning():
        if seen[step.stage] in wanted[step.stage]:
            for group, stage in stages.items():
                if stage == step.stage:
                    chosen[group].append(step)
        seen[step.stage] += 1
    return chosen


def _has_edges(step: LearningStep, block: tuple[str, str]) -> bool:
    return any(np.isfinite(_block(step, kind, block)).any() for kind in step.probabilities)


def _block(step: LearningStep, kind: str, block: tuple[str, str]) -> NDArray[np.float64]:
    """Probabilities [senders, receivers] of one block, NaN where there is no edge."""
    whole = np.array(step.probabilities[kind], dtype=float)
    senders, receivers = (_members(step, modality) for modality in block)
    return whole[np.ix_(senders, receivers)]


def _members(step: LearningStep, modality: str) -> list[int]:
    return [i for i, of in enumerate(step.modalities) if of == modality]


def _heatmap(steps: Sequence[LearningStep], kind: str, blocks: Iterable[tuple[str, str]]) -> Figure:
    shown = [block for block in blocks if all(_members(steps[0], modality) for modality in block)]
    largest = max(steps[0].modalities.count(modality) for modality in ("text", "visual"))
    side = min(max(2.2, 0.22 * largest), 4.4)
    figure = Figure(figsize=(1.2 + side * len(steps), 0.9 + side * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), len(steps), squeeze=False)
    colours = colormaps["viridis"].with_extremes(bad=(0, 0, 0, 0))
    for row, block in zip(panels, shown, strict=True):
        names = [[steps[0].agents[i] for i in _members(steps[0], modality)] for modality in block]
        for panel, step in zip(row, steps, strict=True):
            values = np.ma.masked_invalid(_block(step, kind, block))
            line = 0.8 if max(values.shape) <= NAMED_AGENTS else 0
            image = panel.pcolormesh(values, cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=line)
            panel.invert_yaxis()
            panel.patch.set(facecolor="white", edgecolor=NO_EDGE, hatch="////")
            panel.set_title(f"step {step.step}: {values.count()} edges", fontsize=9)
            panel.tick_params(length=0, labelsize=8)
            panel.set_xticks(*_ticks(names[1]), rotation=90)
            panel.set_yticks(*(_ticks(names[0]) if panel is row[0] else ([], [])))
        row[0].set_ylabel(f"{block[0]} to {block[1]}", fontsize=10)
    figure.colorbar(image, ax=panels, shrink=0.8, aspect=30, label=f"probability of the {kind} edge (hatched: none)")
    figure.supxlabel("receiver", fontsize=10)
    figure.supylabel("sender", fontsize=10)
    return figure


def _ticks(names: list[str]) -> tuple[list[float], list[str]]:
    return ([i + 0.5 for i in range(len(names))], names) if len(names) <= NAMED_AGENTS else ([], [])


def utility_against_tokens(metrics: Metrics, metric: str) -> Figure:
    """Each method's utility, with its 95% interval, against its tokens per question (M3Prune's Fig. 4)."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    methods = metrics["methods"]
    tokens = [row["prompt_tokens"] + row["completion_tokens"] for row in methods.values()]
    for i, ((_, row), x) in enumerate(zip(methods.items(), tokens, strict=True)):
        low, high = row["ci95"]
        axes.errorbar(
            x,
            row["utility"],
            yerr=[[max(row["utility"] - low, 0)], [max(high - row["utility"], 0)]],
            fmt=MARKERS[i % len(MARKERS)],
            color=COLOURS[i % len(COLOURS)],
            markersize=8,
            capsize=3,
            elinewidth=1,
        )
    if min(tokens) > 0 and max(tokens) > 20 * min(tokens):
        axes.set_xscale("log")
    axes.margins(x=0.25)
    axes.set_xlabel("prompt and completion tokens per question")
    axes.set_ylabel(f"{metric} (bars: 95% interval)")
    _open(axes)
    figure.draw_without_rendering()  # the layout must stand before labels are fitted into it
    bars = [(row["ci95"][0], row["utility"], row["ci95"][1]) for row in methods.values()]
    _label(axes, list(methods), tokens, bars)
    return figure


def _label(axes: Axes, names: list[str], xs: list[float], bars: list[tuple[float, float, float]]) -> None:
    """A name beside each point (bars: low, point, high), on the side and at the height where it covers least."""
    to_points = 72 / axes.figure.dpi
    window = axes.get_window_extent()
    taken: list[_Box] = []
    points: list[tuple[float, float]] = []
    for x, bar in zip(xs, bars, strict=True):
        (across, low), (_, up), (_, high) = axes.transData.transform([(x, y) for y in bar]) * to_points
        taken.append((across - 5, across + 5, low, high))
        points.append((across, up))
    for name, x, bar, (across, up) in zip(names, xs, bars, points, strict=True):
        width = 5.5 * len(name)
        places: list[tuple[float, _Box, bool, int]] = []
        for left in (False, True):
            begin = across - 8 - width if left else across + 8
            outside = begin < window.x0 * to_points or begin + width > window.x1 * to_points
            for shift in range(-40, 41, 4):
                box = (begin, begin + width, up + shift - 6, up + shift + 6)
                cost = 10 * sum(_overlap(box, other) for other in taken) + 100 * outside + abs(shift) / 8 + left
                places.append((cost, box, left, shift))
        _, box, left, shift = min(places)
        taken.append(box)
        place = (-8 if left else 8, shift)
        side = "right" if left else "left"
        axes.annotate(name, (x, bar[1]), place, textcoords="offset points", ha=side, va="center", fontsize=9)


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def learning_curves(run: RunFolder) -> Figure | None:
    """Each term of the objective, and the edges left, over the training steps of all stages; None without steps."""
    panels: dict[str, dict[str, _Curve]] = {}
    starts: dict[int, int] = {}
    for n, step in enumerate(run.learning()):
        starts.setdefault(step.stage, n)
        values = [(name, name, value) for name, value in step.terms.items()]
        values += [("edges left", name, value) for name, value in step.edges.items()]
        for panel, name, value in values:
            panels.setdefault(panel, {}).setdefault(name, {}).setdefault(step.stage, []).append((n, value))
    if not panels:
        return None
    columns = 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(7.2, 0.6 + 1.6 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, curves) in zip(grid.flat, panels.items(), strict=False):
        for i, (name, curve) in enumerate(curves.items()):
            style: Any = {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i % len(LINES)], "label": name}
            for points in curve.values():
                axes.plot(*zip(*points, strict=True), **style)
                style.pop("label", None)
        for start in list(starts.values())[1:]:
            axes.axvline(start - 0.5, color="#888888", linewidth=0.8, linestyle=":")
        axes.set_title(title, fontsize=10, loc="left")
        axes.tick_params(labelsize=8, labelbottom=True)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(curves) > 1:
            axes.legend(fontsize=8, frameon=False)
        _open(axes)
    figure.supxlabel("training step (dotted line: the next stage begins)", fontsize=10)
    return figure


def _open(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#EEEEEE", linewidth=0.8)
    axes.set_axisbelow(True)
