"""Statements: single facts in a passage, a row, a picture's description, or a colleague's message."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from actors.messages import UNTITLED, FieldKind, InputLine
from actors.prompting.plain_value import says_nothing
from actors.prompting.safe_text import one_line
from actors.reader.english import features, name_spans, normal_name, sentences

# The reader writes this where it has no result. In a message it states nothing.
NOTHING = "Nothing that was read bears on the question."

STATING = frozenset((FieldKind.FOUND, FieldKind.TRIPLE, FieldKind.SUMMARY, FieldKind.DESCRIPTION, FieldKind.THOUGHT))
LONGEST_NAME = 80  # characters; longer texts are sentences
LONGEST_TITLE = 160  # characters, in a line that a turn is given
_KINDS = frozenset(kind.value for kind in FieldKind)
_CELL = re.compile(r"^\s*([^:=|;]{1,60}?)\s*(?:=|:)\s*(.*?)\s*$")
_QUOTED = re.compile(r"(?:\[([^\]]*)\]\s*)?\"([^\"]+)\"?")


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence, table row, sentence of a picture's description, or triple.

    cells: header and value of a row's cells.
    stems: of title and text, with pairs of neighbours.
    names: pairs of normal form and wording.
    quote: the statement as others quote it, with its source.
    seen: part of a picture's description.
    trust: 1 for first-hand statements, less for quoted ones.
    """

    source: str
    title: str
    text: str
    cells: tuple[tuple[str, str], ...]
    stems: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    quote: str
    seen: bool
    trust: float = 1.0
    triple: tuple[str, str, str] | None = None

    @property
    def table(self) -> str | None:
        """Title of the table of a row. None for other statements."""
        return self.title if self.cells else None

    def names_thing(self, key: str) -> bool:
        """True where one of its names has this normal form."""
        return any(key == name for name, _ in self.names)


def read_statement(source: str, title: str, text: str, seen: bool = False, trust: float = 1.0) -> Statement:
    """Makes a statement with its stems and its names: title, cell values, capitalised spans."""
    cells = () if seen else cells_of(text)
    spellings: list[str] = []
    # The title of an untitled source names nothing, and links it to no other one.
    if title not in UNTITLED:
        spellings.append(title)
        if cells:
            spellings += title.split(" - ")
    if cells:
        spellings += map(itemgetter(1), cells)
    spellings += map(itemgetter(0), name_spans(text))

    names: dict[str, str] = {}
    for name in spellings:
        key = normal_name(name)
        # Numbers would link unrelated rows.
        if key and len(name) < LONGEST_NAME and not key.isdigit():
            names.setdefault(key, name)

    # A double quote would end a quotation of the text.
    unquoted_text = text.replace('"', "'")
    quote = f'"{unquoted_text}"'
    if title:
        quote = f'[{source}] "{title}: {unquoted_text}"'.replace("\n", " ")
    return Statement(
        source=source,
        title=title,
        text=unquoted_text,
        cells=cells,
        stems=tuple(dict.fromkeys(features(title) + features(text))),
        names=tuple(names.items()),
        quote=quote,
        seen=seen,
        trust=trust,
    )


def second_hand(speaker: str, content: str, fields: Sequence[tuple[str, str]], trust: float) -> list[Statement]:
    """Returns the statements of a colleague's message: its quotations, or else its sentences."""
    statements: list[Statement] = []
    if fields:
        for name, text in fields:
            # A field that only the role's form has states something.
            if name in STATING or name not in _KINDS:
                statements += statements_in(speaker, text, trust)
        return statements

    content = content.replace(NOTHING, "")
    quotations = _QUOTED.findall(content)
    if not quotations:
        quotations = [("", sentence) for sentence in sentences(content)]
    for source, text in quotations:
        title, colon, rest = text.partition(": ")
        if not colon or len(title) > LONGEST_NAME:
            title = ""
            rest = text
        statements.append(read_statement(source or speaker, title, rest, trust=trust))
    return statements


def statements_in(source: str, text: str, trust: float = 1.0) -> list[Statement]:
    """Returns the statements of a line: a triple, or sentences. The text before the last colon is their title."""
    text = text.replace(NOTHING, "").strip()
    if says_nothing(text):
        return []
    parts = list(map(str.strip, text.split(" | ")))
    if len(parts) == 3:
        head, relation, tail = parts
        statement = read_statement(source, head, f"{relation} {tail}", trust=trust)
        names = {normal_name(name): name for name in (head, tail)}
        names.pop("", None)
        return [replace(statement, triple=(head, relation, tail), names=tuple(names.items()))]

    statements: list[Statement] = []
    quotations = _QUOTED.findall(text)
    for _, quotation in quotations:
        statements += statements_in(source, quotation, trust)
    if quotations:
        return statements

    title = ""
    for sentence in sentences(text):
        before, colon, rest = sentence.partition(": ")
        if colon and len(before) <= LONGEST_TITLE and "=" not in before:
            title = before
            sentence = rest
        statements.append(read_statement(source, title, sentence, trust=trust))
    return statements


def cells_of(text: str) -> tuple[tuple[str, str], ...]:
    """Returns header and value of each cell of a table row, `header: value` twice or more. () for other texts."""
    for separator in ("; ", " | "):
        cells: list[tuple[str, str]] = []
        for cell in map(_CELL.match, text.split(separator)):
            if cell:
                cells.append((cell[1], cell[2].rstrip(".")))
        if len(cells) >= 2:
            return tuple(cells)
    return ()


def numbered(lines: Iterable[InputLine]) -> list[InputLine]:
    """Puts each given line on one line, and numbers it within its kind. Numbers become the sources of statements."""
    last_number: Counter[FieldKind] = Counter()
    numbered_lines: list[InputLine] = []
    for line in lines:
        number = line.number
        if number is None:
            number = last_number[line.kind] + 1
        last_number[line.kind] = number
        numbered_lines.append(replace(line, text=one_line(line.text), number=number, outcome=one_line(line.outcome)))
    return numbered_lines


def statements_of(lines: Sequence[InputLine]) -> list[Statement]:
    """Returns the statements of given lines. Those of a planning graph's nodes come last."""
    statements: list[Statement] = []
    node_statements: list[Statement] = []
    for line in lines:
        source = f"{line.kind.lower()} {line.number}"
        if line.kind in STATING or line.kind is FieldKind.CANDIDATE:
            statements += statements_in(source, line.text)
        elif line.kind is FieldKind.NODE:
            # Of a node only the outcome states something: its text is an instruction.
            node_statements += statements_in(source, line.outcome)
    return statements + node_statements
