"""Times of turns: a line for each discussion, the last one counts, and nothing else depends on them."""

import time
from pathlib import Path

import pytest

from actors.errors import UserError
from actors.messages import Abilities, Completion, Message, Question, Role, Turn, TurnResult, Usage
from actors.messages import Modality as M
from actors.runtime.inline import InlineClient
from actors.runtime.pool import ReplicaPool
from actors.runtime.team import LiveSpeaker, make_agent
from actors.settings import AgentSettings
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.timings import DiscussionTimes, TimingLog, of_trace, times_of_turns
from experiments.running.speakers import Metered
from tests.support import fake_run

PHASE = "evaluate-m3prune"


def used(**usage: int) -> TurnResult:
    return TurnResult(Message("1/reader", "reader", 1), Usage(**usage))


def turn(agent: str = "reader", round: int = 1, number: int = 0, sample: int = 0) -> Turn:
    return Turn(f"m3prune/q{number:03}/{sample}", Question(f"q{number:03}", "?"), agent, round, 0)


def held(log: TimingLog, number: int, seconds: float, sample: int = 0) -> None:
    for round in (1, 2):
        log.turn(turn("reader", round, number, sample), used(cached_tokens=7, replica=2), time.monotonic() - seconds)
    log.ended(PHASE, fake_run.trace(number, sample=sample))


def times(run: RunFolder, number: int) -> DiscussionTimes:
    found = of_trace(run, PHASE, fake_run.trace(number))
    assert found == times_of_turns(run, PHASE)[f"q{number:03}", 0]
    return found


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return fake_run.make_run(tmp_path, steps=1, questions=3)


def test_a_discussion_has_the_times_of_its_turns(run: RunFolder) -> None:
    assert times_of_turns(run, PHASE) == {}
    assert of_trace(run, PHASE, fake_run.trace(1)) is None
    log = TimingLog(run)
    held(log, 1, 3.0)
    held(log, 1, 3.0, sample=1)
    found = times(run, 1).turns
    assert found.keys() == {"1/reader", "2/reader"}
    assert [(each.cached_tokens, each.replica) for each in found.values()] == [(7, 2)] * 2
    assert all(each.seconds >= 3 and each.start >= 0 for each in found.values())
    assert times_of_turns(run, PHASE).keys() == {("q001", 0), ("q001", 1)}


def test_of_a_discussion_that_was_held_again_the_last_line_counts_and_a_cut_one_is_dropped(run: RunFolder) -> None:
    held(TimingLog(run), 1, 3.0)
    path = run.path / "timings" / f"{PHASE}.jsonl"
    with path.open("ab") as file:
        file.write(path.read_bytes()[:-20])  # its writer was killed
    assert times(run, 1).turns
    held(TimingLog(run), 1, 300.0)
    assert times(run, 1).turns["1/reader"].seconds >= 300
    assert path.read_bytes().count(b"\n") == 2


def test_a_damaged_line_is_an_error_that_names_it(run: RunFolder) -> None:
    held(TimingLog(run), 0, 1.0)
    path = run.path / "timings" / f"{PHASE}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"started":', b'"started":-'))
    with pytest.raises(UserError, match=r"evaluate-m3prune\.jsonl, line 1"):
        times_of_turns(run, PHASE)


def test_timings_are_no_record_that_a_run_is_resumed_from(run: RunFolder) -> None:
    held(TimingLog(run), 0, 1.0)
    (run.path / "timings" / f"{PHASE}.jsonl").write_text("nonsense\n")
    with Recorder(run) as recorder:
        assert len(recorder.done("m3prune")) == 3


class Replica:
    """One replica of a pool in this process."""

    load, name = 0, "replica"

    async def abilities(self) -> Abilities:
        return Abilities()

    async def complete(self, request: object) -> Completion:
        return Completion("r", "Answer: Tarn", 9, 3, cached_tokens=4)


async def test_the_replica_and_its_cached_tokens_arrive_with_the_turn_and_not_in_sums() -> None:
    noted: list[tuple[Turn, TurnResult, float]] = []
    pool = ReplicaPool([Replica(), Replica()])  # type: ignore[list-item]
    agent = make_agent(Role("reader", M.TEXT, ""), pool, AgentSettings())
    team = LiveSpeaker({"reader": InlineClient(agent)})
    metered = Metered(team, lambda *each: noted.append(each))
    result = await metered.take(turn())
    await team.take(turn())  # of another phase
    [(asked, answered, asked_s)] = noted
    assert answered is result
    usage = answered.usage
    assert asked == turn()
    assert asked_s <= time.monotonic()
    assert usage.cached_tokens == 4
    assert usage.replica in (1, 2)
    assert metered.usage["reader"] == Usage(1, 9, 4, 3)
