"""A runtime in one process: what fails there, what its agents remember, and what goes to another process."""

import asyncio
import pickle
from pathlib import Path
from typing import ClassVar

import pytest

from actors.agents.roles import TEXTUAL
from actors.completions.cache import Reuse
from actors.errors import ClusterError, MemoryLost, ModelGone, ModelLost
from actors.messages import Completion, Question, Request, Turn
from actors.runtime.inline import Inline
from actors.settings import AgentSettings
from experiments.running.speakers import Metered

ANN, BOB = TEXTUAL[:2]
QUESTION = Question("q", "Who?")


class Counting:
    """Answers with the number of requests that were under way at once."""

    def __init__(self) -> None:
        self._now = 0

    async def complete(self, request: Request) -> Completion:
        self._now += 1
        most = self._now
        await asyncio.sleep(0.001)
        self._now -= 1
        return Completion(request.id, f"Reasoning: none.\nAnswer: {most}\nConfidence: 1", prompt_tokens=3)


class Lost:
    async def complete(self, request: Request) -> Completion:
        raise ModelLost("the engine died")


class Closed:
    """Notes how often it is started and closed."""

    noted: ClassVar[list[str]] = []

    async def start(self) -> None:
        self.noted.append("start")

    async def complete(self, request: Request) -> Completion:
        return Completion(request.id, "Reasoning: none.\nAnswer: 1\nConfidence: 1")

    async def close(self) -> None:
        self.noted.append("close")


class Unloadable:
    async def start(self) -> None:
        raise ValueError("there is no such model")

    async def complete(self, request: Request) -> Completion:
        raise AssertionError


def turn(agent: str, number: int = 1, discussion: str = "d", recall: int = 0, seed: int = 0) -> Turn:
    return Turn(discussion, QUESTION, agent, number, seed, recall=recall)


async def test_a_model_works_on_no_more_at_once_than_all_its_replicas_would() -> None:
    runtime = Inline()
    runtime.launch_replicas(Counting, replicas=2, cpus=0, gpus=0, capacity=3)
    team = Metered(runtime.launch_agents([ANN], AgentSettings()).speaker())
    await runtime.wait_until_ready()
    said = await asyncio.gather(*(team.take(turn(ANN.name, discussion=str(n), seed=n)) for n in range(20)))
    assert max(int(result.message.answer or 0) for result in said) == 6
    assert team.usage[ANN.name].calls == 20


async def test_a_model_that_cannot_be_loaded_is_one_line() -> None:
    runtime = Inline()
    runtime.launch_replicas(Unloadable, replicas=1, cpus=0, gpus=0)
    with pytest.raises(ClusterError, match=r"^model: .*there is no such model$"):
        await runtime.wait_until_ready()


async def test_a_model_is_closed_with_what_loaded_it_and_a_later_request_loads_it_again() -> None:
    Closed.noted.clear()
    runtime = Inline()
    runtime.launch_replicas(Closed, replicas=1, cpus=0, gpus=0)
    team = runtime.launch_agents([ANN], AgentSettings()).speaker()
    await runtime.wait_until_ready()
    await runtime.unload()
    await runtime.unload()
    assert Closed.noted == ["start", "close"]
    await team.take(turn(ANN.name))
    await runtime.unload()
    assert Closed.noted == ["start", "close"] * 2


async def test_a_model_that_is_lost_is_gone_as_nobody_starts_it_again() -> None:
    runtime = Inline()
    runtime.launch_replicas(Lost, replicas=1, cpus=0, gpus=0)
    team = runtime.launch_agents([ANN], AgentSettings()).speaker()
    with pytest.raises(ModelGone, match="the engine died"):
        await team.take(turn(ANN.name))


async def test_teams_of_the_same_agents_have_discussions_of_their_own_and_forget_closed_ones() -> None:
    runtime = Inline()
    runtime.launch_replicas(Counting, replicas=1, cpus=0, gpus=0)
    agents = runtime.launch_agents([ANN, BOB], AgentSettings())
    one, other = agents.speaker("one"), agents.speaker("other")
    await one.take(turn(ANN.name))
    await one.take(turn(ANN.name, 2, recall=1))
    with pytest.raises(MemoryLost):
        await other.take(turn(ANN.name, 2, recall=1))
    one.close("d")
    with pytest.raises(MemoryLost):
        await one.take(turn(ANN.name, 2, recall=1))


async def test_agents_can_be_sent_to_another_process_whatever_is_open_in_this_one(tmp_path: Path) -> None:
    runtime = Inline()
    runtime.launch_replicas(Counting, replicas=1, cpus=0, gpus=0)
    agents = runtime.launch_agents([ANN, BOB], AgentSettings(), Reuse(str(tmp_path), "counting", 1, 1))
    await agents.speaker().take(turn(BOB.name))
    there = pickle.loads(pickle.dumps(agents))
    assert (await there.speaker().take(turn(ANN.name))).message.answer == "1"
    await agents.close()
    await there.close()
    # What one process has computed and written, others find.
    again = pickle.loads(pickle.dumps(agents))
    team = Metered(again.speaker())
    await team.take(turn(ANN.name))
    assert team.usage[ANN.name].reused == 1
    await again.close()
