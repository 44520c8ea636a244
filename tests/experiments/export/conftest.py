"""A finished run with made-up discussions, of which one has recorded times and one a failed turn."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from actors.messages import Status
from experiments.analysis import summary
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.datasets.item import Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.timings import DiscussionTimes, TurnTime
from tests.support.fake_run import FACTS, item, make_run, trace

FAILED, TIMED = "q006", "q000"


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = make_run(tmp_path_factory.mktemp("runs"), steps=1, questions=6)
    save(load(["experiment=mmqa_prune", "seed=3"]), run.config)
    lost = trace(6, right=False)
    turns = (replace(lost.turns[0], status=Status.FAILED, error="no model", answer=None, content=""), *lost.turns[1:])
    with Recorder(run) as recorder:
        recorder.evaluated(replace(lost, turns=turns), item(6), Score(0.0, 0.0))
        for method in ("closed-book", "single-agent", "full-graph", "random-graph"):
            recorder.evaluated(trace(6, method), item(6), Score(0.0, 0.0))
    whole = next(run.traces("evaluate-m3prune"))
    times = {turn.id: TurnTime(2.0 * n, 1.5, cached_tokens=7, replica=1) for n, turn in enumerate(whole.turns)}
    (run.path / "timings").mkdir()
    line = DiscussionTimes(TIMED, 0, 1_700_000_000.0, times).encode()
    (run.path / "timings" / "evaluate-m3prune.jsonl").write_text(f"{line}\n")
    (run.path / "starts.jsonl").write_text(json.dumps({"time": "2026-11-26T12:00:00+00:00"}) + "\n")
    summary.write(run, summary.summarise(run, FACTS))
    return run


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out" / "made"
