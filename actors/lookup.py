"""Finds the thing that a configuration names: the project's own, an installed package's, or an importable reference.

A name is looked up among the project's own things, then among the entry points of installed packages. A reference,
`package.module:Name`, is imported. A reference in a run folder is imported only if the command line names it too, which
`experiments.config` checks.
"""

import difflib
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from actors.errors import UserError
from actors.settings import shown

T = TypeVar("T")

_WORD = re.compile(r"[a-z0-9]{3,}")
_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def near_miss(name: str, choices: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` or nothing. A choice is meant that is 65% alike or shares a word."""
    names = list(choices)
    matches = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.65)
    if not matches:
        words = set(_WORD.findall(name.lower()))
        related = [choice for choice in names if words & set(_WORD.findall(choice))]
        matches = difflib.get_close_matches(name, related, n=1, cutoff=0.0)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def is_reference(name: str) -> bool:
    """True for a name of the form `package.module:Name`."""
    return bool(_REFERENCE.fullmatch(name))


def names_code(group: str) -> Callable[[Any], bool]:
    """Returns a test for values that are references, or names of the entry points `agora_mm.<group>`."""
    return lambda value: isinstance(value, str) and (is_reference(value) or value in installed(group))


def imported(reference: str, key: str) -> Any:
    """Imports the object of a reference. Raises UserError, which names `key`, the setting, where that fails."""
    module, _, path = reference.partition(":")
    try:
        value: Any = importlib.import_module(module)
        # `module:Outer.make` names an attribute of a class.
        for name in path.split("."):
            value = getattr(value, name)
    except Exception as error:  # another author's module may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{key}={reference}: cannot be imported ({type(error).__name__}: {reason}); it has to be in this "
            "folder, on PYTHONPATH, or installed"
        ) from error
    return value


def installed(group: str) -> dict[str, str]:
    """Returns references by name, from the entry points `agora_mm.<group>` of installed packages."""
    return _installed(group, tuple(sys.path))


@cache
def _installed(group: str, path: tuple[str, ...]) -> dict[str, str]:
    # Reads the metadata of all packages on the path, and every name of a configuration is looked up.
    return {entry.name: entry.value for entry in entry_points(group=f"agora_mm.{group}")}


def find(name: str, ours: Mapping[str, T], group: str, key: str) -> T | Any:
    """Returns an entry of `ours`, of the entry points `agora_mm.<group>`, or the object of a reference. Raises
    UserError, which names the setting `key`, the closest name and all known ones.
    """
    # The project's own come first, so that no package can replace one.
    if name in ours:
        return ours[name]
    if is_reference(name):
        return imported(name, key)
    references = installed(group)
    if name in references:
        return imported(references[name], key)
    names = [*ours, *references]
    raise UserError(
        f"{key}: there is no {shown(name)!r}.{near_miss(shown(name), names)} Known: {', '.join(names)}; name your own "
        "as package.module:Name"
    )
