"""Methods under settings: utility over what was varied, against costs, and under attacks.

M3Prune's Figs. 4, 5, 17, 18 and 21 to 23, and BDoG's Fig. 5.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, Arm, arms_by_method, is_number
from experiments.analysis.figures import style
from experiments.analysis.figures.marked_figure import discussions_of, mark
from experiments.analysis.result_table import short_keys, shown

MANY = 12  # more values than this on one axis are no cells of a heat map, and not all written at an axis
LONGEST = 24  # letters of a value at an axis: a model with its address would leave no room for the axes
MOST_LETTERS = 60  # of all values at an axis; more are written upright

Keys = Mapping[str, Sequence[Any]]  # what a sweep varied: dotted keys and their values


def by_setting(arms: Sequence[Arm], keys: Keys, metric: str) -> Figure:
    """Draws a panel of points for each key. A whole grid of few values gets heat maps over two keys.

    The two keys with most values are the axes of heat maps, which have a panel for each method and setting of the other
    keys. A cell has its mean and half its interval; hatched cells were not run.
    """
    # The share of the grid that was run: a random search leaves most cells of a heat map empty.
    filled = len({str(arm.values) for arm in arms}) / np.prod([len(values) for values in keys.values()])
    most_values = max(map(len, keys.values()))
    if len(keys) == 1 or filled < 0.5 or most_values > MANY:
        return over_keys(arms, keys, metric)
    return heat_maps(arms, keys, metric)


def heat_maps(arms: Sequence[Arm], keys: Keys, metric: str) -> Figure:
    """Draws the heat maps of `by_setting`."""
    # `sorted` is stable, so of keys with equally many values the later ones become axes, in the sweep's own order.
    largest = sorted(keys, key=lambda key: len(keys[key]))[-2:]
    down, across = (key for key in keys if key in largest)
    panel_keys = [key for key in keys if key not in largest]
    settings = product(*(keys[key] for key in panel_keys))
    panels = list(product(settings, arms_by_method(arms)))

    # In inches, fitted to the text of a cell at SMALL.
    panel_width = max(0.5 * len(keys[across]), 1.4) + 0.6
    abreast = max(1, int((style.PAGE - 0.8) / panel_width))
    figure, grid = style.panels(
        len(panels),
        abreast,
        height=0.34 * len(keys[down]) + 0.55,
        sharex=True,
        sharey=True,
    )
    # One scale for all panels, so that equal colours are equal values.
    means = [arm.mean for arm in arms]
    scale = Normalize(min(means), max(means))
    for axes, (setting, method) in zip(grid, panels, strict=True):
        values = dict(zip(panel_keys, setting, strict=True))
        panel_arms = [arm for arm in arms if arm.method == method and values.items() <= arm.values.items()]
        image = _heat_map(
            axes,
            panel_arms,
            {down: keys[down], across: keys[across]},
            scale=scale,
        )
        parts = [f"{key} {shown(value)}" for key, value in values.items()]
        axes.set_title(", ".join([method, *parts]), fontsize=style.SMALL)
    figure.supylabel(down)
    figure.supxlabel(across)
    figure.colorbar(
        image,
        ax=grid,
        shrink=0.8,
        aspect=25,
        label=f"{metric} (±: half the 95% interval)",
    )
    return figure


def _heat_map(axes: Axes, arms: Sequence[Arm], keys: Keys, scale: Normalize) -> QuadMesh:
    """Draws the means of one method's arms. The first of the two keys is down, the second across."""
    down, across = keys
    rows = [shown(value) for value in keys[down]]
    columns = [shown(value) for value in keys[across]]
    colours = style.probabilities()
    means = np.full((len(rows), len(columns)), np.nan)
    for arm in arms:
        y = rows.index(shown(arm.values[down]))
        x = columns.index(shown(arm.values[across]))
        means[y, x] = arm.mean
        low, high = arm.ci95
        mark(axes, _explained(arm), x + 0.5, y + 0.5, width=1, height=1, link=discussions_of(arm.group))
        axes.text(
            x + 0.5,
            y + 0.5,
            f"{arm.mean:.3f}\n±{(high - low) / 2:.3f}",
            fontsize=style.SMALL,
            color=style.ink(colours, float(scale(arm.mean))),
            ha="center",
            va="center",
            linespacing=1.1,
        )
    return style.heat(axes, means, rows, across=columns, cmap=colours, norm=scale)


def over_keys(arms: Sequence[Arm], keys: Keys, metric: str) -> Figure:
    """Draws utility over the values of each key, a panel per key."""
    figure, grid = style.panels(len(keys), 3, height=2.2, sharey=True)
    for axes, (key, values) in zip(grid, keys.items(), strict=True):
        over(axes, arms, key, values=values, with_lines=len(keys) == 1)
    figure.supylabel(f"{metric} (bars: 95% interval)")
    style.legend_above(figure, grid[0])
    return figure


def over(
    axes: Axes,
    arms: Sequence[Arm],
    key: str,
    values: Sequence[Any],
    with_lines: bool = False,
) -> None:
    """Draws each method's arms over the values of a key: means with intervals. Each trial is a faint point.

    with_lines: the means are joined, if the values are numbers.
    """
    numeric = all(map(is_number, values))
    places = np.arange(len(values), dtype=float)
    if numeric:
        places = np.array(values, dtype=float)
    # The smallest gap between values, so that methods moved aside stay nearer to their own value than to the next.
    gap = float(np.diff(places).min()) if len(places) > 1 else 1.0

    def place(arm: Arm) -> float:
        return float(places[values.index(arm.values[key])])

    methods = arms_by_method(arms)
    for number, (method, method_arms) in enumerate(methods.items()):
        # Arms come in the order of trials, and a line must run from left to right.
        method_arms.sort(key=place)
        aside = style.offset(number, len(methods), 0.5 * gap)
        xs = [place(arm) + aside for arm in method_arms]
        for x, arm in zip(xs, method_arms, strict=True):
            _trials(axes, x + 0.03 * gap, arm.trial_means, colour=style.colour(number))
        line = style.nth(style.LINES, number) if numeric and with_lines else ""
        _points(axes, number, xs, arms=method_arms, label=method, line=line)

    # With many numbers matplotlib chooses the ticks.
    if not numeric or len(values) <= MANY:
        names = [_shortened(shown(value)) for value in values]
        upright = sum(map(len, names)) >= MOST_LETTERS
        axes.set_xticks(places, names, rotation=90 if upright else 0)
    axes.set_xlabel(key)
    style.plain(axes, grid="y")


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:10]}...{name[-11:]}"


def _points(
    axes: Axes,
    number: int,
    xs: Sequence[float],
    arms: Sequence[Arm],
    *,
    label: str,
    line: str = "",
    opacity: float = 1,
) -> None:
    """Draws the means of arms in the look of the method's number, joined by `line`. Vertical bars are their intervals.

    opacity: of the intervals.
    """
    lows = [arm.ci95[0] for arm in arms]
    highs = [arm.ci95[1] for arm in arms]
    colour = style.colour(number)
    for x, arm in zip(xs, arms, strict=True):
        mark(axes, _explained(arm), x, arm.mean, link=discussions_of(arm.group))
    axes.vlines(xs, lows, highs, color=colour, linewidth=0.8, alpha=opacity)
    axes.plot(
        xs,
        [arm.mean for arm in arms],
        color=colour,
        linestyle=line,
        linewidth=0.9,
        marker=style.nth(style.MARKERS, number),
        markersize=4.5,
        markeredgewidth=0,
        label=style.new_label(axes, label),
    )


def _explained(arm: Arm) -> str:
    """Describes a point of a figure."""
    low, high = arm.ci95
    return f"{arm.name}: {arm.mean:.3f} (95% interval {low:.3f} to {high:.3f})"


def _trials(
    axes: Axes,
    xs: float | Sequence[float],
    values: Sequence[float],
    colour: str = "black",
) -> None:
    """Draws a faint point for each trial. A single one has none: its point is its mean."""
    if len(values) > 1:
        places = np.broadcast_to(xs, len(values))
        axes.plot(
            places,
            values,
            "o",
            color=colour,
            markersize=2.5,
            markeredgewidth=0,
            alpha=style.FAINT,
        )


def utility_against_tokens(arms: Sequence[Arm], metric: str) -> Figure:
    """Draws utility against tokens, with a legend."""
    figure, [axes] = style.panels(1, 1, height=2.7)
    draw_against_tokens(axes, arms, metric)
    figure.legend(loc="outside right upper")
    return figure


def draw_against_tokens(ax: Axes, arms: Sequence[Arm], metric: str) -> None:
    """Draws utility against tokens. A method and setting has a marker, each trial a faint one."""
    for number, (method, method_arms) in enumerate(arms_by_method(arms).items()):
        for arm in method_arms:
            _trials(ax, arm.tokens, arm.trial_means, colour=style.colour(number))
        tokens = [float(np.mean(arm.tokens)) for arm in method_arms]
        # Pale intervals: one per setting soon covers the points.
        _points(ax, number, tokens, arms=method_arms, label=method, opacity=0.6)

    trial_tokens = np.concatenate([arm.tokens for arm in arms])
    # A method without model calls costs nothing, and a logarithm has no zero.
    if 0 < trial_tokens.min() < trial_tokens.max() / 20:
        ax.set_xscale("log")
    ax.set_xlabel("prompt and completion tokens per question")
    ax.set_ylabel(f"{metric} (bars: 95% interval)")
    style.plain(ax)


def utility_and_seconds(arms: Sequence[Arm], metric: str) -> Figure:
    """Draws seconds and utility as bars, grouped by setting. Each trial is a faint point."""
    figure, (time, utility) = style.panels(2, 2, height=2.1)
    methods = list(arms_by_method(arms))
    width = 0.8 / len(methods)
    short = short_keys(list(arms[0].values))
    places: dict[str, int] = {}  # of the groups of bars, by setting in words
    for arm in arms:
        setting = ", ".join(f"{short[key]} {shown(value)}" for key, value in arm.values.items())
        place = places.setdefault(setting, len(places))
        number = methods.index(arm.method)
        x = place + style.offset(number, len(methods), 0.8)
        seconds = float(pd.Series(arm.seconds).mean())  # NaN where no trial recorded them
        style.bars(time, number, [x], heights=[seconds], width=width, label=arm.method)
        style.bars(utility, number, [x], heights=[arm.mean], width=width, label=arm.method)
        _trials(time, x, arm.seconds)
        _points(utility, number, [x], arms=[arm], label="")

    time.set_ylabel("seconds per question")
    utility.set_ylabel(f"{metric} (95% interval)")
    for axes in (time, utility):
        axes.set_xticks(range(len(places)), list(places))
        style.plain(axes)
    style.legend_above(figure, time)
    return figure


def by_position(arms: Sequence[Arm], keys: Keys, metric: str) -> Figure:
    """Draws each method's utility by the compromised agent, with 95% intervals. A kind of attack has a panel.

    Other settings are averaged. The dotted lines are the methods without an attack.
    """
    kinds = [kind for kind in keys[KIND] if kind not in UNATTACKED]
    positions = [position for position in keys[POSITION] if position is not None]
    figure, grid = style.panels(len(kinds), 1, height=2.0, sharex=True, sharey=True)
    for axes, kind in zip(grid, kinds, strict=True):
        axes.set_title(f"{kind} attack", loc="left")
        attacked = [arm for arm in arms if arm.values[KIND] == kind and arm.values[POSITION] in positions]
        over(axes, attacked, POSITION, values=positions)
        for number, method_arms in enumerate(arms_by_method(arms).values()):
            # Without an attack there is no position: one line for all clean arms.
            clean_means = [arm.mean for arm in method_arms if arm.values[KIND] in UNATTACKED]
            if clean_means:
                axes.axhline(
                    float(np.mean(clean_means)),
                    color=style.colour(number),
                    linewidth=0.7,
                    linestyle=":",
                )
        axes.set_ylabel(metric)
    grid[-1].set_xlabel("compromised agent (dotted: without an attack)")
    style.legend_above(figure, grid[0])
    return figure
