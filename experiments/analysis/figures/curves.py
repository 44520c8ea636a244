"""Learning curves: every term of the objective, and the edges left, over the training steps of all stages."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.analysis.figures.style import COLOURS, LINES, PAGE, nth, plain, styled
from experiments.records.recorder import RunFolder

COLUMNS = 3
LEFT = "edges left"

_Curve = dict[int, list[tuple[int, float]]]  # by stage: (training step, value)


@styled
def learning_curves(run: RunFolder) -> Figure | None:
    """A panel per term, and one for the edges of every block; None where nothing was learned."""
    panels: dict[str, dict[str, _Curve]] = {}
    starts: dict[int, int] = {}
    # Counted over all records: a step's own number starts again with each stage.
    for n, step in enumerate(run.learning()):
        # Keeps the first step of a stage only.
        starts.setdefault(step.stage, n)
        values = [(name, name, value) for name, value in step.terms.items()]
        values += [(LEFT, name, value) for name, value in step.edges.items()]
        for panel, name, value in values:
            panels.setdefault(panel, {}).setdefault(name, {}).setdefault(step.stage, []).append((n, value))
    if not panels:
        return None
    # One more place than panels: the legend of the edges takes the last one.
    rows = -(-(len(panels) + 1) // COLUMNS)
    figure = Figure(figsize=(PAGE, 0.5 + 1.3 * rows), layout="constrained")
    grid = figure.subplots(rows, COLUMNS, squeeze=False, sharex=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, (title, curves) in zip(grid.flat, panels.items(), strict=False):
        for i, (name, curve) in enumerate(curves.items()):
            style: Any = {"color": nth(COLOURS, i), "linestyle": nth(LINES, i), "linewidth": 1}
            style["label"] = name
            # One line per stage, because a new stage starts from other edges and a joined line would show a jump as
            # progress.
            for points in curve.values():
                axes.plot(*zip(*points, strict=True), **style)
                # The legend names a curve once, not once per stage.
                style.pop("label", None)
        for start in list(starts.values())[1:]:
            # Between the last step of one stage and the first of the next.
            axes.axvline(start - 0.5, color="#888888", linewidth=0.8, linestyle=":")
        axes.set_title(title.replace("_", " "), loc="left")
        # Shared axes label the lowest row only, and that row may end before this column.
        axes.tick_params(labelbottom=True)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        plain(axes)
        if title == LEFT:
            grid.flat[-1].legend(*axes.get_legend_handles_labels(), loc="upper left", title=LEFT, alignment="left")
    figure.supxlabel("training step (dotted line: the next stage begins)")
    return figure
