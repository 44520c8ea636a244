"""The names under which replies state a form's fields: as lines' labels, as keys of objects, as headings of tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from actors.messages import Field, FieldKind

# What models call a field beside its own name and its plural.
_ALSO = {
    FieldKind.ANSWER: ("final answer", "correct answer", "ans"),
    FieldKind.CONFIDENCE: ("confidence level", "confidence score", "confidence rating", "conf"),
    FieldKind.GRADE: ("score", "rating"),
    FieldKind.KEYWORD: ("key word", "key phrase", "keyphrase"),
    FieldKind.PARENTS: ("parent", "parent node"),
    FieldKind.QUERY: ("search query",),
    FieldKind.REASONING: ("reason", "rationale", "explanation"),
    FieldKind.SELECTED: tuple(f"selected {what}" for what in ("number", "candidate", "source", "picture", "page")),
    FieldKind.STEP: ("call", "tool call"),
    FieldKind.SUB_QUESTION: ("subquestion", "sub question"),
    FieldKind.THOUGHT: ("thinking", "reasoning"),
    FieldKind.TRIPLE: ("triplet",),
    FieldKind.TYPE: ("node type", "type of node"),
}
# Words before a field's name; with some of them a reply says that it has settled.
BEFORE = (
    "the|my|our|your|final|overall|corrected|revised|updated|new|best|short|kept|relevant|chosen|remaining|resulting"
)
SETTLED = re.compile(r"final|corrected|revised|updated|new", re.IGNORECASE)
_BEFORE = re.compile(rf"^(?:{BEFORE}){{1,3}}")
_LETTERS = re.compile(r"[^a-z]+")


class Labels:
    """The labels of some fields. No two fields share one: a field's own name goes before what models call another."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields: dict[str, Field] = {}
        self.names: list[str] = []
        for also in (False, True):
            for field in fields:
                names = _ALSO.get(field.kind, ()) if also else (field.name,)
                for label in (form for name in names for form in (name, plural(name))):
                    if _plain(label) not in self._fields:
                        self._fields[_plain(label)] = field
                        self.names.append(label)
        # The longest first: `final answer` begins with no other label's whole name, but `reasoning` does with `reason`.
        self.names.sort(key=len, reverse=True)
        self._plurals = {_plain(plural(name)) for name in self.names if not name.endswith("s")}

    def field(self, name: str) -> Field | None:
        """The field of a label or of an object's key, in whatever case and with whatever between its words."""
        plain = _plain(name)
        return self._fields.get(plain) or self._fields.get(_BEFORE.sub("", plain, count=1))

    def is_plural(self, name: str) -> bool:
        """True for the label of several values."""
        return _plain(name) in self._plurals


def plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else name if name.endswith("s") else f"{name}s"


@lru_cache(maxsize=256)
def labels(fields: tuple[Field, ...]) -> Labels:
    """The same for all replies to a form."""
    return Labels(fields)


def _plain(name: str) -> str:
    return _LETTERS.sub("", name.lower())
