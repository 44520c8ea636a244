"""Every command of docs/recipes.md runs: on few questions, with the embedded reader, on this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.config.loading import load
from tests.support.paths import ROOT

RECIPES = (ROOT / "docs" / "recipes.md").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"^    python run\.py (.+)$", RECIPES, re.MULTILINE)]
# A model, a cluster and the number of questions are the reader's own.
OWN = re.compile(r"(model(\.\w+)?|ray\.address|concurrency)=")
SMALL = [
    *("data.limit=3", "pruning.steps=2", "training.samples=2", "runtime=inline", "wandb.mode=disabled"),
    "sweep.parallel=1",
]
BLOCK = re.compile(r"```python\n# (mine/[\w.]+)\n(.*?)```", re.DOTALL)


def test_every_recipe_has_a_command_that_is_read() -> None:
    headings = re.findall(r"^## .+\n\n    python run\.py ", RECIPES, re.MULTILINE)
    assert len(headings) == RECIPES.count("\n## ") == 10
    for words in COMMANDS:
        assert load(words).experiment


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=[" ".join(words) for words in COMMANDS])
def test_the_command_of_a_recipe_runs(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name, content in BLOCK.findall(RECIPES + (ROOT / "docs" / "extending.md").read_text()):
        (tmp_path / name).write_text(content)
    kept = [word for word in words if not OWN.match(word)]
    small = [word for word in SMALL if "without_each_agent" in words[0] or not word.startswith("sweep.")]
    # Studies and one agent alone learn nothing.
    command = [sys.executable, "run.py", *kept, *small, f"output={tmp_path / 'runs'}"]
    there = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, cwd=ROOT, env=there, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    if "dry_run=true" in words:
        assert not list((tmp_path / "runs").glob("*/config.yaml"))
    else:
        [report] = (tmp_path / "runs").glob("*/report.html")
        assert report.stat().st_size
