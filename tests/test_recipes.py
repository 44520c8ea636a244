"""Every command of docs/recipes.md runs: on few questions, with the embedded reader, on this machine."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.config.config import is_sweep
from experiments.config.loading import load
from tests.support.paths import ROOT

RECIPES = (ROOT / "docs" / "recipes.md").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"^    python run\.py (.+)$", RECIPES, re.MULTILINE)]
# A model, a cluster and the number of questions are the reader's own.
OWN = re.compile(r"(model(\.\w+)?|ray\.address|concurrency)=")
SMALL = ["data.limit=3", "pruning.steps=2", "training.samples=2", "runtime=inline", "wandb.mode=disabled"]
BLOCK = re.compile(r"```python\n# (mine/[\w.]+)\n(.*?)```", re.DOTALL)


def test_every_recipe_has_a_command_that_is_read() -> None:
    headings = re.findall(r"^## .+\n\n    python run\.py ", RECIPES, re.MULTILINE)
    assert len(headings) == RECIPES.count("\n## ") == 10
    for words in COMMANDS:
        assert load(words).experiment


@pytest.mark.smoke
def test_readme_s_first_command_has_every_method_attacked_and_clean_in_one_table(tmp_path: Path) -> None:
    [words] = re.findall(r"^    pip install .* && python run\.py (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    ran = run([*shlex.split(words), *SMALL, f"output={tmp_path / 'runs'}"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    [path] = (tmp_path / "runs").glob("*/metrics.json")
    metrics = json.loads(path.read_text())
    assert metrics["attackers"]
    for method, clean in metrics["clean"].items():
        row = metrics["methods"][method]
        [line] = [line.split() for line in ran.stdout.splitlines() if re.match(rf"{method} +\d", line)]
        change = row["utility"] - metrics["methods"][clean]["utility"]
        assert (float(line[1]), float(line[4])) == pytest.approx((row["utility"] - change, change), abs=1e-3)


def run(words: list[str], package: Path) -> subprocess.CompletedProcess[str]:
    """`python run.py` where Python also looks into the package's folder."""
    there = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, "run.py", *words], cwd=ROOT, env=there, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    # README's first command is run above.
    [words for words in COMMANDS if [word for word in words if not OWN.match(word)] != ["experiment=two_attackers"]],
    ids=" ".join,
)
def test_the_command_of_a_recipe_runs(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name, content in BLOCK.findall((ROOT / "docs" / "extending.md").read_text()):
        (tmp_path / name).write_text(content)
    kept = [word for word in words if not OWN.match(word)]
    if is_sweep(load(words)):  # a dozen runs; sweeps have tests that run them
        kept.append("dry_run=true")
    ran = run([*kept, *SMALL, f"output={tmp_path / 'runs'}"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    if "dry_run=true" in kept:
        assert not list((tmp_path / "runs").glob("*/config.yaml"))
    else:
        [report] = (tmp_path / "runs").glob("*/report.html")
        assert report.stat().st_size
