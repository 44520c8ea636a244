"""Agents elsewhere: what they forget, and whom they know."""

import asyncio

import pytest

from actors.errors import UserError
from actors.messages import Message, Question, Turn, TurnResult, Usage
from actors.runtime.team import LiveSpeaker


class Agent:
    """Answers every turn with an empty message, and has used a call on it."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def __call__(self, item: Turn) -> TurnResult:
        return TurnResult(Message(item.id, item.agent, item.round), Usage(calls=1, prompt_tokens=item.seed))

    def note(self, note: str) -> None:
        self.notes.append(note)

    def close(self) -> None:
        raise AssertionError


def turn(agent: str, seed: int) -> Turn:
    return Turn("d", Question("q", "?"), agent, 1, seed)


async def test_all_agents_forget_a_closed_discussion_by_its_name_in_this_team() -> None:
    agents = {"ann": Agent(), "bob": Agent()}
    LiveSpeaker(agents, "trial").close("d1")
    assert [agent.notes for agent in agents.values()] == [["trial/d1"], ["trial/d1"]]


async def test_an_agent_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"'eve'.* ann, bob"):
        await LiveSpeaker({"ann": Agent(), "bob": Agent()}).take(turn("eve", 1))


async def test_instances_of_a_role_share_its_agent() -> None:
    critic = Agent()
    team = LiveSpeaker({"critic": critic, "bob": Agent()}, instances={"critic_1": "critic", "critic_2": "critic"})
    team.close("d0")
    results = await asyncio.gather(*(team.take(turn(name, seed)) for name, seed in (("critic_1", 5), ("critic_2", 7))))
    assert [result.message.agent for result in results] == ["critic_1", "critic_2"]
    assert critic.notes == ["d0"]
