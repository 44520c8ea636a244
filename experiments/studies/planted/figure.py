"""The testbed's figure: the regret of each learner against the number of questions used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.figures.style import COLOURS, LINES, MARKERS, PAGE, nth, plain, save, styled
from experiments.studies.planted.report import Summary

PREFIX = "regret@"


@styled
def draw(folder: Path, summaries: Sequence[Summary]) -> list[Path]:
    """Regret over all strengths, with and without an adversary, as PDF, SVG and PNG; the PNG's path is returned."""
    figure = Figure(figsize=(PAGE, 2.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, attacked in zip(panels, (True, False), strict=True):
        # None marks the rows over all strengths; of what hearing does, the first.
        whole = [row for row in summaries if row.conformity is None and row.influence == summaries[0].influence]
        _panel(axes, [row for row in whole if row.attacked == attacked])
        axes.set_title("one adversary" if attacked else "no adversary")
        axes.set_xlabel("questions used")
        plain(axes)
    panels[0].set_ylabel("regret (best reachable utility minus own)")
    # Zero is shown, and so is anything below: a learner can beat the greedy best.
    panels[0].set_ylim(bottom=min(0.0, panels[0].get_ylim()[0]))
    panels[1].legend()
    return [save(figure, folder, "planted-regret")]


def _panel(axes: Axes, rows: Sequence[Summary]) -> None:
    # Baselines do not learn and have no regret over questions.
    learners = [row for row in rows if any(name.startswith(PREFIX) for name in row.measures)]
    for number, row in enumerate(learners):
        points = {int(n.removeprefix(PREFIX)): m for n, m in row.measures.items() if n.startswith(PREFIX)}
        used, colour = sorted(points), nth(COLOURS, number)
        axes.plot(
            used,
            [points[q][0] for q in used],
            color=colour,
            linestyle=nth(LINES, number),
            marker=nth(MARKERS, number),
            markersize=3,
            label=row.learner,
        )
        low, high = [points[q][1] for q in used], [points[q][2] for q in used]
        axes.fill_between(used, low, high, color=colour, alpha=0.15, linewidth=0)
