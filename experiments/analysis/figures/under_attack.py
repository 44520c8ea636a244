"""Utility of each method under attacks, by kind and by the compromised agent (M3Prune's Figs. 5 and 23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, Arm, compare_pairs, methods_in
from experiments.analysis.figures import style
from experiments.analysis.figures.axes import heat_map, shown
from experiments.analysis.summary import SIGNIFICANT

BARS = 40  # bars on one panel; more are too thin


@style.styled
def by_kind(arms: Sequence[Arm], kinds: Sequence[Any], metric: str) -> Figure:
    """Draws a bar per method and kind of attack, the clean one first.

    Too many bars become a table of cells. There is one panel for each setting of whatever else was varied. The arms'
    trials differ in seed and attacker.
    """
    # The sort is stable, so attacks keep the sweep's order.
    kinds = sorted(kinds, key=lambda kind: kind not in UNATTACKED)
    methods, panels = methods_in(arms), _by_other_settings(arms)
    if len(kinds) * len(methods) > BARS:
        cells = {
            title: {(arm.method, _name(arm.values[KIND])): arm for arm in group} for title, group in panels.items()
        }
        return heat_map(cells, methods, [_name(kind) for kind in kinds], ("", "attack"), metric)
    figure, grid = style.stacked(len(panels))
    for axes, (title, group) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        _bars(axes, group, methods, kinds)
        axes.set_ylabel(f"{metric} (95% interval)")
    style.legend_above(figure, grid[0], 5)
    return figure


def _bars(axes: Axes, arms: Sequence[Arm], methods: Sequence[str], kinds: Sequence[Any]) -> None:
    width = 0.8 / len(kinds)
    for k, kind in enumerate(kinds):
        group = [arm for arm in arms if arm.values[KIND] == kind]
        xs = [methods.index(arm.method) + style.offset(k, len(kinds), 0.8) for arm in group]
        # A pale fill with an edge and hatching: kinds differ in print without colour, and points on top stay visible.
        axes.bar(
            xs,
            [arm.mean for arm in group],
            0.92 * width,
            color=tuple(0.55 + 0.45 * part for part in to_rgb(style.nth(style.COLOURS, k))),
            edgecolor=style.nth(style.COLOURS, k),
            hatch=style.nth(style.HATCHES, k),
            linewidth=0.6,
            label=_name(kind),
        )
        for x, arm in zip(xs, group, strict=True):
            # Spread sideways, so that equal trials do not cover each other.
            style.trials(axes, x + np.linspace(-0.3, 0.3, len(arm.seeds)) * width, arm.trial_means)
            style.error_bar(axes, x, arm.mean, arm.ci95)
    axes.set_xticks(range(len(methods)), methods)
    # A bar's length shows its value only from zero.
    axes.set_ylim(bottom=0)
    style.plain(axes, grid="y")


@style.styled
def against_clean(arms: Sequence[Arm], kinds: Sequence[Any], metric: str) -> Figure:
    """Draws the change by each attack, on the same questions and seeds, with 95% intervals.

    A marker is filled where the difference is significant after Holm's correction for all that one panel shows.
    """
    kinds = [kind for kind in kinds if kind not in UNATTACKED]
    methods, panels = methods_in(arms), _by_other_settings(arms)
    figure, grid = style.stacked(len(panels))
    for axes, (title, group) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        clean = {arm.method: arm for arm in group if arm.values[KIND] in UNATTACKED}
        pairs = [(arm, clean[arm.method]) for arm in group if arm.values[KIND] in kinds and arm.method in clean]
        # One call per panel, because Holm's correction is for all that the reader sees together.
        for comparison in compare_pairs(pairs):
            k = kinds.index(comparison.arm.values[KIND])
            x = methods.index(comparison.arm.method) + style.offset(k, len(kinds), 0.7)
            # From 1 on: index 0 is the clean bar's in `by_kind`, and a kind has one colour in both figures.
            colour = style.nth(style.COLOURS, k + 1)
            axes.vlines(x, *comparison.ci95, color=colour, linewidth=0.8)
            fill = colour if comparison.p_holm < SIGNIFICANT else "white"
            look: Any = {"markeredgecolor": colour, "markerfacecolor": fill, "markersize": 4.5}
            axes.plot(x, comparison.difference, style.nth(style.MARKERS, k + 1), **look)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_xticks(range(len(methods)), methods)
        axes.set_ylabel(f"{metric}, attacked minus clean")
        style.plain(axes, grid="y")
    # Empty plots fill the legend: points above are drawn one at a time and without labels.
    for k, kind in enumerate(kinds, start=1):
        colour = style.nth(style.COLOURS, k)
        grid[0].plot([], [], style.nth(style.MARKERS, k), color=colour, markersize=4.5, label=_name(kind))
    look = {"color": style.GREY, "markerfacecolor": "white", "markersize": 4.5}
    grid[0].plot([], [], "o", label=f"p (Holm) not below {SIGNIFICANT}", **look)
    style.legend_above(figure, grid[0], 5)
    return figure


@style.styled
def by_position(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws each method's utility by the compromised agent, with 95% intervals; a panel per kind of attack.

    Other settings are averaged. The dotted lines are the methods without an attack.
    """
    kinds = [kind for kind in keys[KIND] if kind not in UNATTACKED]
    methods = methods_in(arms)
    positions = [position for position in keys[POSITION] if position is not None]
    figure, grid = style.stacked(len(kinds), share_y=True)
    for axes, kind in zip(grid, kinds, strict=True):
        axes.set_title(f"{_name(kind)} attack", loc="left")
        for i, method in enumerate(methods):
            of_method = [arm for arm in arms if arm.method == method]
            hit = [arm for arm in of_method if arm.values[KIND] == kind and arm.values[POSITION] in positions]
            if hit:
                xs = [positions.index(arm.values[POSITION]) + style.offset(i, len(methods), 0.6) for arm in hit]
                style.points(axes, i, xs, [arm.mean for arm in hit], [arm.ci95 for arm in hit], label=method)
            # Without an attack there is no position: one line for all clean arms.
            clean = [arm.mean for arm in of_method if arm.values[KIND] in UNATTACKED]
            if clean:
                axes.axhline(float(np.mean(clean)), color=style.nth(style.COLOURS, i), linewidth=0.7, linestyle=":")
        axes.set_ylabel(metric)
        style.plain(axes, grid="y")
    names = [shown(position) for position in positions]
    grid[-1].set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 6 else 0, fontsize=style.SMALL)
    grid[-1].set_xlabel("compromised agent (dotted: without an attack)")
    style.legend_above(figure, grid[0])
    return figure


def _by_other_settings(arms: Sequence[Arm]) -> dict[str, list[Arm]]:
    """Groups arms by the settings that are not about attacks, in words; one panel each."""
    panels: dict[str, list[Arm]] = {}
    for arm in arms:
        others = [f"{key} {shown(value)}" for key, value in arm.values.items() if key not in (KIND, POSITION)]
        panels.setdefault(", ".join(others), []).append(arm)
    return panels


def _name(kind: Any) -> str:
    return "clean" if kind in UNATTACKED else str(kind)
