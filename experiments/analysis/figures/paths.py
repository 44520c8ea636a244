"""Judged accuracy by the number of paths that an answer may rest on, and how many questions have so many (MH-MMKG's
Fig. 6a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from actors.messages import derive_seed
from experiments.analysis.figures.style import COLOURS, COLUMN, GREY, HATCHES, LINES, MARKERS, nth, plain, styled
from experiments.analysis.scores import as_matrix, by_method
from experiments.analysis.statistics import Part, mean_interval
from experiments.judging.judgements import judged
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS, TrialResult

PATHS = "systems.paths"


@dataclass(frozen=True, slots=True)
class Followed:
    """A method's answers in one trial, with at most so many paths each.

    scores: by question, 1 where the answer was judged right, or the data set's utility where nobody judged.
    reached: the questions for which it found as many paths as it may answer with.
    """

    method: str
    most: int
    judged: bool
    scores: Mapping[str, float]
    reached: int


def followed(folder: Path, results: Sequence[TrialResult]) -> list[Followed]:
    """The answers of all methods that follow paths, in the trials of the sweep in a folder."""
    found = []
    for result in results:
        run, most = RunFolder(folder / TRIALS / result.name), int(result.values[PATHS])
        verdicts = {(line.method, line.question): float(line.judgement.correct) for line in judged(run)}
        for method, answers in by_method(run).items():
            counts = [scored.path_count for scored in answers.values() if scored.path_count is not None]
            if not counts:
                continue
            scores = {id: verdicts.get((method, id), scored.utility) for id, scored in answers.items()}
            found.append(Followed(method, most, bool(verdicts), scores, sum(count >= most for count in counts)))
    return found


@styled
def by_paths(answers: Sequence[Followed], metric: str) -> Figure:
    """Lines are accuracy with its interval, as judged or else by `metric`; bars are questions with so many paths, the
    mean over trials."""
    numbers = sorted({answered.most for answered in answers})
    methods = list(dict.fromkeys(answered.method for answered in answers))
    figure = Figure(figsize=(COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.twinx()
    width = 0.6 / len(methods)
    for i, method in enumerate(methods):
        means, intervals = [], []
        for number in numbers:
            own = [answered for answered in answers if (answered.method, answered.most) == (method, number)]
            part = Part("", as_matrix([answered.scores for answered in own]))
            means.append(part.mean)
            intervals.append(mean_interval([part], derive_seed("paths", method, number)))
            place = number + (i - (len(methods) - 1) / 2) * width
            height = float(np.mean([answered.reached for answered in own]))
            bars.bar(place, height, width, color="none", edgecolor=GREY, hatch=nth(HATCHES, i))
        colour = nth(COLOURS, i)
        axes.plot(numbers, means, marker=nth(MARKERS, i), color=colour, linestyle=nth(LINES, i), label=method)
        axes.vlines(numbers, *zip(*intervals, strict=True), color=colour, linewidth=0.8)
    # The lines in front of the bars, which belong to the other axis.
    axes.set_zorder(bars.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.set_xticks(numbers)
    axes.set_xlabel("most paths that an answer rests on")
    what = "judged accuracy" if all(answered.judged for answered in answers) else metric
    axes.set_ylabel(f"{what} (lines, 95% interval)")
    bars.set_ylabel("questions with so many paths (bars)")
    plain(axes, "y")
    bars.spines["top"].set_visible(False)
    axes.legend(loc="best")
    return figure
