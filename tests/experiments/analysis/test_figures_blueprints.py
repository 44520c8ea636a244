"""BDoG's Fig. 4: what changed in a debate's graph is counted by round."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.messages import Message, Status, Trace
from experiments.analysis.figures.systems import DEBATE, changes, condensation
from experiments.datasets.item import Score
from experiments.records.recorder import Recorder, RunFolder
from tests.support.fake_run import item
from topologies.systems.bdog import MODERATOR, OPPONENT, PROPONENT, SOLO
from topologies.systems.bdog_graph import Change


def debate(*graphs: tuple[str, ...]) -> Trace:
    """A first graph, then those of proponent and opponent in turn, a moderator closing each round."""
    agents = [SOLO.name, *[PROPONENT.name, OPPONENT.name] * (len(graphs) // 2)]
    turns = []
    for number, (agent, triples) in enumerate(zip(agents, graphs, strict=True)):
        turns.append(Message(f"{number}/{agent}", agent, number, fields=tuple(("Triple", t) for t in triples)))
        if agent == OPPONENT.name:
            turns.append(Message(f"{number}/m", MODERATOR.name, number, fields=(("Answer", "tower 1"),)))
    return Trace("q001", DEBATE, 0, tuple(sorted(set(agents))), tuple(turns), "tower 1", Status.OK, 1)


FIRST = debate(
    ("a | near | b",),
    ("a | near | b", "b | near | c"),
    ("a | near | b", "a | has height | 3"),
    (),  # stated nothing: the graph stays
    ("a | near | b", "a | has height | 4"),
)


def test_changes_are_those_within_a_round_and_from_the_round_before() -> None:
    within, between = changes([FIRST])
    # The opponent drops c and the relation to it, and gives a a height.
    assert within == {1: [Change(0, 2, 1)], 2: [Change(0, 0, 1)]}
    assert between == {2: [Change(0, 0, 1)]}


def test_a_discussion_counts_in_the_rounds_that_it_had() -> None:
    within, _ = changes([FIRST, debate(("a | near | b",), ("a | near | b",), ("a | near | b",))])
    assert [len(within[number]) for number in (1, 2)] == [2, 1]


@pytest.mark.parametrize("held", [True, False])
def test_the_figure_is_drawn_where_debates_were_held(held: bool, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "bdog")
    with Recorder(run) as recorder:
        if held:
            recorder.evaluated(FIRST, item(1), Score(1.0, 1.0))
    figure = condensation(run)
    assert (figure is not None) is held
    if figure:
        assert [len(axes.patches) for axes in figure.axes] == [6, 3]
