"""Finds the settings that lead out of a run folder: code, addresses, keys, models to load, another cache; and secrets.

A run folder may come from anybody. Code, addresses and files that its saved configuration names are imported, contacted
or loaded only where the command line of the resumption names them again. Passwords and keys are refused before a
configuration is saved or shown.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from actors.backends.redaction import KEY_CHARACTERS
from actors.errors import UserError
from actors.lookup import installed, is_reference
from actors.visible import visible
from experiments.config.config import Config, of_any_role
from experiments.config.values import check_key
from experiments.evidence.retrieval_settings import SERPER_KEY
from retrieval.embed import ENCODERS

# Settings that may name code, by the group of entry points in which an installed package may have it.
_CODE = {
    **{"methods": "methods", "attack.kind": "attacks", "data.kind": "datasets", "roles.<role>.agent": "agents"},
    **dict.fromkeys(("model.kind", "judge.kind", "roles.<role>.model.kind"), "models"),
}
_ENCODERS = ("retrieval.encoder", "retrieval.picture_encoder")
_MODELS = ("model", "judge", "roles.<role>.model")
# Their models are files, of a folder or of the Hugging Face Hub, that a process loads.
_LOADING = ("vllm",)
# Groups that the command line sets by their kind alone.
_SHORT = (*_MODELS, "data", "attack")
# Files that are settings, or are copied into a folder.
_FILES = ("roles.file", "retrieval.web_file", "costs.run")
_AXES, _POINTS = "sweep.axes.", "sweep.points"

Leaf = tuple[str, Any]


def resumption(config: Config, folder: Path) -> str:
    """The arguments that resume a run, ready for a shell, with the settings that have to be named again."""
    return " ".join([f"resume={shlex.quote(str(folder))}", *overrides_again(config, folder)])


def resumption_line(config: Config, folder: Path) -> str:
    """A line for the start of a run: its folder, and how it goes on if it is killed."""
    return visible(f"run folder {folder}; killed, it goes on with: python run.py {resumption(config, folder)}")


def overrides_again(config: Config, folder: Path) -> list[str]:
    """The `key=value` of everything that a configuration names outside of its folder, ready for a shell."""
    keys = dict.fromkeys(named_as for named_as, _, _ in _outside(config, folder))
    tree = asdict(config)
    return [shlex.quote(f"{key}={_written(_value(tree, key))}") for key in keys]


def check_named_again(saved: Config, named: Config, folder: Path) -> None:
    """Checks that the command line names all that a saved configuration names outside of its folder.

    Args:
        named: the overrides of the command line over the defaults.

    Raises:
        UserError: it does not; the line has the overrides to add.
    """
    allowed = {(key, _hashable(value)) for _, key, value in leaves(named)}
    if any((key, _hashable(value)) not in allowed for _, key, value in _outside(saved, folder)):
        raise UserError(
            "the saved configuration names code, addresses or files outside of its folder: a resumed run imports, "
            "contacts and loads them only if the command line names them too; if you trust the folder, add "
            f"{' '.join(overrides_again(saved, folder))}"
        )


def check_outside(folder: Path) -> None:
    """Raises UserError where Python would look for modules in a run folder: one of them could take another's place."""
    place = folder.resolve()
    # Ray's processes look in the working directory, too.
    for path in (".", *sys.path):
        if Path(path or ".").resolve().is_relative_to(place):
            raise UserError(f"{folder}: Python would import modules from this folder; start from another one")


def _outside(config: Config, folder: Path) -> Iterator[tuple[str, str, Any]]:
    """(the key on the command line, the setting's own key, the value) of all that leads out of the folder."""
    named = list(leaves(config))
    kinds = {value for _, key, value in named if key.endswith(".kind") and isinstance(value, str)}
    loads = any(kind in _LOADING or _is_code(kind, "models") for kind in kinds)
    for named_as, key, value in named:
        own = key if key == "roles.file" else of_any_role(key)
        if value not in (None, "", {}, []) and _leads_out(own, value, loads, config, folder):
            yield named_as, key, value


def _leads_out(key: str, value: Any, loads: bool, config: Config, folder: Path) -> bool:
    if key in _CODE:
        return _is_code(value, _CODE[key])
    if key in _ENCODERS:
        return value not in ENCODERS
    group, _, name = key.rpartition(".")
    if group in _MODELS:
        return name in ("base_url", "key_env") or (name == "name" and loads)
    if key.startswith(tuple(f"{group}.engine" for group in _MODELS)):
        return loads
    if key in _FILES:
        return True
    if key == "retrieval.web":
        return bool(value == "serper")
    if key == "cache":
        return Path(value).resolve() != folder.resolve().parent / "cache"
    return key == "ray.address" or (key, value) == ("wandb.mode", "online")


def _is_code(value: Any, group: str) -> bool:
    return isinstance(value, str) and (is_reference(value) or value in installed(group))


def leaves(config: Config) -> Iterator[tuple[str, str, Any]]:
    """(the key on the command line, the setting's own key, one value) of every setting, and of those that its sweep
    varies."""
    for key, value in flat(asdict(config)):
        if key == _POINTS:
            for point in value:
                yield from ((key, own, one) for name, of_point in flat(point) for own, one in _parts(name, of_point))
        elif key.startswith(_AXES):
            for one in value if isinstance(value, list) else [value]:
                yield from ((key, own, part) for own, part in _parts(key.removeprefix(_AXES), one))
        else:
            yield from ((key, key, part) for part in (value if isinstance(value, list) else [value]))


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[Leaf]:
    """Every setting by its dotted key."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _parts(key: str, value: Any) -> Iterator[Leaf]:
    """A trial's value as its settings: it may be a list, a group or, as on the command line, a group's kind."""
    check_key(key, "sweep")
    if isinstance(value, list):
        for part in value:
            yield from _parts(key, part)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _parts(f"{key}.{name}", part)
    else:
        yield (f"{key}.kind" if of_any_role(key) in _SHORT else key), value


def _hashable(value: Any) -> Any:
    return json.dumps(value, sort_keys=True, default=str)


def _value(tree: Any, key: str) -> Any:
    """The value under a dotted key, parts of which may have dots themselves."""
    if key in tree:
        return tree[key]
    names = key.split(".")
    for n in range(len(names) - 1, 0, -1):
        group = tree.get(".".join(names[:n]))
        if isinstance(group, Mapping):
            return _value(group, ".".join(names[n:]))
    raise KeyError(key)


def _written(value: Any) -> str:
    """A value as the command line takes it."""
    # Text with a sign that YAML knows is quoted, which text as addresses have it need not be.
    plain = isinstance(value, str) and re.fullmatch(r"[\w./@~-]+(://[\w.:/@~-]+)?", value)
    return value if plain else json.dumps(value)


def check_secrets(config: Config) -> None:
    """Checks a configuration, and the trials of its sweep, before anything of it is saved or shown.

    No message holds the value.

    Raises:
        UserError: a password in an address, a key in the place of its variable's name, or the value of such a variable
            anywhere.
    """
    named = list(leaves(config))
    variables = {value for _, key, value in named if _last(key) == "key_env" and isinstance(value, str)}
    keys = [key for name in {SERPER_KEY, *variables} if len(key := os.environ.get(name, "").strip()) >= KEY_CHARACTERS]
    for shown, key, value in named:
        if not isinstance(value, str):
            continue
        if _last(key) == "base_url" and ("@" in value or "?" in value):
            raise UserError(f"{shown} has a password or a query; a key goes into the variable that key_env names")
        if _last(key) == "key_env" and not re.fullmatch(r"(?:[A-Za-z_]\w*)?", value):
            raise UserError(f"{shown} is not the name of an environment variable; export the key under one")
        if any(secret in value for secret in keys):
            raise UserError(f"{shown} holds a key itself; leave it in the environment variable that key_env names")


def check_exported(config: Config) -> None:
    """Raises UserError where the variable of a key is not exported: its name may be the key, by mistake."""
    for shown, key, value in leaves(config):
        if _last(key) == "key_env" and isinstance(value, str) and value and value not in os.environ:
            raise UserError(f"{shown}: there is no environment variable of that name; export the key under it first")


def _last(key: str) -> str:
    return key.rpartition(".")[2]
