"""Merges layers of settings into a checked configuration, and overrides into the settings of one model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any, TypeVar, cast

from omegaconf import OmegaConf

from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.reader.reader import ReaderSettings
from actors.settings import check_bounds, shown
from experiments.config.config import Config, flat
from experiments.config.study_settings import OF_JOBS
from experiments.config.values import Declared, typed_value
from experiments.config.yaml_tree import check_literal
from topologies.learning.variants import LearnedMethod

PREFIXES = ("text_", "visual_")  # before the names of a team's roles
Group = TypeVar("Group")

_defaults = cache(OmegaConf.structured)  # made once for each group: it takes longer than all the rest


def typed(layers: Sequence[Mapping[str, Any]], base: Config | None = None) -> Config:
    """Merges layers over a configuration, or their job's defaults. Raises UserError for wrong keys and values."""
    job = next((str(layer["job"]) for layer in reversed(layers) if "job" in layer), "")
    config = _merged(OF_JOBS.get(job, Config) if base is None else type(base), layers, base)
    for role, settings in config.roles.items():
        # With a dot in it, its settings would be taken for those of another key.
        if not role.isidentifier() or role in PREFIXES:
            raise UserError(f"roles.{shown(role)}: expected a name of letters, digits and _, after text_ or visual_")
        check_bounds(settings, f"roles.{role}.")
        model_of_role(config, role)
    judge_model(config)
    # Written out, so that a saved configuration means the same to later versions, which have others.
    every = {"learned": list(map(str, LearnedMethod))}
    config.methods = list(dict.fromkeys(each for name in config.methods for each in every.get(name, [name])))
    return config


def model_of_role(config: Config, role: str) -> tuple[ModelSettings, ReaderSettings] | None:
    """Merges the model and reader settings of a role that overrides the run's; None for others. Raises as `typed`."""
    settings = config.roles.get(role)
    if settings is None or not (settings.model or settings.reader):
        return None
    reader = _merged(ReaderSettings, [settings.reader], config.reader, f"roles.{role}.reader")
    return model_over(config.model, settings.model, f"roles.{role}.model"), reader


def judge_model(config: Config) -> ModelSettings | None:
    """Merges the judge's model, with one replica unless `judge.replicas` is given; None without. Raises as `typed`."""
    if not config.judge or config.judge.get("kind") == "none":
        return None
    return model_over(config.model, {"replicas": 1, **config.judge}, "judge")


def model_over(model: ModelSettings, changes: Mapping[str, Any], key: str) -> ModelSettings:
    """Changes a model: from the defaults for another kind, without a key for another address. Raises as `typed`."""
    if changes.get("kind", model.kind) != model.kind:
        # Names, addresses and engine arguments of one kind mean nothing to another.
        model = ModelSettings()
    elif changes.get("base_url", model.base_url) != model.base_url:
        # A key must not reach a server that it was not meant for.
        model = replace(model, key_env="")
    return _merged(type(model), [changes], model, key)


def _merged(kind: type[Group], layers: Sequence[Mapping[str, Any]], base: Group | None, key: str = "") -> Group:
    """Merges layers over settings or their defaults: groups and dicts are merged, lists replaced. Raises as `typed`."""
    merged = OmegaConf.merge(_defaults(cast(Any, kind)), {} if base is None else asdict(cast(Any, base)))
    for layer in layers:
        check_literal(layer, key)
        try:
            merged.merge_with(typed_value(layer, Declared(kind, {}), key))
        except TypeError as error:  # in a setting of any type
            keys = ", ".join(name for name, _ in flat(layer))
            raise UserError(f"{keys}: a list and a group cannot both be the value of a key; write one") from error
    changed = cast(Group, OmegaConf.to_object(merged))
    check_bounds(changed, f"{key}." if key else "")
    return changed
