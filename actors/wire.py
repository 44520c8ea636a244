"""Makes the classes of values that cross processes: frozen, and cheap to make, copy, compare and send.

A turn makes some thirty values. As frozen dataclasses they took a third of a turn's time, as Python code sets each
field by itself. A struct of msgspec does the same in C. To `dataclasses.replace`, `fields` and `asdict` it is a
dataclass, and to pydantic, too.
"""

from dataclasses import MISSING, dataclass, fields
from typing import Any, Protocol, TypeVar, cast, dataclass_transform

import msgspec

C = TypeVar("C", bound=type[Any])
T = TypeVar("T")

LAYOUT = ("__dict__", "__weakref__", "__annotations__")  # a class's own, which a struct has in another form


@dataclass_transform(frozen_default=True)
def wire(cls: C) -> C:
    """Makes a class with annotated fields, as for `dataclass`, a frozen struct."""
    others = {*LAYOUT, *cls.__annotations__}
    namespace = {name: member for name, member in vars(cls).items() if name not in others}
    described: Any = dataclass(frozen=True, slots=True)(cls)
    members: list[Any] = []
    for field in fields(described):
        if field.default is not MISSING:
            members.append((field.name, field.type, field.default))
        elif field.default_factory is not MISSING:
            members.append((field.name, field.type, msgspec.field(default_factory=field.default_factory)))
        else:
            members.append((field.name, field.type))

    namespace["__dataclass_fields__"] = described.__dataclass_fields__
    namespace["__get_pydantic_core_schema__"] = classmethod(_pydantic_schema)
    namespace["_described"] = described
    # Values refer to nothing that refers to them, so that no garbage has to be looked for in them.
    struct = msgspec.defstruct(cls.__name__, members, namespace=namespace, module=cls.__module__, frozen=True, gc=False)
    return cast(C, struct)


class Replace(Protocol):
    """The type of `replace`."""

    def __call__(self, value: T, /, **changes: Any) -> T: ...


replace = cast(Replace, msgspec.structs.replace)
"""Copies a value with some fields changed, as `dataclasses.replace` does, which takes twenty times as long."""


def _pydantic_schema(cls: Any, source: Any, handler: Any) -> Any:
    """Returns the schema of the dataclass, whose instances become the struct's. Pydantic calls this."""
    from pydantic_core import core_schema

    described = cls._described

    def struct_of(value: Any) -> Any:
        return cls(*[getattr(value, name) for name in cls.__struct_fields__])

    def described_by(struct: Any) -> Any:
        return described(*[getattr(struct, name) for name in cls.__struct_fields__])

    schema = handler.generate_schema(described)
    read = core_schema.no_info_after_validator_function(struct_of, schema)
    written = core_schema.plain_serializer_function_ser_schema(described_by, return_schema=schema)
    return core_schema.json_or_python_schema(
        json_schema=read,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), read]),
        serialization=written,
    )
