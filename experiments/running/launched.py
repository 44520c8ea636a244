"""Launches a run's agents, judge and learner over pools of replicas, and waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.backends.backend import Backend
from actors.backends.settings import model_name
from actors.completions.cache import Reuse
from actors.errors import UserError
from actors.memory import available_bytes
from actors.messages import Role, Usage
from actors.models import Model
from actors.runtime.agent_actor import AgentHandles
from actors.runtime.cluster import Cluster
from actors.runtime.replica_actor import PoolHandle
from actors.settings import RaySettings
from actors.signals import handlers_kept
from experiments.config.config import Config
from experiments.judging.judge import Judge
from experiments.records.progress import PLAIN_EVERY_S, Progress
from experiments.running.launch import launched_roles, learned_methods, learner_options
from experiments.running.models import COMPLETIONS, by_key, judge_backend, model_backend, role_backends
from topologies.discussion import Team
from topologies.learning.learner import Learner

Say = Callable[[str], None]


@dataclass(frozen=True)
class Launched:
    """The team that answers, and the judge of its answers, if there is one."""

    team: Team
    judge: Judge | None

    def spent(self) -> Mapping[str, Usage]:
        """The usage of each agent and of the judge so far."""
        return {**self.team.usage, **({"judge": self.judge.usage} if self.judge else {})}


def launch_agents(
    config: Config, roles: Sequence[Role], cluster: Cluster, cache: Path, recorded: Team | None, say: Say
) -> Launched:
    """The team and the judge, each over its own pool of replicas, as are roles with a model of their own. A `recorded`
    team (of a replay) needs no model.

    `say` gets a line for each model that has settings by its machine. Raises UserError where memory does not suffice.
    """
    judge = None
    if judge_model := judge_backend(config):
        model = cluster.model(_launch_pool(config, judge_model, cluster, cache, say), "judge")
        judge = Judge(model, model_name(config.judge), config.agents.replies)
    if recorded:  # the judge of a replay is a live one
        return Launched(recorded, judge)
    return Launched(_launch_team(config, roles, cluster, cache, say).team(), judge)


@dataclass(frozen=True)
class Shared:
    """The agents and the judge's pool that the processes of a sweep share."""

    agents: AgentHandles
    judge: tuple[PoolHandle, Reuse | None] | None

    def judge_model(self, sender: str) -> Model | None:
        """The judge's model for one process, which closes it; `sender` is a name that no other process has."""
        if self.judge is None:
            return None
        pool, reuse = self.judge
        return pool.model(sender, reuse)


def launch_shared(config: Config, roles: Sequence[Role], cluster: Cluster, cache: Path, say: Say) -> Shared:
    """Launches the agents and the judge's pool of a sweep; each of its processes makes a judge of its own."""
    judge = None
    if judge_model := judge_backend(config):
        reuse = _launch_pool(config, judge_model, cluster, cache, say)
        judge = cluster.pool("judge"), reuse
    return Shared(_launch_team(config, roles, cluster, cache, say), judge)


def _launch_team(config: Config, team: Sequence[Role], cluster: Cluster, cache: Path, say: Say) -> AgentHandles:
    """All agents that take part, and a pool of replicas for each model that they ask."""
    roles = launched_roles(config, team)
    own = role_backends(config, [role.name for role in roles])
    kept = {key: _launch_pool(config, backend, cluster, cache, say) for key, backend in by_key(own).items()}
    # After those of roles, as it may take all GPUs that are left.
    reuse = _launch_pool(config, model_backend(config), cluster, cache, say)
    others = {role: (backend.key, kept[backend.key]) for role, backend in own.items()}
    return cluster.launch_agents(roles, config.agents, reuse, others=others)


def check_learner(config: Config, roles: Sequence[Role], method: str) -> Learner:
    """A method's learner in this process. Raises UserError for settings that it cannot have."""
    try:
        return Learner([role.modality for role in roles], **learner_options(config, method))
    except ValueError as error:
        raise UserError(str(error)) from error


def launch_learners(config: Config, roles: Sequence[Role], cluster: Cluster) -> dict[str, Any]:
    """A topology actor for each learned method, by its name. Raises UserError for settings that one cannot have."""
    methods = learned_methods(config)
    for method in methods:
        check_learner(config, roles, method)
    modalities = [role.modality for role in roles]
    return {method: cluster.launch(Learner, modalities, **learner_options(config, method)) for method in methods}


@contextmanager
def cluster_started(settings: RaySettings, progress: Progress) -> Iterator[Cluster]:
    """A cluster for the block, which ends with it; afterwards signals are handled as before."""
    where = "on this machine" if settings.address is None else f"at {settings.address}"
    bar = progress.phase("starting Ray", total=1, note=where)
    with handlers_kept(), Cluster(settings) as cluster:
        bar.advance()
        yield cluster


async def wait(cluster: Cluster, progress: Progress) -> None:
    """Waits until all that was launched is up, and shows the progress."""
    loading, begun = cluster.loading, time.monotonic()

    def left() -> str:
        return f"{loading} {'replica' if loading == 1 else 'replicas'} still loading" if loading else ""

    def started(kind: str, still_loading: int) -> None:
        nonlocal loading
        loading = still_loading
        bar.advance(note=left())

    async def tick() -> None:
        # A large model loads for minutes, in which nothing else would be shown.
        while True:
            await asyncio.sleep(PLAIN_EVERY_S)
            bar.advance(0, note=left() and f"{left()}, {time.monotonic() - begun:.0f} s")

    bar = progress.phase("starting replicas and agents", total=cluster.starting, note=left())
    ticking = asyncio.create_task(tick())
    try:
        await cluster.wait_until_ready(started, on_event=progress.print)
    finally:
        ticking.cancel()


def _launch_pool(config: Config, backend: Backend, cluster: Cluster, cache: Path, say: Say) -> Reuse | None:
    """A pool of replicas by the name of the backend's `key`. Returns where their completions are kept."""
    backend, taken = backend.on(cluster.gpus)
    model = backend.settings
    # A backend says how many processes it needs on the GPUs that there are. Where the judge has taken all of them, the
    # cluster refuses what comes beside it.
    processes, gpus = backend.processes(cluster.free_gpus or cluster.gpus)
    # Other nodes may have more memory than this one.
    if not cluster.gpus and config.ray.address is None:
        backend.check_memory(processes, available_bytes())
    if taken:
        waits = "" if config.ray.start_timeout_s else f" ray.start_timeout_s={backend.start_timeout_s:g}"
        say(f"{taken}{waits}")
    cluster.launch_replicas(
        backend.maker(), processes, model.cpus, gpus, model.capacity, backend.key, backend.start_timeout_s
    )
    completions = config.completions
    if not completions.reuse:
        return None
    return Reuse(str(cache / COMPLETIONS), backend.identity(), completions.disk_gb, completions.memory_mb)
