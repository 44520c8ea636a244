"""Launches a run's agents, judge and learner over pools of replicas, and waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from actors.backends.model_settings import model_name
from actors.completions.cache import Reuse
from actors.errors import UserError
from actors.memory import available_bytes
from actors.messages import Role, Usage
from actors.models import Model
from actors.runtime.cluster import Cluster
from actors.runtime.inline import Inline
from actors.runtime.runtime import Agents, ModelPool, Runtime
from actors.settings import RaySettings
from actors.signals import handlers_kept
from experiments.config.config import Config
from experiments.judging.judge import Judge
from experiments.records.progress import PLAIN_EVERY_S, Progress
from experiments.running.launch import launched_roles, learned_methods, learner_options
from experiments.running.models import COMPLETIONS, by_key, judge_backend, model_backend, role_backends
from experiments.running.pools import Pool, check_gpus, check_memory, gpu_memory, plan_pools
from topologies.learning.learner_settings import Graph
from topologies.learning.making import candidates_along, graph_of, make_learner
from topologies.learning.spec import DENSE, LearnerSpec, shared_training
from topologies.topology import Team

if TYPE_CHECKING:
    from topologies.learning.learner import Learner

JUDGE = "judge"  # the key of the judge's settings, and the name of its pool
Say = Callable[[str], None]

REPLICA_CPUS = 0.5  # cores that Ray reserves for each replica


class SpendingTeam(Team, Protocol):
    """A team that tells phases which go on side by side what each of them has spent."""

    def metered(self) -> Team:
        """The same agents, with what is spent through it counted in its own `usage` alone."""


@dataclass(frozen=True)
class Launched:
    """The team that answers, and the judge of its answers, if there is one."""

    team: SpendingTeam
    judge: Judge | None

    def spent(self) -> Mapping[str, Usage]:
        """The usage of each agent and of the judge so far."""
        return {**self.team.usage, **({"judge": self.judge.usage} if self.judge else {})}


def launch_agents(
    config: Config, roles: Sequence[Role], runtime: Runtime, cache: Path, recorded: SpendingTeam | None, say: Say
) -> Launched:
    """The team and the judge, each over its own pool of replicas, as are roles with a model of their own. A `recorded`
    team (of a replay) needs no model.

    `say` gets a line for each model that has settings by its machine. Raises UserError where memory does not suffice.
    """
    judge = None
    pools = _pools(config, () if recorded else launched_roles(config, roles), runtime, recorded is None)
    if JUDGE in pools:
        model = runtime.model(_launch_pool(config, pools[JUDGE], runtime, cache, say), JUDGE)
        judge = Judge(model, model_name(config.judge), config.agents.replies)
    if recorded:  # the judge of a replay is a live one
        return Launched(recorded, judge)
    return Launched(_launch_team(config, roles, pools, runtime, cache, say).team(), judge)


@dataclass(frozen=True)
class Shared:
    """The agents and the judge's pool that the processes of a sweep share."""

    agents: Agents
    judge: tuple[ModelPool, Reuse | None] | None

    def judge_model(self, sender: str) -> Model | None:
        """The judge's model for one process, which closes it; `sender` is a name that no other process has."""
        if self.judge is None:
            return None
        pool, reuse = self.judge
        return pool.model(sender, reuse)


def launch_shared(config: Config, roles: Sequence[Role], runtime: Runtime, cache: Path, say: Say) -> Shared:
    """Launches the agents and the judge's pool of a sweep; each of its processes makes a judge of its own."""
    judge = None
    pools = _pools(config, launched_roles(config, roles), runtime)
    if JUDGE in pools:
        reuse = _launch_pool(config, pools[JUDGE], runtime, cache, say)
        judge = runtime.pool(JUDGE), reuse
    return Shared(_launch_team(config, roles, pools, runtime, cache, say), judge)


def _pools(config: Config, roles: Sequence[Role], runtime: Runtime, team: bool = True) -> dict[str, Pool]:
    """The pools of the judge and (with `team`) of all models that roles ask, by key, in the order of their launch.

    Raises UserError where they do not fit together, before any model is loaded.
    """
    judge = judge_backend(config)
    backends = [judge] if judge else []
    if team:
        # The run's own comes after those of roles, as it may take all GPUs that are left.
        own = role_backends(config, dict.fromkeys(role.played for role in roles))
        backends += [*by_key(own).values(), model_backend(config)]
    pools = plan_pools(backends, runtime.gpus)
    # Other nodes may have more than this one, and a cluster may grow.
    if config.ray.address is None:
        if runtime.gpus:
            check_gpus(pools, int(runtime.gpus), gpu_memory())
        else:
            check_memory(pools, available_bytes())
    return {pool.key: pool for pool in pools}


def _launch_team(
    config: Config, team: Sequence[Role], pools: Mapping[str, Pool], runtime: Runtime, cache: Path, say: Say
) -> Agents:
    """All agents that take part, and a pool of replicas for each model that they ask."""
    roles = launched_roles(config, team)
    own = role_backends(config, dict.fromkeys(role.played for role in roles))
    kept = {key: _launch_pool(config, pool, runtime, cache, say) for key, pool in pools.items() if key != JUDGE}
    others = {role: (backend.key, kept[backend.key]) for role, backend in own.items()}
    return runtime.launch_agents(roles, config.agents, kept[model_backend(config).key], others=others)


def check_learners(config: Config, roles: Sequence[Role]) -> dict[str, LearnerSpec]:
    """The specification of each learned method. Raises UserError for settings that a learner cannot have."""
    specs = {}
    for method in learned_methods(config):
        specs[method] = _learner_spec(config, roles, method)
        try:
            specs[method].check()
        except UserError as error:
            raise UserError(f"{method}: {error}") from error
    return specs


def donors(config: Config, roles: Sequence[Role]) -> dict[str, str]:
    """By learned method, the one whose discussions it learns from instead of its own (`training.share`)."""
    return shared_training(check_learners(config, roles)) if config.training.share else {}


def launch_learners(config: Config, roles: Sequence[Role], runtime: Runtime) -> Mapping[str, Any]:
    """Launches the learner of each learned method, by its name, all in the topology actor: most of the memory of such a
    process is PyTorch. Raises UserError for settings that a learner cannot have."""
    made = {method: partial(make_learner, spec) for method, spec in check_learners(config, roles).items()}
    return runtime.launch("the topology actor", made) if made else {}


def make_learners(config: Config, roles: Sequence[Role]) -> dict[str, Learner]:
    """Makes the learners in this process, by method. Raises UserError for settings that a learner cannot have."""
    return {method: make_learner(spec) for method, spec in check_learners(config, roles).items()}


def _learner_spec(config: Config, roles: Sequence[Role], method: str) -> LearnerSpec:
    """A method's learner, to be made here or in another process."""
    if len(roles) > DENSE:
        raise UserError(
            f"{method}: a run that learns records matrices of all pairs, and there are {len(roles)} agents; ask for "
            f"{DENSE} at most, with topology.instances"
        )
    topology = config.topology
    spec = LearnerSpec(modalities=[role.modality for role in roles], **learner_options(config, method))
    if not topology.tied and topology.candidates == Graph.COMPLETE:
        return spec
    return replace(
        spec,
        candidates=candidates_along(graph_of(topology.candidates, len(roles), config.seed)),
        roles=[role.played for role in roles] if topology.tied else None,
    )


def runtime_started(config: Config, progress: Progress) -> AbstractContextManager[Runtime]:
    """What a run's agents, models and learners run on, for a block."""
    if config.runtime == "ray":
        return cluster_started(config.ray, progress)
    return Inline()


@contextmanager
def runtime_beside(config: Config, progress: Progress) -> Iterator[Runtime]:
    """The same for a sweep, whose trials are Ray's processes whatever holds their agents."""
    with cluster_started(config.ray, progress) as cluster:
        if config.runtime == "ray":
            yield cluster
        else:
            with Inline() as inline:
                yield inline


@contextmanager
def cluster_started(settings: RaySettings, progress: Progress) -> Iterator[Cluster]:
    """A cluster for the block, which ends with it; afterwards signals are handled as before."""
    where = "on this machine" if settings.address is None else f"at {settings.address}"
    bar = progress.phase("starting Ray", total=1, note=where)
    with handlers_kept(), Cluster(settings) as cluster:
        bar.advance()
        yield cluster


async def wait(runtime: Runtime, progress: Progress) -> None:
    """Waits until all that was launched is up, and shows the progress."""
    loading, begun = runtime.loading, time.monotonic()

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

    bar = progress.phase("starting replicas and agents", total=runtime.starting, note=left())
    ticking = asyncio.create_task(tick())
    try:
        await runtime.wait_until_ready(started, on_event=progress.print)
    finally:
        ticking.cancel()


def _launch_pool(config: Config, pool: Pool, runtime: Runtime, cache: Path, say: Say) -> Reuse | None:
    """A pool of replicas by the name of the backend's `key`. Returns where their completions are kept."""
    backend, model = pool.backend, pool.backend.settings
    if pool.taken:
        waits = "" if config.ray.start_timeout_s else f" ray.start_timeout_s={backend.start_timeout_s:g}"
        say(f"{pool.taken}{waits}")
    runtime.launch_replicas(
        backend.maker(), pool.replicas, REPLICA_CPUS, pool.gpus, model.capacity, pool.key, backend.start_timeout_s
    )
    completions = config.completions
    if not completions.reuse:
        return None
    return Reuse(str(cache / COMPLETIONS), backend.identity(), completions.disk_gb, completions.memory_mb)
