"""Records are written a line at a time, and a run killed at any moment ends with the same records as another."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from actors.errors import UserError
from actors.messages import Message, Status
from experiments.datasets.item import Score
from experiments.records import jsonl
from experiments.records.checkpoint import Checkpoint
from experiments.records.recorder import LearningRecorder, Recorder, RunFolder, check_scores
from experiments.records.records import Scored, by_question, decode_trace, encode_trace
from tests.support.fake_run import carry_on, cut, evaluate, item, learn, learning_step, make_run, rescored, trace
from tests.support.paths import ROOT

ODD = 'a\n"b\\ \0 \u2028 \U0001f0a1 </script>'


def test_a_trace_survives_the_way_to_json_and_back() -> None:
    odd_turn = Message(
        *(ODD, ODD, 1, ODD, None, None, Status.FAILED),
        heard=(ODD, ""),
        seed=2**63 - 1,
        fields=((ODD, ODD),),
        likelihoods=((ODD, 1 / 3),),
    )
    whole = trace(1)
    turns = (odd_turn, *whole.turns)
    written = replace(whole, question=ODD, method=ODD, agents=(ODD,), turns=turns, answer=None, evidence=(ODD, ODD))
    line = encode_trace(written)
    assert line.isascii()
    assert "\n" not in line
    read = decode_trace(line)
    assert read == written
    assert type(read.status) is Status
    assert all(type(turn.status) is Status for turn in read.turns)


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"turns": [{"no": 1}]}', encode_trace(trace(1))[:-9]])
def test_a_line_that_is_no_trace_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a trace"):
        decode_trace(line)


def records(run: RunFolder) -> dict[str, bytes]:
    files = [path for path in run.path.rglob("*") if path.suffix in (".jsonl", ".safetensors")]
    return {path.relative_to(run.path).as_posix(): path.read_bytes() for path in files}


def test_runs_that_start_in_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(RunFolder.create(tmp_path, "x").path)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8


def test_what_is_recorded_is_read_back(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=2, questions=3)
    graph = run.learned("m3prune")
    assert [one.name for one in run.all_learned()] == ["m3prune"]
    assert list(graph.traces("train-1")) == [trace(100 + step, sample=k) for step in (1, 2) for k in (0, 1)]
    assert list(graph.learning()) == [learning_step(stage, step, 2) for stage in (1, 2) for step in (0, 1, 2)]
    assert [scored.question for scored in run.scores()] == ["q000", "q001", "q002"] * 5
    assert next(run.scores()).failed_turns == 0
    assert list(run.traces("evaluate-nobody")) == []


def test_a_score_counts_edges_once_and_turns_that_nobody_could_hear(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=0, questions=1)
    scored = list(run.scores())[-1]
    assert (scored.edges, scored.failed_turns, scored.calls) == (8 + 9, 1, 19)


def test_a_group_is_strictly_right_where_all_of_its_questions_are_and_unknown_where_one_is() -> None:
    def strict(*values: float | None) -> float | None:
        scores = [Scored.of(trace(n), item(n), Score(1, 1, value)) for n, value in enumerate(values)]
        (one,) = by_question(replace(scored, group="g") for scored in scores)
        return one.strict_em

    assert (strict(1, 1), strict(1, 0), strict(1, None)) == (1, 0, None)


def test_a_score_counts_turns_that_went_without_some_of_their_evidence(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    with Recorder(run) as recorder:
        for told in (trace(1), cut(trace(2))):
            recorder.evaluated(told, item(told.seed), Score(1, 1))
    assert [scored.cut_turns for scored in run.scores()] == [0, 2]
    assert next(run.traces("evaluate-m3prune", only={1})).turns[0].cut == ("p7", "p3")


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=1, questions=1)
    with (run.path / "scores.jsonl").open("ab") as scores:
        scores.write(b'{"method": "m3pr')
    assert len(list(run.scores())) == 5


@pytest.mark.slow
@pytest.mark.parametrize("reached", ["learned/m3prune/traces/train-2.jsonl", "scores.jsonl"])
def test_a_killed_run_ends_with_the_same_records(tmp_path: Path, reached: str) -> None:
    steps, questions = 12, 60
    whole = make_run(tmp_path / "whole", steps, questions)
    run = RunFolder.create(tmp_path / "killed", "fake")
    run.config.write_bytes(whole.config.read_bytes())
    command = [sys.executable, "-m", "tests.support.fake_run", str(run.path), str(steps), str(questions)]
    watched = run.path / reached
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        while process.poll() is None and not (watched.exists() and watched.stat().st_size > 2000):
            time.sleep(0.0005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    carry_on(run, steps, questions)
    assert records(run) == records(whole)


@pytest.mark.parametrize("kept", [0.45, 0.64, 0.97])
def test_records_cut_at_any_byte_are_completed(tmp_path: Path, kept: float) -> None:
    """What a kill cannot leave but a loss of power can: files of one run that end at unrelated places."""
    run = make_run(tmp_path, steps=1, questions=6)
    whole = records(run)
    for name in ("scores.jsonl", "traces/evaluate-m3prune.jsonl", "traces/evaluate-full-graph.jsonl"):
        path = run.path / name
        path.write_bytes(path.read_bytes()[: int(kept * len(name) * 97) % path.stat().st_size])
    carry_on(run, steps=1, questions=6)
    assert records(run) == whole


def test_training_after_the_checkpoint_is_forgotten(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=3, questions=0)
    whole = records(run)
    with LearningRecorder(run.learned("m3prune")) as recorder:
        recorder.trained(2, trace(1))
        recorder.trained(3, trace(1))
    with LearningRecorder(run.learned("m3prune")) as recorder:
        assert recorder.checkpoint
        assert (recorder.checkpoint.stage, recorder.checkpoint.step) == (2, 3)
    assert records(run) == whole | {"learned/m3prune/traces/train-3.jsonl": b""}


def test_learning_without_a_checkpoint_starts_afresh_and_keeps_the_answers(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=2, questions=3)
    whole = records(run)
    run.learned("m3prune").topology.unlink()
    with Recorder(run) as recorder, LearningRecorder(run.learned("m3prune")) as learning:
        assert learning.checkpoint is None
        assert len(recorder.done("m3prune")) == 3
        learn(learning, 2)
    assert records(run) == whole


def test_a_checkpoint_keeps_every_type_of_array(tmp_path: Path) -> None:
    state = {
        "theta": np.random.default_rng(1).random((4, 4), dtype=np.float32).T,
        "mask": np.array([True, False]),
        "bytes": np.arange(3, dtype=np.uint8),
        "step": np.array(7),
        "cut": np.zeros(2),
    }
    Checkpoint(2, 5, state, {"learning.jsonl": 10}).write(tmp_path / "c")
    read = Checkpoint.read(tmp_path / "c")
    assert (read.stage, read.step, read.sizes) == (2, 5, {"learning.jsonl": 10})
    for name, array in state.items():
        assert read.state[name].dtype == array.dtype
        np.testing.assert_array_equal(read.state[name], array)


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "text", "foreign"])
def test_a_damaged_checkpoint_is_named_with_what_to_do(tmp_path: Path, damage: str) -> None:
    run = make_run(tmp_path, steps=1, questions=0).learned("m3prune")
    whole = run.topology.read_bytes()
    changed = {
        "truncated": whole[:-7],
        "empty": b"",
        "flipped": whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:],
        "text": b"not a checkpoint at all",
        "foreign": b"\x02\0\0\0\0\0\0\0{}",
    }
    run.topology.write_bytes(changed[damage])
    with pytest.raises(UserError, match=r"topology\.safetensors") as raised:
        LearningRecorder(run)
    assert "\n" not in str(raised.value)


def test_a_broken_line_is_named_by_file_and_number(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=0, questions=3)
    path = run.path / "scores.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{oops\n", *lines[2:]]))
    with pytest.raises(UserError, match=r"scores\.jsonl, line 2"):
        Recorder(run)
    with pytest.raises(UserError, match=r"scores\.jsonl, line 2"):
        list(run.scores())


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder.open(tmp_path)
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder.open(tmp_path / "nothing")


def test_two_processes_never_write_one_run(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=1, questions=0)
    with Recorder(run), pytest.raises(UserError, match="being written by another process"):
        Recorder(run)
    Recorder(run).close()
    graph = run.learned("m3prune")
    with LearningRecorder(graph), pytest.raises(UserError, match="being written by another process"):
        LearningRecorder(graph)


def test_a_trace_is_scored_as_its_own_question_and_its_method_can_name_a_file(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    with Recorder(run) as recorder:
        with pytest.raises(ValueError, match=r"'q001'.*'q002'"):
            recorder.evaluated(trace(1), item(2), Score(1, 1))
        with pytest.raises(ValueError, match="a file"):
            recorder.evaluated(trace(1, method="a/b"), item(1), Score(1, 1))
        evaluate(recorder, 1)


def test_scores_that_are_gone_are_said_and_no_discussion_is_cut(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=0, questions=4)
    path = run.path / "scores.jsonl"
    scores, whole = path.read_bytes(), records(run)
    for rest in (b"", scores[:20]):
        path.write_bytes(rest)
        with pytest.raises(UserError, match=r"scores\.jsonl"):
            Recorder(run)
        assert records(run) == whole | {"scores.jsonl": rest}
    path.unlink()
    with pytest.raises(UserError, match=r"scores\.jsonl"):
        Recorder(run)
    path.write_bytes(scores)
    (run.path / "traces" / "evaluate-m3prune.jsonl").unlink()
    with pytest.raises(UserError, match=r"evaluate-m3prune\.jsonl"):
        Recorder(run)
    assert records(run) == {name: held for name, held in whole.items() if name != "traces/evaluate-m3prune.jsonl"}


@pytest.mark.parametrize("what", ["twice", "answer", "order"])
def test_scores_changed_by_hand_are_refused_and_nothing_is_cut(tmp_path: Path, what: str) -> None:
    run = make_run(tmp_path, steps=0, questions=3)
    path = run.path / "scores.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {
        "twice": [*lines, lines[0]],
        "answer": [lines[0].replace(b'"answer":"tower', b'"answer":"the tower'), *lines[1:]],
        "order": [lines[1], lines[0], *lines[2:]],
    }
    path.write_bytes(b"".join(changed[what]))
    before = records(run)
    with pytest.raises(UserError, match=r"scores\.jsonl") as raised:
        Recorder(run)
    assert "\n" not in str(raised.value)
    assert records(run) == before


EDITS = {
    "gold": ["tower 7"],
    "utility": 0.5,
    "strict_em": 0.5,
    "prompt_tokens": 1,
    "cut_turns": 1,
    "tags": {"hop": "multi"},
    "infection": [0.5],
    "path_recall": 1.0,
    "cluster": "tower",
}


@pytest.mark.parametrize("name", EDITS)
def test_a_score_that_its_trace_and_label_do_not_give_is_refused_and_nothing_is_cut(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path, steps=0, questions=3)
    path = run.path / "scores.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[7] = json.dumps(json.loads(lines[7]) | {name: EDITS[name]}) + "\n"
    path.write_text("".join(lines))
    before = records(run)
    with pytest.raises(UserError, match=rf"scores\.jsonl: {name} of full-graph on q001"):
        Recorder(run, rescored)
    assert records(run) == before


def test_scores_without_the_fields_of_later_versions_are_completed(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=0, questions=3)
    path = run.path / "scores.jsonl"
    earlier = [json.loads(line) for line in path.read_text().splitlines()]
    for scored in earlier:
        del scored["strict_em"], scored["path_count"]
    path.write_text("".join(f"{json.dumps(scored)}\n" for scored in earlier))
    with Recorder(run, lambda discussion: replace(rescored(discussion), strict_em=1.0)) as recorder:
        assert recorder.done("m3prune") == {"q000", "q001", "q002"}
        recorder.evaluated(trace(3), item(3), Score(1, 1, 1))
    assert [scored.strict_em for scored in run.scores()] == [1.0] * 16


@pytest.mark.parametrize("name", ["learning.jsonl", "traces/train-1.jsonl"])
def test_a_training_record_that_has_changed_is_refused_and_nothing_is_cut(tmp_path: Path, name: str) -> None:
    graph = make_run(tmp_path, steps=2, questions=0).learned("m3prune")
    path = graph.path / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    before = records(graph)
    with pytest.raises(UserError, match=re.escape(name)):
        LearningRecorder(graph)
    assert records(graph) == before


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LINE_BYTES", 1000)
    (tmp_path / "scores.jsonl").write_bytes(b"x" * 5000)
    with pytest.raises(UserError, match=r"scores\.jsonl"):
        list(jsonl.lines(tmp_path / "scores.jsonl"))


def test_of_a_file_that_is_long_and_nearly_empty_only_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "usage.jsonl"
    path.write_bytes(b"{}\n" * 1000 + b'{"half')
    monkeypatch.setattr(jsonl, "LINE_BYTES", 100)
    jsonl.cut(path)
    assert path.read_bytes() == b"{}\n" * 1000
    with path.open("ab") as file:
        file.truncate(2**35)
    with pytest.raises(UserError, match=r"usage\.jsonl"):
        jsonl.cut(path)


def test_of_a_line_that_found_no_room_nothing_stays_for_the_next_one_to_be_glued_to(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    code = f"""
import resource
from actors.errors import UserError
from experiments.records import jsonl
with open({str(path)!r}, "ab", buffering=0) as file:
    jsonl.append(file, "first")
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    try:
        jsonl.append(file, "second" * 9)
    except UserError as error:
        assert "make room and resume" in str(error)
    else:
        raise AssertionError
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    jsonl.append(file, "third")
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert path.read_text() == "first\nthird\n"


def test_a_checkpoint_of_a_size_that_no_learner_has_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "topology.safetensors"
    path.touch()
    os.truncate(path, 20 * 2**30)  # takes no room on the disk
    with pytest.raises(UserError, match=r"topology\.safetensors"):
        Checkpoint.read(path)


def test_a_discussion_that_is_there_twice_is_refused_where_a_run_is_concluded(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=1, questions=2)
    check_scores(run, rescored)
    with run.trace_file("evaluate-m3prune").open("r+b") as file:
        last = file.readlines()[-1]
        file.write(last)
    with pytest.raises(UserError, match="evaluate-m3prune"):
        check_scores(run, rescored)
