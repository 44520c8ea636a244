"""The plan of the house: no folder imports one that imports it, and the agents' processes import little."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

TOPS = ("actors", "topologies", "retrieval", "experiments")


def modules() -> dict[str, Path]:
    """Every module by its dotted name; a folder's `__init__` goes by the folder's."""
    found = {}
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    """Our modules that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in whole]
        else:
            continue
        yield from (name for name in names if name in MODULES)


def folder(module: str) -> str:
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def folders() -> dict[str, set[str]]:
    """Which folders each folder imports."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        others = {folder(name) for name in imported(path)} - {folder(module)}
        graph.setdefault(folder(module), set()).update(others)
    return graph


def reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for other in graph[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def test_no_folder_imports_one_that_imports_it() -> None:
    graph = folders()
    circles = sorted(name for name in graph if name in reached(name, graph))
    assert circles == []


def test_everything_rests_on_the_messages_and_nothing_rests_on_the_experiments() -> None:
    graph = folders()
    below = {"actors": set(), "topologies": {"actors"}, "retrieval": {"actors"}}
    for name, others in graph.items():
        top = name.partition(".")[0]
        if top in below:
            assert {other.partition(".")[0] for other in others} <= {top, *below[top]}, name


def test_every_room_says_what_it_is_for() -> None:
    rooms = {name for name in MODULES if MODULES[name].name == "__init__.py"}
    silent = sorted(name for name in rooms if not ast.get_docstring(ast.parse(MODULES[name].read_text())))
    assert silent == []
