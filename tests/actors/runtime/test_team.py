"""A team of agents elsewhere: what its agents forget, and what each has used."""

import asyncio

import pytest

from actors.errors import UserError
from actors.messages import Message, Question, Turn, Usage
from actors.runtime.team import LiveTeam, TurnResult


class Agent:
    """Answers every turn with an empty message, and has used a call on it."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def __call__(self, item: Turn) -> TurnResult:
        return Message(item.id, item.agent, item.round), Usage(calls=1, prompt_tokens=item.seed)

    def note(self, note: str) -> None:
        self.notes.append(note)

    def close(self) -> None:
        raise AssertionError


def turn(agent: str, seed: int) -> Turn:
    return Turn("d", Question("q", "?"), agent, 1, seed)


async def test_all_agents_forget_a_closed_discussion_by_its_name_in_this_team() -> None:
    agents = {"ann": Agent(), "bob": Agent()}
    LiveTeam(agents, "trial").close("d1")
    assert [agent.notes for agent in agents.values()] == [["trial/d1"], ["trial/d1"]]


async def test_a_team_adds_up_what_each_agent_has_used_and_phases_side_by_side_what_is_theirs() -> None:
    team = LiveTeam({"ann": Agent(), "bob": Agent()})
    one, other = team.metered(), team.metered()
    for phase, seed in ((team, 1), (one, 5), (other, 7), (one, 6)):
        assert (await phase.ask(turn("ann", seed))).agent == "ann"
    assert [phase.usage["ann"].prompt_tokens for phase in (team, one, other)] == [1, 11, 7]
    assert team.usage == {"ann": Usage(calls=1, prompt_tokens=1), "bob": Usage()}


async def test_an_agent_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"'eve'.* ann, bob"):
        await LiveTeam({"ann": Agent(), "bob": Agent()}).ask(turn("eve", 1))


async def test_instances_of_a_role_share_its_agent_and_have_a_usage_each() -> None:
    critic = Agent()
    team = LiveTeam({"critic": critic, "bob": Agent()}, instances={"critic_1": "critic", "critic_2": "critic"})
    team.close("d0")
    answers = await asyncio.gather(*(team.ask(turn(name, seed)) for name, seed in (("critic_1", 5), ("critic_2", 7))))
    assert [answer.agent for answer in answers] == ["critic_1", "critic_2"]
    assert critic.notes == ["d0"]
    assert {name: usage.prompt_tokens for name, usage in team.usage.items()} == {"bob": 0, "critic_1": 5, "critic_2": 7}
