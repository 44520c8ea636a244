"""What a cost model makes of a planned run or sweep: time, memory, disk and money, and how far each is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from actors.backends.settings import model_name
from actors.messages import Role
from experiments.config.config import Config
from experiments.config.settings import CostSettings
from experiments.cost.demand import Demand
from experiments.cost.file import find_model
from experiments.cost.model import Cost, CostModel, Resources, predict
from experiments.records.starts import REPLICA
from experiments.running.launch import launched_roles, learned_methods
from experiments.running.models import by_key, model_backend, role_backends

FIT = "fit a cost model of your own with `python -m experiments.estimate fit <run folders>`"


@dataclass(frozen=True, slots=True)
class Money:
    """In the currency of the prices; None where a price is not given."""

    tokens: float | None
    gpus: float | None

    @property
    def total(self) -> float:
        return (self.tokens or 0.0) + (self.gpus or 0.0)


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction. `timed` is False where nothing tells how long the replicas work, so that time is a lower bound.

    model: whose work it is, at the speed of the machine; told_speed: that is given, not measured; rated: its replicas
    are those of `costs.prompt_tokens_per_s` and its like.
    """

    model: CostModel
    resources: Resources
    demand: Demand
    cost: Cost
    money: Money
    timed: bool
    rated: bool
    told_speed: bool


def predicted(
    config: Config, roles: Sequence[Role], demand: Demand, speed: float, launches: int = 1
) -> Predicted | None:
    """The prediction of a run, or of a sweep where the demand is of several; None with `costs.model=none`.

    Args:
        speed: of a core of this machine, where `costs.speed` names none.
        launches: how often agents and replicas are started.
    """
    costs, fitted = config.costs, find_model(config.costs.model, config.runtime)
    if fitted is None:
        return None
    resources = _resources(config, roles, fitted)
    # In a run in one process, which replicas share, its own process does their work.
    known = fitted.answers_for(config.model.kind, model_name(config.model))
    if known and not fitted.prefix_cache:
        demand = replace(demand, cached=0.0)
    rated = bool(costs.prompt_tokens_per_s or costs.completion_tokens_per_s)
    model = fitted.at_speed(costs.speed or speed)
    if rated:
        model = model.at_rates(costs.prompt_tokens_per_s, costs.completion_tokens_per_s, resources.replicas)
    elif not known:
        model = replace(model, work={kind: work for kind, work in model.work.items() if kind != REPLICA})
    if not known:
        # How large another model is, this one cannot know.
        own = model_backend(config).memory()
        replica_mb = own.total_bytes / 1e6 if own else 0.0
        model = replace(model, memory_mb={**model.memory_mb, REPLICA: replica_mb})
    cost = predict(model, demand, resources)
    cost = replace(cost, start_s=cost.start_s * launches)
    return Predicted(
        model, resources, demand, cost, _money(costs, demand, cost), known or rated, rated, bool(costs.speed)
    )


def reply_lengths(config: Config) -> dict[str, float]:
    """Tokens of a reply by role, of a model that was measured; empty for others."""
    fitted = find_model(config.costs.model, config.runtime)
    if fitted is None or not fitted.answers_for(config.model.kind, model_name(config.model)):
        return {}
    return dict(fitted.reply_tokens)


def _resources(config: Config, roles: Sequence[Role], model: CostModel) -> Resources:
    # All agents of a role are one process.
    played = dict.fromkeys(role.played for role in launched_roles(config, roles))
    own = role_backends(config, played)
    backends = [model_backend(config), *by_key(own).values()]
    return Resources(
        agents=len(played),
        replicas=sum(backend.replicas for backend in backends),
        learners=int(bool(learned_methods(config))),
        cores=config.costs.cores or model.machine.cores,
        gpus=sum(backend.replicas * backend.gpus_each for backend in backends),
        parallel=config.sweep.parallel,
    )


def _money(costs: CostSettings, demand: Demand, cost: Cost) -> Money:
    tokens = None
    if any(price is not None for price in (costs.prompt_price, costs.cached_price, costs.completion_price)):
        cached_price = costs.cached_price if costs.cached_price is not None else costs.prompt_price
        parts = (
            (demand.prompt - demand.cached, costs.prompt_price),
            (demand.cached, cached_price),
            (demand.completion, costs.completion_price),
        )
        tokens = sum(count * (price or 0.0) for count, price in parts) / 1e6
    gpus = None if costs.gpu_hour_price is None else cost.gpu_hours * costs.gpu_hour_price
    return Money(tokens, gpus)


def notes(found: Predicted) -> Iterator[str]:
    """The prediction in words."""
    model, cost, demand, resources = found.model, found.cost, found.demand, found.resources
    of_all = f"of all {demand.runs:,.0f} trials, {resources.parallel} at once" if demand.runs > 1 else "of the run"
    cached = f" ({short(demand.cached)} of them from a prefix cache with room for them)" if demand.cached else ""
    yield (
        f"Predicted {of_all}: {demand.calls:,.0f} calls, of which {demand.made:,.0f} are made, with "
        f"{short(demand.prompt)} prompt tokens{cached} and {short(demand.completion)} completion tokens."
    )
    at_least = "" if found.timed else "at least "
    yield (
        f"Time: {at_least}{duration(cost.total_s)} ({duration(cost.start_s)} to start, "
        f"{duration(cost.discussing_s)} of discussions, {duration(cost.end_s)} for figures and reports), bounded by "
        f"{cost.busiest}. "
        f"Memory: {cost.memory_mb / 1000:,.1f} GB on the machine, without that of GPUs; disk: "
        f"{cost.disk_mb / 1000:,.2f} GB."
    )
    yield (
        f"The cost model was fitted on {model.runs} runs of {model.name}, runtime={model.runtime}, on "
        f"{model.machine.cores} cores of {model.machine.processor}, and times are for cores of the speed "
        f"{model.speed:,.0f}{'' if found.told_speed else ', as read here meanwhile'}; of another machine, give "
        f"costs.speed (starts.jsonl of its runs has it), or {FIT}."
    )
    if found.rated:
        yield "The replicas' time is that of the given tokens per second, of all of them together and kept busy."
    elif not found.timed:
        yield (
            "How long the model's replicas work is not known: give costs.prompt_tokens_per_s and "
            f"costs.completion_tokens_per_s, or {FIT}."
        )
    if resources.gpus:
        yield f"GPUs: {resources.gpus:g}, for {cost.gpu_hours:,.1f} GPU hours{'' if found.timed else ' at least'}."
    money = found.money
    if money.tokens is not None or money.gpus is not None:
        each = [
            f"{part:,.2f} for {what}"
            for part, what in ((money.tokens, "tokens"), (money.gpus, "GPUs"))
            if part is not None
        ]
        yield f"Money at the given prices: {money.total:,.2f} ({' and '.join(each)}), with both caches."


def duration(taken_s: float) -> str:
    """Seconds in the unit in which they are easiest to read."""
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if taken_s >= 2 * size:
            return f"{taken_s / size:,.1f} {unit}"
    return f"{taken_s:,.1f} s"


def short(tokens: float) -> str:
    """Three digits: 812, 45.6k, 7.89M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            value = tokens / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"
    return f"{tokens:.0f}"
