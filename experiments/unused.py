"""Refuses settings that were chosen and have no effect in a run, before it starts.

A setting that is ignored in silence looks as if it had been tried: a sweep of it shows no difference, or a report names
a model that did not answer. Parts (the job, the data set, the attack, methods, models) name in `reads` the settings
that count with them, so a setting that one of them names counts in runs with such a part alone. Other conditions are
declared with the setting (`when=` of `actors.settings.setting`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

from actors.backends.backends import BACKENDS, NoBackend
from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import WHEN
from experiments.attacks.catalogue import ATTACKS, attack_kind
from experiments.config.config import Config
from experiments.config.loading import Overrides
from experiments.config.values import PREFIXES, declared, near_key
from experiments.datasets.catalogue import DATASETS, dataset_kind
from experiments.jobs import JOBS, plan_of
from experiments.planning.plan import Plan
from experiments.planning.run_models import find_models
from topologies.catalogue import METHODS, find_methods

# Values of a sweep's trial, and its plan.
Varied = tuple[Mapping[str, Any], Plan]

# Facts of a plan that conditions name, and what would make them true.
FACTS = {
    "learns": "none of the methods learns a graph",
    "watches": "none of the methods watches agents, as anomaly and agreement do",
    "controls": "each of the methods is one turn of one agent, which has no twin and no placebo",
    "searches": "none of the methods searches a knowledge graph or the web; name a system that does",
    "judges": "there is no judge; name one, such as judge=reader",
}
# Groups that scripts set for any methods; as axes of a sweep they must count. The two keys decide which questions are
# held out.
_LEARNING, _NOT_ONLY = ("learner", "pruning", "training"), ("pruning.steps", "training.questions_per_step")


class Part(Protocol):
    """Part of a run that names settings in `reads`. `name`: as the configuration names it."""

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> Sequence[str]: ...


# The project's own parts, by the setting that names one.
PARTS: Mapping[str, Sequence[Part]] = {
    "job": tuple(JOBS.values()),
    "data": DATASETS,
    "attack": ATTACKS,
    "methods": METHODS,
    "model": BACKENDS,
}


def plan_run(config: Config, overrides: Overrides | None) -> Plan:
    """Makes the plan of a run, whose chosen settings all have an effect. Raises UserError as `plan_of`, and for others.

    overrides: of the command line; None for a run that is resumed.
    """
    plan = plan_of(config)
    if overrides is not None:
        check_used(overrides, plan)
    return plan


def check_used(overrides: Overrides, plan: Plan, trials: Sequence[Varied] = ()) -> list[str]:
    """Checks the settings of a command line, its preset and its sweep. A preset's setting may lose its effect.

    plan: of the run, or of a sweep's first trial with the sweep's configuration.
    trials: of a sweep, one for each combination of values; seeds change nothing of it.

    Returns lines on those without effect in some trials of the sweep. Raises UserError for one without effect in the
    whole run or sweep.
    """
    check_reads(plan)
    plans = [trial_plan for _, trial_plan in trials] or [plan]
    alone = replace(
        plan,
        config=overrides.alone,
        methods=find_methods(overrides.alone.methods),
        dataset=dataset_kind(overrides.alone.data.kind),
        models=find_models(overrides.alone, plan.roles.played),
    )
    # Settings that are not at their default. A dictionary of the user's own has no defaults.
    values, defaults = plan.config.by_key, type(plan.config)().by_key
    names = {**values, **defaults}
    changed = [n for n in names if n not in values or n not in defaults or values[n] != defaults[n]]
    chosen = [key for key in overrides.keys if any(f"{name}.".startswith(f"{key}.") for name in changed)]
    chosen += [key for key in overrides.preset if key not in overrides.keys and not overrides.ours]
    reasons: dict[str, list[str | None]] = {}  # by setting: of each plan that has it, None where it counts
    for key in chosen:
        if key.startswith("sweep."):
            # Of the sweep itself, which its trials do not have.
            of_key = [why_unused(plan, key) if trials else "this is no sweep; give it sweep.axes"]
        else:
            of_key = [why_unused(one, key) for one in plans]
        if key in overrides.keys or not all(of_key) or why_unused(alone, key):
            reasons[key] = of_key
    for key in dict.fromkeys(key for values, _ in trials for key in values):
        learns = key.partition(".")[0] in _LEARNING and key not in _NOT_ONLY
        of_key = [
            why_unused(one, key) or (FACTS["learns"] if learns and not one.learns else None)
            for values, one in trials
            if key in values
        ]
        if all(of_key) or not overrides.ours:
            reasons[f"sweep: {key}"] = of_key
    refused: dict[str, list[str]] = {}
    notes = []
    for key, of_key in reasons.items():
        found = list(filter(None, of_key))
        if len(found) == len(of_key):
            refused.setdefault(found[0], []).append(key)
        elif found:
            notes.append(f"{key} has no effect in {len(found)} of {len(of_key)} settings of the sweep: {found[0]}")
    for reason, keys in refused.items():
        raise UserError(f"{', '.join(keys)} would have no effect: {reason}")
    return notes


def check_reads(plan: Plan) -> None:
    """Raises UserError where a part of the run names something else than a setting in its `reads`."""
    for named_by, parts in _parts_of(plan).items():
        for part in parts:
            for key in part.reads:
                if declared(key) is None:
                    hint = near_key(key, [])
                    raise UserError(f"{named_by}={part.name}: its `reads` names {key!r}, which is no setting.{hint}")


def why_unused(plan: Plan, key: str) -> str | None:
    """Finds what keeps a setting from having an effect in a run, in words. None where it counts."""
    model_key, model_named_by, models = _model_setting(plan, key)
    parts = _parts_of(plan) | {"model": models}
    # From the outside in: a group's condition holds for all its settings.
    for prefix in dict.fromkeys((*_prefixes(key), *_prefixes(model_key))):
        for named_by, chosen in parts.items():
            shown = model_named_by if named_by == "model" else named_by
            if reason := _unread(prefix, named_by, chosen, shown):
                return reason
        group = prefix.rpartition(".")[0]
        for condition in conditions(prefix):
            if reason := _unmet(plan, group, condition):
                return reason
    topology = plan.config.topology
    team = [*(f"text_{name}" for name in topology.text), *(f"visual_{name}" for name in topology.visual)]
    role = key.split(".")[1] if key.startswith("roles.") else ""
    if not role.startswith(PREFIXES) or role in team:
        return None
    return f"no agent of this run has the role {role}.{near_miss(role, team)} The team has {', '.join(team)}"


def conditions(key: str) -> list[str]:
    """Lists the conditions that are declared with a setting."""
    setting = declared(key)
    return list(filter(None, setting.metadata.get(WHEN, "").split(", "))) if setting else []


@cache
def readers(key: str, named_by: str) -> str:
    """Writes which of the project's parts read a setting: `attack=response|collude`, `attack!=none`. Empty: none."""
    names = [part.name for part in PARTS[named_by] if key in part.reads]
    others = [part.name for part in PARTS[named_by] if key not in part.reads]
    if not names:
        return ""
    return f"{named_by}={'|'.join(names)}" if len(names) <= len(others) else f"{named_by}!={'|'.join(others)}"


def _parts_of(plan: Plan) -> dict[str, Sequence[Part]]:
    return {
        "job": [plan.job],
        "data": [plan.dataset],
        "attack": [attack_kind(plan.config.attack.kind)],
        "methods": [*plan.methods, *(spec.variant for spec in plan.learners.values())],
        "model": plan.models.all,
    }


def _model_setting(plan: Plan, key: str) -> tuple[str, str, Sequence[Part]]:
    """Returns the key of `model` or `reader` that a setting has, what names its model, and the models that may read it.

    Judges' and roles' models have the settings of the run's own.
    """
    match key.split("."):
        case ["judge", *names] if names:
            return ".".join(["model", *names]), "judge", [plan.models.judge or NoBackend]
        case ["roles", role, "model" | "reader" as group, *names]:
            return ".".join([group, *names]), f"roles.{role}.model", [plan.models.of_role(role)]
        case ["model", *_]:
            return key, "model", [plan.models.main]
    return key, "model", plan.models.all


def _prefixes(key: str) -> list[str]:
    names = key.split(".")
    return [".".join(names[: number + 1]) for number in range(len(names))]


def _unread(key: str, named_by: str, chosen: Sequence[Part], shown: str) -> str | None:
    """Says in words that no chosen part reads a setting. None where one does, or no part of the kind names it."""
    condition = readers(key, named_by)
    if not condition or any(key in part.reads for part in chosen):
        return None
    names = list(dict.fromkeys(part.name for part in chosen))
    ours = [part.name for part in PARTS[named_by]]
    if own := [name for name in names if name not in ours]:
        return f"{shown}={own[0]} does not name {key} in its `reads`"
    now = f"{shown}={','.join(names)}"
    if "!=" in condition:
        return f"this is {now}; leave it out"
    return f"it counts with {condition.replace(named_by, shown, 1)}, and this is {now}"


def _unmet(plan: Plan, group: str, condition: str) -> str | None:
    """Checks one condition of a setting in a group: a fact, or values of a sibling. In words where it is not met."""
    if condition in FACTS:
        return None if getattr(plan, condition) else f"{FACTS[condition]}; leave it out"
    name, _, allowed = condition.partition("=")
    negated, name = name.endswith("!"), name.removesuffix("!")
    value: Any = plan.config
    for below in (*group.split("."), name):
        value = getattr(value, below)
    # As the command line writes it.
    actual = str(value).lower() if isinstance(value, bool) or value is None else str(value)
    if (actual in allowed.split("|")) != negated:
        return None
    key = f"{group}.{name}"
    if negated:
        return f"this is {key}={actual}; leave it out"
    return f"it counts with {key}={allowed}, and this is {key}={actual}"
