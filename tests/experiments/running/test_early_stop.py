"""Early stopping: a stage ends at an interim analysis, and a run that is killed there holds no more discussions."""

import json
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import RunFolder
from run import main
from topologies.learning.course import Course

pytestmark = pytest.mark.slow

WORDS = ["experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "methods=[m3prune]", "data.limit=1"]
WORDS += ["figures=false", "pruning.steps=4", "pruning.interim=2", "training.samples=2", "learner.early_stop=1.0"]


def learned(output: Path, *words: str) -> Path:
    assert main([*WORDS, f"output={output}", *words]) == 0
    [folder] = output.glob("*-mmqa_prune")
    return folder


def test_a_stage_that_ends_early_stays_ended_in_a_run_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = learned(tmp_path / "whole", f"cache={tmp_path}/cache")
    assert "after 2 of 4 steps, 4 " in capsys.readouterr().out
    for graph in RunFolder(whole).all_learned():
        records = [json.loads(line) for line in (graph.path / LEARNING).read_text().splitlines()]
        # Two of four steps of each stage; no other is held.
        assert [(record["stage"], record["step"]) for record in records] == [
            (stage, step) for stage in (1, 2) for step in (0, 1, 2)
        ]

    async def killed(course: Course, stage: int) -> None:
        raise UserError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Course, "leave", killed)
        assert main([*WORDS, f"output={tmp_path / 'killed'}", f"cache={tmp_path}/cache"]) == 2
    [folder] = (tmp_path / "killed").glob("*-mmqa_prune")
    assert main([f"resume={folder}", f"cache={tmp_path}/cache"]) == 0
    capsys.readouterr()
    held = [*whole.glob(f"learned/*/{LEARNING}"), *whole.glob("**/traces/*.jsonl")]
    assert len(held) >= 1 + 2 + 1  # what was learned, the discussions of two stages, and those of the evaluation
    for path in held:
        assert (folder / path.relative_to(whole)).read_bytes() == path.read_bytes(), path.name
