"""Refuses settings that were chosen and have no effect in a run, before it starts.

A setting that is ignored in silence looks as if it had been tried: a sweep of it shows no difference, or a report names
a model that did not answer. Parts of a run (the job, the data set, the attack, methods, models) name in `reads` the
settings that count with them: what one of them names counts in runs with such a part alone. Other conditions are
declared with the setting (`when=` of `actors.settings.setting`).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from actors.backends.backends import BACKENDS, NoBackend
from actors.errors import UserError, visible
from actors.lookup import near_miss
from actors.settings import WHEN
from experiments.attacks.catalogue import ATTACKS, attack_kind
from experiments.config.config import Config, written
from experiments.config.keys import PREFIXES, declared, near_key
from experiments.config.loading import Overrides
from experiments.datasets.catalogue import DATASETS
from experiments.jobs import JOBS, plan_of
from experiments.planning.plan import Plan
from topologies.catalogue import METHODS

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
# Groups that scripts set for any methods; as axes of a sweep they must count. Two of their keys decide which questions
# are held out.
LEARNING = ("learner", "pruning", "training")
HOLDING_OUT = ("pruning.steps", "training.questions_per_step")


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


def check_used(overrides: Overrides, plan: Plan, trials: Sequence[Varied] = ()) -> None:
    """Checks the settings of a command line, its preset and its sweep.

    Prints a note on settings without effect in some trials of the sweep, and on those of a preset that may have lost
    their effect by the words of the command line. Raises UserError for others without effect.

    plan: of the run, or of a sweep's first trial with the sweep's configuration.
    trials: of a sweep, one for each combination of values; seeds change nothing of it.
    """
    check_reads(plan)
    refused: dict[str, list[str]] = {}
    for key, reasons in _reasons(overrides, plan, trials).items():
        found = [reason for reason in reasons if reason]
        if not found:
            continue
        of_preset = key in overrides.preset_keys and key not in overrides.keys
        if len(found) < len(reasons):
            note = f"{key} has no effect in {len(found)} of {len(reasons)} settings of the sweep: {found[0]}"
            print(visible(f"note: {note}"))
        elif of_preset and len(overrides.keys) > 1:
            print(visible(f"note: {key} of the preset has no effect: {found[0]}"))
        else:
            refused.setdefault(found[0], []).append(key)
    for reason, keys in refused.items():
        raise UserError(f"{', '.join(keys)} would have no effect: {reason}")


def _reasons(overrides: Overrides, plan: Plan, trials: Sequence[Varied]) -> dict[str, list[str | None]]:
    """Finds, for each setting that was chosen, why it has no effect in each plan that has it; None where it counts."""
    defaults = Config().by_key
    changed = [key for key, value in plan.config.by_key.items() if key not in defaults or defaults[key] != value]
    chosen = [*overrides.keys, *(() if overrides.ours else overrides.preset_keys)]
    reasons: dict[str, list[str | None]] = {}
    for key in dict.fromkeys(chosen):
        if not any(f"{name}.".startswith(f"{key}.") for name in changed):
            continue
        if not key.startswith("sweep."):
            reasons[key] = [why_unused(trial_plan, key) for _, trial_plan in trials or [({}, plan)]]
        elif trials:
            # Of the sweep itself, which its trials do not have.
            reasons[key] = [why_unused(plan, key)]
        else:
            reasons[key] = ["this is no sweep; give it sweep.axes"]
    for key in dict.fromkeys(key for values, _ in trials for key in values):
        of_trials = [_why_unused_axis(trial_plan, key) for values, trial_plan in trials if key in values]
        if all(of_trials) or not overrides.ours:
            reasons[f"sweep: {key}"] = of_trials
    return reasons


def _why_unused_axis(plan: Plan, key: str) -> str | None:
    needs_learning = key.partition(".")[0] in LEARNING and key not in HOLDING_OUT
    return FACTS["learns"] if needs_learning and not plan.learns else why_unused(plan, key)


def check_reads(plan: Plan) -> None:
    """Raises UserError where a part of the run names something else than a setting in its `reads`."""
    for named_by, parts in parts_of(plan).items():
        for part in parts:
            for key in part.reads:
                if declared(key) is None:
                    unknown = f"{key!r}, which is no setting.{near_key(key)}"
                    raise UserError(f"{named_by}={part.name}: its `reads` names {unknown}")


def parts_of(plan: Plan) -> dict[str, Sequence[Part]]:
    """Lists the parts of a run, by the setting that names them."""
    learners = [spec.variant for spec in plan.learners.values()]
    return {
        "job": [plan.job],
        "data": [plan.dataset],
        "attack": [attack_kind(plan.config.attack.kind)],
        "methods": [*plan.methods, *learners],
        "model": plan.models.all,
    }


def why_unused(plan: Plan, key: str) -> str | None:
    """Finds what keeps a setting from having an effect in a run, in words. None where it counts."""
    parts = parts_of(plan)
    names = key.split(".")
    model = "model"  # what names the model that the setting is of
    group = ""
    # From the outside in: what keeps a group from having an effect keeps all its settings.
    for place, name in enumerate(names):
        setting = f"{group}.{name}".lstrip(".")
        for named_by, chosen in parts.items():
            if reason := _unread(setting, named_by, chosen, model if named_by == "model" else named_by):
                return reason
        for condition in conditions(setting):
            if reason := _unmet(plan, group, condition):
                return reason
        group = setting
        # A judge's and a role's model and reader have the settings of the run's.
        match names[: place + 1]:
            case ["model"]:
                parts["model"] = [plan.models.main]
            case ["judge"]:
                model, group = "judge", "model"
                parts["model"] = [plan.models.judge or NoBackend]
            case ["roles", role, "model" | "reader"]:
                model, group = f"roles.{role}.model", name
                parts["model"] = [plan.models.of_role(role)]
    return _without_role(plan, names)


def _without_role(plan: Plan, names: Sequence[str]) -> str | None:
    """Says that the team lacks the role of a setting. None where it has it, or the setting is of no role of a team."""
    topology = plan.config.topology
    team = [*(f"text_{name}" for name in topology.text), *(f"visual_{name}" for name in topology.visual)]
    role = names[1] if names[0] == "roles" else ""
    if not role.startswith(PREFIXES) or role in team:
        return None
    return f"no agent of this run has the role {role}.{near_miss(role, team)} The team has {', '.join(team)}"


def conditions(key: str) -> list[str]:
    """Lists the conditions that are declared with a setting."""
    setting = declared(key)
    stated = setting.metadata.get(WHEN) if setting else None
    return stated.split(", ") if stated else []


@cache
def readers(key: str, named_by: str) -> str:
    """Writes which of the project's parts read a setting: `attack=response|collude`, `attack!=none`. Empty: none."""
    names = [part.name for part in PARTS[named_by] if key in part.reads]
    others = [part.name for part in PARTS[named_by] if key not in part.reads]
    if not names:
        return ""
    return f"{named_by}={'|'.join(names)}" if len(names) <= len(others) else f"{named_by}!={'|'.join(others)}"


def _unread(key: str, named_by: str, chosen: Sequence[Part], shown: str) -> str | None:
    """Says that no chosen part reads a setting. None where one does, or where no part of the kind has to."""
    condition = readers(key, named_by)
    if not condition or any(key in part.reads for part in chosen):
        return None
    names = list(dict.fromkeys(part.name for part in chosen))
    ours = [part.name for part in PARTS[named_by]]
    if not set(names) <= set(ours):
        return f"{shown}={','.join(names)} does not name {key} in its `reads`"
    now = f"{shown}={','.join(names)}"
    if "!=" in condition:
        return f"this is {now}; leave it out"
    return f"it counts with {condition.replace(named_by, shown, 1)}, and this is {now}"


def _unmet(plan: Plan, group: str, condition: str) -> str | None:
    """Says that a condition of a setting in a group is not met: a fact, or a value of a sibling. None where it is."""
    if condition in FACTS:
        return None if getattr(plan, condition) else f"{FACTS[condition]}; leave it out"
    sibling, _, allowed = condition.partition("=")
    key = f"{group}.{sibling.removesuffix('!')}"
    value = written(plan.config.by_key.get(key, []))
    if sibling.endswith("!"):
        return f"this is {key}={value}; leave it out" if value in allowed.split("|") else None
    return None if value in allowed.split("|") else f"it counts with {key}={allowed}, and this is {key}={value}"
