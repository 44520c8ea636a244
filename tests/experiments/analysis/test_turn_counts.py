"""How turns ended is counted from traces: what a repair cost, and why the others could not be read or failed."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from actors.messages import Message, Status, Trace
from experiments.analysis.reports import write_run_report
from experiments.analysis.run_table import run_table
from experiments.analysis.summary import Metrics, summarise
from experiments.analysis.turn_counts import MOST_REASONS, UNREAD, by_phase, count_turns, reasons_table, turns_table
from experiments.datasets.item import Score
from experiments.records.recorder import LearningRecorder, Recorder, RunFolder
from tests.experiments.analysis.test_summary import ABOUT
from tests.support.fake_run import item, learn, trace

AT_ONCE = Message("1/a", "a", 1, calls=1, prompt_tokens=90, completion_tokens=10)
REPAIRED = Message("1/b", "b", 1, calls=2, prompt_tokens=180, completion_tokens=20, repair_tokens=100)
UNPARSED = replace(REPAIRED, id="1/c", status=Status.UNPARSED)
FAILED = Message("1/d", "d", 1, status=Status.FAILED, error="timed out after 30 s")
DUMMY = Message("1/e", "e", 1, content="I have nothing to add.")


def told(turns: Iterable[Message], method: str = "m3prune") -> Trace:
    return replace(trace(1, method), turns=tuple(turns))


def recorded(tmp_path: Path, **turns: Iterable[Message]) -> tuple[RunFolder, Metrics]:
    """A run in which every method answered one question with these turns."""
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text("")
    with LearningRecorder(run.learned("m3prune")) as learning:
        learn(learning, 1)
    with Recorder(run) as recorder:
        for method, of_method in turns.items():
            recorder.evaluated(told(of_method, method), item(1), Score(1, 1))
    return run, summarise(run, replace(ABOUT, methods=tuple(turns), pairs=()))


def printed(metrics: Metrics) -> str:
    output = io.StringIO()
    run_table(metrics, "EM").print(Console(file=output))
    return output.getvalue()


def test_every_turn_that_asked_a_model_ended_in_one_of_four_ways() -> None:
    counts = count_turns([told([AT_ONCE, AT_ONCE, REPAIRED, UNPARSED, FAILED, DUMMY])])
    assert (counts.turns, counts.at_once, counts.repaired, counts.unread, counts.failed) == (5, 2, 1, 1, 1)
    assert counts.repairs == 2, "the reply that could not be read at last was asked for again too"


def test_a_repair_s_tokens_are_a_share_of_all_tokens() -> None:
    counts = count_turns([told([AT_ONCE, REPAIRED]), told([AT_ONCE])])
    assert (counts.tokens, counts.repair_tokens, counts.repair_share) == (400, 100, 0.25)


def test_traces_that_do_not_tell_a_repair_s_tokens_leave_them_unknown() -> None:
    old = replace(REPAIRED, repair_tokens=0)
    counts = count_turns([told([AT_ONCE, REPAIRED, old])])
    assert (counts.repairs, counts.repair_tokens, counts.repair_share) == (2, None, None)
    uncounted = replace(old, prompt_tokens=0, completion_tokens=0)
    assert count_turns([told([uncounted])]).repair_tokens == 0, "a model that counts no tokens spends none"


def test_reasons_are_counted_without_their_numbers_the_most_frequent_first() -> None:
    late = [replace(FAILED, error=f"timed out after {n}.5 s") for n in (3, 40)]
    turns = [UNPARSED, *late, replace(FAILED, error="no\x00such\ud800 page")]
    expected = {"timed out after N s": 2, "no such page": 1, UNREAD: 1}
    for order in (turns, turns[::-1]):
        assert list(count_turns([told(order)]).reasons.items()) == list(expected.items())


def test_the_rarest_of_many_reasons_share_a_row() -> None:
    turns = [replace(FAILED, error=chr(ord("a") + n)) for n in range(MOST_REASONS + 3)]
    rows = reasons_table({"full": count_turns([told(turns)])}).rows
    assert len(rows) == MOST_REASONS + 1
    assert rows[-1] == ("full", "3", "3 other reasons")


def test_metrics_and_table_have_a_methods_repairs(tmp_path: Path) -> None:
    _, metrics = recorded(tmp_path, single=[AT_ONCE], full=[AT_ONCE, REPAIRED, UNPARSED, FAILED])
    row = metrics["methods"]["full"]
    assert (row["turns"], row["read_at_once"], row["read_after_repair"], row["repairs"]) == (4, 1, 1, 2)
    assert row["turns"] == row["read_at_once"] + row["read_after_repair"] + row["failed_turns"]
    assert (row["repair_tokens"], row["repair_share"]) == (200, 0.4)
    single, full = (line for line in printed(metrics).splitlines() if line.startswith(("single", "full")))
    assert single.split()[-2:] == ["0.0%", "(0.0%)"]
    assert full.split()[-2:] == ["50.0%", "(40.0%)"]
    assert "Repairs: turns asked a second time" in printed(metrics)


def test_turns_that_were_read_and_stated_nothing_are_counted_and_have_a_column_where_there_are_any(
    tmp_path: Path,
) -> None:
    spoke = [replace(AT_ONCE, content="x"), replace(REPAIRED, answer="y"), replace(AT_ONCE, fields=(("Query", "z"),))]
    assert count_turns([told([*spoke, AT_ONCE, UNPARSED, FAILED, DUMMY])]).silent == 1
    assert count_turns([told(spoke)]).silent == 0
    _, metrics = recorded(tmp_path, single=spoke, full=[AT_ONCE, *spoke])
    assert ("silent_turns" in metrics["methods"]["single"], metrics["methods"]["full"]["silent_turns"]) == (False, 1)
    assert "25.0%" in printed(metrics)
    assert "Silent: turns whose reply was read and stated nothing" in printed(metrics)
    assert "ilent" not in printed({**metrics, "methods": {"single": metrics["methods"]["single"]}})


def test_a_run_without_repairs_has_no_column_for_them(tmp_path: Path) -> None:
    _, metrics = recorded(tmp_path, full=[AT_ONCE])
    assert "epairs" not in printed(metrics)


def test_repairs_of_older_records_are_shown_without_their_tokens(tmp_path: Path) -> None:
    _, metrics = recorded(tmp_path, full=[AT_ONCE, replace(REPAIRED, repair_tokens=0)])
    assert not {"repair_tokens", "repair_share"} & metrics["methods"]["full"].keys()
    (row,) = (line for line in printed(metrics).splitlines() if line.startswith("full"))
    assert row.split()[-1] == "50.0%"


def test_a_report_says_of_methods_and_training_how_turns_ended_and_why(tmp_path: Path) -> None:
    run, metrics = recorded(tmp_path, single=[AT_ONCE], full=[AT_ONCE, REPAIRED, UNPARSED, FAILED])
    phases = by_phase(run, metrics["methods"])
    assert list(phases) == ["single", "full", "learning m3prune, stage 1", "learning m3prune, stage 2"]
    cells = ("full", "4", "1 (25.0%)", "1 (25.0%)", "1 (25.0%)", "1 (25.0%)", "200 (40.0%)")
    assert turns_table(phases).rows[1] == cells
    page = write_run_report(run, metrics, "EM", "full", []).read_text()
    assert "How turns ended" in page
    assert f"<td>1</td><td>{UNREAD}</td>" in page
    assert "timed out after N s" in page


@pytest.mark.parametrize("turns", [(), (DUMMY,)])
def test_nothing_is_said_of_methods_that_ask_no_model(tmp_path: Path, turns: tuple[Message, ...]) -> None:
    run, metrics = recorded(tmp_path, full=turns)
    assert "full" not in by_phase(run, metrics["methods"])
    assert metrics["methods"]["full"]["turns"] == 0
