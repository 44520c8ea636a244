"""What a reply states of one field, before it is understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.messages import Field


@dataclass(frozen=True, slots=True)
class Part:
    """What stands under a field's name: `lines` as they were written, or a JSON `value` (then `lines` is empty).

    `several` says that the name was a plural, `settled` that the label says so (`Final answer`),
    `closed` that another field follows. `after` are lines behind an object that are of no field.
    """

    field: Field
    lines: tuple[str, ...] = ()
    value: Any = None
    several: bool = False
    settled: bool = False
    closed: bool = False
    after: tuple[str, ...] = ()


class Twice:
    """A key that an object has twice, with different values."""

    def __repr__(self) -> str:
        return "(two values)"
