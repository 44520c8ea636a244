"""Launches a run's agents, judge and learners over pools of replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from actors.backends.model_settings import model_name
from actors.completions.cache import Reuse
from actors.completions.completion_store import CompletionStore
from actors.messages import Usage
from actors.models import Model
from actors.runtime.runtime import Agents, ModelPool, Runtime
from experiments.config.config import Config
from experiments.judging.judge import Judge
from experiments.planning.models import JUDGE, MAIN
from experiments.planning.plan import Plan
from experiments.running.pools import Pool, check_gpus, plan_pools
from topologies.learning.making import make_learner
from topologies.topology import Noted, Team

COMPLETIONS = "completions"  # the folder, among other caches
REPLICA_CPUS = 0.5  # cores that Ray reserves for each replica
Say = Callable[[str], None]


class MeteredTeam(Team, Protocol):
    """A team that counts the usage of phases which go on side by side."""

    def metered(self, noted: Noted | None = None) -> Team:
        """The same agents; its own `usage` counts the calls through it alone, and `noted` gets its turns."""


@dataclass(frozen=True)
class Launched:
    """The team that answers, and the judge of its answers, if there is one."""

    team: MeteredTeam
    judge: Judge | None

    def usage(self) -> Mapping[str, Usage]:
        """The usage of each agent and of the judge so far."""
        return {**self.team.usage, **({"judge": self.judge.usage} if self.judge else {})}


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


def launch_agents(plan: Plan, runtime: Runtime, cache: Path, recorded: MeteredTeam | None, say: Say) -> Launched:
    """Launches the team and the judge, each model over a pool of replicas. A `recorded` team needs no model.

    Args:
        say: gets a line for each model whose settings depend on the machine.

    Raises:
        UserError: memory or GPUs do not suffice.
    """
    judge = None
    pools = _pools(plan, runtime, agents=recorded is None)
    if JUDGE in pools:  # of a replay it is a live one
        model = runtime.model(_launch_pool(plan.config, pools[JUDGE], runtime, cache, say), JUDGE)
        judge = judge_of(plan, model)
    return Launched(recorded or _launch_team(plan, pools, runtime, cache, say).team(), judge)


def judge_of(plan: Plan, model: Model | None) -> Judge | None:
    """The judge of a plan's answers, if it has one; `model` answers it."""
    judge = plan.models.judge
    return Judge(model, model_name(judge.settings), plan.config.agents.replies) if judge and model else None


def launch_shared(plan: Plan, runtime: Runtime, cache: Path, say: Say) -> Shared:
    """Launches the agents and the judge's pool of a sweep; each of its processes makes a judge of its own."""
    judge = None
    pools = _pools(plan, runtime)
    if JUDGE in pools:
        reuse = _launch_pool(plan.config, pools[JUDGE], runtime, cache, say)
        judge = runtime.pool(JUDGE), reuse
    return Shared(_launch_team(plan, pools, runtime, cache, say), judge)


def launch_learners(plan: Plan, runtime: Runtime) -> Mapping[str, Any]:
    """Launches the learner of each learned method, by its name, all in one topology actor: most of what a process of
    theirs takes is PyTorch."""
    made = {method: partial(make_learner, spec) for method, spec in plan.learners.items()}
    return runtime.launch("the topology actor", made) if made else {}


def check_completions(config: Config, cache: Path) -> None:
    """Raises UserError for a folder of completions that cannot be used: once, and not in the log of every process."""
    if config.completions.reuse:
        CompletionStore(str(cache / COMPLETIONS), int(config.completions.disk_gb * 1e9)).close()


def processes(plan: Plan) -> int:
    """Actors of a run's agents and models: one for each role, however many agents have it, and each replica."""
    return len(plan.roles.played) + plan.models.replicas


def _pools(plan: Plan, runtime: Runtime, agents: bool = True) -> dict[str, Pool]:
    """The pools of the judge and (with `agents`) of all models that roles ask, by key, in the order of their launch.

    Raises UserError where they do not fit together, before any model is loaded.
    """
    models = plan.models
    backends = [models.judge] if models.judge else []
    if agents:
        # The run's own comes after those of roles, as it may take all GPUs that are left.
        backends += [*models.of_roles_by_key.values(), models.main]
    pools = plan_pools(backends, runtime.gpus)
    # Other nodes may have more than this one, and a cluster may grow.
    if plan.config.ray.address is None and runtime.gpus:
        check_gpus(pools, int(runtime.gpus))
    return {pool.key: pool for pool in pools}


def _launch_team(plan: Plan, pools: Mapping[str, Pool], runtime: Runtime, cache: Path, say: Say) -> Agents:
    """Launches all agents that take part, and a pool of replicas for each model that they ask."""
    config = plan.config
    reuse = {key: _launch_pool(config, pool, runtime, cache, say) for key, pool in pools.items() if key != JUDGE}
    others = {role: (backend.key, reuse[backend.key]) for role, backend in plan.models.of_roles.items()}
    return runtime.launch_agents(plan.roles.launched, config.agents, reuse[MAIN], others=others)


def _launch_pool(config: Config, pool: Pool, runtime: Runtime, cache: Path, say: Say) -> Reuse | None:
    """Launches a pool of replicas under its key. Returns where their completions are kept."""
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
