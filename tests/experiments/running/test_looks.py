"""A run that stops when it is known which method is better: the same after a kill, and no question half asked."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from experiments.analysis.looks import anytime_test, looks
from experiments.datasets.kind import DataRequest, DataSettings
from experiments.datasets.sample.release import open_sample
from experiments.records.recorder import RunFolder
from run import main

WORDS = ("runtime=inline", "figures=false", "wandb.mode=disabled")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "two.yaml").write_text("methods: [closed_book, single]\n")
    words = (f"experiment={folder / 'two.yaml'}", "data.limit=80", "compare.margin=0.5")
    assert main([*words, "compare.stop=[single,closed_book]", f"output={folder}", *WORDS]) == 0
    (run,) = folder.glob("*-two")
    return RunFolder(run)


def metrics(run: RunFolder) -> dict[str, Any]:
    return dict(json.loads(run.metrics.read_text()))


@pytest.mark.slow
def test_a_run_stops_at_a_verdict_and_says_where(stopped: RunFolder) -> None:
    found = metrics(stopped)["sequential"]
    assert found["questions"] < found["planned"] == 80
    assert found["test"]["verdict"] == "not worse"
    assert metrics(stopped)["questions"] == found["questions"]
    scores = list(stopped.scores())
    both = [{s.question: s for s in scores if s.method == method} for method in ("single", "closed_book")]
    assert both[0].keys() == both[1].keys()
    differences = [one.utility - both[1][id].utility for id, one in both[0].items()]
    again = anytime_test(differences, [one.cluster for one in both[0].values()], 0.5)
    assert found["test"]["ci95"] == pytest.approx(again["ci95"])
    assert "anytime-valid" in stopped.report.read_text()


@pytest.mark.slow
def test_a_resumed_run_stops_at_the_same_place(stopped: RunFolder, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(stopped.path, again)
    lines = (again / "scores.jsonl").read_text().splitlines(keepends=True)
    (again / "scores.jsonl").write_text("".join(lines[: len(lines) // 3]))
    assert main([f"resume={again}", *WORDS[:1]]) == 0
    for name in ("scores.jsonl", "metrics.json"):
        assert (again / name).read_bytes() == (stopped.path / name).read_bytes()


def test_looks_keep_clusters_whole_and_end_with_all_questions(tmp_path: Path) -> None:
    dataset = open_sample(DataRequest(DataSettings("sample", None, 60), tmp_path, 0, 0, 0, whole_corpus=False))
    found = looks(dataset, 3)
    assert [look.items for look in looks(dataset, 3)] == [look.items for look in found]
    assert [look.items for look in looks(dataset, 4)] != [look.items for look in found]
    assert {item.question.id for item in found[-1].items} == {item.question.id for item in dataset.evaluate()}
    for before, after in pairwise(found):
        new = after.items[len(before.items) :]
        assert after.items[: len(before.items)] == before.items
        assert not {item.cluster for item in new} & {item.cluster for item in before.items}
        assert len(new) >= 10 or after is found[-1]


@pytest.mark.parametrize("pair", ["[single]", "[single,single]", "[single,nobody]"])
def test_a_pair_that_cannot_be_compared_is_refused(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment=mmqa_prune", f"compare.stop={pair}", f"output={tmp_path}", *WORDS[:1]]) == 2
    assert "compare.stop" in capsys.readouterr().err
