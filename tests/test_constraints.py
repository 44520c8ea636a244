"""The project declares what it imports, and the lock of what was tested names every dependency within its bounds."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)")
APART = "vllm"  # the extra that needs other versions than the rest


OWN = {"actors", "agora_mm", "experiments", "retrieval", "run", "topologies"}
OF_VLLM = {"huggingface_hub", "transformers"}  # comes with it, in the version that it needs
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def imports() -> Iterator[str]:
    """First names of all modules of others that the project imports, also inside functions."""
    for folder in OWN:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module.partition(".")[0]


def test_what_is_imported_is_declared() -> None:
    extras = [line for lines_of_extra in PROJECT["optional-dependencies"].values() for line in lines_of_extra]
    declared = {canonicalize_name(Requirement(line).name) for line in (*PROJECT["dependencies"], *extras)}
    distributions = packages_distributions()
    undeclared = set()
    for module in set(imports()) - set(sys.stdlib_module_names) - OWN - OF_VLLM:
        if module in distributions:
            is_declared = any(canonicalize_name(name) in declared for name in distributions[module])
        else:  # of an extra that is not installed here
            is_declared = any(name.startswith(canonicalize_name(module)) for name in declared)
        if not is_declared:
            undeclared.add(module)
    assert undeclared == set()


def lines() -> list[str]:
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def test_the_lock_has_a_version_a_line_and_nothing_of_a_machine() -> None:
    """No path, no editable line, no index, no build that only one index has."""
    assert [line for line in lines() if not PIN.fullmatch(line)] == []


def test_the_lock_names_every_dependency_within_its_bounds() -> None:
    pinned = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines())}
    extras = [line for name, of_it in PROJECT["optional-dependencies"].items() if name != APART for line in of_it]
    needed = [Requirement(line) for line in (*PROJECT["dependencies"], *extras)]
    assert len(needed) > 30
    for requirement in needed:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), str(requirement)
