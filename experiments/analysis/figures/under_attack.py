"""Utility of each method under attacks, by kind and by the compromised agent (M3Prune's Figs. 5 and 23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, Arm, methods_in
from experiments.analysis.figures import style
from experiments.analysis.figures.axes import over, shown


@style.styled
def by_kind(arms: Sequence[Arm], kinds: Sequence[Any], metric: str) -> Figure:
    """Draws each method over the kinds of attack, the clean one first; a panel per setting of whatever else was varied.

    The arms' trials differ in seed and attacker.
    """
    # The sort is stable, so attacks keep the sweep's order.
    kinds = sorted(kinds, key=lambda kind: kind not in UNATTACKED)
    panels: dict[str, list[Arm]] = {}
    for arm in arms:
        others = [f"{key} {shown(value)}" for key, value in arm.values.items() if key not in (KIND, POSITION)]
        panels.setdefault(", ".join(others), []).append(arm)
    figure, grid = style.panels(len(panels), 1, 2.0, sharex=True)
    for axes, (title, group) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        over(axes, group, KIND, kinds)
        axes.set_ylabel(f"{metric} (95% interval)")
    style.legend_above(figure, grid[0], 5)
    return figure


@style.styled
def by_position(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws each method's utility by the compromised agent, with 95% intervals; a panel per kind of attack.

    Other settings are averaged. The dotted lines are the methods without an attack.
    """
    kinds = [kind for kind in keys[KIND] if kind not in UNATTACKED]
    positions = [position for position in keys[POSITION] if position is not None]
    figure, grid = style.panels(len(kinds), 1, 2.0, sharex=True, sharey=True)
    for axes, kind in zip(grid, kinds, strict=True):
        axes.set_title(f"{kind} attack", loc="left")
        over(axes, [a for a in arms if a.values[KIND] == kind and a.values[POSITION] in positions], POSITION, positions)
        for i, method in enumerate(methods_in(arms)):
            # Without an attack there is no position: one line for all clean arms.
            clean = [arm.mean for arm in arms if arm.method == method and arm.values[KIND] in UNATTACKED]
            if clean:
                axes.axhline(float(np.mean(clean)), color=style.nth(style.COLOURS, i), linewidth=0.7, linestyle=":")
        axes.set_ylabel(metric)
    grid[-1].set_xlabel("compromised agent (dotted: without an attack)")
    style.legend_above(figure, grid[0])
    return figure
