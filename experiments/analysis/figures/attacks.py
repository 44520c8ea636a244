"""Utility of each method under attacks, by their kind and by the compromised agent (M3Prune's Figs. 5 and 23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, Arm, compare_pairs
from experiments.analysis.figures.axes import Cell, heat_map, shown
from experiments.analysis.figures.style import COLOURS, FAINT, GREY, HATCHES, MARKERS, PAGE, SMALL, nth, plain, styled
from experiments.analysis.summary import SIGNIFICANT

BAR: dict[str, Any] = {"capsize": 2, "elinewidth": 0.8, "capthick": 0.8, "fmt": "none"}
# Bars on one panel; more cannot be told apart.
BARS = 40


@styled
def by_kind(arms: Sequence[Arm], kinds: Sequence[Any], metric: str) -> Figure:
    """A bar per method and kind of attack, beside the clean one; a table of cells where the bars would be too many.

    One panel for each setting of whatever else was varied. The arms' trials differ in seed and attacker.
    """
    # The clean bar comes first; the sort is stable, so attacks keep the sweep's order.
    kinds = sorted(kinds, key=lambda kind: kind not in UNATTACKED)
    methods = list(dict.fromkeys(arm.method for arm in arms))
    panels = _by_rest(arms)
    if len(kinds) * len(methods) > BARS:
        cells = {
            title: {(arm.method, _kind(arm.values[KIND])): Cell.of(arm) for arm in group}
            for title, group in panels.items()
        }
        return heat_map(cells, methods, [_kind(kind) for kind in kinds], ("", "attack"), metric)
    figure = Figure(figsize=(PAGE, 0.4 + 2.2 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (title, group) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        _bars(axes, group, methods, kinds)
        axes.set_ylabel(f"{metric} (95% interval)")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=min(len(kinds), 5))
    return figure


def _bars(axes: Axes, arms: Sequence[Arm], methods: Sequence[str], kinds: Sequence[Any]) -> None:
    # The bars of a method fill 0.8 of its place, which leaves a gap to the next method.
    width = 0.8 / len(kinds)
    for k, kind in enumerate(kinds):
        group = [arm for arm in arms if arm.values[KIND] == kind]
        xs = [methods.index(arm.method) + (k - (len(kinds) - 1) / 2) * width for arm in group]
        # A pale fill with an edge and hatching: kinds differ in print without colour, and points on top stay visible.
        axes.bar(
            xs,
            [arm.mean for arm in group],
            0.92 * width,
            color=_tint(nth(COLOURS, k)),
            edgecolor=nth(COLOURS, k),
            hatch=nth(HATCHES, k),
            linewidth=0.6,
            label=_kind(kind),
        )
        for x, arm in zip(xs, group, strict=True):
            low, high = arm.ci95
            if len(arm.seeds) > 1:
                # Points are spread sideways, so that equal trials do not cover each other.
                spread = x + np.linspace(-0.3, 0.3, len(arm.seeds)) * width
                axes.plot(spread, arm.trial_means, "o", color="black", markersize=2, markeredgewidth=0, alpha=FAINT)
            # A mean can lie outside its own percentile interval by rounding; a negative length is an error to
            # matplotlib.
            axes.errorbar(x, arm.mean, [[max(arm.mean - low, 0)], [max(high - arm.mean, 0)]], color="black", **BAR)
    axes.set_xticks(range(len(methods)), methods)
    # A bar's length shows its value only from zero.
    axes.set_ylim(bottom=0)
    plain(axes, grid="y")


@styled
def against_clean(arms: Sequence[Arm], kinds: Sequence[Any], metric: str) -> Figure:
    """The change by each attack: attacked minus clean, on the same questions and seeds, with 95% intervals.

    Filled markers are differences that stand after Holm's correction for all that one panel shows.
    """
    kinds = [kind for kind in kinds if kind not in UNATTACKED]
    methods = list(dict.fromkeys(arm.method for arm in arms))
    panels = _by_rest(arms)
    figure = Figure(figsize=(PAGE, 0.5 + 2.0 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (title, group) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        clean = {arm.method: arm for arm in group if arm.values[KIND] in UNATTACKED}
        pairs = [(arm, clean[arm.method]) for arm in group if arm.values[KIND] in kinds and arm.method in clean]
        # One call per panel, because Holm's correction is for all that the reader sees together.
        for comparison in compare_pairs(pairs):
            k = kinds.index(comparison.arm.values[KIND])
            x = methods.index(comparison.arm.method) + 0.7 * ((k + 0.5) / len(kinds) - 0.5)
            # From 1 on: index 0 is the clean bar's look in `by_kind`, and a kind keeps its colour in both figures.
            colour = nth(COLOURS, k + 1)
            axes.vlines(x, *comparison.ci95, color=colour, linewidth=0.8)
            look = nth(MARKERS, k + 1)
            fill = colour if comparison.p_holm < SIGNIFICANT else "white"
            axes.plot(x, comparison.difference, look, markeredgecolor=colour, markerfacecolor=fill, markersize=4.5)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_xticks(range(len(methods)), methods)
        axes.set_ylabel(f"{metric}, attacked minus clean")
        plain(axes, grid="y")
    for k, kind in enumerate(kinds, start=1):
        colour = nth(COLOURS, k)
        # Empty plots only fill the legend: points above are drawn one at a time and without labels.
        grid[0].plot([], [], nth(MARKERS, k), color=colour, markersize=4.5, label=_kind(kind))
    grid[0].plot(
        [], [], "o", color=GREY, markerfacecolor="white", markersize=4.5, label=f"p (Holm) not below {SIGNIFICANT}"
    )
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def _by_rest(arms: Sequence[Arm]) -> dict[str, list[Arm]]:
    """Arms by the other settings that were varied, in words; one panel each."""
    panels: dict[str, list[Arm]] = {}
    for arm in arms:
        rest = {key: value for key, value in arm.values.items() if key not in (KIND, POSITION)}
        panels.setdefault(", ".join(f"{key} {shown(value)}" for key, value in rest.items()), []).append(arm)
    return panels


@styled
def by_position(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Each method's utility by who is compromised, with 95% intervals; a panel per kind of attack, the rest averaged.

    The dotted lines are the methods without an attack.
    """
    kinds = [kind for kind in keys[KIND] if kind not in UNATTACKED]
    methods = list(dict.fromkeys(arm.method for arm in arms))
    positions = [position for position in keys[POSITION] if position is not None]
    figure = Figure(figsize=(PAGE, 0.5 + 1.9 * len(kinds)), layout="constrained")
    grid = figure.subplots(len(kinds), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for axes, kind in zip(grid, kinds, strict=True):
        axes.set_title(f"{_kind(kind)} attack", loc="left")
        for i, method in enumerate(methods):
            colour = nth(COLOURS, i)
            # Methods stand beside each other at one position; drawn at the same x they would overlap.
            aside = 0.6 * ((i + 0.5) / len(methods) - 0.5)
            of_method = [arm for arm in arms if arm.method == method]
            for arm in of_method:
                if arm.values[KIND] != kind or arm.values[POSITION] not in positions:
                    continue
                x = positions.index(arm.values[POSITION]) + aside
                axes.vlines(x, *arm.ci95, color=colour, linewidth=0.8)
                axes.plot(x, arm.mean, nth(MARKERS, i), color=colour, markersize=4)
            # The mean of all clean arms: without an attack there is no position to tell them apart by.
            clean = [arm.mean for arm in of_method if arm.values[KIND] in UNATTACKED]
            if clean:
                axes.axhline(float(np.mean(clean)), color=colour, linewidth=0.7, linestyle=":")
            axes.plot([], [], nth(MARKERS, i), color=colour, markersize=4, label=method)
        axes.set_ylabel(metric)
        plain(axes, grid="y")
    names = [shown(position) for position in positions]
    grid[-1].set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 6 else 0, fontsize=SMALL)
    grid[-1].set_xlabel("compromised agent (dotted: without an attack)")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def _kind(kind: Any) -> str:
    return "clean" if kind in UNATTACKED else str(kind)


def _tint(colour: str) -> tuple[float, ...]:
    """A paler colour, on which hatching and points can be seen."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    # Mixed with white, 45% of the colour left.
    return tuple(0.55 + 0.45 * part for part in parts)
