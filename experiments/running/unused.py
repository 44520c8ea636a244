"""Settings that a user has chosen and that nothing of the run goes by: refused, or told of, before it starts.

A setting that is passed over in silence looks as if it had been tried: a sweep of it shows no difference, and a model's
name stands in a report for which another model answered. What of the user's own code goes by is not known, and so
nothing is refused there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from actors.backends.backends import BACKENDS
from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from experiments.attacks.attack import ATTACKS, attack_kind
from experiments.attacks.kind import NONE
from experiments.config.config import Config
from experiments.config.loading import Said, for_role
from experiments.config.references import flat
from experiments.config.settings import SweepSettings
from experiments.datasets.catalogue import DATASETS, dataset_kind
from experiments.running.launch import learned_methods
from experiments.running.methods import METHODS, methods_of

# The values of a sweep's trial, and the configuration that they make.
Varied = tuple[Mapping[str, Any], Config]

_STUDIES = ("planted", "redundancy", "behaviour")
_ANSWERING = ("model", "judge", "judge_rubric", "reader", "replay", "attack", "defence", "systems")
_DISCUSSING = ("topology", "ablation", "agents", "roles")
# Whole groups that a job passes over: what agents are asked and told, where it holds no discussions, and the figures
# of a run, where it draws its own in any case or none. Methods are no such group where data are read: those that learn
# decide which questions are held out.
_PASSED_OVER = {
    "recall": ("figures", *_ANSWERING, *_DISCUSSING),
    "planted": ("figures", "data", "retrieval", "methods", *_ANSWERING, *_DISCUSSING),
    "redundancy": ("figures",),
    "behaviour": ("topology", "ablation", "learner"),
}
# By the setting that makes them count, and its value.
_RETRIEVAL = {
    "gleaning": ("graph", "model"),
    "web_file": ("web", "recorded"),
}
_OF_SWEEPS = ("search", "samples", "stop", "grace", "reduction", "parallel")
# What only a learner goes by, whatever the data set. (Steps and questions decide which questions are held out.)
_LEARNING = ("learner", "pruning", "training")
_NOT_ONLY = ("pruning.steps", "training.questions_per_step")


def check_used(said: Said, config: Config, trials: Sequence[Varied] = ()) -> list[str]:
    """Lines on what is without effect in some trials of a sweep.

    What stands in a preset and is of use in the preset as it is may be left without use by the command line.

    trials: of a sweep, one of each setting, for seeds change nothing of it.

    Raises UserError for what is without effect in all of a run or sweep, an axis of the sweep included.
    """
    configs = [one for _, one in trials] or [config]
    refused: dict[str, list[str]] = {}
    notes = []
    for key in _chosen(said, config):
        why = [reason for one in configs if (reason := idle(one, key))]
        of_preset = key not in said.words
        if len(why) == len(configs):
            if not (of_preset and idle(said.alone, key) is None):
                refused.setdefault(why[0], []).append(key)
        elif why and not (of_preset and said.ours):
            notes.append(f"{key} has no effect in {len(why)} of {len(configs)} settings of the sweep: {why[0]}")
    for key in said.words:
        # Of the words alone: those that call off what a preset's sweep goes by leave the rest of it standing.
        if reason := _of_sweep(config.sweep, key, bool(trials)):
            refused.setdefault(reason, []).append(key)
    for key in dict.fromkeys(key for values, _ in trials for key in values):
        of_key = [one for values, one in trials if key in values]
        why = [reason for one in of_key if (reason := idle(one, key) or _idle_axis(one, key))]
        if len(why) == len(of_key):
            refused.setdefault(why[0], []).append(f"sweep: {key}")
        elif why and not said.ours:
            notes.append(f"sweep: {key} has no effect in {len(why)} of its {len(of_key)} settings: {why[0]}")
    for reason, keys in refused.items():
        raise UserError(f"{', '.join(keys)} would have no effect: {reason}")
    return notes


def idle(config: Config, key: str) -> str | None:
    """Why a setting has no effect in a run, and what would; None where it may have one."""
    group, _, name = key.partition(".")
    if group in _PASSED_OVER.get(config.job, ()):
        return f"job={config.job} does not go by {group}; leave it out"
    if group in _STUDIES and group != config.job:
        return f"that is for job={group}, and this is job={config.job}; leave it out, or choose another experiment"
    if group == "ablation":
        return _of_ablation(config)
    # A group's name alone stands for its kind.
    if name in ("kind", "") and group != "judge_rubric":
        return None
    match group:
        case "data":
            return _of_data(config, name)
        case "model":
            return _of_model(config.model, "model", name)
        case "judge":
            return _of_model(config.judge, "judge", name)
        case "judge_rubric":
            return _of_model(config.judge, "judge", "") if config.judge.kind == "none" else None
        case "reader":
            return _of_reader(config)
        case "roles":
            return _of_role(config, name)
        case "retrieval":
            return _of_retrieval(config, name)
        case "attack":
            return _of_attack(config, name)
        case "systems":
            return _of_systems(config, name)
        case "defence":
            if _all_ours(config) and not any(method.needs_calibration for method in methods_of(config)):
                able = (method.name for method in METHODS if method.needs_calibration)
                return f"none of the methods watches agents; {_and(able)} do"
    return None


def _of_data(config: Config, name: str) -> str | None:
    kind = dataset_kind(config.data.kind)
    if kind not in DATASETS or name in (reads := ("limit", *kind.reads)):
        return None
    others = [other.name for other in DATASETS if name in other.reads]
    where = "is generated and" if not kind.reads else "has no such setting and"
    for_whom = f"it is for {_and(f'data={other}' for other in others)}" if len(others) < 4 else "name the benchmark"
    return f"data={kind.name} {where} goes by {_and(f'data.{read}' for read in reads)}; {for_whom}, or leave it out"


def _of_model(model: ModelSettings, key: str, name: str) -> str | None:
    if model.kind == "none":
        return f"nobody judges ({key}=none); name a model with {key}=<kind>, or leave it out"
    backend = next((known for known in BACKENDS if known.name == model.kind), None)
    name = name.partition(".")[0]
    if backend is None or name in backend.reads:
        return None
    able = [known.name for known in BACKENDS if name in known.reads]
    own = f"goes by {_and(f'{key}.{f.name}' for f in fields(ModelSettings) if f.name in backend.reads)}"
    own = own if backend.reads else "has no settings of its own"
    return f"{key}={model.kind} {own}; it is for {_and(f'{key}={kind}' for kind in able)}, or leave it out"


def _of_reader(config: Config) -> str | None:
    models = (config.model, config.judge, *(for_role(config, role).model for role in config.roles))
    if any(model.kind in ("reader", "replay") for model in models):
        return None
    return "neither the model nor the judge nor a role's model is the embedded reader; leave it out"


def _of_role(config: Config, name: str) -> str | None:
    role, _, setting = name.partition(".")
    group, _, of_model = setting.partition(".")
    model = for_role(config, role).model
    if group == "reader" and model.kind not in ("reader", "replay"):
        return f"the model of {role} is {model.kind} and not the embedded reader; leave it out"
    if group != "model" or of_model in ("", "kind"):
        return None
    return _of_model(model, f"roles.{role}.model", of_model)


def _of_retrieval(config: Config, name: str) -> str | None:
    searches = any(method.needs_library for method in methods_of(config))
    if name in _RETRIEVAL:
        other, value = _RETRIEVAL[name]
        if getattr(config.retrieval, other) != value:
            return f"it is for retrieval.{other}={value}; say that too, or leave it out"
    web_or_graph = name.startswith("web") or name in ("graph", "gleaning")
    if web_or_graph and config.job == "recall":
        return "job=recall searches neither the web nor a knowledge graph; leave it out"
    # A study holds discussions of no system.
    if web_or_graph and config.job == "prune" and not searches and _all_ours(config):
        what = "the web" if name.startswith("web") else "a knowledge graph"
        return f"none of the methods searches {what}; name a system that does, or leave it out"
    return None


def _of_attack(config: Config, name: str) -> str | None:
    settings, kind = config.attack, attack_kind(config.attack.kind)
    if settings.kind == NONE:
        return "nobody attacks; name an attack with attack=<kind>, or leave it out"
    # Agents that are watched are attacked as those that learn are.
    trains = learned_methods(config) or any(method.needs_calibration for method in methods_of(config))
    if name == "when" and settings.when == "train" and config.job == "prune" and _all_ours(config) and not trains:
        return "none of the methods learns a graph or watches agents, so that nobody is ever attacked; leave it out"
    if kind not in ATTACKS or name in ("when", "agents", *kind.reads):
        return None
    if name == "number":
        if kind.acts_on != "turns":
            return f"attack={kind.name} compromises none but those that attack.agents names; leave it out"
        return "attack.agents names the attackers already; leave one of the two out" if settings.agents else None
    able = (f"attack={other.name}" for other in ATTACKS if name in other.reads)
    return f"attack={kind.name} does not go by it; it is for {_and(able)}, or leave it out"


def _of_ablation(config: Config) -> str | None:
    if config.ablation not in ("no_inter", "no_alignment") or learned_methods(config) or not _all_ours(config):
        return None
    return f"ablation={config.ablation} takes something from a learner, and none of the methods learns a graph"


def _of_systems(config: Config, name: str) -> str | None:
    methods = methods_of(config)
    if not _all_ours(config) or any(name in method.reads for method in methods):
        return None
    able = [method.name for method in METHODS if name in method.reads]
    return f"none of the methods goes by it; {_and(able)} would; name one, or leave it out"


def _of_sweep(sweep: SweepSettings, key: str, is_one: bool) -> str | None:
    name = key.removeprefix("sweep.")
    if key == name or name not in _OF_SWEEPS or getattr(sweep, name) == getattr(SweepSettings(), name):
        return None
    if not is_one:
        return "this is no sweep; name values to try with sweep.axes.<key>=[...], or leave it out"
    if name == "samples" and sweep.search != "random":
        return "it is for sweep.search=random; say that too, or leave it out"
    if name in ("grace", "reduction") and sweep.stop != "asha":
        return "it is for sweep.stop=asha; say that too, or leave it out"
    return None


def _idle_axis(config: Config, key: str) -> str | None:
    """The same for what is passed on in silence outside of a sweep, where scripts say it for any methods."""
    if key.partition(".")[0] not in _LEARNING or key in _NOT_ONLY or config.job != "prune":
        return None
    return None if learned_methods(config) or not _all_ours(config) else "none of the methods learns a graph"


def _all_ours(config: Config) -> bool:
    return all(method in METHODS for method in methods_of(config))


def _chosen(said: Said, config: Config) -> Iterator[str]:
    """What was said and is not as by default; an axis of a sweep is not among it."""
    values, defaults = (dict(flat(asdict(one))) for one in (config, Config()))
    for key in dict.fromkeys((*said.words, *said.preset)):
        # A dictionary of the user's own, such as engine arguments, has no defaults.
        unlike = _under(key, values) != _under(key, defaults)
        if unlike and not key.startswith("sweep."):
            yield key


def _under(key: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if f"{name}.".startswith(f"{key}.")}


def _and(chosen: Iterable[str]) -> str:
    """Names in words: `a, b and c`."""
    names = list(chosen)
    *most, last = names or [""]
    return f"{', '.join(most)} and {last}" if most else last
