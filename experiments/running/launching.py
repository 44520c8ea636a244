"""Launches a run's agents and judge over pools of replicas, one for each model, checked together first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.backends.backend import Backend
from actors.completions.cache import Reuse
from actors.completions.completion_store import CompletionStore
from actors.errors import UserError
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
    """Agents and the judge's pool, as the processes of a sweep share them."""

    agents: Agents
    judge: tuple[ModelPool, Reuse | None] | None


def launch_shared(plan: Plan, runtime: Runtime, say: Say) -> Shared:
    """Launches the judge's pool and the agents, each model over a pool of replicas. A replay has a judge alone.

    Each process makes its own judge. `say` gets a line for each model whose settings depend on the machine. Raises
    UserError for too few GPUs.
    """
    agents = plan.replayed is None
    reuse = launch_pools(plan, runtime, say, agents)
    judge = (runtime.pool(JUDGE), reuse[JUDGE]) if JUDGE in reuse else None
    others = {role: (backend.key, reuse[backend.key]) for role, backend in plan.models.of_roles.items() if agents}
    launched = plan.roles.launched if agents else ()
    return Shared(runtime.launch_agents(launched, plan.config.agents, reuse.get(MAIN), others=others), judge)


def launch_pools(plan: Plan, runtime: Runtime, say: Say, agents: bool = True) -> dict[str, Reuse | None]:
    """Launches the pools of the judge and (with `agents`) of models that roles ask. Returns their caches, by key.

    Raises UserError where the pools do not fit together, before any model is loaded.
    """
    models, config = plan.models, plan.config
    backends = [models.judge] if models.judge else []
    if agents:
        # The run's own comes after those of roles, as it may take all GPUs that are left.
        backends += [*models.of_roles_by_key.values(), models.main]
    pools = plan_pools(backends, runtime.gpus)
    # Other nodes may have more than this one, and a cluster may grow.
    if config.ray.address is None and runtime.gpus:
        check_gpus(pools, int(runtime.gpus))
    folder, own = str(config.cache_folder / COMPLETIONS), config.completions
    kept: dict[str, Reuse | None] = {}
    if own.reuse and pools:
        # Tried here, so that the log of the run says why a folder cannot be used. Other processes keep no log.
        CompletionStore(folder, int(own.disk_gb * 1e9)).close()
    for pool in pools:
        backend, timeout_s = pool.backend, pool.backend.start_timeout_s
        if pool.taken:
            say(pool.taken + ("" if config.ray.start_timeout_s else f" ray.start_timeout_s={timeout_s:g}"))
        placed = {"cpus": REPLICA_CPUS, "gpus": pool.gpus, "start_timeout_s": timeout_s}
        runtime.launch_replicas(backend.maker(), pool.replicas, backend.settings.capacity, backend.key, **placed)
        kept[backend.key] = Reuse(folder, backend.identity(), own.disk_gb, own.memory_mb) if own.reuse else None
    return kept


@dataclass(frozen=True)
class Pool:
    """Replicas of one model.

    backend: with the settings that were left open as they are best on the cluster; taken: a line that names these.
    gpus: what each replica reserves.
    """

    backend: Backend
    replicas: int
    gpus: float
    taken: str = ""


def plan_pools(backends: Sequence[Backend], gpus: float) -> list[Pool]:
    """Plans the pools of models, in order. One with open replicas takes the GPUs that those before it have left."""
    pools, free = [], gpus
    for left_open in backends:
        backend, taken = left_open.on(gpus)
        # Where all are taken, it asks for what it needs all the same, and is refused with the reason.
        replicas, each = backend.processes(free if free > ROUNDING else gpus)
        free -= replicas * each
        pools.append(Pool(backend, replicas, each, taken))
    return pools


def check_gpus(pools: Sequence[Pool], gpus: int) -> None:
    """Raises UserError where pools do not fit on the GPUs, or engines share one that is too small.

    How Ray places parts of a GPU is not known, so they are put where there is room, the largest first.
    """
    asking = [pool for pool in pools if pool.gpus]
    needed = sum(pool.replicas * pool.gpus for pool in asking)
    asked = ", ".join(f"{pool.backend.key} {pool.replicas} x {pool.gpus:g}" for pool in asking)
    parts = sorted((pool for pool in asking if pool.gpus < 1 for _ in range(pool.replicas)), key=lambda one: -one.gpus)
    whole = sum(pool.replicas * pool.gpus for pool in asking if pool.gpus >= 1)
    shared: list[list[Pool]] = []
    for part in parts:
        here = next((on for on in shared if sum(one.gpus for one in on) + part.gpus <= 1 + ROUNDING), None)
        if here is None:
            shared.append([part])
        else:
            here.append(part)
    if whole + len(shared) > gpus + ROUNDING:
        raise UserError(
            f"the models of this run need {needed:g} GPUs ({asked}) and there are {gpus}"
            f"{', on which these parts do not fit' if needed <= gpus else ''}: use fewer replicas, a smaller gpus= or "
            "tensor_parallel for one of them, or give roles and judge one model"
        )
    for on in shared:
        engines = {pool.backend.key: share for pool in on if (share := pool.backend.gpu_share()) is not None}
        set_aside = sum(engines.get(pool.backend.key, 0.0) for pool in on)
        if len(on) > 1 and set_aside > 1 + ROUNDING:
            raise UserError(
                f"{len(on)} replicas share a GPU, of whose memory their engines set aside {set_aside:.0%}: set "
                f"engine.gpu_memory_utilization of {' and '.join(engines)} to {90 // len(on) / 100:g} or less, or "
                "their gpus to 1"
            )
