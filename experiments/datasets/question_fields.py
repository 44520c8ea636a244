"""Reads a row of a user's own file as a question with its answers and sources.

Fields have the names of columns (`FieldSettings`). Errors name the column, what was expected and what to do.
"""

import hashlib
import json
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError

from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import UNTITLED_HINT, UNTITLED_PASSAGE, UNTITLED_TABLE, Kind, Source
from experiments.datasets.fields import NonBlank, Text, answer_text, shortened, validated
from experiments.datasets.kind import FieldSettings
from experiments.datasets.reading import row_cells
from experiments.datasets.rows import Values, is_absent, is_base64

Naming = Literal["auto", "text", "letter", "place"]

LETTERS = tuple(string.ascii_uppercase)
IMAGEFOLDER = "file_name"  # column of pictures in the metadata of an imagefolder
TEXT: TypeAdapter[str] = TypeAdapter(Text)
QUESTION: TypeAdapter[str] = TypeAdapter(NonBlank)


@dataclass(frozen=True, slots=True)
class RowPicture:
    """A picture of a row: the path of its file, or its content, as bytes or in base64."""

    path: str
    content: bytes | str | None = None


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """A question with its answers and sources. hint, passages, tables: sources, the rows of a table one by one."""

    text: str
    answers: tuple[str, ...]
    choices: tuple[str, ...]
    pictures: tuple[RowPicture, ...]
    hint: tuple[Source, ...]
    passages: tuple[Source, ...]
    tables: tuple[Source, ...]
    cluster: str
    tags: Mapping[str, str]


class Columns:
    """Columns of each field, found among those of a file. Raises UserError for a column that is not there.

    unread: columns of no field.
    """

    def __init__(self, settings: FieldSettings, columns: Collection[str], where: str) -> None:
        self.of: dict[str, tuple[str, ...]] = {}
        self._combined: set[str] = set()  # fields whose columns make a list
        for field in fields(settings):
            key = field.name
            chosen = getattr(settings, key)
            if chosen:
                self.of[key] = self._chosen(key, chosen, columns, where)
            elif key != "tags":
                # `answer` for one, `answers` for several.
                names = [key, key.removesuffix("s")]
                if key == "pictures":
                    names.append(IMAGEFOLDER)
                self.of[key] = tuple(name for name in dict.fromkeys(names) if name in columns)
        if not self.of["choices"] and {"A", "B"} <= set(columns):
            self.of["choices"] = tuple(letter for letter in LETTERS if letter in columns)
            self._combined.add("choices")
        for key in ("question", "answers"):
            if not self.of[key]:
                self._missing(key, key, columns, where)
        columns_read = set(chain.from_iterable(self.of.values()))
        self.unread = [name for name in columns if name not in columns_read]

    def _chosen(self, key: str, chosen: str, columns: Collection[str], where: str) -> tuple[str, ...]:
        if chosen in columns:
            return (chosen,)
        names = tuple(name.strip() for name in chosen.strip("[]").split(","))
        for name in names:
            if name not in columns:
                self._missing(key, name, columns, where)
        self._combined.add(key)
        return names

    def _missing(self, key: str, name: str, columns: Collection[str], where: str) -> None:
        hint = near_miss(name, columns)
        listed = ", ".join(map(shortened, columns))
        raise UserError(
            f"{where}: no column {name!r} for the field {key!r}.{hint} Name the right one: data.fields.{key}=<column>. "
            f"There are {listed or 'none'}"
        )

    def value(self, key: str, values: Values) -> Any:
        """Returns the value of a field, or the list of those of its columns that are not absent. None for none."""
        present = [values[name] for name in self.of.get(key, ()) if not is_absent(values.get(name))]
        if key in self._combined:
            return present or None
        return present[0] if present else None

    def named(self, key: str) -> str:
        """Names the columns of a field."""
        return ", ".join(self.of.get(key, ())) or key


def record_of(values: Values, columns: Columns, naming: Naming) -> QuestionRecord:
    """Reads the question of a row. Raises UserError that begins with the column at fault."""
    # The field that is read, for errors: a context for each would take half of the time.
    field = "question"
    try:
        text = validated(QUESTION, columns.value(field, values), "", "a question's text")
        field = "choices"
        labels, choices = choices_of(columns.value(field, values))
        field = "answers"
        answers = answers_of(columns.value(field, values), labels, choices, naming)
        field = "pictures"
        pictures = tuple(map(picture_of, several(columns.value(field, values))))
        field = "hint"
        hint = tuple(passage_of(value, UNTITLED_HINT) for value in several(columns.value(field, values)))
        field = "passages"
        passages = tuple(passage_of(value, UNTITLED_PASSAGE) for value in several(columns.value(field, values)))
        field = "tables"
        rows: list[Source] = []
        for table in tables_of(columns.value(field, values)):
            rows += table_sources(table)
        field = "cluster"
        cluster = plain_text(columns.value(field, values))
        tags = {}
        for field in columns.of.get("tags", ()):
            tags[field] = plain_text(values.get(field))
    except (UserError, PydanticCustomError) as error:
        raise UserError(f"{columns.named(field)}: {error}") from error
    return QuestionRecord(
        text=text,
        answers=answers,
        choices=choices,
        pictures=pictures,
        hint=hint,
        passages=passages,
        tables=tuple(rows),
        cluster=cluster,
        tags=tags,
    )


def plain_text(value: Any) -> str:
    """Writes text or a number; nothing for an absent value. Raises UserError for anything else."""
    if is_absent(value):
        return ""
    if isinstance(value, str):
        return validated(TEXT, value, "", "text")
    try:
        return answer_text(value)
    except PydanticCustomError:
        raise UserError(f"expected text or a number, found {shortened(value)}; correct it") from None


def several(value: Any) -> list[Any]:
    """Returns a list of values, also of one. `datasets` writes a list of objects as an object of lists."""
    if value is None:
        return []
    if isinstance(value, dict) and value and all(isinstance(part, list) for part in value.values()):
        length = max(map(len, value.values()))
        if any(len(part) != length for part in value.values()):
            raise UserError(f"expected lists of one length in {shortened(value)}; correct it")
        value = [{name: part[number] for name, part in value.items()} for number in range(length)]
    if isinstance(value, list):
        return [item for item in value if not is_absent(item)]
    return [value]


def choices_of(value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the labels of choices and their texts; nothing for a question without choices.

    `datasets` may have them as an object of texts and labels. Raises UserError for anything but a list of texts.
    """
    labels: tuple[str, ...] = LETTERS
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        labels = tuple(map(plain_text, value.get("label") or LETTERS))
        value = value["text"]
    if value is None:
        return (), ()
    if not isinstance(value, list):
        raise UserError(f'expected a list such as ["yes", "no"], found {shortened(value)}; write one')
    choices = []
    for number, choice in enumerate(value):
        text = plain_text(choice)
        if not text.strip():
            raise UserError(f"choice {number + 1} is empty; write it, or leave it out")
        choices.append(text)
    return labels, tuple(choices)


def answers_of(value: Any, labels: tuple[str, ...], choices: tuple[str, ...], naming: Naming) -> tuple[str, ...]:
    """Returns the gold answers. Raises UserError for none, and for one that names no choice or several."""
    # SQuAD's answers have their places in the passage, too.
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        value = value["text"]
    values = several(value)
    if not values:
        raise UserError(
            "no answer: write it; of a split without answers, evaluate another one (data.evaluated=<split>)"
        )
    if not choices:
        return tuple(map(answer_text, values))
    return tuple(choices[place_of(answer, labels, choices, naming)] for answer in values)


def place_of(answer: Any, labels: tuple[str, ...], choices: tuple[str, ...], naming: Naming) -> int:
    """Finds the choice that an answer names. Raises UserError for none, or for two of several readings."""
    text = answer_text(answer).strip()
    label = text
    if labels is LETTERS:
        label = text.upper()
    named_choices = (
        ("text", text, choices),
        ("letter", label, labels[: len(choices)]),
        ("place", text, tuple(map(str, range(len(choices))))),
    )
    places: dict[str, int] = {}
    for reading, name, names in named_choices:
        if naming in ("auto", reading) and name in names:
            places[reading] = names.index(name)
    # A text of digits is a choice's text or label first: tables of text have no numbers.
    if isinstance(answer, str) and len(places) > 1:
        places.pop("place", None)
    distinct = {choices[place] for place in places.values()}
    if len(distinct) == 1:
        return next(iter(places.values()))
    if distinct:
        readings = ", ".join(f"the {reading} of {shortened(choices[place])}" for reading, place in places.items())
        raise UserError(f"{shortened(answer)} is {readings}: choose one, data.answers=<{'|'.join(places)}>")
    expected = "a choice's text, letter (A, B, ...) or place from 0"
    if naming != "auto":
        expected = f"a choice's {naming} (data.answers)"
    raise UserError(f"expected {expected}, found {shortened(answer)} for {len(choices)} choices; correct it")


def picture_of(value: Any) -> RowPicture:
    """Reads a picture: a path, its content in base64, or an object of `path` and, as `datasets` has it, `bytes`."""
    if isinstance(value, dict):
        content = value.get("bytes")
        if isinstance(content, (bytes, type(None))) and {"path", "bytes"} & value.keys():
            return RowPicture(plain_text(value.get("path")), content)
    elif is_base64(value):
        return RowPicture("", value)
    elif isinstance(value, str):
        return RowPicture(value.strip())
    raise UserError(f"expected the path of a picture, found {shortened(value)}; correct it")


def passage_of(value: Any, title: str) -> Source:
    """Makes the source of a passage: a text, or an object with `text` and perhaps `title` and `id`."""
    id = ""
    if isinstance(value, dict):
        title = plain_text(value.get("title")) or title
        id = plain_text(value.get("id"))
        value = value.get("text")
    text = plain_text(value)
    if not text.strip():
        raise UserError(f"expected a passage's text, or an object with `text`, found {shortened(value)}; correct it")
    doc = id or f"text:{digest(title, text)}"
    return Source(doc, doc, Kind.TEXT, title, text)


def tables_of(value: Any) -> list[Any]:
    """Returns the tables of a value: one, or a list of them. A list of rows is one table."""
    if not isinstance(value, list):
        return [] if value is None else [value]
    is_rows = all(isinstance(row, list) and not any(isinstance(cell, (list, dict)) for cell in row) for row in value)
    return [value] if is_rows else value


def table_sources(table: Any) -> list[Source]:
    """Makes the sources of a table, one for each row under the header. Raises UserError for anything else."""
    title = UNTITLED_TABLE
    if isinstance(table, dict):
        title = plain_text(table.get("title")) or title
        header = table.get("header")
        rows = table.get("rows")
        table = rows if header is None or not isinstance(rows, list) else [header, *rows]
    if not isinstance(table, list) or len(table) < 2 or not all(isinstance(row, list) for row in table):
        raise UserError(
            f"expected a table as a list of rows, the first with the columns' names, found {shortened(table)}; "
            "correct it"
        )
    cells = [tuple(map(plain_text, row)) for row in table]
    doc = f"table:{digest(title, *map(str, cells))}"
    sources = []
    for number, row in enumerate(cells[1:]):
        text = "; ".join(row_cells(cells[0], row))
        if text:
            sources.append(Source(f"{doc}:{number}", doc, Kind.TABLE, title, text))
    return sources


def digest(*parts: str) -> str:
    """Names a source by its content, so that questions share it."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
