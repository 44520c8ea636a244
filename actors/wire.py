"""Makes the classes of values that cross processes: frozen, and cheap to make, copy, compare and send.

A turn makes some thirty values. The constructor of a frozen dataclass sets each field in Python, which took a third of
a turn's time over Ray. A struct of msgspec is made in C. `dataclasses.replace`, `fields`, `asdict` and pydantic take it
for a dataclass.
"""

from dataclasses import MISSING, dataclass, fields
from types import new_class
from typing import Any, Protocol, TypeVar, cast, dataclass_transform

import msgspec

C = TypeVar("C", bound=type[Any])
T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def wire(cls: C) -> C:
    """Makes a frozen struct of a class with annotated fields, which are written as for `dataclass`."""
    # Before `dataclass` adds its methods to the class.
    members = dict(vars(cls))
    for name in ("__dict__", "__weakref__"):
        del members[name]

    described: Any = dataclass(frozen=True, slots=True)(cls)
    for field in fields(described):
        if field.default_factory is not MISSING:
            members[field.name] = msgspec.field(default_factory=field.default_factory)
    members["__dataclass_fields__"] = described.__dataclass_fields__
    members["__get_pydantic_core_schema__"] = classmethod(_pydantic_schema)
    members["_described"] = described

    # Values form no cycles, so that the garbage collector need not follow them.
    options = {"frozen": True, "gc": False}
    return cast(C, new_class(cls.__name__, (msgspec.Struct,), options, lambda namespace: namespace.update(members)))


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
    reading = core_schema.no_info_after_validator_function(struct_of, schema)
    writing = core_schema.plain_serializer_function_ser_schema(described_by, return_schema=schema)
    return core_schema.json_or_python_schema(
        json_schema=reading,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), reading]),
        serialization=writing,
    )
