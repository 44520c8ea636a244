"""Figure of the discussions that learners need, by the number of agents."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from experiments.analysis.figures.style import PAGE, drawing, line_look, plain, save
from experiments.studies.scaling.scaled_team import LAWS
from experiments.studies.scaling.scaling_summary import ScalingSummary


@drawing()
def draw_scaling(folder: Path, summaries: Sequence[ScalingSummary]) -> list[Path]:
    """Draws a line for each learner and law, where their median is known. Returns the PNG's path."""
    figure = Figure(figsize=(PAGE, 3.6), layout="constrained")
    axes = figure.subplots()
    for place, summary in enumerate(summaries):
        if summary.medians:
            look = line_look(place)
            if summary.learner in LAWS:
                look |= {"color": "black", "marker": "", "linestyle": ("--", ":")[LAWS.index(summary.learner)]}
            axes.plot(
                list(summary.medians), list(summary.medians.values()), markersize=3, label=summary.learner, **look
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    tried_sizes = list(summaries[0].reached)
    axes.set_xticks(tried_sizes, labels=[str(size) for size in tried_sizes], minor=False)
    axes.minorticks_off()
    axes.set_xlabel("agents")
    axes.set_ylabel("graded discussions")
    plain(axes)
    figure.legend(loc="outside right upper")
    return [save(figure, folder, "scaling")]
