"""Statements: what a passage, a row, a picture's description or a colleague says, one thing at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from actors.messages import FieldKind, Remark
from actors.reader.text import features, name_spans, normal_name, sentences

# What the reader itself writes where it has nothing to tell, and before what it makes of what it read. Read back from a
# message, it states nothing.
NOTHING = "Nothing that was read bears on the question."
NOTHING_SEEN = "No picture that is shown bears on the question."
NEXT = "Next to find out: "
CONCLUSION = "So the answer may be "
_NO_STATEMENT = re.compile(
    rf"{re.escape(NOTHING)}|{re.escape(NOTHING_SEEN)}|{re.escape(NEXT)}.*$|{re.escape(CONCLUSION)}.*$"
)

STATING = frozenset((FieldKind.FOUND, FieldKind.TRIPLE, FieldKind.SUMMARY, FieldKind.DESCRIPTION, FieldKind.THOUGHT))
_KINDS = frozenset(kind.value for kind in FieldKind)
_CELL = re.compile(r"^\s*([^:=|;]{1,60}?)\s*(?:=|:)\s*(.*?)\s*$")
_QUOTED = re.compile(r"(?:\[([^\]]*)\]\s*)?\"([^\"]+)\"?")


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing said: a sentence, a table row (`cells` as header and value) or a sentence of a picture's description.

    `stems` are those of title and text, pairs of neighbours included; `names` pairs of normal form and wording. An edge
    of a graph keeps its parts in `triple`.
    """

    source: str
    title: str
    text: str
    cells: tuple[tuple[str, str], ...]
    stems: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    seen: bool
    trust: float = 1.0
    triple: tuple[str, str, str] | None = None

    @property
    def quote(self) -> str:
        return f'[{self.source}] "{self.title}: {self.text}"'.replace("\n", " ") if self.title else f'"{self.text}"'


def read_statement(source: str, title: str, text: str, seen: bool, trust: float = 1.0) -> Statement:
    """A statement with its stems (title's included) and its names: title, cell values, capitalised spans."""
    cells = cells_of(text) if not seen else ()
    names: dict[str, str] = {}
    titles = (title, *(title.split(" - ") if cells else ()))
    for name in (*titles, *(value for _, value in cells), *(span for span, _, _ in name_spans(text))):
        key = normal_name(name)
        # Longer ones are sentences in a cell, and numbers would link rows that share nothing else.
        if key and len(name) < 80 and not key.isdigit():
            names.setdefault(key, name)
    stems = dict.fromkeys((*features(title), *features(text)))
    # A quotation ends at its double quote, so that none may be in the text.
    return Statement(source, title, text.replace('"', "'"), cells, tuple(stems), tuple(names.items()), seen, trust)


def second_hand(remark: Remark, trust: float) -> list[Statement]:
    """The statements of a colleague's reasoning: its quotations where it quotes, else its sentences."""
    if remark.fields:
        return [
            s
            for name, text in remark.fields
            # Fields of a role's own have names of their own, and state something.
            if name in STATING or name not in _KINDS
            for s in statements_in(remark.speaker, text, trust)
        ]
    content = _NO_STATEMENT.sub("", remark.content)
    quoted = _QUOTED.findall(content)
    statements = []
    for source, text in quoted or [("", sentence) for sentence in sentences(content)]:
        title, colon, rest = text.partition(": ")
        if not colon or len(title) > 80:
            title, rest = "", text  # so much text before a colon is no title
        statements.append(read_statement(source or remark.speaker, title, rest, seen=False, trust=trust))
    return statements


def statements_in(source: str, text: str, trust: float = 1.0) -> list[Statement]:
    """The statements of a line that says what was found: a triple is one, any other text has one per sentence, under
    the last title that stood before a colon."""
    text = _NO_STATEMENT.sub("", text).strip()
    parts = tuple(part.strip() for part in text.split(" | "))
    # `head | relation | tail`
    if len(parts) == 3:
        statement = read_statement(source, parts[0], f"{parts[1]} {parts[2]}", seen=False, trust=trust)
        return [replace(statement, triple=(parts[0], parts[1], parts[2]), names=_of_triple(parts[0], parts[2]))]
    quoted = _QUOTED.findall(text)
    if quoted:
        return [statement for _, quote in quoted for statement in statements_in(source, quote.replace('"', "'"), trust)]
    statements, title = [], ""
    for piece in sentences(text):
        before, colon, rest = piece.partition(": ")
        if colon and len(before) <= 160 and "=" not in before:
            title, piece = before, rest
        statements.append(read_statement(source, title, piece, seen=False, trust=trust))
    return statements


def _of_triple(head: str, tail: str) -> tuple[tuple[str, str], ...]:
    return tuple({normal_name(name): name for name in (head, tail) if normal_name(name)}.items())


def cells_of(text: str) -> tuple[tuple[str, str], ...]:
    """Header and value of each cell when the text reads as a table row (two or more `header: value` parts), else ()."""
    for separator in ("; ", " | "):
        pairs = [match for part in text.split(separator) if (match := _CELL.match(part))]
        if len(pairs) >= 2:
            return tuple((match[1], match[2].rstrip(".")) for match in pairs)
    return ()
