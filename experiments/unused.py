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

# Facts of a plan that conditions name, and what makes them true.
FACTS = {
    "learns": "a method that learns a graph",
    "watches": "a method that watches agents, as anomaly, agreement and probes do",
    "controls": "a method of more than one turn, which has a twin and a placebo",
    "searches": "a system that searches a knowledge graph or the web",
    "judges": "a judge, such as judge=reader",
    "takes_samples": "a learner that takes so many samples of a question",
}
# Groups that scripts set for any methods; as axes of a sweep they must count. Two of their keys decide which questions
# are for training.
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
    for key, reasons_by_trial in _reasons(overrides, plan, trials).items():
        reasons = [reason for reason in reasons_by_trial if reason]
        if not reasons:
            continue
        of_preset = key in overrides.preset_keys and key not in overrides.keys
        if len(reasons) < len(reasons_by_trial):
            settings = f"{len(reasons)} of {len(reasons_by_trial)} settings of the sweep"
            print(visible(f"note: {key} has no effect in {settings}: {reasons[0]}"))
        elif of_preset and len(overrides.keys) > 1:
            print(visible(f"note: {key} of the preset has no effect: {reasons[0]}"))
        else:
            refused.setdefault(reasons[0], []).append(key)
    for reason, keys in refused.items():
        raise UserError(f"{', '.join(keys)} would have no effect: {reason}")


def _reasons(overrides: Overrides, plan: Plan, trials: Sequence[Varied]) -> dict[str, list[str | None]]:
    """Finds, for each setting that was chosen, why it has no effect in each plan that has it; None where it counts."""
    defaults = Config().by_key
    changed = [key for key, value in plan.config.by_key.items() if key not in defaults or defaults[key] != value]
    chosen = dict.fromkeys(overrides.keys)
    if not overrides.ours:
        chosen |= dict.fromkeys(overrides.preset_keys)

    reasons: dict[str, list[str | None]] = {}
    for key in chosen:
        if not any(f"{changed_key}.".startswith(f"{key}.") for changed_key in changed):
            continue
        if not key.startswith("sweep."):
            reasons[key] = [why_unused(trial_plan, key) for _, trial_plan in trials or [({}, plan)]]
        elif trials:
            # Of the sweep itself, which its trials do not have.
            reasons[key] = [why_unused(plan, key)]
        else:
            reasons[key] = ["this is no sweep; give it sweep.axes"]
    axes: dict[str, list[Plan]] = {}
    for values, trial_plan in trials:
        for key in values:
            axes.setdefault(key, []).append(trial_plan)
    for key, plans in axes.items():
        of_axis = [_why_unused_axis(trial_plan, key) for trial_plan in plans]
        if all(of_axis) or not overrides.ours:
            reasons[f"sweep: {key}"] = of_axis
    return reasons


def _why_unused_axis(plan: Plan, key: str) -> str | None:
    needs_learning = key.partition(".")[0] in LEARNING and key not in HOLDING_OUT
    if needs_learning and not plan.learns:
        return _without("learns")
    return why_unused(plan, key)


def check_reads(plan: Plan) -> None:
    """Raises UserError where a part of the run names something else than a setting in its `reads`."""
    for named_by, parts in parts_of(plan).items():
        for part in parts:
            for key in part.reads:
                if declared(key) is None:
                    hint = near_key(key)
                    raise UserError(f"{named_by}={part.name}: its `reads` names {key!r}, which is no setting.{hint}")


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
    named_as = {named_by: named_by for named_by in parts}
    names = key.split(".")
    group = ""
    # From the outside in: what keeps a group from having an effect keeps all its settings.
    for place, name in enumerate(names):
        setting = f"{group}.{name}".lstrip(".")
        for named_by in parts:
            reason = _unread(setting, named_by, parts[named_by], named_as[named_by])
            if reason is not None:
                return reason
        for condition in conditions(setting):
            reason = _unmet(plan, group, condition)
            if reason is not None:
                return reason
        group = setting
        # A judge's and a role's model and reader have the settings of the run's.
        match names[: place + 1]:
            case ["model"]:
                parts["model"] = [plan.models.main]
            case ["judge"]:
                group = "model"
                parts["model"] = [plan.models.judge or NoBackend]
                named_as["model"] = "judge"
            case ["roles", role, "model" | "reader"]:
                group = name
                parts["model"] = [plan.models.of_role(role)]
                named_as["model"] = f"roles.{role}.model"
    return _without_role(plan, names)


def _without_role(plan: Plan, names: Sequence[str]) -> str | None:
    """Names a setting whose role the team lacks. None where it has it, or the setting is of no role of a team."""
    topology = plan.config.topology
    team = [*(f"text_{name}" for name in topology.text), *(f"visual_{name}" for name in topology.visual)]
    if len(names) < 2 or names[0] != "roles" or not names[1].startswith(PREFIXES) or names[1] in team:
        return None
    role = names[1]
    return f"no agent of this run has the role {role}.{near_miss(role, team)} The team has {', '.join(team)}"


def conditions(key: str) -> list[str]:
    """Lists the conditions that are declared with a setting."""
    setting = declared(key)
    if setting is None or WHEN not in setting.metadata:
        return []
    return list(setting.metadata[WHEN].split(", "))


@cache
def readers(key: str, named_by: str) -> str:
    """Writes which of the project's parts read a setting: `attack=response|collude`, `attack!=none`. Empty: none."""
    names = [part.name for part in PARTS[named_by] if key in part.reads]
    other_names = [part.name for part in PARTS[named_by] if key not in part.reads]
    if not names:
        return ""
    if len(names) > len(other_names):
        return f"{named_by}!={'|'.join(other_names)}"
    return f"{named_by}={'|'.join(names)}"


def _unread(key: str, named_by: str, parts: Sequence[Part], setting: str) -> str | None:
    """Explains that no part of a run reads a setting. None where one does, or where no part of the kind has to.

    setting: what names the parts, such as `judge` for a model of the kinds that `model` names.
    """
    condition = readers(key, named_by)
    if not condition or any(key in part.reads for part in parts):
        return None
    names = dict.fromkeys(part.name for part in parts)
    value = f"{setting}={','.join(names)}"
    if not names.keys() <= {part.name for part in PARTS[named_by]}:
        return f"{value} does not name {key} in its `reads`"
    if "!=" in condition:
        return f"this is {value}; leave it out"
    return f"it counts with {condition.replace(named_by, setting, 1)}, and this is {value}"


def _without(fact: str) -> str:
    return f"it counts with {FACTS[fact]}, and this run has none"


def _unmet(plan: Plan, group: str, condition: str) -> str | None:
    """Names a condition of a setting in a group that is not met: a fact, or a value of a sibling. None if it is."""
    if condition in FACTS:
        return None if getattr(plan, condition) else _without(condition)
    sibling, _, allowed = condition.partition("=")
    key = f"{group}.{sibling.removesuffix('!')}"
    value = written(plan.config.by_key.get(key, []))
    is_listed = value in allowed.split("|")
    if sibling.endswith("!"):
        return f"this is {key}={value}; leave it out" if is_listed else None
    return None if is_listed else f"it counts with {key}={allowed}, and this is {key}={value}"
