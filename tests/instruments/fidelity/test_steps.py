"""The table of steps says what there is: systems, files and tests that exist, and a reason for every difference."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.instruments.fidelity.table import FOLDER, Compared, Ran, Same, compared, markdown
from tests.support.paths import ROOT
from topologies.catalogue import METHODS

SYSTEMS = compared()
EACH = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)


@cache
def defined(path: Path) -> frozenset[str]:
    """The tests that a file defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def test_every_system_and_no_method_twice_is_compared() -> None:
    names = [method for system in SYSTEMS for method in system.methods]
    systems = {method.name for method in METHODS if method.needs_library}
    assert len(set(names)) == len(names)
    assert systems <= set(names) <= {method.name for method in METHODS}


@EACH
def test_steps_name_files_and_tests_that_exist_and_say_why_they_differ(system: Compared) -> None:
    for step in system.steps:
        assert all((step.step, step.theirs, step.ours))
        assert (ROOT / step.file).is_file(), step.file
        assert (step.same is Same.EQUAL) == (not step.why), step.step
        if step.test is not None:
            path, _, name = step.test.partition("::")
            assert name in defined(ROOT / path), step.test


@EACH
def test_a_system_says_what_was_read_and_what_was_run(system: Compared) -> None:
    assert len({step.step for step in system.steps}) == len(system.steps) > 0
    if system.repository:
        assert len(system.commit) == 40
        assert system.files
        assert system.does_not_run
    else:
        assert system.searched
        assert system.against
    assert system.ran is Ran.READ or system.runs


def test_systems_whose_authors_published_code_are_compared_with_it() -> None:
    public = {system.name for system in SYSTEMS if system.repository}
    assert public == {
        *("BDoG", "HM-RAG", "MH-MMKG", "ViDoRAG", "OmniSearch", "DDCoT", "MAD", "CCoT", "EchoSight", "CoRe-MMRAG"),
        *("AgentPrune", "GPTSwarm", "AgentDropout", "G-Designer", "AGP", "C3"),
    }


def test_the_table_is_printed_with_every_system_and_step() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "tests.instruments.fidelity"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert said == markdown(SYSTEMS)
    # Nothing in a cell breaks its row.
    for system in SYSTEMS:
        section = said.partition(f"\n## {system.name}\n")[2].partition("\n## ")[0]
        rows = [line for line in section.splitlines() if line.startswith("| ")]
        assert {line.replace(r"\|", "").count("|") for line in rows} <= {4, 6}
        assert len(rows) == len(system.steps) + 2 + (len(system.runs) + 2 if system.runs else 0)


def test_all_files_are_of_the_folder_and_none_is_empty() -> None:
    assert len(list(FOLDER.iterdir())) == len(SYSTEMS)
