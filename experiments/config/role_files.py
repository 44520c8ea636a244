"""Roles from a file: `roles.file=<name or path>`, a list of roles with a name, a modality, an instruction and a form.

They become the settings `roles.<role>` of the run, so its config.yaml holds them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import Field, FieldKind, Modality, Value
from experiments.config.setting_groups import RoleField
from experiments.config.yaml_tree import read_yaml

FOLDER = Path(__file__).parents[1] / "presets" / "roles"
_KEYS = ("name", "modality", "instruction", "form")
_FIELD_KEYS = tuple(f.name for f in fields(RoleField))
_MODALITIES = (Modality.TEXT.value, Modality.VISUAL.value)
# The nearest built-in kind of field, which decides how a reply is parsed and what the embedded reader writes.
_KINDS = {
    "text": FieldKind.SUMMARY,
    "picture": FieldKind.DESCRIPTION,
    "entity": FieldKind.ENTITY,
    "triple": FieldKind.TRIPLE,
    "choice": FieldKind.ENOUGH,
    "answer": FieldKind.ANSWER,
    "confidence": FieldKind.CONFIDENCE,
}
_VALUES = {"triple": Value.TRIPLE, "answer": Value.ANSWER, "confidence": Value.SHARE}


def read_roles(name: str) -> dict[str, Any]:
    """Reads the settings of a file's roles, by their names in traces; the file is built in or the user's.

    A role with a modality belongs to the team and is named `<modality>_<name>`.
    Raises UserError where there is no such file, or it holds no list of roles.
    """
    where = f"roles.file={name}"
    own = name.endswith((".yaml", ".yml"))
    path = Path(name).expanduser() if own else FOLDER / f"{name}.yaml"
    if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
        known = sorted(known.stem for known in FOLDER.glob("*.yaml"))
        raise UserError(
            f"{where}: there is no such file.{near_miss(name, known)} Known: {', '.join(known)}; "
            "a file of your own ends in .yaml"
        )
    try:
        roles = read_yaml(path)
    except UserError as error:
        raise UserError(f"{where} cannot be read: {error}") from error
    if not isinstance(roles, list) or not roles:
        raise UserError(f"{where}: expected a list of roles, each with a name and an instruction")
    by_name: dict[str, Any] = {}
    for number, role in enumerate(roles, 1):
        full, settings = _role(f"{where}, role {number}", role)
        if full in by_name:
            raise UserError(f"{where}: two roles are called {full}")
        by_name[full] = settings
    return by_name


def _role(where: str, role: Any) -> tuple[str, dict[str, Any]]:
    _check_keys(where, role, _KEYS)
    name, modality = role.get("name"), role.get("modality") or None
    if not isinstance(name, str) or not name.isidentifier():
        raise UserError(f"{where}: name={name!r}: expected a name of letters, digits and _")
    if modality not in (None, *_MODALITIES):
        raise UserError(
            f"{where}, {name}: modality={modality!r}: expected {' or '.join(_MODALITIES)}, or none for a role that is "
            "not of the team"
        )
    if not role.get("instruction") and not role.get("form"):
        raise UserError(f"{where}, {name}: expected an instruction or a form")
    form = role.get("form") or []
    for place, part in enumerate(form if isinstance(form, list) else [form], 1):
        _check_keys(f"{where}, {name}, field {place} of its form", part, _FIELD_KEYS)
    settings = {key: role[key] for key in ("instruction", "form") if role.get(key)}
    return name if modality is None else f"{modality}_{name}", settings


def _check_keys(where: str, held: Any, known: tuple[str, ...]) -> None:
    if not isinstance(held, Mapping):
        raise UserError(f"{where}: expected keys and values ({', '.join(known)})")
    for key in held:
        if key not in known:
            raise UserError(f"{where}: unknown key {key!r}.{near_miss(str(key), known)} Known: {', '.join(known)}")


def field_of(part: RoleField) -> Field:
    """A field of a role's own form as agents are asked for it."""
    return Field(
        _KINDS[part.value],
        part.asks,
        values=tuple(part.choices),
        many=part.many,
        optional=not part.required,
        value=_VALUES.get(part.value, Value.TEXT),
        label=part.name,
    )
