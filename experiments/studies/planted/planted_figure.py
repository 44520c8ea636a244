"""Figure of learners in planted worlds, by the cost of their training."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.figures.style import PAGE, colour, drawing, line_look, plain, save
from experiments.studies.planted.planted_summary import Measure, PlantedSummary

TEAMS = {True: "one adversary", False: "no adversary"}
AUCS = {True: "AUC: the adversary's edges", False: "AUC: edges that harm"}


@drawing()
def draw_curves(folder: Path, summaries: Sequence[PlantedSummary]) -> list[Path]:
    """Draws utility above, AUC below, by the messages written and read in training; equal turns count once.

    Over all strengths, with and without an adversary. Returns the PNG's path.
    """
    learners = []
    for summary in summaries:
        # None marks the rows over all strengths, of the first influence. Baselines do not learn.
        is_mean = summary.conformity is None and summary.influence == summaries[0].influence
        if is_mean and _points(summary, "spent"):
            learners.append(summary)

    figure = Figure(figsize=(PAGE, 4.8), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", sharey="row", squeeze=False)
    for column, (attacked, team) in enumerate(TEAMS.items()):
        team_learners = [summary for summary in learners if summary.attacked == attacked]
        for axes, measure in zip(panels[:, column], ("utility", "auc"), strict=True):
            for place, summary in enumerate(team_learners):
                _draw_curve(axes, summary, measure, place)
            plain(axes)
        panels[0, column].set_title(team)
        panels[1, column].set_title(AUCS[attacked])
        panels[1, column].set_xlabel("training tokens (thousands of messages)")
        # An AUC by chance alone.
        panels[1, column].axhline(0.5, color="black", linewidth=0.6, linestyle=":")
    panels[0, 0].set_ylabel("utility of answers")
    panels[1, 0].set_ylabel("AUC of the ranking")

    # Each learner once, whether or not there are teams of both kinds.
    lines: dict[str, Artist] = {}
    for axes in panels[0]:
        handles, labels = axes.get_legend_handles_labels()
        lines.update(zip(labels, handles, strict=True))
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=4)
    return [save(figure, folder, "planted-tokens")]


def _draw_curve(axes: Axes, summary: PlantedSummary, measure: str, place: int) -> None:
    """Draws the line of one learner, its 95% interval behind it."""
    points = _points(summary, measure)
    if not points:
        return
    costs = [summary.measures[f"spent@{questions}"][0] / 1000 for questions in points]
    means, low, high = zip(*points.values(), strict=True)
    axes.plot(costs, means, markersize=3, label=summary.learner, **line_look(place))
    axes.fill_between(costs, low, high, color=colour(place), alpha=0.15, linewidth=0)
    # Budgets are multiples of the paper's.
    if costs[-1] > 20 * costs[0]:
        axes.set_xscale("log")


def _points(summary: PlantedSummary, measure: str) -> dict[int, Measure]:
    """Reads a measure by the number of questions used, ascending."""
    points = {}
    for name, value in summary.measures.items():
        curve, _, questions = name.partition("@")
        if curve == measure and questions:
            points[int(questions)] = value
    return dict(sorted(points.items()))
