"""Rules that parts keep, and the settings that they name."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from actors.errors import AgoraError
from experiments.unused import Part, readers

Settings = TypeVar("Settings")


class NotConforming(AgoraError):
    """Raised where a part breaks a rule that others rely on. The text names the rule, in one line."""


@contextmanager
def checking(name: str) -> Iterator[None]:
    """Checks a part in a block. Errors begin with its name."""
    try:
        yield
    except NotConforming as error:
        raise NotConforming(f"{name}: {error}") from error


def require(condition: bool, text: str) -> None:
    """Raises NotConforming with the text unless the condition holds."""
    if not condition:
        raise NotConforming(text)


def noting(settings: Settings, names_read: set[str]) -> Settings:
    """Returns equal settings that add to `names_read` the name of each one that is read."""
    settings_class = type(settings)

    def __getattribute__(self: Any, name: str) -> Any:
        if name in settings_class.__dataclass_fields__:  # type: ignore[attr-defined]
            names_read.add(name)
        return settings_class.__getattribute__(self, name)

    noting_class = type(settings_class.__name__, (settings_class,), {"__getattribute__": __getattribute__})
    return cast(Settings, noting_class(**vars(settings)))


def check_reads(part: Part, named_by: str, group: str, names_read: Iterable[str]) -> None:
    """Requires that a part names in `reads` all settings of a group that it has read and not every part reads.

    named_by: the setting that names the part. Raises NotConforming with the first setting that `reads` lacks.
    """
    for name in sorted(names_read):
        key = f"{group}.{name}"
        is_named = key in part.reads or not readers(key, named_by)
        require(is_named, f"it reads {key}, which is missing in its `reads`")
