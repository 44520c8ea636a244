"""Utility of each method under attacks, by kind and by the compromised agent (M3Prune's Figs. 5 and 23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, Arm, compare_pairs, methods_in
from experiments.analysis.figures import style
from experiments.analysis.figures.axes import over, shown
from experiments.analysis.summary import SIGNIFICANT


@style.styled
def by_kind(arms: Sequence[Arm], kinds: Sequence[Any], metric: str) -> Figure:
    """Draws each method over the kinds of attack, the clean one first; a panel per setting of whatever else was varied.

    The arms' trials differ in seed and attacker.
    """
    # The sort is stable, so attacks keep the sweep's order.
    kinds = sorted(kinds, key=lambda kind: kind not in UNATTACKED)
    panels = _by_other_settings(arms)
    figure, grid = style.stacked(len(panels))
    for axes, (title, group) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        over(axes, group, KIND, kinds)
        axes.set_ylabel(f"{metric} (95% interval)")
    style.legend_above(figure, grid[0], 5)
    return figure


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
            look: Any = {"label": shown(kinds[k]), "hollow": comparison.p_holm >= SIGNIFICANT}
            style.points(axes, k, [x], [comparison.difference], [comparison.ci95], **look)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_xticks(range(len(methods)), methods)
        axes.set_ylabel(f"{metric}, attacked minus clean\n(hollow: p (Holm) not below {SIGNIFICANT})")
        style.plain(axes, grid="y")
    style.legend_above(figure, grid[0], 5)
    return figure


@style.styled
def by_position(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws each method's utility by the compromised agent, with 95% intervals; a panel per kind of attack.

    Other settings are averaged. The dotted lines are the methods without an attack.
    """
    kinds = [kind for kind in keys[KIND] if kind not in UNATTACKED]
    positions = [position for position in keys[POSITION] if position is not None]
    figure, grid = style.stacked(len(kinds), share_y=True)
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


def _by_other_settings(arms: Sequence[Arm]) -> dict[str, list[Arm]]:
    """Groups arms by the settings that are not about attacks, in words; one panel each."""
    panels: dict[str, list[Arm]] = {}
    for arm in arms:
        others = [f"{key} {shown(value)}" for key, value in arm.values.items() if key not in (KIND, POSITION)]
        panels.setdefault(", ".join(others), []).append(arm)
    return panels
