"""Seconds that a question takes, beside the utility of its answers (BDoG's Fig. 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.compare import Arm
from experiments.analysis.figures.axes import shown
from experiments.analysis.figures.style import COLOURS, FAINT, HATCHES, PAGE, nth, plain, styled
from experiments.analysis.setting_names import short_keys


@dataclass(frozen=True, slots=True)
class Timed:
    """A method under one setting in words: seconds per question of each trial, its utility with the 95% interval."""

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


@styled
def utility_and_seconds(bars: Sequence[Timed], metric: str) -> Figure:
    """Two panels of bars, a group for each setting and a bar for each method; a trial's seconds are a faint point."""
    figure = Figure(figsize=(PAGE, 2.6), layout="constrained")
    time, utility = figure.subplots(1, 2)
    places = _places(bars)
    _bars(
        time,
        bars,
        places,
        [float(np.nanmean(bar.seconds)) if np.isfinite(bar.seconds).any() else np.nan for bar in bars],
    )
    for x, bar in zip(places, bars, strict=True):
        if len(bar.seconds) > 1:
            time.plot([x] * len(bar.seconds), bar.seconds, "o", color="black", markersize=2.5, alpha=FAINT)
        # A mean can lie outside its own interval by rounding; a negative length is an error to matplotlib.
        low, high = max(bar.utility - bar.ci95[0], 0), max(bar.ci95[1] - bar.utility, 0)
        utility.errorbar(x, bar.utility, [[low], [high]], fmt="none", color="black", capsize=2, elinewidth=0.8)
    time.set_ylabel("seconds per question")
    _bars(utility, bars, places, [bar.utility for bar in bars])
    utility.set_ylabel(f"{metric} (95% interval)")
    figure.legend(*time.get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def _bars(axes: Axes, bars: Sequence[Timed], places: Sequence[float], heights: Sequence[float]) -> None:
    methods, settings = _names(bars)
    for m, method in enumerate(methods):
        mine = [i for i, bar in enumerate(bars) if bar.method == method]
        axes.bar(
            [places[i] for i in mine],
            [heights[i] for i in mine],
            0.8 / len(methods),
            label=method,
            color="white",
            edgecolor=nth(COLOURS, m),
            hatch=nth(HATCHES, m),
        )
    axes.set_xticks(range(len(settings)), settings)
    plain(axes)


def _places(bars: Sequence[Timed]) -> list[float]:
    """Where each bar stands: those of a setting fill 0.8 of its place."""
    methods, settings = _names(bars)
    width = 0.8 / len(methods)
    return [settings.index(bar.setting) + (methods.index(bar.method) - (len(methods) - 1) / 2) * width for bar in bars]


def _names(bars: Sequence[Timed]) -> tuple[list[str], list[str]]:
    """All methods and all settings, each once, as they come."""
    return list(dict.fromkeys(bar.method for bar in bars)), list(dict.fromkeys(bar.setting for bar in bars))
