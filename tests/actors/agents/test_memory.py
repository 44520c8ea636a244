"""What agents recall of a discussion: their own turns of earlier rounds, while it is open."""

from dataclasses import replace

import pytest

from actors.agents.memory import Memory
from actors.errors import UserError
from actors.messages import Message, Question, Turn


def turn(number: int, recall: int = 0, agent: str = "critic", discussion: str = "d1") -> Turn:
    return Turn(discussion, Question("q", "?"), agent, number, seed=0, recall=recall)


def said(number: int, agent: str = "critic") -> Message:
    return Message(f"{number}/{agent}", agent, number)


def test_an_agent_recalls_its_own_turns_of_earlier_rounds_in_the_same_discussion() -> None:
    memory = Memory()
    for number in (2, 1, 3):
        memory.remember(turn(number), said(number))
    memory.remember(turn(1, agent="other"), said(1, "other"))
    memory.remember(turn(1, discussion="d2"), replace(said(1), content="elsewhere"))
    planted = Message("0/critic", "critic", 0)
    assert memory.recalled(replace(turn(3, recall=2), memories=(planted,))).memories == (said(1), said(2), planted)
    assert memory.recalled(turn(3)) == turn(3)


def test_a_turn_that_is_taken_again_counts_once() -> None:
    memory = Memory()
    memory.remember(turn(1), said(1))
    memory.remember(turn(1), replace(said(1), content="again"))
    [recalled] = memory.recalled(turn(2, recall=1)).memories
    assert recalled.content == "again"


def test_a_method_that_recalls_turns_that_were_not_taken_is_told_so() -> None:
    memory = Memory()
    memory.remember(turn(1), said(1))
    memory.forget("d1")
    assert len(memory) == 0
    with pytest.raises(UserError, match=r"critic: .*\b1\b.*\b0\b"):
        memory.recalled(turn(2, recall=1))
