"""Utility of answers against their cost: in tokens (M3Prune's Figs. 4, 21 and 22) and in seconds (BDoG's Fig. 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from experiments.analysis.compare import Arm, methods_in
from experiments.analysis.figures import style
from experiments.analysis.figures.axes import shown
from experiments.analysis.result_table import short_keys
from experiments.analysis.summary import Metrics

CROWD = 6  # more names than this need the width of a page
COST = "prompt and completion tokens per question"
FURTHEST = 60  # how far a name may be moved up or down, in points
GAP = 6  # between a point and its name, in points

_Box = tuple[float, float, float, float]  # left, right, bottom, top, in points


@style.styled
def utility_against_tokens(methods: Mapping[str, Metrics], metric: str) -> Figure:
    """Draws each method's utility, with its 95% interval, against its tokens per question."""
    figure = Figure(figsize=(style.COLUMN, 2.6) if len(methods) <= CROWD else (style.PAGE, 3.6), layout="constrained")
    axes = figure.add_subplot()
    xs = [float(row["prompt_tokens"] + row["completion_tokens"]) for row in methods.values()]
    for i, (x, row) in enumerate(zip(xs, methods.values(), strict=True)):
        look = {"fmt": style.nth(style.MARKERS, i), "color": style.nth(style.COLOURS, i), "markersize": 5}
        style.error_bar(axes, x, row["utility"], row["ci95"], **look)
    _token_axis(axes, xs)
    axes.set_ylabel(f"{metric} (bars: 95% interval)")
    # Room for names of the outer points.
    axes.margins(x=0.15, y=0.08)
    style.plain(axes)
    figure.draw_without_rendering()  # names are fitted into the finished layout
    label(axes, list(methods), xs, [(row["ci95"][0], row["utility"], row["ci95"][1]) for row in methods.values()])
    return figure


@style.styled
def sweep_costs(arms: Sequence[Arm], metric: str) -> Figure:
    """Draws utility against tokens: a marker per method and setting, a faint one per trial."""
    figure = Figure(figsize=(style.PAGE, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for i, method in enumerate(methods_in(arms)):
        group = [arm for arm in arms if arm.method == method]
        for arm in group:
            style.trials(axes, arm.tokens, arm.trial_means, style.nth(style.COLOURS, i))
        tokens = [float(np.mean(arm.tokens)) for arm in group]
        # Pale intervals: one per setting soon covers the points.
        style.points(axes, i, tokens, [arm.mean for arm in group], [arm.ci95 for arm in group], label=method, faint=0.6)
    _token_axis(axes, [tokens for arm in arms for tokens in arm.tokens])
    axes.set_ylabel(f"{metric} (bars: 95% interval)")
    style.plain(axes)
    figure.legend(loc="outside right upper")
    return figure


def _token_axis(axes: Axes, tokens: Sequence[float]) -> None:
    """Puts tokens across, on a logarithmic scale where the highest cost is over twenty times the lowest."""
    # A method without model calls costs nothing, and a logarithm has no zero.
    if min(tokens) > 0 and max(tokens) > 20 * min(tokens):
        axes.set_xscale("log")
    axes.set_xlabel(COST)


def label(axes: Axes, names: Sequence[str], xs: Sequence[float], ys: Sequence[tuple[float, float, float]]) -> None:
    """Writes a name next to each point x, (low, y, high), where it covers least.

    A line leads to a name that moved away. Positions are read from the finished layout: call `draw_without_rendering`
    on the figure first.
    """
    # Everything is compared in points, in which texts are offset; matplotlib's own positions are in pixels.
    to_points = 72 / axes.figure.dpi
    window = Bbox(axes.get_window_extent().get_points() * to_points)
    taken: list[_Box] = []
    places: list[tuple[float, float]] = []
    for x, bar in zip(xs, ys, strict=True):
        (across, low), (_, up), (_, high) = axes.transData.transform([(x, y) for y in bar]) * to_points
        # A point takes the space of its interval, 4 points wide, and of its marker, 8 points square.
        taken += [(across - 2, across + 2, low, high), (across - 4, across + 4, up - 4, up + 4)]
        places.append((across, up))
    for name, x, bar, (across, up) in zip(names, xs, ys, places, strict=True):
        text = axes.annotate(name, (x, bar[1]), (0, 0), textcoords="offset points", va="center", fontsize=style.SMALL)
        size = text.get_window_extent()
        width, height = size.width * to_points, size.height * to_points
        candidates: list[tuple[float, _Box, float, int]] = []
        # To the right, to the left, or centred above or below; earlier sides win ties by `side / 2` in the cost.
        for side, left_by in enumerate((GAP, -GAP - width, -width / 2)):
            for shift in range(-FURTHEST, FURTHEST + 1, 3):
                left, bottom = across + left_by, up + shift - height / 2
                box = (left, left + width, bottom, bottom + height)
                outside = left < window.x0 or box[1] > window.x1 or bottom < window.y0 or box[3] > window.y1
                # Leaving the frame is worst, then covering something, then distance.
                covered = sum(a[0] < box[1] and box[0] < a[1] and a[2] < box[3] and box[2] < a[3] for a in taken)
                candidates.append((10 * covered + 100 * outside + abs(shift) / 8 + side / 2, box, left_by, shift))
        _, box, left_by, shift = min(candidates, key=lambda candidate: candidate[0])
        taken.append(box)
        text.set_position((left_by, shift))
        # A name that moved further than its own height might be taken for another point's.
        if abs(shift) > height:
            # The line ends at the name's edge that faces the point.
            end = (left_by + (0 if left_by > 0 else width if left_by < -width / 2 else width / 2), shift)
            line = {"arrowstyle": "-", "color": style.GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            axes.annotate("", (x, bar[1]), end, textcoords="offset points", arrowprops=line)


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds per question of each trial, and utility with its 95% interval, of a method under one setting."""

    method: str
    setting: str
    seconds: tuple[float, ...]
    utility: float
    ci95: tuple[float, float]

    @staticmethod
    def of(arm: Arm) -> Timed:
        short = short_keys(list(arm.values))
        setting = ", ".join(f"{short[key]} {shown(value)}" for key, value in arm.values.items())
        return Timed(arm.method, setting, arm.seconds, arm.mean, arm.ci95)


@style.styled
def utility_and_seconds(timed: Sequence[Timed], metric: str) -> Figure:
    """Draws seconds and utility as bars, grouped by setting, with a faint point per trial."""
    figure = Figure(figsize=(style.PAGE, 2.6), layout="constrained")
    time, utility = figure.subplots(1, 2)
    methods = list(dict.fromkeys(one.method for one in timed))
    settings = list(dict.fromkeys(one.setting for one in timed))
    for m, method in enumerate(methods):
        own = [one for one in timed if one.method == method]
        xs = [settings.index(one.setting) + style.offset(m, len(methods), 0.8) for one in own]
        means = [float(np.nanmean(one.seconds)) if np.isfinite(one.seconds).any() else np.nan for one in own]
        for axes, heights in ((time, means), (utility, [one.utility for one in own])):
            look = {"color": "white", "edgecolor": style.nth(style.COLOURS, m), "hatch": style.nth(style.HATCHES, m)}
            axes.bar(xs, heights, 0.8 / len(methods), label=method, **look)
        for x, one in zip(xs, own, strict=True):
            style.trials(time, x, one.seconds)
            style.error_bar(utility, x, one.utility, one.ci95)
    time.set_ylabel("seconds per question")
    utility.set_ylabel(f"{metric} (95% interval)")
    for axes in (time, utility):
        axes.set_xticks(range(len(settings)), settings)
        style.plain(axes)
    style.legend_above(figure, time)
    return figure
