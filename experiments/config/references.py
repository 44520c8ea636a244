"""What a configuration names outside of its run folder: code, addresses, keys, models to load, another cache.

The command line, and the preset that it names, are the user's own words. A saved configuration is not: a run folder may
come from anybody, so what it names is imported, contacted, loaded or written only where the command line of the
resumption names it again.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.lookup import installed, is_reference
from actors.visible import visible
from experiments.config.config import Config, of_any_role
from experiments.config.values import check_key
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
# Groups whose name alone stands for their kind.
_SHORT = (*_MODELS, "data", "attack")
# Files that are settings, or are copied into a folder.
_FILES = ("roles.file", "retrieval.web_file", "costs.run")
_AXES, _POINTS = "sweep.axes.", "sweep.points"

Leaf = tuple[str, Any]


def resumption(config: Config, folder: Path) -> str:
    """The words that resume a run, ready for a shell, with what it wants named again."""
    return " ".join([f"resume={shlex.quote(str(folder))}", *words_again(config, folder)])


def kept(config: Config, folder: Path) -> str:
    """For the start of a run: where it is, and how it goes on should its end leave nobody to say so."""
    return visible(f"run folder {folder}; killed, it goes on with: python run.py {resumption(config, folder)}")


def words_again(config: Config, folder: Path) -> list[str]:
    """The words that a resumption has to repeat: `key=value` for all that a configuration names outside of its folder,
    ready for a shell."""
    keys = dict.fromkeys(said_as for said_as, _, _ in _outside(config, folder))
    tree = asdict(config)
    return [shlex.quote(f"{key}={_written(_value(tree, key))}") for key in keys]


def check_named_again(saved: Config, named: Config, folder: Path) -> None:
    """Checks that the command line too names all that a saved configuration names outside of its folder.

    Args:
        named: the command line's own words, everything else at its default.

    Raises UserError, with the words to add, otherwise.
    """
    allowed = set(_pairs(named))
    if any((key, _hashable(value)) not in allowed for _, key, value in _outside(saved, folder)):
        raise UserError(
            "the saved configuration names code, addresses or files outside of its folder: a resumed run imports, "
            "contacts and loads them only if the command line names them too; if you trust the folder, add "
            f"{' '.join(words_again(saved, folder))}"
        )


def check_outside(folder: Path) -> None:
    """Raises UserError where Python would look for modules in a run folder: one of them could take another's place."""
    place = folder.resolve()
    # Ray's processes look in the working directory, too.
    for path in (".", *sys.path):
        if Path(path or ".").resolve().is_relative_to(place):
            raise UserError(f"{folder}: Python would import modules from this folder; start from another one")


def _outside(config: Config, folder: Path) -> Iterator[tuple[str, str, Any]]:
    """(the key that says it, the setting's own key, the value) of all that leads out of the folder."""
    said = list(leaves(config))
    kinds = {value for _, key, value in said if key.endswith(".kind") and isinstance(value, str)}
    loads = any(kind in _LOADING or _is_code(kind, "models") for kind in kinds)
    for said_as, key, value in said:
        own = key if key == "roles.file" else of_any_role(key)
        if value not in (None, "", {}, []) and _leads_out(own, value, loads, config, folder):
            yield said_as, key, value


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


def _pairs(config: Config) -> Iterator[Leaf]:
    return ((key, _hashable(value)) for _, key, value in leaves(config))


def leaves(config: Config) -> Iterator[tuple[str, str, Any]]:
    """(the key that says it, the setting's own key, one value) of everything that a configuration, or a trial of its
    sweep, says."""
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
    """What stands under a dotted key, parts of which may have dots themselves."""
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
