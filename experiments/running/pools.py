"""The pools of replicas that a run starts: one for each of its models, checked together before any is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.backends.backend import Backend
from actors.errors import UserError

# Floats of shares such as three thirds add up to a little more or less than one.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Pool:
    """The replicas of one model.

    backend: with the settings that were left open as they are best on the cluster; taken: a line that names these.
    gpus: what each replica reserves.
    """

    backend: Backend
    replicas: int
    gpus: float
    taken: str = ""


def plan_pools(backends: Sequence[Backend], gpus: float) -> list[Pool]:
    """Plans the pools of models, in order; one with open replicas takes the GPUs that those before it have left."""
    pools, free = [], gpus
    for left_open in backends:
        backend, taken = left_open.on(gpus)
        # Where all are taken, it asks for what it needs all the same, and is refused with the reason.
        replicas, each = backend.processes(free if free > ROUNDING else gpus)
        free -= replicas * each
        pools.append(Pool(backend, replicas, each, taken))
    return pools


def check_gpus(pools: Sequence[Pool], gpus: int) -> None:
    """Raises UserError where pools do not fit on the GPUs together, or engines set aside more than one has.

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
