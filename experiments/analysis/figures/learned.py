"""Learned graphs: heat maps of edge probabilities (M3Prune's Figs. 3, 19 and 20) and learning curves."""

import math
from collections.abc import Collection, Sequence
from itertools import pairwise, product
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from experiments.analysis.figures import style
from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep
from topologies.wiring import Bools, Floats

MOMENTS = 4  # snapshots per stage: its start, two between, and its end
NAMED_AGENTS = 16  # more names than this along one panel cannot be read
LETTER = 0.06  # inches of a letter of a name
LEFT = "edges left"

# A step has few questions, so that utility jumps between 0 and 1: its mean over the last WINDOW steps is drawn.
AVERAGED, WINDOW = ("utility", "objective"), 10

_Curve = dict[int, list[tuple[int, float]]]  # by stage: (training step, value)


def edge_heatmaps(run: RunFolder) -> dict[str, Figure]:
    """Draws a grid of snapshots for each kind of edge. A stage is a row.

    Snapshots are a stage's start, thirds and end. Senders are down and receivers across, by modality. A pruned edge
    looks different from one that the stage lacks.
    """
    stages: dict[int, list[LearningStep]] = {}
    for step in run.learning():
        stages.setdefault(step.stage, []).append(step)
    existing: dict[str, list[Bools]] = {}  # by kind and stage: the edges at its start or before
    snapshots = []
    for steps in stages.values():
        # A set, because a stage shorter than MOMENTS would show one step twice.
        places = {round(moment * (len(steps) - 1) / (MOMENTS - 1)) for moment in range(MOMENTS)}
        snapshots.append([steps[place] for place in sorted(places)])
        # Only a stage's first record adds edges; later ones can only lose them.
        for kind in steps[0].probabilities:
            earlier = existing.setdefault(kind, [])
            present = np.isfinite(_matrix(steps[0], kind))
            # Edges of earlier stages stay in, so that one pruned there still counts as pruned here.
            earlier.append(present | earlier[-1] if earlier else present)
    return {
        f"edges-{kind.replace(', ', '-').replace(' ', '-')}": heat_maps(kind, snapshots, of_kind)
        for kind, of_kind in existing.items()
    }


def _matrix(step: LearningStep, kind: str) -> Floats:
    """Probabilities [senders, receivers], NaN where there is no edge."""
    return np.array(step.probabilities[kind], dtype=float)


def heat_maps(kind: str, stages: Sequence[Sequence[LearningStep]], existing: Sequence[Bools]) -> Figure:
    """Draws a panel for each step, a stage in each row. `existing` are the edges of each stage's start or before."""
    names = style.agent_names(stages[0][0].agents, NAMED_AGENTS)
    room = LETTER * max(map(len, names), default=0)
    side = (style.PAGE - 1.1 - room) / MOMENTS
    figure = Figure(figsize=(style.PAGE, 0.65 + room + (side + 0.3) * len(stages)), layout="compressed")
    panels = figure.subplots(len(stages), MOMENTS, squeeze=False)
    for row, steps, present in zip(panels, stages, existing, strict=True):
        # A short stage has fewer snapshots than places.
        for panel in row[len(steps) :]:
            panel.set_visible(False)
        for panel, step in zip(row, steps, strict=False):
            values = _matrix(step, kind)
            image = _draw_edges(panel, values, present & np.isnan(values), names)
            # Agents are the same in all stages; lines divide the modalities.
            for border, (first, second) in enumerate(pairwise(step.modalities), start=1):
                if first != second:
                    panel.axhline(border, color="black", linewidth=1)
                    panel.axvline(border, color="black", linewidth=1)
            panel.set_title(f"step {step.step}: {np.isfinite(values).sum()} edges", fontsize=style.SMALL)
            panel.set(xlabel="receiver", ylabel=f"stage {step.stage}: sender")
            panel.label_outer()
    figure.colorbar(image, ax=panels, shrink=0.7, aspect=28, pad=0.02, label=f"probability of the edge ({kind})")
    marks = [Line2D([], [], linestyle="", marker="x", color=style.GREY, markersize=4), Patch(**style.ABSENT)]
    figure.legend(marks, ["pruned", "no such edge"], loc="outside upper right", ncols=2)
    return figure


def _draw_edges(panel: Axes, values: Floats, pruned: Bools, names: Sequence[str]) -> Any:
    """Draws probabilities [senders, receivers]: hatching for no edge, a cross for a pruned one, else a colour."""
    n = len(values)
    panel.pcolormesh(np.ma.masked_where(~pruned, pruned), cmap=ListedColormap(["white"]))
    image = style.heat(
        panel,
        values,
        names,
        names,
        cmap=style.probabilities(),
        vmin=0,
        vmax=1,
        # Between the tiny cells of a large team, white lines would hide the colours.
        linewidth=0.5 if n <= NAMED_AGENTS else 0,
    )
    y, x = np.nonzero(pruned)
    panel.scatter(x + 0.5, y + 0.5, s=(40 / n) ** 2, linewidth=min(0.7, 9 / n), marker="x", color=style.GREY)
    panel.set_aspect("equal")
    panel.tick_params("x", rotation=90)
    return image


def learning_curves(run: RunFolder) -> Figure | None:
    """Draws a panel per term of the objective, and one for the edges left. None where nothing was learned."""
    panels: dict[str, dict[str, _Curve]] = {}
    starts: dict[int, int] = {}
    # Counted over all records: a step's own number starts again with each stage.
    for place, step in enumerate(run.learning()):
        # Keeps the first step of a stage only.
        starts.setdefault(step.stage, place)
        values = [(name, name, value) for name, value in step.terms.items()]
        values += [(LEFT, name, value) for name, value in step.edges.items()]
        for panel, name, value in values:
            curve = panels.setdefault(panel, {}).setdefault(name, {})
            curve.setdefault(step.stage, []).append((place, value))
    if not panels:
        return None
    # One more place than panels, the last, for the legend of the edges.
    figure, grid = style.panels(len(panels) + 1, 3, 1.3, sharex=True)
    grid[-1].set_axis_off()
    for axes, (title, curves) in zip(grid, panels.items(), strict=False):
        window = WINDOW if title in AVERAGED else 1
        for number, (name, curve) in enumerate(curves.items()):
            _draw_curve(axes, number, name, curve, window)
        for start in list(starts.values())[1:]:
            # Between the last step of one stage and the first of the next.
            axes.axvline(start - 0.5, color="#888888", linewidth=0.8, linestyle=":")
        named = f"{title}, mean of {WINDOW} steps" if title in AVERAGED else title
        axes.set_title(named.replace("_", " "), loc="left")
        # Shared axes label the lowest row only, and that row may end before this column.
        axes.tick_params(labelbottom=True)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        style.plain(axes)
        if title == LEFT:
            grid[-1].legend(*axes.get_legend_handles_labels(), loc="upper left", title=LEFT, alignment="left")
    figure.supxlabel("training step (dotted line: the next stage begins)")
    return figure


def _draw_curve(axes: Axes, number: int, name: str, curve: _Curve, window: int) -> None:
    """Draws a line per stage: a new stage starts from other edges, and a joined line would show that as progress."""
    label = name
    for points in curve.values():
        axes.plot(
            [step for step, _ in points],
            running_mean([value for _, value in points], window),
            linewidth=1,
            color=style.colour(number),
            linestyle=style.nth(style.LINES, number),
            label=label,
        )
        # The legend names a curve once, not once per stage.
        label = ""


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
    kinds = list(steps[0].probabilities)
    ends = [step for step, following in pairwise(steps) if step.stage != following.stage]
    moments = {"start": steps[0], **{f"after stage {step.stage}": step for step in ends}, "end": steps[-1]}
    figure, grid = style.panels(len(kinds) * len(moments), len(moments), 2.2)
    for axes, (kind, (moment, step)) in zip(grid, product(kinds, moments.items()), strict=True):
        draw_graph(axes, step, kind, attacked)
        axes.set_title(f"{kind}, {moment}: {axes.get_title()}", fontsize=style.SMALL)
    handles = []
    for number, name in enumerate(style.agent_names(steps[0].agents, NAMED_AGENTS), start=1):
        mark = " (attacked)" if steps[0].agents[number - 1] in attacked else ""
        handles.append(Line2D([], [], linestyle="", label=f"{number} {name}{mark}"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=0)
    return figure


def draw_graph(ax: Axes, step: LearningStep, kind: str = "spatial", attacked: Collection[str] = ()) -> None:
    """Draws a graph as of one training step. Agents are on a circle, and edges as strong as they are likely.

    Agents have their numbers in `step.agents`, from 1; an agent's edge to itself is not drawn. The title counts edges.
    attacked: compromised agents, which are orange squares.
    """
    values = _matrix(step, kind)
    np.fill_diagonal(values, np.nan)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(values)))
    graph.add_edges_from((int(sender), int(receiver)) for sender, receiver in np.argwhere(np.isfinite(values)))
    # From the top on, clockwise.
    angles = {agent: 2 * math.pi * agent / len(values) for agent in graph}
    places = {agent: (math.sin(angle), math.cos(angle)) for agent, angle in angles.items()}
    size = min(90, 1500 / len(values))
    marked = [agent for agent, name in enumerate(step.agents) if name in attacked]
    honest = [agent for agent in graph if agent not in marked]
    for agents, colour, shape in ((honest, "#DDDDDD", "o"), (marked, "#E69F00", "s")):
        nx.draw_networkx_nodes(graph, places, agents, size, colour, shape, ax=ax, edgecolors="black", linewidths=0.5)
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
    if len(values) <= NAMED_AGENTS:
        nx.draw_networkx_labels(graph, places, {agent: str(agent + 1) for agent in graph}, style.SMALL, ax=ax)
    ax.set_title(f"{graph.number_of_edges()} edges")
    ax.set_aspect("equal")
    ax.margins(0.15)
    ax.set_axis_off()
