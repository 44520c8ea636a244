"""Descriptions of a graph's pictures are compared with people's: the share that shows the same (MH-MMKG, Table 4)."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from actors.errors import UserError
from actors.messages import Question, Status, Trace
from actors.reader.reader import Reader, ReaderSettings
from experiments.analysis.judged import notes, summarise
from experiments.analysis.scores import FinishedRun
from experiments.datasets.item import Item, Score
from experiments.datasets.mh import Mh
from experiments.judging.judge import Judge
from experiments.judging.judgements import (
    described_scenes,
    judge_file,
    judgement_records,
    recorded_answers,
    similarities,
)
from experiments.judging.rubric import GRADED, SAME_SCENE
from experiments.records.failures import Breaker, FailureSettings
from experiments.records.progress import Progress
from experiments.records.recorder import JUDGEMENTS, SCENES, Recorder, RunFolder
from tests.support.fake_run import FACTS
from tests.support.mh_release import write_small

PEOPLE = {"Roarer Bite": "It snaps at the hunter.", "Roarer Spin": "It turns around itself."}
ITEMS = {id: Item(Question(id, "Which?"), ("yes",)) for id in ("q1", "q2", "q3")}
DESCRIBED = {
    "q1": (("Roarer Bite", "It snaps at the hunter."), ("Roarer Spin", "The beast sleeps.")),
    # Nobody described the first one, and names are compared as the graph does.
    "q2": (("Roarer Roar", "It roars."), ("roarer bite", "It snaps at the hunter.")),
    "q3": (),
}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    folder.config.write_text("experiment: x\n")
    with Recorder(folder) as recorder:
        for id, item in ITEMS.items():
            trace = Trace(id, "mh_mmkg", 0, (), (), "yes", Status.OK, 0, paths=(), descriptions=DESCRIBED[id])
            recorder.evaluated(trace, item, Score(1.0, 1.0))
    return folder


def judge_run(run: RunFolder, name: str = "reader") -> None:
    judge = Judge(Reader(ReaderSettings()), name)
    with Progress() as progress:
        limits = 4, progress, Breaker(FailureSettings())
        asyncio.run(judge_file(run.path / JUDGEMENTS, partial(recorded_answers, run, ITEMS), judge, GRADED, *limits))
        scenes = partial(described_scenes, run, PEOPLE, ["mh_mmkg"])
        asyncio.run(judge_file(run.path / SCENES, scenes, judge, SAME_SCENE, *limits))


def test_descriptions_are_kept_in_the_trace(run: RunFolder) -> None:
    assert [trace.descriptions for trace in run.traces("evaluate-mh_mmkg")] == list(DESCRIBED.values())


def test_what_nobody_described_is_left_out_and_the_rest_is_judged_once(run: RunFolder) -> None:
    judge_run(run)
    judge_run(run)
    lines = [(scene.question, scene.entity, scene.judgement.correct) for scene in judgement_records(run, SCENES)]
    assert lines == [("q1", "Roarer Bite", True), ("q1", "Roarer Spin", False), ("q2", "roarer bite", True)]
    assert similarities(run) == {("mh_mmkg", "q1"): 0.5, ("mh_mmkg", "q2"): 1.0}


def test_verdicts_of_another_judge_are_not_taken_for_this_one_s(run: RunFolder) -> None:
    judge_run(run)
    (run.path / JUDGEMENTS).unlink()
    with pytest.raises(UserError, match=r"scenes\.jsonl"):
        judge_run(run, "other")


def test_the_similarity_is_a_measure_of_tables_and_stands_in_metrics(run: RunFolder) -> None:
    judge_run(run)
    assert FinishedRun(run).answers["mh_mmkg"]["caption_similarity"].dropna().to_dict() == {"q1": 0.5, "q2": 1.0}
    summary = summarise(run, replace(FACTS, methods=("mh_mmkg",), pairs=()), "reader")
    assert summary["caption_similarity"] == {"mh_mmkg": 0.75}
    assert any("mh_mmkg 0.750" in note for note in notes(summary))


def test_the_data_set_brings_what_people_wrote(tmp_path: Path) -> None:
    write_small(tmp_path)
    data = Mh.at(tmp_path)
    assert data.captions()["Roarer Bite"] == PEOPLE["Roarer Bite"]
    assert "Roarer" not in data.captions()
