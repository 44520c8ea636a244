"""How much debates change their blueprint graph, within a round and from one round to the next (BDoG's Fig. 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from actors.messages import FieldKind, Message, Trace
from experiments.analysis.figures.style import COLOURS, COLUMN, HATCHES, nth, plain, styled
from experiments.records.recorder import RunFolder
from topologies.systems.bdog.bdog import OPPONENT, PROPONENT
from topologies.systems.bdog.blueprint import Blueprint, Change, change, read_triples

DEBATE = "bdog"  # the method whose debaters state graphs
Rounds = dict[int, list[Change]]  # the changes of all discussions by round


@styled
def condensation(run: RunFolder) -> Figure | None:
    """Mean numbers of attributes updated, and of entities and relations pruned and added, by round; None where no
    debate on a graph was held. A discussion counts in the rounds that it had."""
    within, between = changes(run.traces(f"evaluate-{DEBATE}"))
    if not within:
        return None
    figure = Figure(figsize=(2 * COLUMN, 2.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    _panel(panels[0], within, "from the proponent's graph to the opponent's")
    _panel(panels[1], between, "from the round before")
    panels[0].set_ylabel("changes per discussion")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def changes(traces: Iterable[Trace]) -> tuple[Rounds, Rounds]:
    """What changed within each round, and from the round before, of all discussions."""
    within: Rounds = {}
    between: Rounds = {}
    for trace in traces:
        before: Blueprint | None = None
        for number, (affirmative, negative) in enumerate(_stated(trace), 1):
            within.setdefault(number, []).append(change(affirmative, negative))
            if before is not None:
                between.setdefault(number, []).append(change(before, negative))
            before = negative
    return within, between


def _stated(trace: Trace) -> Iterator[tuple[Blueprint, Blueprint]]:
    """The graphs of both sides by round. A side that stated none left the graph as it was."""
    now = _graph(next((turn for turn in trace.turns if turn.agent not in (PROPONENT.name, OPPONENT.name)), None))
    sides = [turn for turn in trace.turns if turn.agent in (PROPONENT.name, OPPONENT.name)]
    for support, challenge in zip(sides[::2], sides[1::2], strict=False):
        affirmative = _graph(support) or now
        now = _graph(challenge) or affirmative
        yield affirmative, now


def _graph(turn: Message | None) -> Blueprint:
    return read_triples(turn.said(FieldKind.TRIPLE)) if turn else Blueprint()


def _panel(axes: Axes, rounds: Rounds, title: str) -> None:
    parts = {"updated": "attributes updated", "pruned": "pruned", "added": "added"}
    for i, (name, label) in enumerate(parts.items()):
        means = [float(np.mean([getattr(one, name) for one in rounds[number]])) for number in sorted(rounds)]
        x = np.array(sorted(rounds)) + 0.26 * (i - 1)
        axes.bar(x, means, 0.24, label=label, color=nth(COLOURS, i), hatch=nth(HATCHES, i), edgecolor="white")
    axes.set_title(title)
    axes.set_xlabel("round")
    axes.set_xticks(sorted(rounds))
    plain(axes)
