"""Several agents of one role in a runtime of one process: one object serves them, and keeps their turns apart."""

import pickle
from dataclasses import replace

import pytest

from actors.agents.roles import DECISION, TEXTUAL
from actors.errors import MemoryLost
from actors.messages import Completion, Question, Request, Turn
from actors.runtime.inline import Inline
from actors.settings import AgentSettings
from experiments.running.speakers import Metered
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.topology import Wired, run_discussion

CRITIC, SCIENTIST = TEXTUAL[:2]
CRITICS = [replace(CRITIC, name=f"{CRITIC.name}_{number}", of=CRITIC.name) for number in (1, 2, 3)]
NAMES = [role.name for role in CRITICS]
QUESTION = Question("q", "Who?")


class Says:
    def __init__(self, answer: str) -> None:
        self._answer = answer

    async def complete(self, request: Request) -> Completion:
        return Completion(request.id, f"Reasoning: none.\nAnswer: {self._answer}\nConfidence: 1", prompt_tokens=3)


class Ours(Says):
    def __init__(self) -> None:
        super().__init__("ours")


class Theirs(Says):
    def __init__(self) -> None:
        super().__init__("theirs")


def runtime() -> Inline:
    inline = Inline()
    inline.launch_replicas(Ours, replicas=1, cpus=0, gpus=0)
    inline.launch_replicas(Theirs, replicas=1, cpus=0, gpus=0, pool="theirs")
    return inline


async def test_instances_speak_under_their_own_names_and_have_a_usage_each() -> None:
    team = Metered(runtime().launch_agents([*CRITICS, SCIENTIST, DECISION], AgentSettings()).speaker())
    agents = [*NAMES, SCIENTIST.name]
    walk = Wired("full", agents, constant_wiring(complete(4), 4, rounds=2))
    trace = await run_discussion(walk, QUESTION, team, seed=5)
    assert [turn.id for turn in trace.turns[:8]] == [f"{number}/{name}" for number in (1, 2) for name in agents]
    assert {name: usage.calls for name, usage in team.usage.items()} == {**dict.fromkeys(agents, 2), "decision": 1}


async def test_an_instance_remembers_its_own_turns_alone_and_all_forget_a_closed_discussion() -> None:
    team = runtime().launch_agents(CRITICS, AgentSettings()).speaker()
    await team.take(Turn("d", QUESTION, NAMES[0], 1, seed=0))
    await team.take(Turn("d", QUESTION, NAMES[0], 2, seed=0, recall=1))
    with pytest.raises(MemoryLost):
        await team.take(Turn("d", QUESTION, NAMES[1], 2, seed=0, recall=1))
    team.close("d")
    with pytest.raises(MemoryLost):
        await team.take(Turn("d", QUESTION, NAMES[0], 3, seed=0, recall=2))


async def test_instances_ask_the_model_of_their_role_in_another_process_too() -> None:
    roles = [*CRITICS, SCIENTIST]
    agents = runtime().launch_agents(roles, AgentSettings(), others={CRITIC.name: ("theirs", None)})
    assert list(agents.sources) == [CRITIC.name, SCIENTIST.name]
    for team in (agents.speaker(), pickle.loads(pickle.dumps(agents)).speaker()):
        said = [await team.take(Turn("d", QUESTION, role.name, 1, seed=0)) for role in roles]
        assert [result.message.answer for result in said] == ["theirs"] * 3 + ["ours"]
