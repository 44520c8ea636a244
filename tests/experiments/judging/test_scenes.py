"""Descriptions of a graph's pictures are compared with people's: the share that shows the same (MH-MMKG, Table 4)."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from actors.errors import UserError
from actors.messages import Question, Status, Trace
from actors.reader.reader import Reader, ReaderSettings
from experiments.analysis.judged import notes, summarise
from experiments.analysis.tables.measured import Evaluated
from experiments.datasets.item import Item, Score
from experiments.datasets.mh import Mh
from experiments.judging.judge import Judge
from experiments.judging.judgements import judge_run, judge_scenes, judged, similarities
from experiments.records.failures import Breaker, FailureSettings
from experiments.records.progress import Progress
from experiments.records.recorder import SCENES, Recorder, RunFolder
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


def judge_all(run: RunFolder, name: str = "reader") -> None:
    judge = Judge(Reader(ReaderSettings()), name)
    with Progress() as progress:
        asyncio.run(judge_run(run, judge, ITEMS, 4, progress, Breaker(FailureSettings())))
        asyncio.run(judge_scenes(run, judge, PEOPLE, ["mh_mmkg"], 4, progress, Breaker(FailureSettings())))


def test_descriptions_are_kept_in_the_trace(run: RunFolder) -> None:
    assert [trace.descriptions for trace in run.traces("evaluate-mh_mmkg")] == list(DESCRIBED.values())


def test_what_nobody_described_is_left_out_and_the_rest_is_judged_once(run: RunFolder) -> None:
    judge_all(run)
    judge_all(run)
    lines = [(scene.question, scene.entity, scene.judgement.correct) for scene in judged(run, SCENES)]
    assert lines == [("q1", "Roarer Bite", True), ("q1", "Roarer Spin", False), ("q2", "roarer bite", True)]
    assert similarities(run) == {("mh_mmkg", "q1"): 0.5, ("mh_mmkg", "q2"): 1.0}


def test_verdicts_of_another_judge_are_not_taken_for_this_one_s(run: RunFolder) -> None:
    judge_all(run)
    with pytest.raises(UserError, match=r"scenes.jsonl was written by another judge"), Progress() as progress:
        asyncio.run(
            judge_scenes(
                run,
                Judge(Reader(ReaderSettings()), "other"),
                PEOPLE,
                ["mh_mmkg"],
                4,
                progress,
                Breaker(FailureSettings()),
            )
        )


def test_the_similarity_is_a_measure_of_tables_and_stands_in_metrics(run: RunFolder) -> None:
    judge_all(run)
    answers = Evaluated(run, {}, {}).answers["mh_mmkg"]
    assert [measures.get("caption_similarity") for _, measures in answers.values()] == [0.5, 1.0, None]
    summary = summarise(run, replace(FACTS, methods=("mh_mmkg",), pairs=()), "reader")
    assert summary["caption_similarity"] == {"mh_mmkg": 0.75}
    assert any("mh_mmkg 0.750" in note for note in notes(summary))


def test_the_data_set_brings_what_people_wrote(tmp_path: Path) -> None:
    write_small(tmp_path)
    data = Mh.at(tmp_path)
    assert data.captions()["Roarer Bite"] == PEOPLE["Roarer Bite"]
    assert "Roarer" not in data.captions()
