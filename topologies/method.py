"""Methods: the ways of answering questions that a run compares, and their requirements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.messages import Role, Trace
from topologies.edge_lists import Wiring
from topologies.library import Library, Reach
from topologies.settings import DefenceSettings, SystemSettings
from topologies.topology import Topology


class LearnedGraph(Topology, Protocol):
    """A topology that answers along what a learner left of the graph."""

    @property
    def wiring(self) -> Wiring:
        """The learned wiring. Raises RuntimeError before learning is over."""


@dataclass(frozen=True)
class MethodContext:
    """Everything that a method's topology can be made of.

    method: the method's name, which the topology and its traces carry.
    agents: the names of the configured team, which discusses over `rounds` rounds.
    seed: the source of all that a method draws.
    reach: how much is retrieved.
    learned: the learned graph; None unless a method `needs_graph`.
    library: searches; it knows the run's questions only where a method `needs_library`.
    watched: unlabelled discussions of the complete graph; none unless a method `needs_calibration`.
    directed: whether edges of the knowledge graph lead one way, as the data set says.
    advice: what the data set's authors tell an agent that decides where a search through its graph goes on.
    """

    method: str
    agents: Sequence[str]
    rounds: int
    seed: int
    reach: Reach
    systems: SystemSettings
    defence: DefenceSettings
    learned: LearnedGraph | None
    library: Library
    watched: Sequence[Trace] = ()
    directed: bool = False
    advice: str = ""


@dataclass(frozen=True)
class Method:
    """One entry of `methods=[...]`.

    make: builds the topology, once for a run.
    roles: agents of its own, launched beside the one that answers alone, which every method may ask.
    asks_team: whether the configured team takes part.
    needs_graph: whether a graph is learned first; `learner` names the variant (`topologies.learning`) if this method is
        itself the learned one.
    needs_calibration: whether unlabelled discussions are held first, for it to watch.
    needs_library: whether it searches itself, instead of reading the evidence that is retrieved for every question.
    reads: names of the settings of `systems` that it goes by.
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
    reads: tuple[str, ...] = ()


def system(
    name: str,
    description: str,
    make: Callable[[MethodContext], Topology],
    roles: tuple[Role, ...] = (),
    reads: tuple[str, ...] = (),
) -> Method:
    """A method with its own searches and its own agents in place of the team."""
    return Method(name, description, make, roles, asks_team=False, needs_library=True, reads=reads)
