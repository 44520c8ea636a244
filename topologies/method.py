"""A method: a way of answering questions that a run compares with others, and all that it needs of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.messages import Role, Trace
from topologies.library import Library, Reach
from topologies.settings import DefenceSettings, SystemSettings
from topologies.topology import Topology, Wiring


class LearnedGraph(Topology, Protocol):
    """A topology that answers along what a learner left of the graph."""

    @property
    def wiring(self) -> Wiring:
        """What was learned. Raises RuntimeError before learning is over."""


@dataclass(frozen=True)
class MethodContext:
    """What a method may be made of.

    agents: the names of the team that the configuration describes, over `rounds` rounds.
    seed: of everything that a method draws.
    learned: the learned graph; None unless the method `needs_graph`.
    watched: unlabelled discussions of the complete graph; none unless the method `needs_calibration`.
    library: what can be looked up; None unless the method `needs_library`.
    reach: how much the methods retrieve that are given their evidence.
    directed: whether the edges of the knowledge graph lead one way (those that a data set brings do).
    """

    agents: Sequence[str]
    rounds: int
    seed: int
    reach: Reach
    systems: SystemSettings
    defence: DefenceSettings
    learned: LearnedGraph | None = None
    watched: Sequence[Trace] = ()
    library: Library | None = None
    directed: bool = False


@dataclass(frozen=True)
class Method:
    """What can be named in `methods=[...]`.

    make: builds the topology, once for a run.
    roles: agents of its own, launched beside the one that answers alone, which every method may ask.
    asks_team: whether the team that the configuration describes discusses.
    needs_graph: whether a graph is learned first; `learner` says by which variant (`topologies.learning`), where the
        method is one that learns.
    needs_calibration: whether unlabelled discussions are held first, for it to watch.
    needs_library: whether it looks things up by itself, instead of being given its evidence.
    """

    name: str
    description: str
    make: Callable[[MethodContext], Topology]
    roles: tuple[Role, ...] = ()
    asks_team: bool = True
    needs_graph: bool = False
    needs_calibration: bool = False
    needs_library: bool = False
    learner: str = ""
