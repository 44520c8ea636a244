"""Methods under settings: utility over what was varied, against costs, and under attacks.

M3Prune's Figs. 4, 5, 17, 18 and 21 to 23, and BDoG's Fig. 5.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, Arm, is_number, methods_in
from experiments.analysis.figures import style
from experiments.analysis.result_table import short_keys, shown

MANY = 12  # more values than this on one axis are no cells of a heat map, and not all written at an axis
LONGEST = 24  # letters of a value at an axis: a model with its address would leave no room for the axes
MOST_LETTERS = 60  # of all values at an axis; more are written upright


def by_setting(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws a panel of points for each key. A whole grid of few values gets heat maps over two keys.

    The two keys with most values are the axes of heat maps, which have a panel for each method and setting of the other
    keys. A cell has its mean and half its interval; hatched cells were not run.
    """
    # The share of the grid that was run: a random search leaves most cells of a heat map empty.
    filled = len({str(arm.values) for arm in arms}) / np.prod([len(values) for values in keys.values()])
    if len(keys) == 1 or filled < 0.5 or max(map(len, keys.values())) > MANY:
        return over_keys(arms, keys, metric)
    return heat_maps(arms, keys, metric)


def heat_maps(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws the heat maps of `by_setting`."""
    # `sorted` is stable, so of keys with equally many values the later ones become axes, in the sweep's own order.
    largest = sorted(keys, key=lambda key: len(keys[key]))[-2:]
    down, across = (key for key in keys if key in largest)
    others = [key for key in keys if key not in largest]
    rows = [shown(value) for value in keys[down]]
    columns = [shown(value) for value in keys[across]]
    panels = list(product(product(*(keys[key] for key in others)), methods_in(arms)))
    # In inches, fitted to the text of a cell at SMALL.
    abreast = max(1, int((style.PAGE - 0.8) / (max(0.5 * len(columns), 1.4) + 0.6)))
    figure, grid = style.panels(len(panels), abreast, 0.34 * len(rows) + 0.55, sharex=True, sharey=True)
    # One scale for all panels, so that equal colours are equal values.
    low = min(arm.mean for arm in arms)
    high = max(arm.mean for arm in arms)
    colours = style.probabilities()
    for panel, (setting, method) in zip(grid, panels, strict=True):
        values = np.full((len(rows), len(columns)), np.nan)
        for arm in arms:
            # Lists are compared as they are: values may be unhashable.
            if arm.method == method and [arm.values[key] for key in others] == list(setting):
                y = rows.index(shown(arm.values[down]))
                x = columns.index(shown(arm.values[across]))
                values[y, x] = arm.mean
                # All means may be equal, and then there is no scale to place a value on.
                share = (arm.mean - low) / (high - low) if high > low else 0
                panel.text(
                    x + 0.5,
                    y + 0.5,
                    f"{arm.mean:.3f}\n±{(arm.ci95[1] - arm.ci95[0]) / 2:.3f}",
                    fontsize=style.SMALL,
                    color=style.ink(colours, share),
                    ha="center",
                    va="center",
                    linespacing=1.1,
                )
        image = style.heat(panel, values, rows, columns, cmap=colours, vmin=low, vmax=high)
        named = (f"{key} {shown(value)}" for key, value in zip(others, setting, strict=True))
        panel.set_title(", ".join([method, *named]), fontsize=style.SMALL)
    figure.supylabel(down)
    figure.supxlabel(across)
    figure.colorbar(image, ax=grid, shrink=0.8, aspect=25, label=f"{metric} (±: half the 95% interval)")
    return figure


def over_keys(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws utility over the values of each key, a panel per key."""
    figure, grid = style.panels(len(keys), 3, 2.2, sharey=True)
    for axes, (key, values) in zip(grid, keys.items(), strict=True):
        over(axes, arms, key, values, joined=len(keys) == 1)
    figure.supylabel(f"{metric} (bars: 95% interval)")
    style.legend_above(figure, grid[0])
    return figure


def over(axes: Axes, arms: Sequence[Arm], key: str, values: Sequence[Any], joined: bool = False) -> None:
    """Draws each method's arms over the values of a key: means with intervals. Each trial is a faint point.

    joined: a line joins them, if the values are numbers.
    """
    numeric = all(map(is_number, values))
    places = np.array(values, dtype=float) if numeric else np.arange(len(values), dtype=float)
    # The smallest gap between values, so that methods moved aside stay nearer to their own value than to the next.
    gap = float(np.diff(places).min()) if len(places) > 1 else 1.0
    methods = methods_in(arms)
    for number, method in enumerate(methods):
        placed = [(float(places[values.index(arm.values[key])]), arm) for arm in arms if arm.method == method]
        # Arms come in the order of trials, and a line must run from left to right.
        placed.sort(key=lambda pair: pair[0])
        aside = style.offset(number, len(methods), 0.5 * gap)
        for place, arm in placed:
            style.trials(axes, place + aside + 0.03 * gap, arm.trial_means, style.colour(number))
        line = style.nth(style.LINES, number) if numeric and joined else ""
        _points(axes, number, [place + aside for place, _ in placed], [arm for _, arm in placed], method, line=line)
    # With many numbers matplotlib chooses the ticks.
    if not numeric or len(values) <= MANY:
        names = []
        for name in map(shown, values):
            names.append(name if len(name) <= LONGEST else f"{name[:10]}...{name[-11:]}")
        upright = sum(map(len, names)) >= MOST_LETTERS
        axes.set_xticks(places, names, rotation=90 if upright else 0)
    axes.set_xlabel(key)
    style.plain(axes, grid="y")


def _points(axes: Axes, number: int, xs: Sequence[float], arms: Sequence[Arm], label: str = "", **look: Any) -> None:
    """Draws the means of arms with their intervals, in the look of the method's number."""
    means = [arm.mean for arm in arms]
    style.points(axes, number, xs, means, [arm.ci95 for arm in arms], label=label, **look)


def utility_against_tokens(arms: Sequence[Arm], metric: str) -> Figure:
    """Draws utility against tokens, with a legend."""
    figure, [axes] = style.panels(1, 1, 2.7)
    draw_against_tokens(axes, arms, metric)
    figure.legend(loc="outside right upper")
    return figure


def draw_against_tokens(ax: Axes, arms: Sequence[Arm], metric: str) -> None:
    """Draws utility against tokens. A method and setting has a marker, each trial a faint one."""
    for number, method in enumerate(methods_in(arms)):
        of_method = [arm for arm in arms if arm.method == method]
        for arm in of_method:
            style.trials(ax, arm.tokens, arm.trial_means, style.colour(number))
        tokens = [float(np.mean(arm.tokens)) for arm in of_method]
        # Pale intervals: one per setting soon covers the points.
        _points(ax, number, tokens, of_method, method, faint=0.6)
    everything = np.concatenate([arm.tokens for arm in arms])
    # A method without model calls costs nothing, and a logarithm has no zero.
    if everything.min() > 0 and everything.max() > 20 * everything.min():
        ax.set_xscale("log")
    ax.set_xlabel("prompt and completion tokens per question")
    ax.set_ylabel(f"{metric} (bars: 95% interval)")
    style.plain(ax)


def utility_and_seconds(arms: Sequence[Arm], metric: str) -> Figure:
    """Draws seconds and utility as bars, grouped by setting. Each trial is a faint point."""
    figure, (time, utility) = style.panels(2, 2, 2.1)
    methods = methods_in(arms)
    short = short_keys(list(arms[0].values))
    settings = [", ".join(f"{short[key]} {shown(value)}" for key, value in arm.values.items()) for arm in arms]
    places = list(dict.fromkeys(settings))
    width = 0.8 / len(methods)
    for arm, setting in zip(arms, settings, strict=True):
        number = methods.index(arm.method)
        x = places.index(setting) + style.offset(number, len(methods), 0.8)
        seconds = float(np.nanmean(arm.seconds)) if np.isfinite(arm.seconds).any() else np.nan
        style.bars(time, number, x, seconds, width, arm.method)
        style.bars(utility, number, x, arm.mean, width, arm.method)
        style.trials(time, x, arm.seconds)
        _points(utility, number, [x], [arm])
    time.set_ylabel("seconds per question")
    utility.set_ylabel(f"{metric} (95% interval)")
    for axes in (time, utility):
        axes.set_xticks(range(len(places)), places)
        style.plain(axes)
    style.legend_above(figure, time)
    return figure


def by_position(arms: Sequence[Arm], keys: Mapping[str, Sequence[Any]], metric: str) -> Figure:
    """Draws each method's utility by the compromised agent, with 95% intervals. A kind of attack has a panel.

    Other settings are averaged. The dotted lines are the methods without an attack.
    """
    kinds = [kind for kind in keys[KIND] if kind not in UNATTACKED]
    positions = [position for position in keys[POSITION] if position is not None]
    figure, grid = style.panels(len(kinds), 1, 2.0, sharex=True, sharey=True)
    for axes, kind in zip(grid, kinds, strict=True):
        axes.set_title(f"{kind} attack", loc="left")
        attacked = [arm for arm in arms if arm.values[KIND] == kind and arm.values[POSITION] in positions]
        over(axes, attacked, POSITION, positions)
        for number, method in enumerate(methods_in(arms)):
            # Without an attack there is no position: one line for all clean arms.
            clean = [arm.mean for arm in arms if arm.method == method and arm.values[KIND] in UNATTACKED]
            if clean:
                axes.axhline(float(np.mean(clean)), color=style.colour(number), linewidth=0.7, linestyle=":")
        axes.set_ylabel(metric)
    grid[-1].set_xlabel("compromised agent (dotted: without an attack)")
    style.legend_above(figure, grid[0])
    return figure
