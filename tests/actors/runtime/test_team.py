"""A team of agents elsewhere: what they recall, turns of lost ones, and what each has used."""

import asyncio
from dataclasses import replace

import pytest

from actors.errors import AgentLost, UserError
from actors.messages import Message, Question, Turn, Usage
from actors.runtime import team
from actors.runtime.team import LiveTeam, TurnResult


class Agent:
    """Answers every turn with an empty message, and has used a call on it."""

    lost = 0

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    async def __call__(self, item: Turn) -> TurnResult:
        self.turns.append(item)
        if self.lost:
            self.lost -= 1
            raise AgentLost("it died")
        return Message(item.id, item.agent, item.round), Usage(calls=1, prompt_tokens=item.seed)

    def close(self) -> None:
        raise AssertionError


def turn(agent: str, seed: int) -> Turn:
    return Turn("d", Question("q", "?"), agent, 1, seed)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(team, "LONGEST_PAUSE_S", 0.002)


async def test_an_agent_gets_its_earlier_turns_with_the_next_until_the_discussion_is_closed() -> None:
    agent = Agent()
    team = LiveTeam({"ann": agent}, "trial")
    first = await team.ask(turn("ann", 1))
    later = replace(turn("ann", 2), round=2, recall=1)
    await team.metered().ask(later)
    assert (agent.turns[1].memories, agent.turns[1].discussion) == ((first,), "trial/d")
    team.close("d")
    with pytest.raises(UserError, match="recalls 1"):
        await team.ask(later)


@pytest.mark.usefixtures("short_pauses")
async def test_a_turn_whose_agent_is_lost_is_asked_again_a_few_times() -> None:
    agent = Agent()
    team = LiveTeam({"ann": agent})
    agent.lost = 2
    await team.ask(turn("ann", 1))
    assert agent.turns == [turn("ann", 1)] * 3
    agent.lost = 3
    with pytest.raises(AgentLost):
        await team.ask(turn("ann", 1))


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
    answers = await asyncio.gather(*(team.ask(turn(name, seed)) for name, seed in (("critic_1", 5), ("critic_2", 7))))
    assert [answer.agent for answer in answers] == ["critic_1", "critic_2"]
    assert [item.agent for item in critic.turns] == ["critic_1", "critic_2"]
    assert {name: usage.prompt_tokens for name, usage in team.usage.items()} == {"bob": 0, "critic_1": 5, "critic_2": 7}
