"""The runtime on real Ray: processes that die, clusters that were there before, what is left behind."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray

from actors.agents.roles import DECISION, TEXTUAL
from actors.errors import AgentLost, ClusterError, ModelError, ModelGone, ModelLost
from actors.messages import Completion, Message, Question, Request, Trace, Turn
from actors.processes import runs
from actors.runtime.cluster import Cluster
from actors.settings import AgentSettings, RaySettings
from experiments.running.speakers import Metered
from tests.support.waiting import until
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.learning.learner import Learner
from topologies.topology import Wired, run_discussion

pytestmark = pytest.mark.ray

ROLES = TEXTUAL[:2]


class Slow:
    """Answers after a moment, with its seed; never has more to do than its capacity."""

    def __init__(self, capacity: int = 64) -> None:
        self._free = capacity

    async def complete(self, request: Request) -> Completion:
        assert self._free > 0
        self._free -= 1
        try:  # dropped, when the agent that asks is lost
            await asyncio.sleep(0.02)
        finally:
            self._free += 1
        return Completion(request.id, f"Answer: {request.seed}", prompt_tokens=len(request.own))


class Named:
    """Answers with its name and process id."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def complete(self, request: Request) -> Completion:
        return Completion(request.id, f"Reasoning: {self._name} {os.getpid()}\nAnswer: yes")


class Broken:
    async def complete(self, request: Request) -> Completion:
        raise ModelError("no route to the model")


class Unloadable:
    def __init__(self) -> None:
        raise ValueError("there is no such model")

    async def complete(self, request: Request) -> Completion:
        raise AssertionError


class DiesAtLoad(Unloadable):
    def __init__(self) -> None:
        os._exit(1)


class Loading(Unloadable):
    """Loads without an end."""

    def __init__(self) -> None:
        pass

    async def start(self) -> None:
        await asyncio.Event().wait()


class Mortal:
    """Its engine, a process that has been stopped, is lost with the request `deadly` of the first process's life."""

    def __init__(self, folder: Path, loads_again: bool = True) -> None:
        self._life = folder / "engine"
        if self._life.exists() and not loads_again:
            raise ValueError("the weights are gone")

    async def complete(self, request: Request) -> Completion:
        if request.id == "deadly" and not self._life.exists():
            engine = subprocess.Popen(["sleep", "1000"])
            engine.send_signal(signal.SIGSTOP)
            self._life.write_text(str(engine.pid))
            raise ModelLost("the engine died")
        await asyncio.sleep(0.05)
        return Completion(request.id, str(os.getpid()))


class Endless:
    """Never answers, but notes in files which requests came and which were cancelled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def complete(self, request: Request) -> Completion:
        (self._folder / f"begun {request.seed}").touch()
        try:
            await asyncio.Event().wait()
        finally:
            (self._folder / f"ended {request.seed}").touch()
        raise AssertionError


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all tests, each with pools of its own."""
    with Cluster(RaySettings(hung_s=5)) as running:
        yield running


def request(name: str, seed: int = 0) -> Request:
    return Request(name, name, "", "", "", seed=seed)


async def discuss(
    cluster: Cluster, questions: int, disturb: asyncio.Event | None = None, replicas: int = 2, pool: str = "model"
) -> list[Trace]:
    """Hold discussions; `disturb` is set once a third of them is over."""
    cluster.launch_replicas(partial(Slow, 4), replicas, cpus=0, gpus=0, capacity=4, pool=pool)
    team = cluster.launch_agents((*ROLES, DECISION), AgentSettings(retries=0), pool=pool).speaker()
    await cluster.wait_until_ready()
    wiring = constant_wiring(complete(len(ROLES)), len(ROLES), 2)
    topology = Wired("full", [role.name for role in ROLES], wiring)
    over = 0

    async def one(number: int) -> Trace:
        nonlocal over
        trace = await run_discussion(topology, Question(f"q{number}", "Who?"), team, seed=5)
        over += 1
        if disturb and over == questions // 3:
            disturb.set()
        return trace

    gate = asyncio.Semaphore(8)

    async def gated(number: int) -> Trace:
        async with gate:
            return await one(number)

    return await asyncio.gather(*(gated(number) for number in range(questions)))


async def first_of(work: asyncio.Task[list[Trace]], event: asyncio.Event) -> None:
    """Waits for the event, and raises what the work raises before."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if work.done():
        work.result()


def lives(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return runs(psutil.Process(pid))
    return False


def workers(kind: str) -> list[int]:
    """Process ids of live Ray workers of this process that run actors of a class (`A|B`: of either), by Ray's title.

    Only its own: tests of another process have such workers too.
    """
    processes = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if re.match(rf"ray::({kind})\b", " ".join(process.cmdline())):
                processes.append(process.pid)
    return processes


@pytest.mark.parametrize(
    ("kinds", "replicas"), [(("AgentProcess", "ReplicaProcess"), 2), (("ReplicaProcess",), 1)], ids=["two", "one"]
)
async def test_processes_that_are_killed_change_nothing_that_is_answered(
    cluster: Cluster, kinds: tuple[str, ...], replicas: int
) -> None:
    before = set(workers("AgentProcess|ReplicaProcess"))
    undisturbed = asyncio.Event()
    disturbed = asyncio.create_task(discuss(cluster, 60, undisturbed, replicas, pool=f"killed{replicas}"))
    await first_of(disturbed, undisturbed)
    killed = {min(set(workers(kind)) - before) for kind in kinds}
    for process in killed:
        os.kill(process, signal.SIGKILL)
    traces = await disturbed
    assert not killed & set(workers("AgentProcess|ReplicaProcess"))
    assert [[turn.answer for turn in trace.turns] for trace in traces] == [
        [str(turn.seed) for turn in trace.turns] for trace in traces
    ]
    assert all(turn.calls == 1 for trace in traces for turn in trace.turns)


async def test_a_replica_that_hangs_is_started_again_and_reported(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.supervision.PULSE_S", 0.1)
    cluster.launch_replicas(partial(Named, "hangs"), replicas=1, cpus=0, gpus=0, pool="hangs")
    events: list[str] = []
    await cluster.wait_until_ready(on_event=events.append)
    model = cluster.model(pool="hangs")
    process = (await model.complete(request("a"))).text.split()[2]
    os.kill(int(process), signal.SIGSTOP)
    # It is told so, and may go on for a moment on a busy machine.
    await until(lambda: psutil.Process(int(process)).status() == psutil.STATUS_STOPPED)
    async with asyncio.timeout(240):
        assert (await model.complete(request("b"))).text.split()[2] != process
        await until(lambda: len(events) >= 2)  # more on a machine so busy that a start seems to hang
    assert events[0].startswith("hangs-0 hung ")
    assert events[1].startswith("hangs-0 ")


async def test_a_replica_whose_model_is_lost_says_why_and_is_started_again_without_leaving_its_engine(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.supervision.PULSE_S", 0.1)
    cluster.launch_replicas(partial(Mortal, tmp_path), replicas=1, cpus=0, gpus=0, pool="lost")
    events: list[str] = []
    await cluster.wait_until_ready(on_event=events.append)
    model = cluster.model(pool="lost")
    process = (await model.complete(request("first"))).text
    names = ["a", "b", "deadly", "c"]
    answers = await asyncio.gather(*(model.complete(request(name)) for name in names))
    assert [answer.id for answer in answers] == names
    assert {answer.text for answer in answers}.isdisjoint({process})
    engine = int((tmp_path / "engine").read_text())
    await until(lambda: not lives(engine))
    await until(lambda: bool(events))
    assert events[0].startswith("lost-0 was lost (the engine died) ")


async def test_a_model_that_cannot_be_loaded_again_is_an_error_and_not_a_hang(cluster: Cluster, tmp_path: Path) -> None:
    cluster.launch_replicas(partial(Mortal, tmp_path, False), replicas=1, cpus=0, gpus=0, pool="gone")
    await cluster.wait_until_ready()
    model = cluster.model(pool="gone")
    reason = r"gone-0 .*the weights are gone"
    async with asyncio.timeout(60):
        for name in ("deadly", "another"):
            with pytest.raises(ModelGone, match=reason):
                await model.complete(request(name))


async def test_turns_that_no_replica_can_serve_have_failed_with_the_reason(cluster: Cluster) -> None:
    cluster.launch_replicas(Broken, replicas=1, cpus=0, gpus=0, pool="broken")
    team = cluster.launch_agents((*ROLES, DECISION), AgentSettings(retries=1), pool="broken").speaker()
    await cluster.wait_until_ready()
    wiring = constant_wiring(complete(len(ROLES)), len(ROLES), 1)
    trace = await run_discussion(Wired("full", [r.name for r in ROLES], wiring), Question("q", "?"), team, seed=1)
    assert {(turn.status, turn.error) for turn in trace.turns} == {("failed", "no route to the model")}
    assert trace.answer is None


async def test_a_turn_that_nobody_waits_for_is_taken_out_of_the_model(cluster: Cluster, tmp_path: Path) -> None:
    cluster.launch_replicas(partial(Endless, tmp_path), replicas=1, cpus=0, gpus=0, pool="endless")
    team = cluster.launch_agents(ROLES[:1], AgentSettings(), pool="endless").speaker()
    await cluster.wait_until_ready()

    def ask(seed: int) -> asyncio.Task[Message]:
        return asyncio.create_task(team.take(Turn(f"d{seed}", Question("q", "?"), ROLES[0].name, 1, seed)))

    given_up, kept = ask(1), ask(2)
    await until(lambda: (tmp_path / "begun 1").exists() and (tmp_path / "begun 2").exists())
    given_up.cancel()
    await until((tmp_path / "ended 1").exists)
    assert not (tmp_path / "ended 2").exists()
    os.kill(max(workers("AgentProcess"), key=lambda pid: psutil.Process(pid).create_time()), signal.SIGKILL)
    async with asyncio.timeout(60):
        with pytest.raises(AgentLost):
            await kept

    async def ask_again() -> None:
        while True:
            with suppress(AgentLost):  # Ray refuses calls until it has noticed that the process is gone
                await ask(3)
            await asyncio.sleep(0.1)

    last = asyncio.create_task(ask_again())
    await until((tmp_path / "ended 2").exists)
    last.cancel()


async def test_two_pools_run_side_by_side(cluster: Cluster) -> None:
    for pool in ("answers", "judges"):
        cluster.launch_replicas(partial(Named, pool), replicas=1, cpus=0, gpus=0, pool=pool)
    came_up: list[tuple[str, int]] = []
    team = Metered(cluster.launch_agents(ROLES[:1], AgentSettings(retries=0), pool="answers").speaker())
    await cluster.wait_until_ready(lambda kind, loading: came_up.append((kind, loading)))
    assert [loading for kind, loading in came_up if kind == "replica"] == [1, 0]
    assert sorted(kind for kind, _ in came_up) == ["agent", "replica", "replica"]
    said = await team.take(Turn("d", Question("q", "?"), ROLES[0].name, 1, 0))
    judged = await cluster.model(pool="judges").complete(request("r"))
    assert (said.message.content.split()[0], judged.text.split()[1]) == ("answers", "judges")
    assert team.usage[ROLES[0].name].calls >= 1


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Unloadable, r"there is no such model"),
        (DiesAtLoad, r"^DiesAtLoad-0 .*Error"),
    ],
)
async def test_a_model_that_cannot_be_loaded_is_one_line(cluster: Cluster, model: type, reason: str) -> None:
    cluster.launch_replicas(model, replicas=1, cpus=0, gpus=0, pool=model.__name__)
    with pytest.raises(ClusterError, match=reason) as raised:
        await cluster.wait_until_ready()
    assert "\n" not in str(raised.value)


async def test_the_error_after_a_late_start_tells_what_loads_from_what_has_no_place(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.supervision.AGAIN_S", 60.0)
    cluster.launch_replicas(Loading, replicas=1, cpus=0, gpus=0, pool="loading")
    monkeypatch.setattr(cluster, "_start_timeout_s", 0.1)
    await ray.get_actor("loading-0").pulse.remote()
    with pytest.raises(ClusterError) as raised:
        await cluster.wait_until_ready()
    expected = "not ready after 0.1 s: still loading: loading-0; to wait longer, raise ray.start_timeout_s"
    assert str(raised.value) == expected

    monkeypatch.setattr("actors.runtime.supervision.AGAIN_S", 0.1)
    remote: Any = ray.remote
    holder = remote(Named).options(num_cpus=ray.cluster_resources()["CPU"]).remote("holder")
    await holder.complete.remote(request("a"))
    cluster.launch_replicas(partial(Named, "unplaced"), replicas=1, cpus=0.5, gpus=0, pool="unplaced")
    monkeypatch.setattr(cluster, "_start_timeout_s", 0.1)
    with pytest.raises(
        ClusterError, match=r"0\.1 s: no process for unplaced-0 \(free now are 0 CPUs .*\); to wait longer"
    ):
        await cluster.wait_until_ready()
    ray.kill(holder)


def test_more_than_the_machine_has_is_refused_at_once(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"judge\.gpus=1 .*\b1000\b"):
        cluster.launch_replicas(Slow, replicas=1000, cpus=0, gpus=1, pool="judge")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_topology_actor_that_is_killed_or_stopped_goes_on_where_it_was(
    cluster: Cluster, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.supervision.PULSE_S", 0.1)
    modalities = ["text"] * 3 + ["visual"] * 2
    before, ours = set(workers("LearnerProcess")), Learner(modalities, seed=3)
    remote = cluster.launch("the topology actor", {"one": partial(Learner, modalities, seed=3)})["one"]
    events: list[str] = []
    await cluster.wait_until_ready(on_event=events.append)
    [process] = set(workers("LearnerProcess")) - before
    for step in range(3):
        wirings = await remote.sample(4)
        np.testing.assert_array_equal(wirings.spatial, ours.sample(4).spatial)
        scores = np.random.default_rng(step).random((4, 2, 5)), np.arange(4)
        if step == 1:
            os.kill(process, how)
        async with asyncio.timeout(240):
            assert (await remote.learn(wirings, *scores)).edges == ours.learn(wirings, *scores).edges
    for name, mine in ours.state().items():
        np.testing.assert_array_equal((await remote.state())[name], mine)
    with pytest.raises(ValueError, match=r"\bk\b"):
        await remote.sample(0)
    await until(lambda: len(events) >= 2)  # more on a machine so busy that a start seems to hang
    assert events[0].startswith(f"the topology actor {'hung' if how is signal.SIGSTOP else 'was lost'} ")
    assert not lives(process)


async def test_an_agent_that_is_stopped_is_replaced_and_its_discussions_are_held_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.supervision.PULSE_S", 0.1)
    before, undisturbed = set(workers("AgentProcess")), asyncio.Event()
    disturbed = asyncio.create_task(discuss(cluster, 40, undisturbed, pool="stopped"))
    await first_of(disturbed, undisturbed)
    stopped = min(set(workers("AgentProcess")) - before)
    os.kill(stopped, signal.SIGSTOP)
    async with asyncio.timeout(240):
        traces = await disturbed
    assert not lives(stopped)
    assert all(turn.answer == str(turn.seed) for trace in traces for turn in trace.turns)
