"""The methods that `methods=[...]` can name: ours, an installed package's, or the user's own."""

import inspect
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from actors.errors import UserError
from actors.lookup import find
from topologies import baselines, dytopo
from topologies.controls import twin
from topologies.defences import (
    blind_guard,
    credit,
    e_process,
    geometric_median,
    majority,
    probes,
    resilience,
    suspicion,
    trust,
)
from topologies.graph_file import graph_method, is_graph_file
from topologies.learning import variants
from topologies.method import Method
from topologies.systems import (
    bdog,
    core_mmrag,
    ddcot,
    e_agent,
    hm_rag,
    llava_mr2ag,
    mad,
    mh_mmkg,
    mmapg,
    omnisearch,
    vidorag,
    visual_retrieval,
    zero_shot,
)

# In the order of `help=methods`.
_ONLINE = (credit, trust, blind_guard, geometric_median, e_process)
_TEAMS = (baselines, twin, resilience, majority, suspicion, probes, *_ONLINE, variants, dytopo)
_BASELINES = (zero_shot, ddcot, mad, visual_retrieval, llava_mr2ag, core_mmrag)
_SYSTEMS = (bdog, mmapg, mh_mmkg, omnisearch, vidorag, hm_rag, e_agent)
_MODULES = (*_TEAMS, *_BASELINES, *_SYSTEMS)
METHODS: tuple[Method, ...] = tuple(chain.from_iterable(module.METHODS for module in _MODULES))
OURS = {method.name: method for method in METHODS}
# Traces lie in files that are named after methods, and these two after the phases before the evaluation.
_PHASES = ("train", "calibrate")
# Attributes of a topology's class that override the defaults of `Method`.
_ATTRIBUTES = ("name", "roles", "asks_team", "needs_graph", "needs_calibration", "needs_library", "alone", "reads")


def find_methods(names: Sequence[str]) -> tuple[Method, ...]:
    """Finds methods by name, in the order given. Raises UserError for none, an unknown one, or one named twice."""
    methods = tuple(graph_method(name) if is_graph_file(name) else find_method(name) for name in names)
    method_names = [method.name for method in methods]
    if not methods or len(set(method_names)) < len(methods):
        raise UserError(f"methods={method_names}: name at least one, and each once")
    return methods


def find_method(name: str) -> Method:
    """Finds a method, or makes one of a class or function that makes a topology."""
    entry: Any = find(name, OURS, "methods", "methods")
    if isinstance(entry, Method):
        method = entry
    elif callable(entry):
        method = _method_of(entry)
    else:
        raise UserError(f"methods: {name} is neither a Method nor a function or class that makes a topology")
    if not re.fullmatch(r"\w[\w.-]*", method.name) or method.name in _PHASES:
        raise UserError(f"methods: {name} is called {method.name!r}, which cannot name a file of traces; rename it")
    return method


def _method_of(make: Any) -> Method:
    """The method of a class or function; attributes of it override the defaults of `Method`."""
    name = getattr(make, "__name__", type(make).__name__)
    # The first sentence, or the first paragraph where it has no full stop.
    [summary, *_] = re.split(r"(?<=\.)\s|\n\n", inspect.getdoc(make) or name, maxsplit=1)
    attributes = {key: getattr(make, key) for key in _ATTRIBUTES if hasattr(make, key)}
    # CamelCase to snake_case: `MyDebate` is the method my_debate.
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return Method(**{"name": snake_case, **attributes}, description=" ".join(summary.split()), make=make)
