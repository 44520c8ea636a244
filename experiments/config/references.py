"""Code that a configuration names, and which of it may be imported.

A configuration may name a method, attack, data set, model, encoder or agent of the user's own as `package.module:Name`.
The command line, and the preset that it names, are the user's own words. A saved configuration is not: a run folder may
come from anybody, so what it names is imported only where the command line of the resumption names it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.errors import UserError
from actors.lookup import is_reference
from experiments.config.config import Config

# Every setting that may name code, by its dotted key.
KEYS = (
    *("methods", "attack.kind", "data.kind", "model.kind", "judge.kind"),
    *("retrieval.encoder", "retrieval.picture_encoder", "roles", "sweep"),
)
# `retrieval.encoder=late:<name>` chooses how an encoder of that name is used, and imports nothing.
_NO_MODULE = ("late",)


def references(config: Config) -> dict[str, list[str]]:
    """Code that a configuration names, by the key that names it; keys that name none are left out."""
    by_key = {key: list(_references(_code_at(config, key))) for key in KEYS}
    return {key: names for key, names in by_key.items() if names}


def check_named_again(saved: Config, named: Config) -> None:
    """Checks that the command line too names all code that a saved configuration names. Raises UserError otherwise.

    Args:
        named: the command line's own words, everything else at its default.
    """
    # Under whatever key: a reference that the user typed is trusted anywhere.
    allowed = {reference for group in references(named).values() for reference in group}
    for key, names in references(saved).items():
        if missing := [reference for reference in names if reference not in allowed]:
            raise UserError(
                f"the saved configuration names code of its own, {key}={','.join(missing)}: a resumed run imports it "
                f"only if the command line names it too; add the same {key}=... if you trust the folder"
            )


def _code_at(config: Config, key: str) -> Any:
    if key == "roles":
        # A model's name at an endpoint may look like a reference (`llama:latest`), and names no code.
        return [(role.agent, role.model.get("kind")) for role in config.roles.values()]
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _references(value: Any) -> Iterator[str]:
    """Every string in a value, however nested, that has a reference's form."""
    if isinstance(value, str):
        if is_reference(value) and value.partition(":")[0] not in _NO_MODULE:
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _references(part)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _references(getattr(value, name))
