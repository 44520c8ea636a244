"""What a run spends is written down as it goes, whatever ends it, and adds up over resumptions."""

import asyncio
import json
from pathlib import Path

import pytest

from actors.errors import UserError
from actors.messages import Usage
from experiments.records import usage
from experiments.records.recorder import RunFolder
from experiments.records.usage import PhaseUsage, UsageLog


def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "x")


def spend(run: RunFolder, calls: int) -> None:
    spent = {"ann": Usage()}
    with UsageLog(run, lambda: spent).phase("judging"):
        spent["ann"] = Usage(calls=calls)


def test_each_phase_has_what_was_spent_in_it_and_no_more(tmp_path: Path) -> None:
    run, spent = folder(tmp_path), {"ann": Usage(calls=5)}
    log = UsageLog(run, lambda: spent)
    with log.phase("learning, stage 1"):
        spent["ann"] = Usage(calls=7, prompt_tokens=90, cached_tokens=60, completion_tokens=8)
    spent["ann"] += Usage(calls=100)  # between phases
    with log.phase("evaluating full"):
        spent["bob"] = Usage(reused=3, reused_tokens=40)
    first, second = usage.by_phase(run).values()
    assert (first.phase, first.agents) == ("learning, stage 1", {"ann": Usage(2, 90, 60, 8)})
    assert (second.phase, second.agents) == ("evaluating full", {"bob": Usage(reused=3, reused_tokens=40)})
    assert usage.total(run) == Usage(2, 90, 60, 8, 3, 40)


@pytest.mark.parametrize("end", [KeyboardInterrupt, UserError, asyncio.CancelledError])
def test_what_an_interrupted_phase_spent_is_kept(tmp_path: Path, end: type[BaseException]) -> None:
    run, spent = folder(tmp_path), {"ann": Usage()}

    def interrupted() -> None:
        with UsageLog(run, lambda: spent).phase("judging"):
            spent["ann"] = Usage(calls=4)
            raise end

    with pytest.raises(end):
        interrupted()
    assert usage.total(run) == Usage(calls=4)


def test_a_resumed_run_adds_to_the_phase(tmp_path: Path) -> None:
    run = folder(tmp_path)
    for calls in (3, 4):
        spend(run, calls)
    [judging] = usage.by_phase(run).values()
    assert judging.total == Usage(calls=7)
    assert len(list(usage.read(run))) == 2


async def test_a_long_phase_is_written_in_parts_that_add_up(tmp_path: Path) -> None:
    run, spent = folder(tmp_path), {"ann": Usage()}
    with UsageLog(run, lambda: spent, every_s=0.001).phase("judging"):
        while len(list(usage.read(run))) < 3:
            spent["ann"] += Usage(calls=1)
            await asyncio.sleep(0.001)
    assert usage.total(run) == spent["ann"]


def test_a_killed_run_forgets_only_what_came_after_its_last_line(tmp_path: Path) -> None:
    run = folder(tmp_path)
    spend(run, 4)
    with (run.path / usage.USAGE).open("ab") as file:
        file.write(b'{"phase": "jud')
    spend(run, 10)
    assert usage.total(run).calls == 4 + 10


def test_computed_prefix_cached_and_reused_tokens_are_told_apart() -> None:
    spent = Usage(calls=60, prompt_tokens=1000, cached_tokens=850, completion_tokens=70, reused=40, reused_tokens=777)
    calls, tokens, why = usage.notes(spent)
    assert "60 model calls made and 40 of 100 (40.0%) answered from the completion cache, which saved 777" in calls
    assert "computed: 150; served by the model's prefix cache: 850 (85.0%); completion tokens: 70" in tokens
    assert why == usage.RECURRING


def test_seconds_per_question_are_told_of_methods_and_of_no_other_phase() -> None:
    shown = dict(zip(usage.HEADERS, usage.cells(usage.PhaseUsage("evaluating bdog", 90.0), 40), strict=True))
    assert (shown["time"], shown["per question"]) == ("90.0 s", "2.25 s")
    for phase in ("judging", "learning m3prune, stage 1"):
        shown = dict(zip(usage.HEADERS, usage.cells(usage.PhaseUsage(phase, 90.0), 40), strict=True))
        assert shown["per question"] == ""


@pytest.mark.parametrize(
    "change",
    [{"seconds": "x"}, {"seconds": -1}, {"seconds": float("nan")}, {"phase": 1}, {"agents": []}, {"more": 1}]
    + [{"agents": {"a": spent}} for spent in ({"calls": "many"}, {"calls": 1.5}, {"calls": 2**63}, {"coins": 1}, 3)],
)
def test_a_line_that_no_run_writes_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    line = json.loads(PhaseUsage("evaluating full", 1.5, {"a": Usage(calls=2)}).encode())
    (tmp_path / "usage.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(line | change)}\n")
    with pytest.raises(UserError, match=r"usage.jsonl, line 2"):
        list(usage.read(RunFolder(tmp_path)))
