"""Runs whose learners see the question, and of whole agents' grades: recorded, held again, and resumed after a kill."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from experiments.attribution.opened_run import OpenedRun
from experiments.attribution.recorded_discussions import RecordedDiscussions
from experiments.records.recorder import LearningRecorder, RunFolder
from experiments.records.records import LearningStep
from run import main
from tests.support.words import joined

SMALL = ["data.limit=3", "wandb.mode=disabled", "figures=false", "runtime=inline", "pruning.steps=3"]
WORDS = ["experiment=mmqa_prune", "methods=[random,effects_by_question]", "training.samples=2", *SMALL]


async def made_again(discussions: RecordedDiscussions, group: str, line: int) -> bool:
    discussion = await discussions.open(group, line)
    return {*(await discussion.heard()).turns} == {turn.id for turn in discussion.trace.turns}


@pytest.mark.slow
def test_a_run_by_question_is_counted_recorded_and_held_again(tmp_path: Path) -> None:
    words = [*WORDS, f"output={tmp_path}"]
    assert main([*words, "dry_run=true"]) == 0
    assert main(words) == 0
    [folder] = tmp_path.glob("2*")
    run = RunFolder.open(folder)
    learned = {path.name for path in run.learned("effects_by_question").path.iterdir()}
    assert learned >= {"topology.graphml", "topology-image+table+text.graphml", "team.json"}
    discussions = RecordedDiscussions(OpenedRun(run))
    for group, line in (("effects_by_question.train-2", 3), ("effects_by_question", 2), ("random", 1)):
        assert asyncio.run(made_again(discussions, group, line))


LEARNED = ["effects_by_question", "g_designer", "agp", "eib_learner", "competence", "leave_one_out", "c3"]
METHODS = f"methods=[full,self_consistency,best_single,dytopo,{','.join(LEARNED)}]"
TEAM = ["topology.text=[critic,scientist]", "topology.visual=[critic]", "pruning.steps=2"]


def records(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("learned/*/*.json*"), *folder.glob("**/traces/*"), *folder.glob("*.json*")]
    run = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    # Of this machine, and of the time that a run took.
    timed = ("usage.jsonl", "starts.jsonl", "overview.json")
    return {name: content for name, content in run.items() if name.removesuffix(".digest") not in timed}


@pytest.mark.slow
def test_every_later_learned_method_ends_the_same_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = joined("experiment=mmqa_prune", METHODS, "training.samples=2", *SMALL, *TEAM)
    assert main([*words, f"output={tmp_path / 'whole'}"]) == 0
    written, learned = 0, LearningRecorder.learned

    def counted(self: LearningRecorder, step: LearningStep, state: Mapping[str, np.ndarray]) -> None:
        nonlocal written
        learned(self, step, state)
        written += 1
        if written == 5 * len(LEARNED):
            raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(LearningRecorder, "learned", counted)
        assert main([*words, f"output={tmp_path / 'killed'}"]) != 0
    [whole], [killed] = (list((tmp_path / name).glob("2*")) for name in ("whole", "killed"))
    assert len(list(killed.glob("traces/evaluate-*.jsonl"))) < 11
    assert main([f"resume={killed}"]) == 0
    expected, found = records(whole), records(killed)
    assert [name for name in expected if expected[name] != found.get(name)] == []
