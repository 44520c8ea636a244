"""Fits a cost model on measured runs by least squares.

What follows from a configuration is not fitted: calls, prompts and steps are counted from its plan. Coefficients are
not negative, and each run counts by its relative error, so that short runs tell as much as long ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from sklearn.linear_model import LinearRegression

from actors.errors import UserError
from experiments.cost.model import CostModel, Linear, Resources, bounds
from experiments.cost.observed import Observed
from experiments.records.starts import AGENT, DRIVER, LEARNER, RAY, REPLICA, Taken

# What the work of each kind of process goes by.
FEATURES = {
    DRIVER: ("call", "made", "prompt", "step"),
    AGENT: ("call", "prompt"),
    REPLICA: ("made", "prompt", "completion"),
    LEARNER: ("step",),
    RAY: ("call",),
}
# How long agents and replicas waited for a core is not recorded, so that times are those of calm runs: of those that
# waited for no more than twice as large a share of their time as the calmest one, or next to none.
CALM, NEXT_TO_NONE = 2.0, 0.02
# Models that compute on the machine's own cores, where it has no GPU.
ON_CORES = ("vllm", "transformers")


def fit(runs: Sequence[Observed]) -> CostModel:
    """The model of some runs.

    Raises:
        UserError: they are not of one model, one runtime and one machine, or too few.
    """
    first = runs[0] if runs else None
    if first is None or len(runs) < 2:
        raise UserError("a cost model is fitted on two runs or more, of different sizes: give their folders")
    for run in runs:
        for what, of_first, of_run in (
            ("model", first.model, run.model),
            ("runtime", first.config.runtime, run.config.runtime),
            ("machine", first.start.machine, run.start.machine),
        ):
            if of_first != of_run:
                raise UserError(f"{run.path} has another {what} than {first.path}: fit a cost model for each")
    kind, name = first.model
    on_cores = kind == "reader" or (kind in ON_CORES and not first.start.machine.gpus)
    takers = dict.fromkeys(taker for run in runs for taker in run.start.taken)
    speed = float(round(statistics.fmean(run.speeds[1] for run in runs)))
    work = {taker: _work(runs, taker, speed) for taker in FEATURES if taker in takers}
    if not on_cores:
        work[REPLICA] = _work_of_phases(runs)
    calm = _calm(runs)
    start_s, start_each_s = _line([run.processes for run in calm], [_at(speed, run)[0] for run in calm])
    fitted = CostModel(
        machine=first.start.machine,
        speed=speed,
        runtime=first.config.runtime,
        kind=kind,
        name=name,
        runs=len(runs),
        replicas=max(run.count(REPLICA) for run in runs),
        own_cores=on_cores,
        work=work,
        slowdown=1.0,
        start_s=start_s,
        start_each_s=start_each_s,
        end_s=_named(("run", "answer", "figure"), runs, lambda run: _at(speed, run)[2]),
        memory_mb={taker: _mean_mb(runs, taker) for taker in takers},
        disk_kb=_named(("graph", "call", "figure"), runs, lambda run: run.disk_kb),
        prefix_cache=any(run.demand.cached for run in runs),
        reply_tokens=_reply_tokens(runs),
        repairs=_digits(sum(run.repairs for run in runs) / max(1, sum(run.turns for run in runs))),
    )
    return _slowed(fitted, calm)


def resources_of(run: Observed) -> Resources:
    """What a run had."""
    return Resources(
        agents=run.count(AGENT),
        replicas=max(1, run.count(REPLICA)),
        learners=run.learners,
        cores=run.start.machine.cores,
    )


def least_squares(rows: Sequence[Sequence[float]], targets: Sequence[float]) -> list[float]:
    """Coefficients of zero or more that bring rows nearest to their targets, by relative error."""
    weights = 1 / np.maximum(np.asarray(targets, dtype=float), 1e-6)
    regression = LinearRegression(fit_intercept=False, positive=True)
    regression.fit(np.asarray(rows, dtype=float) * weights[:, None], np.ones(len(targets)))
    return [_digits(value) for value in regression.coef_]


def _calm(runs: Sequence[Observed]) -> list[Observed]:
    shares = [run.start.waited[2] / max(run.start.total_s, 1e-6) for run in runs]
    most = max(CALM * min(shares), NEXT_TO_NONE)
    return [run for run, share in zip(runs, shares, strict=True) if share <= most]


def _at(speed: float, run: Observed) -> tuple[float, float, float]:
    """The undisturbed seconds of a run, on cores of this speed."""
    up_s, discussing_s, end_s = (took * was / speed for took, was in zip(run.undisturbed, run.speeds, strict=True))
    return up_s, discussing_s, end_s


def _work(runs: Sequence[Observed], taker: str, speed: float) -> Linear:
    """Processor seconds on cores of this speed."""
    return _named(FEATURES[taker], runs, lambda run: run.start.taken.get(taker, Taken()).cpu_s * run.speeds[1] / speed)


def _named(features: Sequence[str], runs: Iterable[Observed], seconds: Callable[[Observed], float]) -> Linear:
    taken = [(run.demand.features, max(seconds(run), 0.0)) for run in runs]
    told = [(row, target) for row, target in taken if target > 0]
    if not told:
        return {}
    coefficients = least_squares([[row[name] for name in features] for row, _ in told], [target for _, target in told])
    return {name: value for name, value in zip(features, coefficients, strict=True) if value}


def _work_of_phases(runs: Iterable[Observed]) -> Linear:
    """A replica's seconds where it does not work on the machine's cores: of phases, in which replicas are what all
    others wait for."""
    features = ("prompt", "completion")
    rows, targets = [], []
    for run in runs:
        for demand, taken_s in run.phases:
            if demand.made and taken_s > 0:
                rows.append([demand.features[name] for name in features])
                targets.append(taken_s * resources_of(run).replicas)
    return {name: value for name, value in zip(features, least_squares(rows, targets), strict=True) if value}


def _line(sizes: Sequence[float], targets: Sequence[float]) -> tuple[float, float]:
    """A constant, and what each of the size adds."""
    if len(set(sizes)) < 2:
        return _digits(statistics.fmean(targets)), 0.0
    constant, each = least_squares([[1.0, size] for size in sizes], [max(target, 1e-3) for target in targets])
    return constant, each


def _mean_mb(runs: Iterable[Observed], taker: str) -> float:
    taken = [run.start.taken[taker] for run in runs if taker in run.start.taken]
    # Ray's own processes are there once, however many they are.
    return round(statistics.fmean(of.memory_mb / (1 if taker == RAY else max(1, of.count)) for of in taken), 1)


def _reply_tokens(runs: Sequence[Observed]) -> dict[str, float]:
    sums: dict[str, list[int]] = {"": [0, 0]}
    for run in runs:
        for role, reply in run.replies.items():
            for key in ("", role):
                sums.setdefault(key, [0, 0])
                sums[key] = [a + b for a, b in zip(sums[key], reply, strict=True)]
    return {role: round(tokens / max(1, calls), 1) for role, (calls, tokens) in sums.items()}


def _slowed(model: CostModel, runs: Iterable[Observed]) -> CostModel:
    """With what runs took beyond the bound of their work; not what other programs on the machine added to that."""
    ratios = []
    for run in runs:
        bound = max(bounds(model.at_speed(run.speeds[1]), run.demand, resources_of(run)).values())
        if bound > 0:
            ratios.append(run.undisturbed[1] / bound)
    return replace(model, slowdown=max(1.0, _digits(statistics.median(ratios))) if ratios else 1.0)


def _digits(value: float) -> float:
    """Four digits: files of coefficients are read by people."""
    return float(f"{value:.4g}")
