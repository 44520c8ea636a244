"""The walk of a discussion: who speaks when, who hears whom, and what the trace says of it."""

import asyncio
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import Message, Question, Status, Trace, Turn
from topologies.baselines import Single
from topologies.topology import Wired
from topologies.wiring import Edges, Wiring, needed_turns

AGENTS = ("ann", "bob", "cy")
QUESTION = Question("q1", "Where?")


class Recording:
    """Agents that say their own name, and remember what they were asked and when they were done."""

    def __init__(self, failing: str = "") -> None:
        self.turns: dict[str, Turn] = {}
        self.spoken: list[str] = []
        self._failing = failing

    async def ask(self, turn: Turn) -> Message:
        self.turns[f"{turn.round}/{turn.agent}"] = turn
        await asyncio.sleep(0)
        self.spoken.append(f"{turn.round}/{turn.agent}")
        status = Status.FAILED if turn.agent == self._failing else Status.OK
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, answer=turn.agent, status=status)

    def heard(self, turn: str) -> set[str]:
        return {heard.message.id for heard in self.turns[turn].heard}


def wiring(
    spatial: list[tuple[int, int]], temporal: list[tuple[int, int]], rounds: int = 2, **kwargs: object
) -> Wiring:
    s, t = np.zeros((rounds, 3, 3), bool), np.zeros((rounds, 3, 3), bool)
    for sender, receiver in spatial:
        s[:, sender, receiver] = True
    for sender, receiver in temporal:
        t[1:, sender, receiver] = True
    return Wiring.of_matrices(s, t, **{"decision": np.ones(3, bool), **kwargs})  # type: ignore[arg-type]


async def test_an_agent_hears_its_spatial_senders_of_this_round_and_its_temporal_ones_of_the_last() -> None:
    team = Recording()
    await Wired("m", AGENTS, wiring([(0, 1)], [(2, 1)])).answer(QUESTION, team.ask, seed=1)
    assert team.heard("1/bob") == {"1/ann"}
    assert team.heard("2/bob") == {"2/ann", "1/cy"}
    assert team.heard("2/cy") == set()


async def test_an_agent_speaks_as_soon_as_its_senders_have_and_not_when_the_round_is_over() -> None:
    team = Recording()
    gate = asyncio.Event()

    async def ask(turn: Turn) -> Message:
        if (turn.agent, turn.round) == ("cy", 1):
            await gate.wait()
        message = await team.ask(turn)
        if (turn.agent, turn.round) == ("bob", 2):
            gate.set()  # never reached if round 2 waited for round 1 to end
        return message

    async with asyncio.timeout(5):
        await Wired("m", AGENTS, wiring([(0, 1)], [])).answer(QUESTION, ask, seed=1)
    assert team.spoken.index("2/bob") < team.spoken.index("1/cy")


async def test_agents_that_wait_for_each_other_are_an_error_before_any_is_asked() -> None:
    team = Recording()
    with pytest.raises(ValueError, match="cycle"):
        await Wired("m", AGENTS, wiring([(0, 1), (1, 0)], [])).answer(QUESTION, team.ask, seed=1)
    assert team.spoken == []


async def test_a_failed_turn_is_recorded_and_heard_by_nobody() -> None:
    team = Recording(failing="ann")
    trace = await Wired("m", AGENTS, wiring([(0, 1)], [(0, 2)])).answer(QUESTION, team.ask, seed=1)
    assert team.heard("1/bob") == set()
    assert team.heard("2/cy") == set()
    assert [turn.status for turn in trace.turns if turn.agent == "ann"] == [Status.FAILED, Status.FAILED]
    assert team.heard("3/decision") == {"2/bob", "2/cy"}


async def test_the_decision_agent_reads_the_last_round_of_those_it_listens_to() -> None:
    team = Recording()
    walk = wiring([], [], decision=np.array([True, False, True]))
    trace = await Wired("m", AGENTS, walk).answer(QUESTION, team.ask, seed=1)
    assert team.heard("3/decision") == {"2/ann", "2/cy"}
    assert trace.decision == ("ann", "cy")
    assert trace.answer == "decision"


async def test_every_turn_is_in_the_trace_by_round_then_agent() -> None:
    trace = await Wired("m", AGENTS, wiring([(2, 0)], [])).answer(QUESTION, Recording().ask, seed=1)
    rounds = [f"{number}/{agent}" for number in (1, 2) for agent in AGENTS]
    assert [turn.id for turn in trace.turns] == [*rounds, "3/decision"]
    assert trace.spatial == ((1, 2, 0), (2, 2, 0))


async def test_seeds_differ_by_agent_round_and_run_but_not_by_method_and_sample() -> None:
    async def seeds(method: str, seed: int, sample: int) -> list[int]:
        team = Recording()
        await Wired(method, AGENTS, wiring([], [])).answer(QUESTION, team.ask, seed, sample)
        return [turn.seed for turn in team.turns.values()]

    base = await seeds("m", 1, 0)
    assert len(set(base)) == len(base)
    assert base == await seeds("other", 1, 0)
    assert base == await seeds("m", 1, 1)
    assert not set(base) & set(await seeds("m", 2, 0))


async def test_an_agent_is_told_how_many_turns_it_must_remember() -> None:
    team = Recording()
    await Wired("m", AGENTS, wiring([], [], rounds=3)).answer(QUESTION, team.ask, seed=1)
    assert [team.turns[f"{number}/ann"].recall for number in (1, 2, 3)] == [0, 1, 2]
    assert team.turns["4/decision"].recall == 0


async def test_an_agent_that_takes_no_part_in_a_round_is_not_asked_in_it_and_remembers_the_turns_that_it_took() -> None:
    team, speaks = Recording(), np.ones((3, 3), bool)
    speaks[1, 0] = False
    trace = await Wired("m", AGENTS, wiring([(1, 2)], [], rounds=3, speaks=speaks)).answer(QUESTION, team.ask, seed=1)
    assert "2/ann" not in team.turns
    assert team.turns["3/ann"].recall == 1
    assert team.spoken.index("1/ann") < team.spoken.index("3/ann")
    assert len(trace.turns) == 9
    out = wiring([(1, 2)], [], rounds=3, speaks=speaks, decision=np.array([False, False, True]))
    # Ann's turns lead nowhere, whether she takes part or not.
    assert needed_turns(out).tolist() == [[False, True, True]] * 3


class Digesting:
    """Agents whose every word depends on all that they have heard and said; some turns fail."""

    def __init__(self) -> None:
        self.asked: dict[str, Turn] = {}

    async def ask(self, turn: Turn) -> Message:
        own = [self.asked[f"{number}/{turn.agent}"] for number in range(1, turn.recall + 1)]
        told = repr((turn.seed, [(h.message.content, h.weight) for h in turn.heard], own))
        digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        self.asked[f"{turn.round}/{turn.agent}"] = turn
        status = Status.FAILED if digest[0] == "0" else Status.OK
        heard = tuple(h.message.id for h in turn.heard)
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, digest, digest, status=status, heard=heard)


@settings(max_examples=100)
@given(
    agents=st.integers(1, 6),
    rounds=st.integers(1, 4),
    density=st.floats(0, 1),
    read=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_turns_that_are_left_out_change_neither_the_answer_nor_what_the_decision_agent_is_told(
    agents: int, rounds: int, density: float, read: float, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    shape = (rounds, agents, agents)
    temporal = draw.random(shape) < density
    temporal[0] = False
    walk = Wiring.of_matrices(
        np.triu(draw.random(shape) < density, 1),
        temporal,
        draw.random(agents) < read,
        Edges(draw.random((agents, agents)), draw.random((agents, agents))),
    )
    names = [f"a{number}" for number in range(agents)]

    def held(every_turn: bool) -> tuple[Trace, Digesting]:
        team = Digesting()
        topology = Wired("m", names, walk, every_turn)
        return asyncio.run(topology.answer(QUESTION, team.ask, seed=1)), team

    (whole, asked), (lean, asked_less) = held(True), held(False)
    assert lean.answer == whole.answer
    assert asked_less.asked.items() <= asked.asked.items()
    assert asked_less.asked[f"{rounds + 1}/decision"] == asked.asked[f"{rounds + 1}/decision"]
    assert lean.turns == tuple(turn for turn in whole.turns if turn.id in asked_less.asked)
    spoke = {turn.id for turn in lean.turns}
    assert len(spoke) == needed_turns(walk).sum() + 1
    for edges, before in ((lean.spatial, 0), (lean.temporal, 1)):
        for number, sender, receiver in edges:
            assert {f"{number}/{names[receiver]}", f"{number - before}/{names[sender]}"} <= spoke
    assert lean.allowed_spatial == whole.allowed_spatial


async def test_whom_the_decision_agent_does_not_read_and_nobody_hears_is_not_asked() -> None:
    team = Recording()
    walk = wiring([(0, 1)], [(2, 0)], decision=np.array([False, True, False]))
    trace = await Wired("m", AGENTS, walk).answer(QUESTION, team.ask, seed=1)
    # cy is heard in round 2 for what it said in round 1; in round 2 it has nobody to speak to.
    assert [turn.id for turn in trace.turns] == ["1/ann", "1/bob", "1/cy", "2/ann", "2/bob", "3/decision"]
    assert trace.allowed_spatial == trace.spatial == ((1, 0, 1), (2, 0, 1))


async def test_an_error_of_one_agent_ends_the_discussion_with_that_error() -> None:
    async def ask(turn: Turn) -> Message:
        raise LookupError(turn.agent)

    with pytest.raises(ExceptionGroup) as raised:
        await Wired("m", AGENTS, wiring([], [])).answer(QUESTION, ask, seed=1)
    assert raised.group_contains(LookupError)


async def test_closed_book_takes_the_evidence_away_and_single_keeps_it() -> None:
    from actors.messages import Kind, Source

    source = Source("t1", "t1", Kind.TEXT, "Tarn", "A town.")
    question = Question("q1", "Where?", evidence=(source,))
    closed, single = Recording(), Recording()
    await Single("closed_book", closed_book=True).answer(question, closed.ask, seed=1)
    trace = await Single("single").answer(question, single.ask, seed=1)
    assert closed.turns["1/single"].question.evidence == ()
    assert single.turns["1/single"].question.evidence == (source,)
    assert trace.evidence == ("t1",)
