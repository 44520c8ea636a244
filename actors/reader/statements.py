"""Statements: single facts in a passage, a row, a picture's description, or a colleague's message."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from actors.messages import FieldKind, InputLine, Remark
from actors.prompting.safe_text import one_line
from actors.reader.english import features, name_spans, normal_name, sentences

# The reader writes this where it has no result. In a message it states nothing.
NOTHING = "Nothing that was read bears on the question."

STATING = frozenset((FieldKind.FOUND, FieldKind.TRIPLE, FieldKind.SUMMARY, FieldKind.DESCRIPTION, FieldKind.THOUGHT))
_KINDS = frozenset(kind.value for kind in FieldKind)
_CELL = re.compile(r"^\s*([^:=|;]{1,60}?)\s*(?:=|:)\s*(.*?)\s*$")
_QUOTED = re.compile(r"(?:\[([^\]]*)\]\s*)?\"([^\"]+)\"?")


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence, table row, sentence of a picture's description, or triple.

    cells: header and value of a row's cells; names: pairs of normal form and wording.
    stems: of title and text, with pairs of neighbours.
    seen: part of a picture's description; trust: 1 for first-hand statements, less for quoted ones.
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
    """Makes a statement with its stems and its names: title, cell values, capitalised spans."""
    cells = cells_of(text) if not seen else ()
    names: dict[str, str] = {}
    titles = (title, *(title.split(" - ") if cells else ()))
    for name in (*titles, *(value for _, value in cells), *(span for span, _, _ in name_spans(text))):
        key = normal_name(name)
        # Longer texts are sentences in a cell, and numbers would link unrelated rows.
        if key and len(name) < 80 and not key.isdigit():
            names.setdefault(key, name)
    stems = dict.fromkeys((*features(title), *features(text)))
    # A double quote would end a quotation of the text.
    return Statement(source, title, text.replace('"', "'"), cells, tuple(stems), tuple(names.items()), seen, trust)


def second_hand(remark: Remark, trust: float) -> list[Statement]:
    """Returns the statements of a colleague's reasoning: its quotations, or else its sentences."""
    if remark.fields:
        return [
            s
            for name, text in remark.fields
            # A field that only the role's form has states something.
            if name in STATING or name not in _KINDS
            for s in statements_in(remark.speaker, text, trust)
        ]
    content = remark.content.replace(NOTHING, "")
    quoted = _QUOTED.findall(content)
    statements = []
    for source, text in quoted or [("", sentence) for sentence in sentences(content)]:
        title, colon, rest = text.partition(": ")
        if not colon or len(title) > 80:
            title, rest = "", text  # a longer text before a colon is no title
        statements.append(read_statement(source or remark.speaker, title, rest, seen=False, trust=trust))
    return statements


def statements_in(source: str, text: str, trust: float = 1.0) -> list[Statement]:
    """Returns the statements of a line: a triple, or sentences. The text before the last colon is their title."""
    text = text.replace(NOTHING, "").strip()
    parts = tuple(part.strip() for part in text.split(" | "))
    # `head | relation | tail`
    if len(parts) == 3:
        statement = read_statement(source, parts[0], f"{parts[1]} {parts[2]}", seen=False, trust=trust)
        names = {normal_name(name): name for name in (parts[0], parts[2]) if normal_name(name)}
        return [replace(statement, triple=(parts[0], parts[1], parts[2]), names=tuple(names.items()))]
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


def cells_of(text: str) -> tuple[tuple[str, str], ...]:
    """Returns header and value of each cell of a table row, `header: value` twice or more. () for other texts."""
    for separator in ("; ", " | "):
        pairs = [match for part in text.split(separator) if (match := _CELL.match(part))]
        if len(pairs) >= 2:
            return tuple((match[1], match[2].rstrip(".")) for match in pairs)
    return ()


def numbered(given_lines: Sequence[InputLine]) -> tuple[InputLine, ...]:
    """Puts the lines that a turn is given on one line each. Numbers them within their kind."""
    counts: Counter[FieldKind] = Counter()
    lines: list[InputLine] = []  # numbers become the sources of statements
    for given in given_lines:
        counts[given.kind] = counts[given.kind] + 1 if given.number is None else given.number
        text, outcome = one_line(given.text), one_line(given.outcome)
        lines.append(replace(given, text=text, number=counts[given.kind], outcome=outcome))
    return tuple(lines)


def statements_of(lines: Sequence[InputLine]) -> list[Statement]:
    """Returns the statements of given lines. Those of a planning graph's nodes come last."""
    # Of a node only the outcome states something: its text is an instruction.
    stating = [(given, given.text) for given in lines if given.kind in STATING or given.kind is FieldKind.CANDIDATE]
    stating += [(given, given.outcome) for given in lines if given.kind is FieldKind.NODE]
    return [
        statement
        for given, text in stating
        for statement in statements_in(f"{given.kind.lower()} {given.number}", text)
    ]
