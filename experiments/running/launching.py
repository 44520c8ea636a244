"""Launches a run's agents and judge over pools of replicas, one for each model, checked together first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from actors import secrets
from actors.backends.backend import Backend
from actors.completions.cache import Reuse
from actors.completions.completion_store import CompletionStore
from actors.errors import UserError
from actors.messages import Role
from actors.models import Model
from actors.runtime.runtime import Agents, ModelPool, Runtime
from experiments.planning.plan import Plan
from experiments.planning.run_models import JUDGE, MAIN

COMPLETIONS = "completions"  # the folder, among other caches
REPLICA_CPUS = 0.5  # cores that Ray reserves for each replica
# Floats of shares such as three thirds add up to a little more or less than one.
ROUNDING = 1e-6
Say = Callable[[str], None]


@dataclass(frozen=True)
class Shared:
    """Agents and the judge's pool, as the processes of a sweep share them.

    keys: of models, by their variables, which these processes do not inherit.
    """

    agents: Agents
    judge: tuple[ModelPool, Reuse | None] | None
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)


def launch_shared(plan: Plan, runtime: Runtime, say: Say) -> Shared:
    """Launches the judge's pool and the agents, each model over a pool of replicas. A replay has a judge alone.

    Each process makes its own judge. `say` gets a line for each model whose settings depend on the machine. Raises
    UserError for too few GPUs.
    """
    has_agents = plan.replayed is None
    reuse_by_key = launch_pools(plan, runtime, say, has_agents)
    launched: Sequence[Role] = ()
    models_of_roles = {}
    if has_agents:
        launched = plan.roles.launched
        models_of_roles = {role: (model.key, reuse_by_key[model.key]) for role, model in plan.models.of_roles.items()}
    agents = runtime.launch_agents(launched, plan.config.agents, reuse_by_key.get(MAIN), others=models_of_roles)
    judge = (runtime.pool(JUDGE), reuse_by_key[JUDGE]) if JUDGE in reuse_by_key else None
    return Shared(agents, judge, secrets.kept())


def judging_model(runtime: Runtime, shared: Shared) -> Model | None:
    """Returns the judge's model, as this process has it. None where there is no judge."""
    if shared.judge is None:
        return None
    _, reuse = shared.judge
    return runtime.model(reuse, JUDGE)


def launch_pools(plan: Plan, runtime: Runtime, say: Say, has_agents: bool = True) -> dict[str, Reuse | None]:
    """Launches the pools of the judge and (with agents) of models that roles ask. Returns their caches, by key.

    Raises UserError where the pools do not fit together, before any model is loaded.
    """
    models, config = plan.models, plan.config
    backends = [models.judge] if models.judge else []
    if has_agents:
        # The run's own comes after those of roles, as it may take all GPUs that are left.
        backends += [*models.of_roles_by_key.values(), models.main]
    pools = plan_pools(backends, runtime.gpus)
    # Other nodes may have more than this one, and a cluster may grow.
    if config.ray.address is None and runtime.gpus:
        check_gpus(pools, int(runtime.gpus))

    folder = str(config.cache_folder / COMPLETIONS)
    settings = config.completions
    if settings.reuse and pools:
        # Tried here, so that the run's log has the reason why a folder cannot be used. Other processes keep no log.
        CompletionStore(folder, int(settings.disk_gb * 1e9)).close()
    reuse_by_key: dict[str, Reuse | None] = {}
    for pool in pools:
        backend = pool.backend
        if pool.chosen_settings:
            line = pool.chosen_settings
            if not config.ray.start_timeout_s:
                line += f" ray.start_timeout_s={backend.start_timeout_s:g}"
            say(line)
        runtime.launch_replicas(
            backend.maker(),
            pool.replicas,
            backend.settings.capacity,
            backend.key,
            cpus=REPLICA_CPUS,
            gpus=pool.gpus,
            start_timeout_s=backend.start_timeout_s,
        )
        reuse_by_key[backend.key] = None
        if settings.reuse:
            reuse = Reuse(folder, backend.identity(), settings.disk_gb, settings.memory_mb)
            reuse_by_key[backend.key] = reuse
    return reuse_by_key


@dataclass(frozen=True)
class Pool:
    """Replicas of one model.

    backend: with the settings that were left open as they are best on the cluster; chosen_settings: a line that names
    these. gpus: number that each replica reserves.
    """

    backend: Backend
    replicas: int
    gpus: float
    chosen_settings: str = ""

    @property
    def all_gpus(self) -> float:
        return self.replicas * self.gpus


def plan_pools(backends: Sequence[Backend], gpus: float) -> list[Pool]:
    """Plans the pools of models, in order. One with open replicas takes the GPUs that those before it have left."""
    pools = []
    free_gpus = gpus
    for open_backend in backends:
        backend, chosen_settings = open_backend.on(gpus)
        # Where all are taken, it asks for what it needs all the same, and is refused with the reason.
        replicas, gpus_each = backend.processes(free_gpus if free_gpus > ROUNDING else gpus)
        free_gpus -= replicas * gpus_each
        pools.append(Pool(backend, replicas, gpus_each, chosen_settings))
    return pools


def check_gpus(pools: Sequence[Pool], gpus: int) -> None:
    """Raises UserError where pools do not fit on the GPUs, or engines share one that is too small."""
    needed_gpus = sum(pool.all_gpus for pool in pools)
    whole_gpus = sum(pool.all_gpus for pool in pools if pool.gpus >= 1)
    shared_gpus = pack_parts(pools)
    if whole_gpus + len(shared_gpus) > gpus + ROUNDING:
        parts = ", ".join(f"{pool.backend.key} {pool.replicas} x {pool.gpus:g}" for pool in pools if pool.gpus)
        fit = ", on which these parts do not fit" if needed_gpus <= gpus else ""
        raise UserError(
            f"the models of this run need {needed_gpus:g} GPUs ({parts}) and there are {gpus}{fit}: use fewer "
            "replicas, a smaller gpus= or tensor_parallel for one of them, or give roles and judge one model"
        )
    for replicas in shared_gpus:
        shares = [pool.backend.gpu_share() for pool in replicas]
        memory_share = sum(share for share in shares if share is not None)
        if len(replicas) > 1 and memory_share > 1 + ROUNDING:
            engines = dict.fromkeys(pool.backend.key for pool in replicas if pool.backend.gpu_share() is not None)
            raise UserError(
                f"{len(replicas)} replicas share a GPU, of whose memory their engines set aside {memory_share:.0%}: "
                f"set engine.gpu_memory_utilization of {' and '.join(engines)} to {90 // len(replicas) / 100:g} or "
                "less, or their gpus to 1"
            )


def pack_parts(pools: Sequence[Pool]) -> list[list[Pool]]:
    """Puts replicas that take a part of a GPU together where there is room, the largest first.

    Returns the pool of each replica by GPU. How Ray places parts is not known.
    """
    parts: list[Pool] = []
    for pool in sorted(pools, key=lambda pool: -pool.gpus):
        if 0 < pool.gpus < 1:
            parts += [pool] * pool.replicas
    gpus: list[list[Pool]] = []
    for part in parts:
        for gpu in gpus:
            if sum(pool.gpus for pool in gpu) + part.gpus <= 1 + ROUNDING:
                gpu.append(part)
                break
        else:
            gpus.append([part])
    return gpus
