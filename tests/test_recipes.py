"""Every command of docs/recipes.md runs: on few questions, with the embedded reader, on this machine."""

import json
import re
import shlex
from pathlib import Path

import pytest

from experiments.config.loading import load
from run import main
from tests.support.paths import ROOT

RECIPES = (ROOT / "docs" / "recipes.md").read_text()
# `table=` reads run folders, which there are none of here.
COMMANDS = [shlex.split(line) for line in re.findall(r"^    python run\.py (?!table=)(.+)$", RECIPES, re.MULTILINE)]
# A model, a cluster and the number of questions are the reader's own.
OWN = re.compile(r"(model(\.\w+)?|ray\.address|concurrency)=")
SMALL = ["data.limit=3", "pruning.steps=2", "training.samples=2", "training.questions_per_step=2"]
SMALL += ["runtime=inline", "wandb.mode=disabled"]


def test_every_recipe_has_a_command_that_is_read() -> None:
    headings = re.findall(r"^## .+\n\n    python run\.py ", RECIPES, re.MULTILINE)
    assert len(headings) == RECIPES.count("\n## ") == 12
    for words in COMMANDS:
        assert load(words).experiment


def without_own(words: list[str]) -> list[str]:
    return [word for word in words if not OWN.match(word)]


@pytest.mark.slow
def test_readme_s_first_command_has_every_method_attacked_and_clean_in_one_table(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [words] = re.findall(r"^    pip install .* && python run\.py (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert main([*shlex.split(words), *SMALL, f"output={tmp_path / 'runs'}", f"cache={cache}"]) == 0
    printed = capsys.readouterr().out.splitlines()
    [path] = (tmp_path / "runs").glob("*/metrics.json")
    metrics = json.loads(path.read_text())
    assert metrics["attackers"]
    for method, clean in metrics["clean"].items():
        row = metrics["methods"][method]
        [line] = [line.split() for line in printed if re.match(rf"{method} +\d", line)]
        change = row["utility"] - metrics["methods"][clean]["utility"]
        assert (float(line[1]), float(line[4])) == pytest.approx((row["utility"] - change, change), abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    # README's first command is run above, and what differs by the reader's own words alone once.
    dict.fromkeys(" ".join(kept) for kept in map(without_own, COMMANDS) if kept != ["experiment=two_attackers"]),
)
def test_the_command_of_a_recipe_runs(
    words: str, tmp_path: Path, cache: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = words.split()
    if "experiment=one_attacker" in kept:
        kept.append("defence.calibration=4")
    if load(kept).is_sweep:  # a dozen runs; sweeps have tests that run them
        kept.append("dry_run=true")
    assert main([*kept, *SMALL, "figures=false", f"output={tmp_path / 'runs'}", f"cache={cache}"]) == 0, (
        capsys.readouterr().err
    )
    if "dry_run=true" in kept:
        assert not list((tmp_path / "runs").glob("*/config.yaml"))
    else:
        [report] = (tmp_path / "runs").glob("*/report.html")
        assert report.stat().st_size
