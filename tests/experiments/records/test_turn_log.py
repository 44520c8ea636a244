"""Turns are written with their discussion, and read in full."""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.messages import (
    Completion,
    Heard,
    Kind,
    Message,
    ModelCall,
    Question,
    Request,
    Source,
    Status,
    Trace,
    Turn,
    TurnResult,
)
from experiments.records.recorder import RunFolder
from experiments.records.turn_log import TurnLog, turns_of_trace

SOURCES = tuple(Source(f"s{n}", f"d{n}", Kind.TEXT, f"Title {n}", f"Text {n}") for n in range(3))
PHASE = "evaluate-full"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "turns")


def written(log: TurnLog, number: int, reply: str = "Answer: Oslo") -> Trace:
    """Writes a discussion of one turn."""
    question = Question(f"q{number}", "Where?", evidence=SOURCES, order=("s2", "s0", "s1"))
    heard = tuple(Heard(Message(f"1/{name}", name, 1), weight) for name, weight in (("a", 0.25), ("b", 0.75)))
    turn = Turn(f"full/q{number}/0", question, "c", 2, 7, heard)
    request = Request(
        "r", "p", "system", f"the same\nevidence {number}", "the\nsame\nrole", (replace(SOURCES[2], id="1"),)
    )
    completion = Completion("r", reply, prompt_tokens=9, completion_tokens=number)
    message = Message("2/c", "c", 2)
    log.turn(turn, TurnResult(message, calls=(ModelCall(request, completion),)))
    trace = Trace(f"q{number}", "full", 0, ("a", "b", "c"), (message,), None, Status.OK, 7)
    log.ended(PHASE, trace)
    return trace


def test_every_turn_is_read_in_full_after_a_second_start(folder: RunFolder) -> None:
    traces = [written(log, number) for log in (TurnLog(folder), TurnLog(folder)) for number in (1, 2)]
    for trace in traces:
        number = int(trace.question[1:])
        turns = turns_of_trace(folder, PHASE, trace)
        assert turns
        [turn] = turns.turns.values()
        [call] = turn.calls
        assert (turns.text(call.system), turns.text(call.own)) == ("system", "the\nsame\nrole")
        assert turns.text(call.shared) == f"the same\nevidence {number}"
        assert (call.prompt_tokens, call.completion_tokens) == (9, number)
        assert [(source.number, source.id) for source in turn.sources] == [(2, "s0"), (3, "s1"), (1, "s2")]
        assert [turns.text(source.title) for source in turn.sources if source.number in call.images] == ["Title 2"]
        assert turn.weights == {"1/a": 0.25, "1/b": 0.75}
        assert turns.lines.count("same") == 1


def test_of_a_discussion_that_was_held_again_the_last_line_counts(folder: RunFolder) -> None:
    log = TurnLog(folder)
    written(log, 1, "Answer: Tarn")
    turns = turns_of_trace(folder, PHASE, written(log, 1, "Answer: Bergen"))
    assert turns
    assert turns.text(turns.turns["2/c"].calls[0].reply) == "Answer: Bergen"


def test_nothing_recorded_is_nothing(folder: RunFolder) -> None:
    assert turns_of_trace(folder, PHASE, written(TurnLog(folder), 1))
    assert turns_of_trace(folder, "evaluate-single", Trace("q1", "single", 0, (), (), None, Status.OK, 7)) is None
