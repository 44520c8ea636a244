"""The figures of a sweep, from its results and the records of its trials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from actors.spawned import cores
from experiments.analysis.compare import KIND, POSITION, Arm, Read, arms_of, merge, varied
from experiments.analysis.figures.attacks import against_clean, by_kind, by_position
from experiments.analysis.figures.axes import by_setting
from experiments.analysis.figures.paths import PATHS, by_paths, followed
from experiments.analysis.figures.seconds import Timed, utility_and_seconds
from experiments.analysis.figures.style import COLOURS, FAINT, MARKERS, PAGE, nth, plain, save_all, styled
from experiments.analysis.figures.supporting import f1_by_supporting
from experiments.analysis.figures.tokens import cost_axis
from experiments.analysis.scores import by_method
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS, TrialResult


def draw_sweep(
    folder: Path, results: Sequence[TrialResult], read: Sequence[Read], metric: str, timed: bool = False
) -> list[Path]:
    """Every figure that the sweep in a folder has results for, below `figures/`; the PNGs' paths are returned.

    Attacks by their kind and the attacker's position (M3Prune's Figs. 5 and 23); whatever else was varied as lines over
    one axis or heat maps over two (Figs. 17 and 18), in small multiples where there are more; and the cost of answers.
    Where nothing but the data was varied, F1 by the number of supporting documents (MMAPG's Fig. 4), if that is known;
    and accuracy by the number of paths through a knowledge graph (MH-MMKG's Fig. 6a).
    Of a `timed` sweep, whose trials ran one after the other as timed runs do (`run.draw`), seconds per question (BDoG's
    Fig. 5).
    Intervals are over questions and trials; each trial is a faint point. Nothing is drawn of trials without an
    evaluation.

    Args:
        read: what the trials recorded (`read_answers`).

    Raises UserError when the records of a trial are missing.
    """
    arms = arms_of(read, results)
    if not arms:
        return []
    keys = varied(results)
    figures: dict[str, Figure] = {}
    if KIND in keys:
        # The position has a figure of its own; elsewhere its trials count as repetitions, as seeds do.
        if POSITION in keys:
            figures["attackers-position"] = by_position(arms, keys, metric)
            arms = merge(arms, over=[POSITION])
        figures["attacks"] = by_kind(arms, keys[KIND], metric)
        figures["attacks-against-clean"] = against_clean(arms, keys[KIND], metric)
    # Without any axis there is one setting only, and costs say all.
    elif keys:
        figures["settings"] = by_setting(arms, keys, metric)
    elsewhere = [key for key in keys if key.partition(".")[0] != "data"]
    trials = [] if elsewhere else [by_method(RunFolder(folder / TRIALS / result.name)) for result in results]
    if supporting := f1_by_supporting(trials):
        figures["f1-by-supporting"] = supporting
    if PATHS in keys and (answers := followed(folder, results)):
        figures["paths"] = by_paths(answers, metric)
    figures["utility-against-tokens"] = costs(arms, metric)
    if timed:
        figures["utility-and-seconds"] = utility_and_seconds([Timed.of(arm) for arm in arms], metric)
    return save_all(figures, folder / "figures", cores())


@styled
def costs(arms: Sequence[Arm], metric: str) -> Figure:
    """Utility against tokens: a marker with its interval per method and setting, a faint one per trial."""
    figure = Figure(figsize=(PAGE, 3.2), layout="constrained")
    axes = figure.add_subplot()
    methods = list(dict.fromkeys(arm.method for arm in arms))
    for arm in arms:
        i = methods.index(arm.method)
        look: Any = {"marker": nth(MARKERS, i), "color": nth(COLOURS, i), "linestyle": ""}
        if len(arm.seeds) > 1:
            axes.plot(arm.tokens, arm.trial_means, markersize=3, markeredgewidth=0, alpha=FAINT, **look)
        # Under the markers, and paler: one interval per setting soon covers the points.
        axes.vlines(float(np.mean(arm.tokens)), *arm.ci95, color=look["color"], linewidth=0.6, alpha=0.6)
        axes.plot(
            float(np.mean(arm.tokens)), arm.mean, markersize=5, markeredgecolor="white", markeredgewidth=0.4, **look
        )
    for i, method in enumerate(methods):
        # One entry of the legend per method; the points of its settings carry none.
        axes.plot([], [], marker=nth(MARKERS, i), color=nth(COLOURS, i), linestyle="", label=method)
    cost_axis(axes, [tokens for arm in arms for tokens in arm.tokens])
    axes.set_ylabel(f"{metric} (bars: 95% interval)")
    plain(axes)
    figure.legend(loc="outside right upper")
    return figure
