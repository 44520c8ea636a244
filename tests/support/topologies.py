"""Topologies of methods by name, made from what each one needs."""

from collections.abc import Sequence
from typing import Any, cast

from actors.messages import Question, Trace
from experiments.config.config import Config
from experiments.planning.topologies import make_topology
from topologies.catalogue import METHODS
from topologies.learning.learned_topology import LearnedTopology
from topologies.method import Library
from topologies.topology import Topology

BY_NAME = {method.name: method for method in METHODS}
SYSTEMS = {method.name: method for method in METHODS if method.needs_library}


def topology(
    name: str,
    library: Library | None,
    config: Config,
    agents: Sequence[str] = (),
    learned: LearnedTopology | None = None,
    watched: Sequence[tuple[Question, Trace]] = (),
) -> Topology:
    """Makes a method's topology from what it needs and no more."""
    return make_topology(BY_NAME[name], config, agents, {name: learned} if learned else {}, cast(Any, library), watched)
