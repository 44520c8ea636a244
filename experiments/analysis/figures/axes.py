"""Utility over what a sweep varied: lines over one setting, heat maps over more (M3Prune's Figs. 17 and 18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.analysis.compare import Arm, is_number, merge, methods_in
from experiments.analysis.figures import style

MANY = 12  # more values than this on one axis are drawn as points, not as cells
FEW = 5  # values that are all written at an axis


def by_setting(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws lines over one key, heat maps over more, points where values are many.

    The two keys with most values are the axes of heat maps, which have a row for each setting of the other keys and
    leave out methods that no setting changes.
    """
    # The share of the grid that was run: a random search leaves most cells of a heat map empty.
    filled = len({str(arm.values) for arm in arms}) / np.prod([len(values) for values in keys.values()])
    if len(keys) > 1 and (filled < 0.5 or max(map(len, keys.values())) > MANY):
        return search_points(arms, keys, metric)
    if len(keys) == 1:
        ((key, values),) = keys.items()
        return lines(arms, key, values, metric)
    # `sorted` is stable, so of keys with equally many values the later ones become axes, in the sweep's own order.
    axes = sorted(keys, key=lambda key: len(keys[key]))[-2:]
    down, across = (key for key in keys if key in axes)
    others = [key for key in keys if key not in axes]
    panels: dict[str, dict[tuple[str, str], Arm]] = {}
    everyone = methods_in(arms)

    def changes(method: str) -> bool:
        means = [dict(zip(arm.seeds, arm.trial_means, strict=True)) for arm in arms if arm.method == method]
        # Compared at the same seed, because utilities of different seeds differ anyway.
        return any(a[seed] != b[seed] for a, b in pairwise(means) for seed in a.keys() & b.keys())

    # A method that no setting changes would be a panel of one colour; it becomes a note instead.
    methods = [method for method in everyone if changes(method)] or everyone
    for setting, method in product(product(*(keys[key] for key in others)), methods):
        title = ", ".join([method, *(f"{key} {shown(value)}" for key, value in zip(others, setting, strict=True))])
        panels[title] = {
            (shown(arm.values[down]), shown(arm.values[across])): arm
            for arm in arms
            # Lists are compared as they are: values may be unhashable.
            if arm.method == method and [arm.values[key] for key in others] == list(setting)
        }
    rows, columns = ([shown(value) for value in keys[key]] for key in (down, across))
    same = [f"{arm.method} {arm.mean:.3f}" for arm in merge(arms, over=keys) if arm.method not in methods]
    note = f"unchanged: {', '.join(same)}" if same else ""
    return heat_map(panels, rows, columns, (down, across), metric, note)


@style.styled
def lines(arms: Sequence[Arm], key: str, values: Sequence[Any], metric: str) -> Figure:
    """Draws utility over the values of one key, with intervals and a faint point per trial."""
    numeric = all(map(is_number, values))
    figure = Figure(figsize=(style.PAGE, 2.8), layout="constrained")
    axes = figure.add_subplot()
    methods = methods_in(arms)
    places = np.array(values, dtype=float) if numeric else np.arange(len(values), dtype=float)
    # The smallest gap between values, so that methods moved aside stay nearer to their own value than to the next.
    step = float(np.diff(places).min())
    for i, method in enumerate(methods):
        # Arms come in the order of trials, and a line must run from left to right.
        group = sorted(
            (arm for arm in arms if arm.method == method), key=lambda arm: float(places[values.index(arm.values[key])])
        )
        xs = [places[values.index(arm.values[key])] + style.offset(i, len(methods), 0.3 * step) for arm in group]
        for x, arm in zip(xs, group, strict=True):
            style.trials(axes, x + 0.03 * step, arm.trial_means, style.nth(style.COLOURS, i))
        # No line between values that have no order.
        line = style.nth(style.LINES, i) if numeric else ""
        style.points(axes, i, xs, [arm.mean for arm in group], [arm.ci95 for arm in group], label=method, line=line)
    names = [shown(value) for value in values]
    axes.set_xticks(places, names, rotation=0 if max(map(len, names)) < 14 else 20)
    axes.set_xlabel(key)
    axes.set_ylabel(f"{metric} (bars: 95% interval)")
    style.plain(axes, grid="y")
    figure.legend(loc="outside right upper")
    return figure


@style.styled
def heat_map(
    panels: Mapping[str, Mapping[tuple[str, str], Arm]],
    down: Sequence[str],
    across: Sequence[str],
    names: tuple[str, str],
    metric: str,
    note: str = "",
) -> Figure:
    """Draws a panel per title: each cell's mean and half its interval; hatched cells were not run.

    names: labels of the axes down and across. note: a line above all panels.
    """
    # Sizes below are in inches, fitted to the text of a cell at SMALL.
    wide = max(0.5 * len(across), 1.4)
    columns = max(1, min(len(panels), int((style.PAGE - 0.8) / (wide + 0.6))))
    # Integer division rounded up.
    rows = -(-len(panels) // columns)
    labels = 0.06 * max(map(len, down))
    width = style.COLUMN if columns == 1 and wide + labels + 1 < style.COLUMN else style.PAGE
    figure = Figure(figsize=(width, 0.5 + rows * (0.34 * len(down) + 0.55)), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    means = [arm.mean for arms in panels.values() for arm in arms.values()]
    # One scale for all panels, so that equal colours are equal values.
    low, high = min(means), max(means)
    # The last row of the grid may have more places than there are panels.
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, arms) in zip(grid.flat, panels.items(), strict=False):
        values = np.ma.masked_invalid(np.full((len(down), len(across)), np.nan))
        for (row, column), arm in arms.items():
            values[down.index(row), across.index(column)] = arm.mean
        axes.patch.set(**style.ABSENT)
        scale: Any = {"cmap": style.probabilities(), "vmin": low, "vmax": high}
        image = axes.pcolormesh(values, edgecolors="white", linewidth=0.8, **scale)
        for (row, column), arm in arms.items():
            # All means may be equal, and then there is no scale to place a value on.
            colour = style.ink(style.probabilities(), (arm.mean - low) / (high - low) if high > low else 0)
            place = (across.index(column) + 0.5, down.index(row) + 0.5)
            look: Any = {"ha": "center", "va": "center", "fontsize": style.SMALL, "color": colour, "linespacing": 1.1}
            axes.text(*place, f"{arm.mean:.3f}\n±{(arm.ci95[1] - arm.ci95[0]) / 2:.3f}", **look)
        axes.set_title(title, fontsize=style.SMALL)
        axes.set_xticks(np.arange(len(across)) + 0.5, across)
        axes.set_yticks(np.arange(len(down)) + 0.5, down)
        axes.tick_params(length=0)
    # The first row on top, as in a table; the panels share their axes, so one call turns all.
    grid[0, 0].invert_yaxis()
    if note:
        figure.suptitle(note, fontsize=style.SMALL)
    figure.supylabel(names[0])
    figure.supxlabel(names[1])
    figure.colorbar(image, ax=grid, shrink=0.8, aspect=25, label=f"{metric} (±: half the 95% interval)")
    return figure


@style.styled
def search_points(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws every arm of a search as a point, over each key in its own panel."""
    columns = min(3, len(keys))
    rows = -(-len(keys) // columns)
    figure = Figure(figsize=(style.PAGE, 0.5 + 1.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes in grid.flat[len(keys) :]:
        axes.set_visible(False)
    for axes, (key, values) in zip(grid.flat, keys.items(), strict=False):
        numeric = all(map(is_number, values))
        for i, method in enumerate(methods_in(arms)):
            group = [arm for arm in arms if arm.method == method]
            xs = [arm.values[key] if numeric else values.index(arm.values[key]) for arm in group]
            means, intervals = [arm.mean for arm in group], [arm.ci95 for arm in group]
            style.points(axes, i, xs, means, intervals, label=method, faint=style.FAINT)
        # With many numbers matplotlib chooses the ticks.
        if len(values) <= FEW or not numeric:
            axes.set_xticks(values if numeric else range(len(values)), [shown(value) for value in values])
            axes.margins(x=0.2)
        axes.set_xlabel(key)
        style.plain(axes)
    for axes in grid[:, 0]:
        axes.set_ylabel(f"{metric} (95% interval)")
    style.legend_above(figure, grid[0, 0])
    return figure


def shown(value: Any) -> str:
    """A value as an axis names it."""
    if value is None:
        return "default"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    # `g` drops the zeros of 0.300000 and writes very small rates as powers of ten.
    return f"{value:g}" if isinstance(value, float) else str(value)
