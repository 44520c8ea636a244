"""DyTopo: needs and offers of a round decide who hears whom in the next one."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from actors.messages import FieldKind, Message, Question, Status, Trace, Turn
from topologies.dytopo import GOAL, MANAGER, NEED, OFFER, DyTopo, matches
from topologies.method import DefenceSettings, MethodContext, SystemSettings, TopK
from topologies.topology import DECISION_AGENT
from topologies.wiring import Floats

AGENTS = ("a", "b", "c")
# Each agent needs what the next one offers; the last one needs nothing that any offers.
NEEDS, OFFERS = {"a": "maps", "b": "tables", "c": "songs"}, {"a": "dates", "b": "maps", "c": "tables"}
WORDS = ("maps", "tables", "songs", "dates")


class Encoding:
    """A library whose only function is to encode a word."""

    async def embed(self, texts: Sequence[str]) -> list[Floats]:
        return [np.eye(len(WORDS))[WORDS.index(text)] for text in texts]


def discuss(rounds: int = 3, enough_in: int = 0, failing: str = "") -> tuple[Trace, list[Turn]]:
    """The trace and all turns; the manager ends it in round `enough_in`, and `failing` fails in each round."""
    asked: list[Turn] = []

    async def ask(turn: Turn) -> Message:
        asked.append(turn)
        fields: tuple[tuple[str, str], ...] = ()
        if turn.agent == MANAGER.name:
            fields = ((GOAL, f"goal {turn.round}"), (FieldKind.ENOUGH, "yes" if turn.round == enough_in else "no"))
        elif turn.agent in AGENTS:
            fields = ((OFFER, OFFERS[turn.agent]), (NEED, NEEDS[turn.agent]))
        status = Status.FAILED if turn.agent == failing else Status.OK
        heard = tuple(each.message.id for each in turn.heard)
        of_turn: dict[str, Any] = {"agent": turn.agent, "round": turn.round, "seed": turn.seed, "heard": heard}
        shown = () if status is Status.FAILED else fields
        return Message(f"{turn.round}/{turn.agent}", content="", answer="x", status=status, fields=shown, **of_turn)

    library: Any = Encoding()
    context = MethodContext("dytopo", AGENTS, rounds, 0, TopK(1, 1), SystemSettings(), DefenceSettings(), None, library)
    return asyncio.run(DyTopo(context).answer(Question("q", "?"), ask, 1)), asked


def heard(turns: Sequence[Turn], agent: str, number: int) -> list[str]:
    [turn] = [turn for turn in turns if (turn.agent, turn.round) == (agent, number)]
    return [each.message.id for each in turn.heard]


def test_edges_are_where_need_and_offer_are_alike() -> None:
    offers, needs = (np.array(rows, dtype=float) for rows in ([[1, 0], [0.6, 0.8], [0, 0]], [[1, 0], [0, 1], [0, 0]]))
    # Agent 0 needs what 1 offers by .6 and what it offers itself; 1 needs nothing of 0; 2 has stated nothing.
    assert np.argwhere(matches(offers, needs, 0.5)).tolist() == [[1, 0]]
    assert not matches(offers, needs, 0.6).any()
    # Not even below zero is anything matched that was not stated.
    assert np.argwhere(matches(offers, needs, -0.5)).tolist() == [[0, 1], [1, 0]]


def test_an_agent_hears_in_the_next_round_whose_offer_matches_its_need() -> None:
    trace, turns = discuss()
    for number in (2, 3):
        assert heard(turns, "a", number) == [f"{number - 1}/b"]
        assert heard(turns, "b", number) == [f"{number - 1}/c"]
        assert heard(turns, "c", number) == []
    assert not any(heard(turns, agent, 1) for agent in AGENTS)
    assert trace.temporal == ((2, 1, 0), (2, 2, 1), (3, 1, 0), (3, 2, 1))
    assert [turn.recall for turn in turns if turn.agent == "a"] == [0, 1, 2]
    assert heard(turns, DECISION_AGENT, 4) == ["3/a", "3/b", "3/c"]


def test_the_manager_states_each_round_s_goal_and_may_end_the_discussion() -> None:
    _, turns = discuss(rounds=3, enough_in=3)
    speaking = [turn for turn in turns if turn.agent in AGENTS]
    assert {turn.round for turn in speaking} == {1, 2}
    for turn in speaking:
        assert turn.task is not None
        assert [line.text for line in turn.task.inputs] == [f"goal {turn.round}"]
    assert heard(turns, MANAGER.name, 3) == ["2/a", "2/b", "2/c"]
    # Before anything was said, it cannot end.
    assert {turn.round for turn in discuss(enough_in=1)[1] if turn.agent in AGENTS} == {1, 2, 3}
    [decision] = [turn for turn in turns if turn.agent == DECISION_AGENT]
    assert [each.message.id for each in decision.heard] == ["2/a", "2/b", "2/c"]


def test_who_fails_offers_nothing_and_is_not_heard() -> None:
    trace, turns = discuss(failing="b")
    assert trace.temporal == ()
    assert heard(turns, DECISION_AGENT, 4) == ["3/a", "3/c"]
