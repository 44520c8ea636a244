"""Merges layers of settings into a checked configuration, and overrides into the settings of one model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError

from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.lookup import near_miss
from actors.reader.reader import ReaderSettings
from actors.settings import check_bounds, shown
from experiments.config.config import Config, of_any_role
from experiments.config.setting_groups import RoleSettings
from experiments.config.study_settings import OF_JOBS
from experiments.config.values import check_literal, check_shape

LINE_CHARACTERS = 600
PREFIXES = ("text_", "visual_")  # before the names of a team's roles
Group = TypeVar("Group")


def typed(layers: Sequence[Any], base: Config | None = None) -> Config:
    """Merges layers over a configuration, or over the defaults of their job; the last layer wins.

    Raises:
        UserError: an unknown key (with the nearest right one), or a value that is not allowed.
    """
    trees = [OmegaConf.to_container(layer) if isinstance(layer, DictConfig) else layer for layer in layers]
    job = next((str(tree["job"]) for tree in reversed(trees) if "job" in tree), None)
    kind = type(base) if base is not None and job is None else OF_JOBS.get(str(job), Config)
    for tree in trees:
        check_literal(tree)
        check_shape(tree, kind)
    config: Config = _merged(_defaults(str(job)) if base is None else OmegaConf.structured(base), trees, kind)
    check_bounds(config)
    for role, settings in config.roles.items():
        # With a dot in it, its settings would be taken for those of another key.
        if not role.isidentifier() or role in PREFIXES:
            raise UserError(f"roles.{shown(role)}: expected a name of letters, digits and _, after text_ or visual_")
        check_bounds(settings, f"roles.{role}.")
        model_of_role(config, role)
    judge_model(config)
    return config


def model_of_role(config: Config, role: str) -> tuple[ModelSettings, ReaderSettings] | None:
    """The model and reader settings of a role that overrides the run's; None for a role without overrides.

    Raises:
        UserError: a key or a value that is not allowed.
    """
    settings = config.roles.get(role)
    if settings is None or not (settings.model or settings.reader):
        return None
    reader = overridden(config.reader, settings.reader, f"roles.{role}.reader")
    return model_over(config.model, settings.model, f"roles.{role}.model"), reader


def judge_model(config: Config) -> ModelSettings | None:
    """The judge's model, with one replica unless `judge.replicas` is given; None without a judge.

    Raises:
        UserError: a key or a value that is not allowed.
    """
    if not config.judge or config.judge.get("kind") == "none":
        return None
    return model_over(config.model, {"replicas": 1, **config.judge}, "judge")


def model_over(model: ModelSettings, changes: Mapping[str, Any], key: str) -> ModelSettings:
    """A model's settings with changes: over the defaults where the kind differs, and without a key for another address.

    Raises:
        UserError: a key or a value that is not allowed.
    """
    if changes.get("kind", model.kind) != model.kind:
        # Names, addresses and engine arguments of one kind mean nothing to another.
        model = ModelSettings()
    elif changes.get("base_url", model.base_url) != model.base_url:
        # A key must not reach a server that it was not meant for.
        model = replace(model, key_env="")
    return overridden(model, changes, key)


def overridden(settings: Group, changes: Mapping[str, Any], key: str) -> Group:
    """A group of settings with changes; `key` is the dotted name of the changes. Raises UserError as `typed` does."""
    check_shape(changes, type(settings), key)
    changed: Group = _merged(OmegaConf.structured(settings), [changes], type(settings), f"{key}.")
    check_bounds(changed, f"{key}.")
    return changed


def one_line(error: BaseException) -> str:
    """An error in one line; OmegaConf adds lines about its internals, and YAML begins with the place."""
    if isinstance(error, MarkedYAMLError) and error.problem and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    # OmegaConf names choices as the code does; their values are the same in small letters.
    first = re.sub(r"expected one of \[[A-Z_, ]+\]$", lambda choices: choices[0].lower(), first)
    # OmegaConf quotes a value that it cannot take, however long.
    return first if len(first) <= LINE_CHARACTERS else f"{first[:LINE_CHARACTERS]}..."


@cache
def _defaults(job: str) -> DictConfig:
    # Made once: it takes longer than all the rest.
    structured = OmegaConf.structured(OF_JOBS.get(job, Config))
    assert isinstance(structured, DictConfig)
    return structured


def _merged(base: DictConfig, trees: Sequence[Any], kind: type, prefix: str = "") -> Any:
    try:
        return OmegaConf.to_object(OmegaConf.merge(base, *trees))
    except ConfigKeyError as error:
        raise UserError(_unknown_key(str(error.full_key or error.key), kind, prefix)) from error
    # OverflowError: a whole number that no float is; RecursionError: lists in lists without end.
    except (OmegaConfBaseException, ValueError, TypeError, OverflowError, RecursionError) as error:
        key = getattr(error, "full_key", None)
        raise UserError(f"{prefix}{key}: {one_line(error)}" if key else one_line(error)) from error


def _unknown_key(key: str, kind: type, prefix: str) -> str:
    """The error for an unknown key, with the nearest right one.

    Keys of the same name elsewhere in the tree come first: people forget the group more often than they misspell.
    """
    full = of_any_role(key)
    if (job := full.partition(".")[0]) in OF_JOBS and not prefix:
        return f"{full}: these settings are for job={job} alone; leave it out, or choose another experiment"
    paths = list(_paths(kind))
    last = full.rpartition(".")[2]
    same_name = [path for path in paths if path.rpartition(".")[2] == last]
    # The whole key before its last part: a misspelt group is nearer to the intended one.
    hint = f" Did you mean {same_name[0]!r}?" if same_name else near_miss(full, paths) or near_miss(last, paths)
    hint = hint.replace("mean '", f"mean '{prefix}")
    group = full.rpartition(".")[0]
    siblings = [path for path in paths if path.rpartition(".")[0] == group]
    return f"unknown key {prefix + full!r}.{hint} Known here: {', '.join(siblings)}"


def _paths(group: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key below a group."""
    hints = get_type_hints(group)
    for f in fields(group):
        yield prefix + f.name
        if is_dataclass(hints[f.name]):
            yield from _paths(hints[f.name], f"{prefix}{f.name}.")
        elif f.name == "roles":
            yield from _paths(RoleSettings, f"{prefix}roles.<role>.")
