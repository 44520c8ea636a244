"""A run whose learner sees the question: dry run, learning, evaluation, exports, and the discussions held again."""

import asyncio
from pathlib import Path

import pytest

from experiments.inspection.held_again import HeldDiscussions
from experiments.inspection.opened_run import OpenedRun
from experiments.records.recorder import RunFolder
from run import main

SMALL = ["data.limit=3", "wandb.mode=disabled", "figures=false", "runtime=inline", "pruning.steps=3"]
WORDS = ["experiment=mmqa_prune", "methods=[random,effects_by_question]", "training.samples=2", *SMALL]


@pytest.mark.slow
def test_a_run_by_question_is_counted_recorded_and_held_again(tmp_path: Path) -> None:
    words = [*WORDS, f"output={tmp_path}"]
    assert main([*words, "dry_run=true"]) == 0
    assert main(words) == 0
    [folder] = tmp_path.glob("2*")
    run = RunFolder.open(folder)
    learned = {path.name for path in run.learned("effects_by_question").path.iterdir()}
    assert learned >= {"topology.graphml", "topology-image+table+text.graphml", "team.json"}
    discussions = HeldDiscussions(OpenedRun(run))
    for group, line in (("effects_by_question.train-2", 3), ("effects_by_question", 2), ("random", 1)):
        assert asyncio.run(discussions.hold(group, line)).note == ""
