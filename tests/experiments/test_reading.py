"""An installation without the libraries of runs reads results: tables, pages and reports are the same as with them."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from packaging.requirements import Requirement

from experiments.api import load_run
from experiments.config.references import OF_RUNS
from run import main
from tests.support.paths import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HIDDEN = [*OF_RUNS, "autogen_core", "lance", "vllm"]
# Runs a command line, or code, as if these libraries were not installed.
READER = f"""
import sys
from importlib.machinery import PathFinder

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {HIDDEN} else PathFinder.find_spec(name, path, target)

sys.meta_path = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
sys.path.insert(0, {str(ROOT)!r})
"""
COMMAND = READER + "from experiments.command_line import script\nscript()\n"


def reader(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", COMMAND, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def run(output: Path) -> Path:
    words = ["methods=[single,full]", "data.limit=2", "runtime=inline", "wandb.mode=disabled", "figures=false"]
    assert main(["experiment=mmqa_prune", f"output={output}", *words]) == 0
    return next(path.parent for path in output.glob("*/config.yaml"))


def test_tables_are_read(run: Path) -> None:
    code = f"""{READER}
from experiments.api import load_run
run = load_run({str(run)!r})
print({{name: len(table.to_pandas()) for name, table in run.tables.items()}})
"""
    read = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert read.returncode == 0, read.stderr
    assert read.stdout.strip() == str({name: len(table.to_pandas()) for name, table in load_run(run).tables.items()})


def test_the_report_has_what_it_has_with_all_libraries(run: Path) -> None:
    report = run / "report.html"

    def content() -> str:
        text = report.read_text()
        report.unlink()
        return re.sub(r"\d+:\d\d:\d\d", "", text)  # the seconds that the run took, to its last report

    assert main([f"report={run}"]) == 0
    whole = content()
    read = reader(f"report={run}", "figures=false")
    assert read.returncode == 0, read.stderr
    assert content() == whole


def test_pages_are_served(run: Path) -> None:
    command = [sys.executable, "-P", "-u", "-c", COMMAND, f"view={run.parent}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.findall(r"http://\S+", server.stdout.readline())[0]
            assert run.name in urlopen(address).read().decode()
            page = f"{address}run/{run.name}/"
            index = json.load(urlopen(f"{page}index.json"))
            place = {"group": "full", "line": 1}
            trace = json.load(urlopen(f"{page}trace.json?{urlencode(place)}"))
            turn = json.load(urlopen(f"{page}turn.json?{urlencode({**place, 'turn': trace['turns'][0]['id']})}"))
        finally:
            server.terminate()
    assert len(index["entries"]) == 4
    assert turn["calls"]


@pytest.mark.parametrize("word", ["experiment=mmqa_prune", "resume={run}", "explain={run}"])
def test_what_runs_agents_names_what_is_missing(run: Path, word: str) -> None:
    read = reader(word.format(run=run))
    assert read.returncode == 2
    assert read.stderr.count("\n") == 1
    assert all(name in read.stderr for name in OF_RUNS)


def test_the_requirements_of_reading_are_the_projects_own_without_those_of_runs() -> None:
    dependencies, group = PYPROJECT["project"]["dependencies"], PYPROJECT["dependency-groups"]["read"]
    assert set(group) < set(dependencies)
    for_runs = {Requirement(line).name for line in set(dependencies) - set(group)}
    assert {packages_distributions()[name][0] for name in OF_RUNS} <= for_runs
