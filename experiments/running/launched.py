"""The agents of a run as processes, and its judge: launched over pools of replicas, and waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.backends.settings import ModelSettings
from actors.completions.cache import Reuse
from actors.errors import UserError
from actors.messages import Role, Usage
from actors.models import Model
from actors.runtime.cluster import Cluster
from actors.runtime.remote import AgentHandles, Replicas
from experiments.config.config import Config
from experiments.judging.judge import Judge
from experiments.records.progress import Progress
from experiments.running.launch import launched_roles, learner_options, model_maker, model_name, replicas, reuse
from topologies.discussion import Team
from topologies.learning.learner import Learner


@dataclass(frozen=True)
class Launched:
    """Who answers, and who judges the answers, if anybody does."""

    team: Team
    judge: Judge | None

    def spent(self) -> Mapping[str, Usage]:
        """What each agent and the judge have spent so far."""
        return {**self.team.usage, **({"judge": self.judge.usage} if self.judge else {})}


def launch_agents(
    config: Config, roles: Sequence[Role], cluster: Cluster, cache: Path, recorded: Team | None = None
) -> Launched:
    """The team and the judge, each over its own pool of replicas. `recorded` answers in place of both agents and model
    (a replay)."""
    judge = None
    if config.judge.kind != "none":
        _launch_pool(config, config.judge, cluster, "judge")
        model = cluster.model(reuse(config, config.judge, cache), pool="judge")
        judge = Judge(model, model_name(config.judge))
    if recorded:
        return Launched(recorded, judge)
    _launch_pool(config, config.model, cluster, "model")
    kept = reuse(config, config.model, cache)
    return Launched(cluster.launch_team(launched_roles(config, roles), config.agents, kept), judge)


@dataclass(frozen=True)
class Shared:
    """The same for many processes: agents, and the judge's pool with what it has judged, which all of them ask."""

    agents: AgentHandles
    judge: tuple[Replicas, Reuse | None] | None

    def judge_model(self, sender: str) -> Model | None:
        """The judge's model for one process, for it to close; `sender` is a name that no other process has."""
        if self.judge is None:
            return None
        pool, kept = self.judge
        return pool.model(sender, kept)


def launch_shared(config: Config, roles: Sequence[Role], cluster: Cluster, cache: Path) -> Shared:
    judge = None
    if config.judge.kind != "none":
        _launch_pool(config, config.judge, cluster, "judge")
        judge = cluster.replicas("judge"), reuse(config, config.judge, cache)
    _launch_pool(config, config.model, cluster, "model")
    kept = reuse(config, config.model, cache)
    return Shared(cluster.launch_agents(launched_roles(config, roles), config.agents, kept), judge)


def check_learner(config: Config, roles: Sequence[Role]) -> Learner:
    """A learner in this process. Raises UserError for settings that it cannot have."""
    try:
        return Learner([role.modality for role in roles], **learner_options(config))
    except ValueError as error:
        raise UserError(str(error)) from error


def launch_learner(config: Config, roles: Sequence[Role], cluster: Cluster) -> Any:
    """The topology actor. Raises UserError for settings that the learner cannot have."""
    check_learner(config, roles)
    return cluster.launch(Learner, [role.modality for role in roles], **learner_options(config))


async def wait(cluster: Cluster, progress: Progress) -> None:
    """Until all that was launched is up, with progress."""

    def left(loading: int) -> str:
        return f"{loading} {'replica' if loading == 1 else 'replicas'} still loading" if loading else ""

    loading = left(cluster.loading)
    bar = progress.phase("starting replicas and agents", total=cluster.starting, note=loading)

    def started(kind: str, loading: int) -> None:
        bar.advance(note=left(loading))

    await cluster.wait_until_ready(started, news=progress.print)


def _launch_pool(config: Config, model: ModelSettings, cluster: Cluster, pool: str) -> None:
    make_model = model_maker(model, config.reader, pool)
    number, gpus = replicas(model, cluster.gpus)
    cluster.launch_replicas(make_model, number, model.cpus, gpus, model.capacity, pool)
