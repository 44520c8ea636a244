"""The cost model: from what a run asks of its processes to time, memory and disk, on a machine whose speed is known.

Every kind of process works for a time that is linear in calls, tokens and steps. A run lasts as long as the busiest
part of it: the process that holds its discussions, which is one thread; all processes together on the machine's cores;
or its replicas, where these have GPUs or an address of their own. That bound is multiplied by what a run was measured
to take beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pydantic import ConfigDict

from experiments.cost.demand import Demand
from experiments.records.schema import STRICT
from experiments.records.starts import AGENT, DRIVER, LEARNER, RAY, REPLICA, Machine

Linear = Mapping[str, float]  # what one of each of a demand's features adds, by its name


@dataclass(frozen=True, slots=True)
class CostModel:
    """Coefficients, fitted on runs of one model and one runtime on one machine.

    speed: of a core (`records/speed.py`) at which all its seconds hold.
    runs: how many it was fitted on. replicas: most that they had.
    own_cores: replicas work on the machine's cores; else on GPUs or behind an address, and `work` of a replica was
        taken from the time of phases.
    work: by kind of process. slowdown: the time that discussions took, over the bound of their work.
    start_s: seconds until agents can be asked, and `start_each_s` for each process of agents and replicas.
    end_s: seconds after the discussions, for figures and report.
    memory_mb: of one process of each kind; of Ray's own, all together.
    disk_kb: of a run folder.
    prefix_cache: whether the model has one that its replicas tell of.
    reply_tokens: tokens of a reply, by role; under "" of all roles together.
    repairs: calls that were made a second time for the form of their reply, per turn.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    machine: Machine
    speed: float
    runtime: str
    kind: str
    name: str
    runs: int
    replicas: int
    own_cores: bool
    work: Mapping[str, Linear]
    slowdown: float
    start_s: float
    start_each_s: float
    end_s: Linear
    memory_mb: Mapping[str, float]
    disk_kb: Linear
    prefix_cache: bool
    reply_tokens: Mapping[str, float] = field(default_factory=dict)
    repairs: float = 0.0

    def answers_for(self, kind: str, name: str) -> bool:
        """Whether it was fitted on runs of this model."""
        return (self.kind, self.name) == (kind, name)

    def at_speed(self, speed: float) -> CostModel:
        """On cores of another speed. What replicas do on GPUs or behind an address takes as long as before."""
        slower = self.speed / speed
        apart = () if self.own_cores else (REPLICA,)
        return replace(
            self,
            speed=speed,
            work={kind: of if kind in apart else _times(of, slower) for kind, of in self.work.items()},
            start_s=self.start_s * slower,
            start_each_s=self.start_each_s * slower,
            end_s=_times(self.end_s, slower),
        )

    def at_rates(self, prompt_per_s: float | None, completion_per_s: float | None, replicas: int) -> CostModel:
        """With replicas that were not measured: so many tokens of each kind in a second, of all of them together."""
        rates = {"prompt": prompt_per_s, "completion": completion_per_s}
        work = {feature: 1000 * replicas / rate for feature, rate in rates.items() if rate}
        return replace(self, work={**self.work, REPLICA: work}, own_cores=False)


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run is given: processes of `agents`, `replicas` and `learners`, cores, GPUs, and trials at once."""

    agents: int
    replicas: int
    learners: int
    cores: int
    gpus: float = 0.0
    parallel: int = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """A prediction. `busiest` says in words what bounds the time of the discussions."""

    start_s: float
    discussing_s: float
    end_s: float
    busiest: str
    memory_mb: float
    disk_mb: float
    gpu_hours: float

    @property
    def total_s(self) -> float:
        return self.start_s + self.discussing_s + self.end_s


def _times(coefficients: Linear, factor: float) -> Linear:
    return {feature: each * factor for feature, each in coefficients.items()}


def linear(coefficients: Linear, demand: Demand) -> float:
    """What a demand comes to."""
    features = demand.features
    return sum(each * features[feature] for feature, each in coefficients.items())


def bounds(model: CostModel, demand: Demand, resources: Resources) -> dict[str, float]:
    """The seconds below which discussions cannot be held, by what bounds them, in words."""
    work = {kind: linear(of, demand) for kind, of in model.work.items()}
    apart = 0.0 if model.own_cores else work.get(REPLICA, 0.0)
    # One run has one process that holds its discussions, and a sweep as many as it has trials at once.
    at_once = min(float(resources.parallel), max(1.0, demand.runs))
    found = {
        "the process that holds the discussions, which has one thread": work.get(DRIVER, 0.0) / at_once,
        f"all processes on {resources.cores} cores": (sum(work.values()) - apart) / resources.cores,
    }
    if apart:
        found[f"{resources.replicas} replicas"] = apart / resources.replicas
    elif model.runtime == "ray":
        found[f"{resources.replicas} replicas"] = work.get(REPLICA, 0.0) / resources.replicas
    return found


def predict(model: CostModel, demand: Demand, resources: Resources) -> Cost:
    """Time, memory and disk of a run, or of a sweep where the demand is that of several runs."""
    processes = resources.agents + resources.replicas if model.runtime == "ray" else 0
    found = bounds(model, demand, resources)
    busiest = max(found, key=lambda name: found[name])
    at_once = min(float(resources.parallel), max(1.0, demand.runs))
    start_s = model.start_s + model.start_each_s * processes
    # In a sweep each trial makes its own figures and report, while others still discuss.
    end_s = linear(model.end_s, demand) / min(at_once, resources.cores)
    discussing_s = model.slowdown * found[busiest]
    memory = model.memory_mb
    # A process of a sweep for each trial at once, beside the one that the user started.
    drivers = 1 if demand.runs <= 1 else 1 + at_once
    memory_mb = drivers * memory.get(DRIVER, 0.0) + memory.get(RAY, 0.0)
    for kind, count in ((AGENT, resources.agents), (REPLICA, resources.replicas), (LEARNER, resources.learners)):
        memory_mb += memory.get(kind, 0.0) * count
    return Cost(
        start_s=start_s,
        discussing_s=discussing_s,
        end_s=end_s,
        busiest=busiest,
        memory_mb=memory_mb,
        disk_mb=linear(model.disk_kb, demand) / 1000,
        gpu_hours=resources.gpus * (start_s + discussing_s + end_s) / 3600,
    )
