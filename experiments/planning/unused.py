"""Refuses settings that were chosen and have no effect in a run, before it starts.

A setting that is ignored in silence looks as if it had been tried: a sweep of it shows no difference, or a report names
a model that did not answer. Fields of settings classes declare when they count (`actors.settings.setting`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.lookup import installed, is_reference, near_miss
from actors.settings import WHEN
from experiments.config.loading import Overrides
from experiments.config.values import PREFIXES, declared
from experiments.planning.plan import Plan
from topologies.catalogue import find_methods

# Values of a sweep's trial, and its plan.
Varied = tuple[Mapping[str, Any], Plan]

# Facts of a plan that conditions name, and what would make them true.
FACTS = {
    "learns": "none of the methods learns a graph",
    "watches": "none of the methods watches agents, as anomaly and agreement do",
    "controls": "each of the methods is one turn of one agent, which has no twin and no placebo",
    "searches": "none of the methods searches a knowledge graph or the web; name a system that does",
    "reader": "no model is the embedded reader",
}
# Groups that scripts set for any methods; as axes of a sweep they must count. The two keys decide which questions are
# held out.
_LEARNING, _NOT_ONLY = ("learner", "pruning", "training"), ("pruning.steps", "training.questions_per_step")


def check_used(overrides: Overrides, plan: Plan, trials: Sequence[Varied] = ()) -> list[str]:
    """Checks the settings of a command line, its preset and its sweep. A preset's setting may lose its effect.

    plan: of the run, or of a sweep's first trial with the sweep's configuration.
    trials: of a sweep, one for each combination of values; seeds change nothing of it.

    Returns lines on those without effect in some trials of the sweep. Raises UserError for one without effect in the
    whole run or sweep.
    """
    plans = [one for _, one in trials] or [plan]
    alone = replace(plan, config=overrides.alone, methods=find_methods(overrides.alone.methods))
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
            of_key = [idle(plan, key) if trials else "this is no sweep; give it sweep.axes"]
        else:
            of_key = [idle(one, key) for one in plans]
        if key in overrides.keys or not all(of_key) or idle(alone, key):
            reasons[key] = of_key
    for key in dict.fromkeys(key for values, _ in trials for key in values):
        learns = key.partition(".")[0] in _LEARNING and key not in _NOT_ONLY
        of_key = [
            idle(one, key) or (FACTS["learns"] if learns and not one.learns else None)
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


def idle(plan: Plan, key: str) -> str | None:
    """Finds the first condition that keeps a setting from having an effect in a run, in words. None where it counts."""
    group, outer = "", None
    # From the outside in: a group's condition holds for all its settings.
    for name in key.split("."):
        setting = declared(f"{group}{name}")
        if setting is None or setting is outer:  # nothing of ours, or below a setting of any type
            break
        for condition in filter(None, setting.metadata.get(WHEN, "").split(", ")):
            if reason := _unmet(plan, group, condition):
                return reason
        group, outer = f"{group}{name}.", setting
    topology = plan.config.topology
    team = [*(f"text_{name}" for name in topology.text), *(f"visual_{name}" for name in topology.visual)]
    role = key.split(".")[1] if key.startswith("roles.") else ""
    if not role.startswith(PREFIXES) or role in team:
        return None
    return f"no agent of this run has the role {role}.{near_miss(role, team)} The team has {', '.join(team)}"


def _unmet(plan: Plan, group: str, condition: str) -> str | None:
    """Checks one condition of a setting in a dotted group; in words where it is not met."""
    if condition in FACTS:
        return None if getattr(plan, condition) else f"{FACTS[condition]}; leave it out"
    name, _, allowed = condition.partition("=")
    negated, name, values = name.endswith("!"), name.removesuffix("!"), allowed.split("|")
    key = f"{group}{name}" if declared(f"{group}{name}") else name  # a sibling, or a key of the configuration
    if name == "methods":
        actual, own = [method.name for method in plan.methods], not plan.all_ours
    else:
        value: Any = plan.config
        match key.split("."):
            # A judge and a role's model have whole settings.
            case ["judge", *names]:
                value, names = plan.config.judge_model or ModelSettings(kind="none"), names or ["kind"]
            case ["roles", role, "model" | "reader" as part, *names] if names and (
                merged := plan.config.model_of_role(role)
            ):
                value = merged[part == "reader"]
            case names:
                pass
        for each in names:
            value = value[each] if isinstance(value, dict) else getattr(value, each)
        # As the command line writes it.
        actual = [str(value).lower() if isinstance(value, bool) or value is None else str(value)]
        groups = ("models", "datasets", "attacks")
        own = is_reference(actual[0]) or any(actual[0] in installed(group) for group in groups)
    # Which settings the user's own code reads is unknown.
    if own or any(value in values for value in actual) != negated:
        return None
    shown = key.removesuffix(".kind")
    now = f"{shown}={','.join(actual)}"
    return f"this is {now}; leave it out" if negated else f"it counts with {shown}={allowed}, and this is {now}"
