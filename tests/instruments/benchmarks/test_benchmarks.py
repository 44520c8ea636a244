"""Benchmarks that need no cluster run at their smallest size; the others import names that the project has."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.sessions import begin, finish, folder_of

FOLDER = Path(__file__).parent
SMALLEST = {
    "edge_risk": ["--teams", "2"],
    "honest_teams": ["--discussions", "8"],
    "late_liars": ["--teams", "1"],
    "planted_regimes": ["--teams", "2", "--regimes", "each sees half of it"],
    "planted_gains": ["--studies", "1"],
    "spread_of_p": ["--teams", "1"],
}


def measured(name: str, *arguments: str) -> dict[str, Any]:
    """Runs a benchmark, and returns the JSON object in its last line."""
    command = [sys.executable, "-m", f"tests.instruments.benchmarks.{name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_every_benchmark_imports_names_that_exist() -> None:
    for file in FOLDER.glob("[a-z]*.py"):
        importlib.import_module(f"tests.instruments.benchmarks.{file.stem}")


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_ends_with_one_json_object(name: str) -> None:
    assert measured(name, *SMALLEST[name])


@pytest.mark.slow
def test_a_release_of_another_size_is_made_and_measured(tmp_path: Path) -> None:
    found = measured("real_size", str(tmp_path), "--kinds", "mmqa", "--share", "0.01", "--detail", "0")
    assert found["mmqa"]["rows"] > 4_000
    assert found["mmqa"]["warm"]["to_first"] > 0


@pytest.mark.slow
def test_run_folders_are_made_and_read(tmp_path: Path) -> None:
    found = measured("run_folders", str(tmp_path), "--kinds", "list", "--runs", "3")
    assert set(found["list 3"]) == {"list cold", "list warm"}


@pytest.mark.slow
def test_false_alarms_are_counted_on_a_run_of_the_defences(tmp_path: Path) -> None:
    words = ["experiment=defences", "methods=[full,e_process]", "data.limit=4", "runtime=inline"]
    run = folder_of(finish(begin(*words, "figures=false", "wandb.mode=disabled", f"output={tmp_path}")))
    found = measured("false_alarms", str(run), "--runs", "1", "--discussions", "100")
    assert list(found) == ["runs", "alarms", "delays"]
