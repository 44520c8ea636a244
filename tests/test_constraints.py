"""The lock of what was tested names every dependency, within the bounds that the project states, and no machine."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)")
APART = "vllm"  # the extra that needs other versions than the rest


def lines() -> list[str]:
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def test_the_lock_has_a_version_a_line_and_nothing_of_a_machine() -> None:
    """No path, no editable line, no index, no build that only one index has."""
    assert [line for line in lines() if not PIN.fullmatch(line)] == []


def test_the_lock_names_every_dependency_within_its_bounds() -> None:
    pinned = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines())}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for name, of_it in project["optional-dependencies"].items() if name != APART for line in of_it]
    needed = [Requirement(line) for line in (*project["dependencies"], *extras)]
    assert len(needed) > 30
    for requirement in needed:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), str(requirement)
