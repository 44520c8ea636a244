"""F1 by how many documents a question rests on (MMAPG's Fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from actors.messages import derive_seed
from experiments.analysis.figures.style import COLOURS, COLUMN, LINES, MARKERS, nth, plain, styled
from experiments.analysis.scores import as_matrix
from experiments.analysis.statistics import crossed_interval
from experiments.records.records import Scored

TAG = "supporting"  # of questions whose data set says on which documents they rest

Answers = Mapping[str, Mapping[str, Scored]]  # by method and question


@styled
def f1_by_supporting(trials: Sequence[Answers]) -> Figure | None:
    """Each method's mean F1 over the questions with so many supporting documents, with its 95% interval over questions
    and trials; None where there are not two numbers to compare."""
    methods = list(dict.fromkeys(method for trial in trials for method in trial))
    tagged = {q: s.tags[TAG] for trial in trials for of in trial.values() for q, s in of.items() if TAG in s.tags}
    numbers = sorted(set(tagged.values()))
    if len(numbers) < 2:
        return None
    figure = Figure(figsize=(COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    for i, method in enumerate(methods):
        answers = [trial.get(method, {}) for trial in trials]
        points = []
        for place, number in enumerate(numbers):
            of_number = [{q: s.f1 for q, s in of.items() if tagged.get(q) == number} for of in answers]
            # A trial of another data set, or without this method, asked none of these questions.
            if asked := [f1 for f1 in of_number if f1]:
                matrix = as_matrix(asked)
                low, high = crossed_interval(matrix, derive_seed(0, "interval", TAG, method, number))
                points.append((place, float(np.nanmean(matrix)), low, high))
        look: Any = {"color": nth(COLOURS, i), "linestyle": nth(LINES, i), "marker": nth(MARKERS, i)}
        # Side by side, as intervals of methods that do alike would cover each other.
        x = np.array([place for place, *_ in points]) + 0.08 * (i - (len(methods) - 1) / 2)
        axes.vlines(
            x, [low for *_, low, _ in points], [high for *_, high in points], color=look["color"], linewidth=0.8
        )
        axes.plot(x, [mean for _, mean, *_ in points], markersize=4, linewidth=1, label=method, **look)
    axes.set_xticks(range(len(numbers)), numbers)
    axes.set_xlabel("supporting documents of a question")
    axes.set_ylabel("F1 (bars: 95% interval)")
    plain(axes)
    figure.legend(loc="outside upper center", ncols=2)
    return figure
