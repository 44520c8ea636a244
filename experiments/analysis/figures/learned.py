"""Learned graphs: heat maps of edge probabilities (M3Prune's Figs. 3, 19 and 20) and learning curves."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from experiments.analysis.figures import style
from experiments.analysis.figures.marked_figure import MarkedFigure, discussions_of, mark
from experiments.analysis.grouping import grouped
from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep
from topologies.wiring import Bools, Floats

MOMENTS = 4  # snapshots per stage: its start, two between, and its end
LETTER = 0.06  # inches of a letter of a name
EDGES_LEFT = "edges left"

# A step has few questions, so that utility jumps between 0 and 1: its mean over the last WINDOW steps is drawn.
AVERAGED = ("utility", "objective")
WINDOW = 10
MOST_STEPS = 60  # marked in a panel


def edge_heatmaps(run: RunFolder) -> dict[str, Figure]:
    """Draws a grid of snapshots for each kind of edge. A stage is a row.

    Snapshots are a stage's start, thirds and end. Senders are down and receivers across, by modality. A pruned edge
    looks different from one that the stage lacks.
    """
    stages = grouped(run.learning(), key=lambda step: step.stage)
    snapshots = []
    for steps in stages.values():
        # A set, because a stage shorter than MOMENTS would show one step twice.
        places = {round(place) for place in np.linspace(0, len(steps) - 1, MOMENTS)}
        snapshots.append([steps[place] for place in sorted(places)])
    figures = {}
    for kind in snapshots[0][0].probabilities if snapshots else ():
        name = kind.replace(", ", "-").replace(" ", "-")
        figures[f"edges-{name}"] = _edge_heatmap(run, kind, snapshots)
    return figures


def _matrix(step: LearningStep, kind: str) -> Floats:
    """Probabilities [senders, receivers], NaN where there is no edge."""
    return np.array(step.probabilities[kind], dtype=float)


def _edge_heatmap(run: RunFolder, kind: str, stages: Sequence[Sequence[LearningStep]]) -> Figure:
    """Draws a panel for each step, a stage in each row. The first step of a stage is its start."""
    names = style.agent_names(stages[0][0].agents)
    room = LETTER * max(map(len, names), default=0)
    side = (style.PAGE - 1.1 - room) / MOMENTS
    figure = MarkedFigure(style.PAGE, 0.65 + room + (side + 0.3) * len(stages), layout="compressed")
    panels = figure.subplots(len(stages), MOMENTS, squeeze=False)

    # Only a stage's start adds edges; later steps can only lose them. Edges of earlier stages stay in, so that one
    # pruned there still counts as pruned here.
    starts = [np.isfinite(_matrix(steps[0], kind)) for steps in stages]
    existing = np.logical_or.accumulate(starts)
    for row, steps, present in zip(panels, stages, existing, strict=True):
        # A short stage has fewer snapshots than places.
        for panel in row[len(steps) :]:
            panel.set_visible(False)
        for panel, step in zip(row, steps, strict=False):
            image = _draw_edges(panel, step, kind, present=present)
            _mark_edges(panel, step, kind, present, link=discussions_of(f"{run.name}.train-{step.stage}"))
            panel.set(xlabel="receiver", ylabel=f"stage {step.stage}: sender")
            panel.label_outer()

    figure.colorbar(
        image,
        ax=panels,
        shrink=0.7,
        aspect=28,
        pad=0.02,
        label=f"probability of the edge ({kind})",
    )
    cross = Line2D([], [], linestyle="", marker="x", color=style.GREY, markersize=4)
    figure.legend(
        [cross, Patch(**style.ABSENT)],
        ["pruned", "no such edge"],
        loc="outside upper right",
        ncols=2,
    )
    return figure


def _mark_edges(panel: Axes, step: LearningStep, kind: str, present: Bools, link: str) -> None:
    values = _matrix(step, kind)
    if len(values) > style.NAMED_AGENTS:
        return
    names = style.agent_names(step.agents)
    for row, column in np.argwhere(present).tolist():
        probability = f"{values[row, column]:.2f}" if np.isfinite(values[row, column]) else "pruned"
        text = f"stage {step.stage}, step {step.step}, {names[row]} to {names[column]}: {probability}"
        mark(panel, text, column + 0.5, row + 0.5, width=1, height=1, link=link)


def _draw_edges(panel: Axes, step: LearningStep, kind: str, present: Bools) -> QuadMesh:
    """Draws probabilities [senders, receivers]: hatching for no edge, a cross for a pruned one, else a colour.

    present: the edges that there were at the start.
    """
    values = _matrix(step, kind)
    pruned = present & np.isnan(values)
    names = style.agent_names(step.agents)
    n = len(values)
    panel.pcolormesh(np.ma.masked_where(~pruned, pruned), cmap=ListedColormap(["white"]))
    image = style.heat(
        panel,
        values,
        names,
        across=names,
        cmap=style.probabilities(),
        vmin=0,
        vmax=1,
        # Between the tiny cells of a large team, white lines would hide the colours.
        linewidth=0.5 if n <= style.NAMED_AGENTS else 0,
    )
    y, x = np.nonzero(pruned)
    panel.scatter(
        x + 0.5,
        y + 0.5,
        s=(40 / n) ** 2,
        linewidth=min(0.7, 9 / n),
        marker="x",
        color=style.GREY,
    )
    panel.set_aspect("equal")
    panel.tick_params("x", rotation=90)
    # Lines divide the modalities.
    for border, (modality, following) in enumerate(pairwise(step.modalities), start=1):
        if modality != following:
            panel.axhline(border, color="black", linewidth=1)
            panel.axvline(border, color="black", linewidth=1)
    panel.set_title(f"step {step.step}: {np.isfinite(values).sum()} edges", fontsize=style.SMALL)
    return image


def learning_curves(run: RunFolder) -> Figure | None:
    """Draws a panel per term of the objective, and one per kind of edge for the edges left.

    None where nothing was learned. A term with the same value in all steps has no panel; the legend states it.
    """
    points: list[tuple[int, int, int, str, str, float]] = []
    # Counted over all records: a step's own number starts again with each stage.
    for place, step in enumerate(run.learning()):
        points += [(place, step.stage, step.step, name, "", value) for name, value in step.terms.items()]
        for name, value in step.edges.items():
            # "text>visual spatial": lines of one pair of modalities look the same in both panels.
            pair, _, kind = name.rpartition(" ")
            points.append((place, step.stage, step.step, f"{kind} {EDGES_LEFT}", pair, value))
    if not points:
        return None
    table = pd.DataFrame(points, columns=["place", "stage", "step", "panel", "curve", "value"])
    stage_starts = table.drop_duplicates("stage")["place"]
    pairs = [pair for pair in dict.fromkeys(table["curve"]) if pair]

    panels = {}
    unchanged = []
    for title, curves in table.groupby("panel", sort=False):
        if curves["value"].nunique() == 1 and not str(title).endswith(EDGES_LEFT):
            unchanged.append(f"{title} = {curves['value'].iloc[0]:g}".replace("_", " "))
        else:
            panels[str(title)] = curves

    # Counted once: all steps of a stage have equally many discussions.
    last_steps = table.groupby("stage")["step"].max()
    per_step = {stage: run.count(f"train-{stage}") // max(1, last) for stage, last in last_steps.items()}
    # One more place than panels, the last, for the legend of the edges.
    figure, grid = style.panels(len(panels) + 1, 3, height=1.3, sharex=True)
    legend = grid[-1]
    legend.set_axis_off()
    handles: dict[str, Artist] = {}
    for axes, (title, curves) in zip(grid, panels.items(), strict=False):
        window = WINDOW if title in AVERAGED else 1
        for pair, curve in curves.groupby("curve", sort=False):
            number = pairs.index(pair) if pair else 0
            _draw_curve(axes, number, str(pair), curve=curve, window=window)
        for start in stage_starts[1:]:
            # Between the last step of one stage and the first of the next.
            axes.axvline(start - 0.5, color="#888888", linewidth=0.8, linestyle=":")
        heading = f"{title}, mean of {WINDOW} steps" if title in AVERAGED else title
        axes.set_title(heading.replace("_", " "), loc="left")
        # Shared axes label the lowest row only, and that row may end before this column.
        axes.tick_params(labelbottom=True)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        style.plain(axes)
        _mark_steps(axes, title.replace("_", " "), curves, run=run, per_step=per_step)
        pair_handles, pair_labels = axes.get_legend_handles_labels()
        handles |= dict(zip(pair_labels, pair_handles, strict=True))
    legend.legend(list(handles.values()), list(handles), loc="upper left", title=EDGES_LEFT, alignment="left")
    if unchanged:
        figure.supylabel(f"the same in all steps: {', '.join(unchanged)}", fontsize=style.SMALL)
    figure.supxlabel("training step (dotted line: the next stage begins)")
    return figure


def _draw_curve(axes: Axes, number: int, name: str, curve: pd.DataFrame, window: int) -> None:
    """Draws a line per stage: a new stage starts from other edges, and a joined line would show that as progress."""
    for _, points in curve.groupby("stage", sort=False):
        axes.plot(
            points["place"],
            running_mean(points["value"].tolist(), window),
            linewidth=1,
            color=style.colour(number),
            linestyle=style.nth(style.LINES, number),
            # Gaps in front of whole lines, so that equal curves are both seen.
            zorder=2 + number % len(style.LINES) / 10,
            label=style.new_label(axes, name),
        )


def _mark_steps(axes: Axes, title: str, curves: pd.DataFrame, run: RunFolder, per_step: Mapping[int, int]) -> None:
    """Marks the values at each step, or at every n-th of many, with a link to its first discussion.

    per_step: discussions of a step, by stage.
    """
    interval = math.ceil(curves["place"].nunique() / MOST_STEPS)
    for place, values in list(curves.groupby("place"))[::interval]:
        first = values.iloc[0]
        lines = [f"{curve} {value:g}".strip() for curve, value in zip(values["curve"], values["value"], strict=True)]
        mark(
            axes,
            f"stage {first['stage']}, step {first['step']}, {title}: {', '.join(lines)}",
            place,
            width=interval,
            link=_first_discussion(run, first["stage"], first["step"], per_step=per_step[first["stage"]]),
        )


def _first_discussion(run: RunFolder, stage: int, step: int, per_step: int) -> str:
    """Links to the first discussion of a step, or to all of its stage."""
    key = str((step - 1) * per_step + 1) if step and per_step else ""
    return discussions_of(f"{run.name}.train-{stage}", key)


def running_mean(values: Sequence[float], window: int = WINDOW) -> list[float]:
    """Averages each value with those before it, `window` at most. The first ones have fewer."""
    return [float(np.mean(values[max(0, end - window) : end])) for end in range(1, len(values) + 1)]


def learned_graph(run: RunFolder, attacked: Collection[str] = ()) -> Figure | None:
    """Draws the graph at the start, after each stage, and at the end. None where nothing was learned.

    A row per kind of edge. attacked: compromised agents, which are squares.
    """
    steps = list(run.learning())
    if not steps:
        return None
    moments = {"start": steps[0]}
    for step, following in pairwise(steps):
        if step.stage != following.stage:
            moments[f"after stage {step.stage}"] = step
    moments["end"] = steps[-1]

    kinds = list(steps[0].probabilities)
    figure, grid = style.panels(len(kinds) * len(moments), len(moments), height=2.2)
    for axes, (kind, (moment, step)) in zip(grid, product(kinds, moments.items()), strict=True):
        draw_graph(axes, step, kind, attacked=attacked)
        axes.set_title(f"{kind}, {moment}: {axes.get_title()}", fontsize=style.SMALL)

    agents = steps[0].agents
    handles = []
    for number, (agent, name) in enumerate(zip(agents, style.agent_names(agents), strict=False), start=1):
        mark = " (attacked)" if agent in attacked else ""
        handles.append(Line2D([], [], linestyle="", label=f"{number} {name}{mark}"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=0)
    return figure


def draw_graph(
    ax: Axes,
    step: LearningStep,
    kind: str = "spatial",
    attacked: Collection[str] = (),
) -> None:
    """Draws a graph as of one training step. Agents are on a circle, and edges as strong as they are likely.

    Agents have their numbers in `step.agents`, from 1; an agent's edge to itself is not drawn. The title counts edges.
    attacked: compromised agents, which are orange squares.
    """
    values = _matrix(step, kind)
    np.fill_diagonal(values, np.nan)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(values)))
    graph.add_edges_from(np.argwhere(np.isfinite(values)).tolist())
    places = {}
    for agent in graph:
        # From the top on, clockwise.
        angle = 2 * math.pi * agent / len(values)
        places[agent] = (math.sin(angle), math.cos(angle))

    size = min(90, 1500 / len(values))
    compromised = [agent for agent, name in enumerate(step.agents) if name in attacked]
    honest = [agent for agent in graph if agent not in compromised]
    for agents, colour, shape in ((honest, "#DDDDDD", "o"), (compromised, "#E69F00", "s")):
        nx.draw_networkx_nodes(
            graph,
            places,
            agents,
            node_size=size,
            node_color=colour,
            node_shape=shape,
            ax=ax,
            edgecolors="black",
            linewidths=0.5,
        )
    nx.draw_networkx_edges(
        graph,
        places,
        ax=ax,
        alpha=[float(values[edge]) for edge in graph.edges],
        arrowsize=5,
        width=0.7,
        connectionstyle="arc3,rad=0.12",
        node_size=size,
    )
    if len(values) <= style.NAMED_AGENTS:
        nx.draw_networkx_labels(
            graph,
            places,
            {agent: str(agent + 1) for agent in graph},
            font_size=style.SMALL,
            ax=ax,
        )
    for agent, (x, y) in places.items():
        name = step.agents[agent].replace("_", " ")
        mark(ax, f"{agent + 1} {name}{' (attacked)' if agent in compromised else ''}", x, y)
    ax.set_title(f"{graph.number_of_edges()} edges")
    ax.set_aspect("equal")
    ax.margins(0.15)
    ax.set_axis_off()
