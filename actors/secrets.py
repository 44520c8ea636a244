"""Keeps keys out of the environment, which every child process inherits, and out of all that is written.

`masked` is the gate of every writer: the last step before bytes or text leave the process, behind whatever may have
joined the parts of a key. It knows each key as it is and as JSON and HTML escape it.
"""

import html
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, AnyStr

KEY = "[key]"
# A shorter key is a word such as EMPTY, for an endpoint that needs none, and may occur in texts.
KEY_CHARACTERS = 12

_by_variable: dict[str, str] = {}
_forms: dict[str, bytes] = {}
_leave_environment = False


def hide() -> None:
    """Has `take` remove keys from the environment. The program does so, and not the functions that a notebook calls."""
    global _leave_environment
    _leave_environment = True


def take(variables: Iterable[str]) -> None:
    """Keeps the values of environment variables, for `secret`. After `hide`, child processes do not inherit them."""
    for variable in variables:
        value = os.environ.get(variable)
        if value is not None:
            keep({variable: value})
            if _leave_environment:
                del os.environ[variable]


def keep(values: Mapping[str, str]) -> None:
    """Keeps values by the names of their variables, such as another process has sent."""
    _by_variable.update(values)
    for value in map(str.strip, values.values()):
        if len(value) >= KEY_CHARACTERS:
            for form in (value, json.dumps(value)[1:-1], html.escape(value)):
                _forms[form] = form.encode()
    order_longest_first(_forms)


def order_longest_first(by_key: dict[str, Any]) -> None:
    """Orders entries by their keys. Of two keys of which one contains the other, a part would be left else."""
    entries = sorted(by_key.items(), key=lambda entry: len(entry[0]), reverse=True)
    by_key.clear()
    by_key.update(entries)


def kept() -> dict[str, str]:
    """Returns the values by variable, for a process that needs them."""
    return dict(_by_variable)


def secret(variable: str) -> str | None:
    """Returns the value of an environment variable that may be kept here. None where there is none."""
    return _by_variable.get(variable, os.environ.get(variable))


def masked(content: AnyStr) -> AnyStr:
    """Returns bytes or text without the keys that this process knows."""
    for text, encoded in _forms.items():
        if isinstance(content, bytes):
            if encoded in content:
                content = content.replace(encoded, KEY.encode())
        elif text in content:
            content = content.replace(text, KEY)
    return content
