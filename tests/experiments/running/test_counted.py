"""Progress counts turns as they end, long before a discussion or a step of learning is finished."""

import re
from pathlib import Path

import pytest

from experiments.records import progress
from tests.experiments.running.test_attacked_run import carry_out

pytestmark = pytest.mark.slow


def test_learning_and_evaluating_show_turns_before_their_first_unit_is_done_and_all_of_them_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.0)
    folder = carry_out(["methods=[full,m3prune]", "concurrency=1"], tmp_path)
    lines = capsys.readouterr().out.splitlines()
    graph = folder.learned("m3prune")
    for phase, held_in, traces, total in (
        ("learning m3prune, stage 1", graph, "train-1", 2),
        ("learning m3prune, stage 2", graph, "train-2", 2),
        ("evaluating full", folder, "evaluate-full", 4),
        ("evaluating m3prune", folder, "evaluate-m3prune", 4),
    ):
        own = [line for line in lines if line.startswith(f"{phase}: ")]
        assert re.fullmatch(rf"{phase}: 0/{total}, 0\.0/s; turns: 1, [\d,.e-]+/s", own[0])
        turns = sum(len(trace.turns) for trace in held_in.traces(traces))
        assert re.search(rf": {total}/{total}, .*took 0:\d\d:\d\d; turns: {turns}, ", own[-1])
