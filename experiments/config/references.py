"""Finds secrets, missing libraries, and settings that lead out of a run folder: code, addresses, keys, another cache.

A run folder may come from anybody. Code, addresses and files that its saved configuration names are imported, contacted
or loaded only where the command line of the resumption names them again. Each setting declares whether it leads out
(`outside=` of `actors.settings.setting`). Passwords and keys are refused before a configuration is saved or shown.
"""

import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from actors.backends.backends import BACKENDS
from actors.errors import UserError, visible
from actors.secrets import KEY_CHARACTERS, secret, take
from actors.settings import NEEDS, OUTSIDE, shown
from experiments.config.config import Config
from experiments.config.keys import AXES, POINTS, check_key, declared, set_by
from experiments.evidence.retrieval_settings import SERPER_KEY
from experiments.records.start import program
from experiments.records.tracking import WANDB_KEY

OF_RUNS = ("autogen_agentchat", "lancedb", "ray", "sklearn", "torch", "wandb")  # not needed to read results
LIBRARIES = {"vllm": "vllm", "encoders": "sentence_transformers", "hub": "datasets"}  # by the project's extras
MODEL_EXTRAS = {backend.name: backend.extra for backend in BACKENDS}


class Leaf(NamedTuple):
    """Value of a setting, perhaps one of a list, or of a key that a sweep varies.

    named_as, word_value: key and value on the command line. key: of the setting. outside: it leads out of the run
    folder. extra: the project's extra that it needs; empty for none.
    """

    named_as: str
    key: str
    value: Any
    word_value: Any
    outside: bool
    extra: str


def leaves(config: Config) -> Iterator[Leaf]:
    """Yields every value of a configuration and of its sweep's trials."""
    # The cache of a run that names none lies next to its folder.
    default_cache = ("cache", str(Path(config.output) / "cache"))
    for named_as, word_value in config.by_key.items():
        for key, value in _values_of(named_as, word_value):
            setting = declared(key)
            metadata = setting.metadata if setting else {}
            outside = OUTSIDE in metadata and bool(metadata[OUTSIDE](value)) and (key, value) != default_cache
            extra = ""
            if key.endswith(".kind"):  # a model's; no other part shares a name with a backend
                extra = MODEL_EXTRAS.get(value, "")
            elif NEEDS in metadata:
                extra = metadata[NEEDS](value)
            yield Leaf(named_as, key, value, word_value=word_value, outside=outside, extra=extra)


def _values_of(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the settings that a value is for, one by one, also of lists and of a sweep's axes."""
    if key == POINTS:
        for point in value:
            for name, point_value in point.items():
                yield from _varied_values(name, point_value)
    elif key.startswith(f"{AXES}."):
        yield from _varied_values(key.removeprefix(f"{AXES}."), value)
    elif isinstance(value, list):
        for item in value:
            yield key, item
    else:
        yield key, value


def _varied_values(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the settings of a trial's value, which may be a list, a group or a group's kind."""
    check_key(key, "sweep")
    if isinstance(value, list):
        for item in value:
            yield from _varied_values(key, item)
    elif isinstance(value, Mapping):
        for name, below in value.items():
            yield from _varied_values(f"{key}.{name}", below)
    else:
        yield set_by(key, value), value


def resumption(config: Config, folder: Path) -> str:
    """Writes the command that resumes a run, for a shell. It names the settings that have to be named again."""
    return " ".join([program(), f"resume={shlex.quote(str(folder))}", *overrides_again(config)])


def resumption_line(config: Config, folder: Path) -> str:
    """Names a run's folder and how it goes on if it is killed, in a line."""
    return visible(f"run folder {folder}; killed, it goes on with: {resumption(config, folder)}")


def overrides_again(config: Config, counts: Callable[[str], bool] = lambda key: True) -> list[str]:
    """Writes the `key=value` of everything that a configuration names outside its folder, ready for a shell.

    counts: whether the setting of a key does.
    """
    values = {leaf.named_as: leaf.word_value for leaf in leaves(config) if leaf.outside and counts(leaf.key)}
    words = []
    for key, value in values.items():
        # Text with a sign that YAML knows is quoted, which text as addresses have it need not be.
        if isinstance(value, str) and re.fullmatch(r"[\w./@~-]+(://[\w.:/@~-]+)?", value):
            text = value
        else:
            text = json.dumps(value)
        words.append(shlex.quote(f"{key}={text}"))
    return words


def at_home(config: Config, folder: Path) -> None:
    """Sets a saved configuration's `output`, and its cache where that was the default, to where its folder lies now."""
    path = folder.absolute()
    # A trial of a sweep lies in the sweep's folder.
    is_trial = (path.parents[1] / "config.yaml").is_file()
    output = path.parents[2] if is_trial else path.parent
    if config.cache in (None, str(Path(config.output) / "cache")):
        config.cache = str(output / "cache")
    config.output = str(output)


def check_named_again(saved: Config, overrides: Config, counts: Callable[[str], bool] = lambda key: True) -> None:
    """Raises UserError where overrides over the defaults lack what `saved` names outside of its folder.

    counts: whether the setting of a key does.
    """
    named_again = [(leaf.key, leaf.value) for leaf in leaves(overrides)]
    for leaf in leaves(saved):
        if leaf.outside and counts(leaf.key) and (leaf.key, leaf.value) not in named_again:
            raise UserError(
                "the saved configuration names code, addresses or files outside of its folder, which are imported, "
                "contacted and loaded only if the command line names them too; if you trust the folder, add "
                f"{' '.join(overrides_again(saved, counts))}"
            )


def check_outside(folder: Path) -> None:
    """Raises UserError where Python would look for modules in a run folder. One of them could take another's place."""
    # Unlike `Path.resolve`, it raises nothing for a loop of links.
    place = Path(os.path.realpath(folder))
    # Ray's processes look in the working directory, too.
    for path in (".", *sys.path):
        if Path(os.path.realpath(path or ".")).is_relative_to(place):
            raise UserError(f"{folder}: Python would import modules from this folder; start from another one")


def keys_of(config: Config) -> list[str]:
    """Returns the values of the environment variables that hold keys of a configuration, and of its sweep's trials.

    From then on `actors.secrets` has them, and that of W&B.
    """
    variables = {SERPER_KEY, WANDB_KEY}
    variables |= {leaf.value for leaf in leaves(config) if _is_key_env(leaf)}
    take(variables)
    keys = [(secret(variable) or "").strip() for variable in sorted(variables)]
    return [key for key in keys if len(key) >= KEY_CHARACTERS]


def _is_key_env(leaf: Leaf) -> bool:
    """True for the name of an environment variable that holds a key."""
    return leaf.key.endswith(".key_env") and isinstance(leaf.value, str)


def check_secrets(config: Config) -> None:
    """Checks a configuration, and its sweep's trials, before anything of it is saved or shown.

    Raises UserError for a password in an address, a key in the place of its variable's name, and the value of such a
    variable anywhere. No message holds the value.
    """
    keys = keys_of(config)
    for leaf in leaves(config):
        if not isinstance(leaf.value, str):
            continue
        if leaf.key.endswith(".base_url") and ("@" in leaf.value or "?" in leaf.value):
            raise UserError(
                f"{leaf.named_as} has a password or a query; a key goes into the variable that key_env names"
            )
        if _is_key_env(leaf) and not re.fullmatch(r"(?:[A-Za-z_]\w*)?", leaf.value):
            raise UserError(f"{leaf.named_as} is not the name of an environment variable; export the key under one")
        if any(key in leaf.value for key in keys):
            raise UserError(f"{leaf.named_as} holds a key itself; leave it in the environment variable of key_env")


def check_installed() -> None:
    """Raises UserError where libraries of runs are missing, as in an installation that reads results."""
    missing = [name for name in OF_RUNS if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"not installed: {', '.join(missing)}; this installation reads results and starts no run: `pip install "
            "agora-mm`, or `pip install .` in a checkout, installs the rest"
        )


def check_machine(config: Config) -> None:
    """Raises UserError where this machine lacks a library, an environment variable or a key that a setting needs."""
    if config.job != "recall":  # which tracks nothing
        config.wandb.check_key()
    for leaf in leaves(config):
        # The nodes of a cluster have the libraries of models.
        is_elsewhere = config.ray.address is not None and leaf.key.endswith(".kind")
        if leaf.extra and not is_elsewhere and importlib.util.find_spec(LIBRARIES[leaf.extra]) is None:
            needs = f"needs a library that is missing: pip install '.[{leaf.extra}]'"
            raise UserError(f"{leaf.named_as}: {shown(leaf.value)} {needs}")
        # The name is not shown: it may be the key itself, by mistake.
        if _is_key_env(leaf) and leaf.value and secret(leaf.value) is None:
            raise UserError(
                f"{leaf.named_as}: there is no environment variable of that name; export the key under it first"
            )
