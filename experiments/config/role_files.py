"""Reads roles from a file (`roles.file=<name or path>`), each with a name, a modality, an instruction and a form.

They become the settings `roles.<role>` of the run, so its config.yaml holds them.
"""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import Field, FieldKind, Value
from actors.settings import shown, validated
from experiments.config.keys import fields_of
from experiments.config.setting_groups import RoleField
from experiments.config.values import interpreted
from experiments.config.yaml_tree import check_literal, read_yaml

FOLDER = Path(__file__).parents[1] / "presets" / "roles"


@dataclass
class FileRole:
    """Role as a file describes it. One without a modality is not of the team."""

    name: str = ""
    modality: Literal["text", "visual"] | None = None
    instruction: str = ""
    form: list[RoleField] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raises ValueError for a role that cannot be named, or has neither instruction nor form."""
        if not self.name.isidentifier():
            raise ValueError(f"name={shown(self.name)}: expected a name of letters, digits and _")
        if not self.instruction and not self.form:
            raise ValueError(f"instruction: {self.name} has neither an instruction nor a form")


@dataclass
class RoleFile:
    roles: list[FileRole]


# The nearest built-in kind of field, which decides what the embedded reader writes, and how its value is parsed.
KINDS = {
    "text": (FieldKind.SUMMARY, Value.TEXT),
    "picture": (FieldKind.DESCRIPTION, Value.TEXT),
    "entity": (FieldKind.ENTITY, Value.TEXT),
    "triple": (FieldKind.TRIPLE, Value.TRIPLE),
    "choice": (FieldKind.ENOUGH, Value.TEXT),
    "answer": (FieldKind.ANSWER, Value.ANSWER),
    "confidence": (FieldKind.CONFIDENCE, Value.SHARE),
}


def read_roles(name: str) -> dict[str, Any]:
    """Reads the settings of a file's roles, by their names in traces. The file is built in or the user's.

    A role with a modality belongs to the team and is named `<modality>_<name>`.
    Raises UserError where there is no such file, or it holds no list of roles.
    """
    where = f"roles.file={name}"
    is_users = name.endswith((".yaml", ".yml"))
    path = Path(name).expanduser() if is_users else FOLDER / f"{name}.yaml"
    if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
        built_in = sorted(file.stem for file in FOLDER.glob("*.yaml"))
        hint = f"{near_miss(name, built_in)} Known: {', '.join(built_in)}"
        raise UserError(f"{where}: there is no such file.{hint}; a file of your own ends in .yaml")

    role_settings: dict[str, Any] = {}
    try:
        roles = interpreted(read_yaml(path, check_literal), fields_of(RoleFile)["roles"], "roles")
        for role in validated(RoleFile, {"roles": roles}).roles:
            full_name = role.name if role.modality is None else f"{role.modality}_{role.name}"
            if full_name in role_settings:
                raise UserError(f"two roles are called {full_name}")
            settings = asdict(role)
            role_settings[full_name] = {key: settings[key] for key in ("instruction", "form") if settings[key]}
        if not role_settings:
            raise UserError("it has no roles")
    except UserError as error:
        raise UserError(f"{where} cannot be read: {error}") from error
    return role_settings


def field_of(part: RoleField) -> Field:
    """Makes a field of a role's own form as agents are asked for it."""
    kind, value = KINDS[part.value]
    return Field(
        kind,
        part.asks,
        values=tuple(part.choices),
        many=part.many,
        optional=not part.required,
        value=value,
        label=part.name,
    )
