"""Utility of answers against their cost: in tokens (M3Prune's Figs. 4, 21 and 22) and in seconds (BDoG's Fig. 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.analysis.compare import Arm, methods_in
from experiments.analysis.figures import style
from experiments.analysis.figures.axes import shown
from experiments.analysis.result_table import short_keys


@style.styled
def utility_against_tokens(arms: Sequence[Arm], metric: str) -> Figure:
    """Draws utility against tokens: a marker per method and setting, a faint one per trial."""
    figure, [axes] = style.panels(1, 1, 2.7)
    for i, method in enumerate(methods_in(arms)):
        group = [arm for arm in arms if arm.method == method]
        for arm in group:
            style.trials(axes, arm.tokens, arm.trial_means, style.nth(style.COLOURS, i))
        tokens = [float(np.mean(arm.tokens)) for arm in group]
        # Pale intervals: one per setting soon covers the points.
        style.points(axes, i, tokens, [arm.mean for arm in group], [arm.ci95 for arm in group], label=method, faint=0.6)
    every = [tokens for arm in arms for tokens in arm.tokens]
    # A method without model calls costs nothing, and a logarithm has no zero.
    if min(every) > 0 and max(every) > 20 * min(every):
        axes.set_xscale("log")
    axes.set_xlabel("prompt and completion tokens per question")
    axes.set_ylabel(f"{metric} (bars: 95% interval)")
    style.plain(axes)
    figure.legend(loc="outside right upper")
    return figure


@style.styled
def utility_and_seconds(arms: Sequence[Arm], metric: str) -> Figure:
    """Draws seconds and utility as bars, grouped by setting, with a faint point per trial."""
    figure, (time, utility) = style.panels(2, 2, 2.1)
    methods = methods_in(arms)
    short = short_keys(list(arms[0].values))
    settings = [", ".join(f"{short[key]} {shown(value)}" for key, value in arm.values.items()) for arm in arms]
    places = list(dict.fromkeys(settings))
    for arm, setting in zip(arms, settings, strict=True):
        m = methods.index(arm.method)
        x = places.index(setting) + style.offset(m, len(methods), 0.8)
        mean = float(np.nanmean(arm.seconds)) if np.isfinite(arm.seconds).any() else np.nan
        for axes, height in ((time, mean), (utility, arm.mean)):
            style.bars(axes, m, x, height, 0.8 / len(methods), arm.method)
        style.trials(time, x, arm.seconds)
        style.points(utility, m, [x], [arm.mean], [arm.ci95])
    time.set_ylabel("seconds per question")
    utility.set_ylabel(f"{metric} (95% interval)")
    for axes in (time, utility):
        axes.set_xticks(range(len(places)), places)
        style.plain(axes)
    style.legend_above(figure, time)
    return figure
