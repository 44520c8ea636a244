"""The methods of a run: ours, those that other packages bring, and the topology of each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.errors import UserError
from actors.lookup import find
from actors.messages import Trace
from experiments.config.config import Config
from experiments.datasets.catalogue import dataset_kind
from topologies import baselines
from topologies.defences import challenger, inspector, majority, suspicion
from topologies.learning import variants
from topologies.library import Library, TopK
from topologies.method import LearnedGraph, Method, MethodContext
from topologies.systems import (
    bdog,
    ccot,
    core_mmrag,
    ddcot,
    direct,
    e_agent,
    echosight,
    hm_rag,
    llava_mr2ag,
    mad,
    mh_mmkg,
    mmapg,
    omnisearch,
    rora_vlm,
    self_correction,
    vidorag,
    wiki_llava,
)
from topologies.topology import Topology

# The order in which help=methods lists them.
METHODS = (
    *baselines.METHODS,
    challenger.METHOD,
    inspector.METHOD,
    majority.METHOD,
    *suspicion.METHODS,
    *variants.METHODS,
    *direct.METHODS,
    self_correction.METHOD,
    ddcot.METHOD,
    ccot.METHOD,
    mad.METHOD,
    wiki_llava.METHOD,
    rora_vlm.METHOD,
    echosight.METHOD,
    llava_mr2ag.METHOD,
    core_mmrag.METHOD,
    *bdog.METHODS,
    *mmapg.METHODS,
    *mh_mmkg.METHODS,
    omnisearch.METHOD,
    vidorag.METHOD,
    *hm_rag.METHODS,
    e_agent.METHOD,
)
_OURS = {method.name: method for method in METHODS}
# Traces lie in files that are named after methods, and these two after the phases before the evaluation.
_PHASES = ("train", "calibrate")
# Attributes of a topology's class that say what a `Method` says.
_STATED = ("name", "roles", "asks_team", "needs_graph", "needs_calibration", "needs_library")


def methods_of(config: Config) -> tuple[Method, ...]:
    """The methods that a configuration names, in its order.

    Raises UserError for one that does not exist or cannot be one, none at all, one named twice, or two that learn.
    """
    methods = tuple(_as_method(find(name, _OURS, "methods", "methods"), name) for name in config.methods)
    names = [method.name for method in methods]
    if not names or len(set(names)) < len(names):
        raise UserError(f"methods={names}: name at least one, and each once")
    return methods


def pairs(methods: Sequence[Method]) -> tuple[tuple[str, str], ...]:
    """The paired tests of a run, of each pair the first minus the second: the learned graph that is named first, or
    else what is named last, against every other."""
    ours = next((method.name for method in methods if method.learner), methods[-1].name)
    return tuple((ours, rival.name) for rival in methods if rival.name not in (ours, "closed_book"))


def make_topology(
    method: Method,
    config: Config,
    agents: Sequence[str],
    learned: Mapping[str, LearnedGraph],
    library: Library,
    watched: Sequence[Trace] = (),
) -> Topology:
    """The topology of a method in a run; the arguments are those of `MethodContext`.

    learned: the learned graphs by their methods. A method that is none of them and needs one gets the first.

    Raises UserError for a topology that goes by another name than its method.
    """
    retrieval, data = config.retrieval, dataset_kind(config.data.kind)
    context = MethodContext(
        method=method.name,
        agents=agents,
        rounds=config.topology.rounds,
        seed=config.seed,
        top_k=TopK(retrieval.texts, retrieval.pictures, retrieval.radius),
        systems=config.systems,
        defence=config.defence,
        learned=learned.get(method.name) or next(iter(learned.values()), None),
        library=library,
        watched=watched,
        directed=data.directed,
        advice=data.advice,
    )
    topology = method.make(context)
    if (name := getattr(topology, "method", None)) != method.name:
        raise UserError(f"methods: the topology of {method.name} has method={name!r}; give it that of its context")
    return topology


def _as_method(entry: Any, name: str) -> Method:
    """A method itself, or the one that a topology's class (or a function that makes a topology) stands for."""
    if not isinstance(entry, Method) and not callable(entry):
        raise UserError(f"methods: {name} is neither a Method nor something that makes a topology of a context")
    method = entry if isinstance(entry, Method) else _made_by(entry)
    if not re.fullmatch(r"\w[\w.-]*", method.name) or method.name in _PHASES:
        raise UserError(f"methods: {name} is called {method.name!r}, which cannot name a file of traces; rename it")
    return method


def _made_by(make: Callable[[MethodContext], Topology]) -> Method:
    """The method of a class or function: its attributes override the defaults of `Method`."""
    called = getattr(make, "__name__", type(make).__name__)
    # CamelCase to snake_case: `MyDebate` is the method my_debate.
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", called).lower()
    # The first sentence, or the first paragraph where it has no full stop.
    [first, *_] = re.split(r"(?<=\.)\s|\n\n", inspect.getdoc(make) or called, maxsplit=1)
    stated = {key: getattr(make, key) for key in _STATED if hasattr(make, key)}
    return Method(**{"name": name, **stated}, description=" ".join(first.split()), make=make)
