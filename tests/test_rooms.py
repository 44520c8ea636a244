"""The order of folders and files: what may import what, how much one file imports, and what keeps the rest small."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.paths import ROOT

TOPS = ("actors", "topologies", "retrieval", "experiments")
MOST_IMPORTS = 14  # of the project's own modules, in one file
# Files that still import more, and how much; none may grow.
MORE = {
    "actors.runtime.cluster": 15,
    "experiments.analysis.tables.measured": 15,
}


def modules() -> dict[str, Path]:
    """Every module by its dotted name; a folder's `__init__` has the folder's."""
    found = {}
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def statements(path: Path) -> Iterator[list[str]]:
    """Our modules that each import statement of a file names, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in whole]
        else:
            continue
        if ours := [name for name in names if name in MODULES]:
            yield ours


FILES = {name: {other for ours in statements(path) for other in ours} for name, path in MODULES.items()}


def room(module: str) -> str:
    """The first-level folder that a module lies in; a file that lies in none is a room of its own."""
    return ".".join(module.split(".")[:2])


def rooms() -> dict[str, set[str]]:
    """Which rooms each room imports."""
    graph: dict[str, set[str]] = {}
    for module, others in FILES.items():
        graph.setdefault(room(module), set()).update({room(other) for other in others} - {room(module)})
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes that can be reached from themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    return sorted(name for name in graph if name in reached(name))


def test_no_folder_imports_one_that_imports_it() -> None:
    assert circles(rooms()) == []


def test_no_file_imports_one_that_imports_it() -> None:
    assert circles(FILES) == []


def test_no_file_imports_much_of_the_project() -> None:
    paths = {**MODULES, "run": ROOT / "run.py"}
    counts = {name: sum(1 for _ in statements(path)) for name, path in paths.items()}
    assert {name: count for name, count in counts.items() if count > MORE.get(name, MOST_IMPORTS)} == {}


def test_everything_rests_on_the_messages_and_nothing_rests_on_the_experiments() -> None:
    below = {"actors": set(), "topologies": {"actors"}, "retrieval": {"actors"}}
    for name, others in FILES.items():
        top = name.partition(".")[0]
        if top in below:
            assert {other.partition(".")[0] for other in others} <= {top, *below[top]}, name


def test_every_folder_says_what_it_is_for() -> None:
    folders = {name for name in MODULES if MODULES[name].name == "__init__.py"}
    silent = sorted(name for name in folders if not ast.get_docstring(ast.parse(MODULES[name].read_text())))
    assert silent == []
