"""Reads a JSON file piece by piece: the members of its object, or the elements of its list, one at a time.

The releases' large files are one JSON value each. Read as a whole, a file of a few hundred MB may take many GB; so no
more than one of its records is in memory at a time.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.layouts.fields import checked_value
from experiments.datasets.layouts.limits import ID, LINE, MB, UNPACKED
from experiments.datasets.lines import reading

T = TypeVar("T")

PIECE = MB  # characters read at a time
_BLANK = re.compile(r"[ \t\n\r]*")
_NAMES = {"{": "object", "[": "list"}


def read_members(path: Path, schema: TypeAdapter[T], noun: str, inside: str | None = None) -> Iterator[tuple[str, T]]:
    """Name and value of each member of the file's object, or with `inside` of the object under that name.

    `noun` is what errors call a member. Raises UserError for a file that is broken, too large or of another form, and
    for a name that is there twice.
    """
    seen: set[str] = set()
    for name, value in _values(path, "{", inside):
        where = f"{path}, {noun} {name[:ID]}"
        if not name or not name.isprintable() or len(name) > ID:
            raise UserError(f"{where}: expected a name in one line, of at most {ID} characters")
        if name in seen:
            raise UserError(f"{where} is there twice: remove one")
        seen.add(name)
        yield name, checked_value(schema, value, where)


def read_elements(path: Path, schema: TypeAdapter[T], noun: str, inside: str | None = None) -> Iterator[tuple[int, T]]:
    """Place (from 0) and value of each element of the file's list, or with `inside` of the list under that name."""
    for number, (_, value) in enumerate(_values(path, "[", inside)):
        yield number, checked_value(schema, value, f"{path}, {noun} {number}")


def _values(path: Path, opening: str, inside: str | None) -> Iterator[tuple[str, Any]]:
    """Every value and its name ("" in a list)."""
    with reading(path), open(path, encoding="utf-8-sig") as file:
        cursor = _Cursor(path, file)
        if inside is None:
            yield from cursor.values(opening)
        elif not cursor.enter(inside):
            raise UserError(f'{path} has no {_NAMES[opening]} "{inside}": copy it again from the release')
        else:
            yield from cursor.values(opening)
            return  # what follows is not read
        cursor.end()


class _Cursor:
    """A place in a JSON text of which only a part is in memory."""

    def __init__(self, path: Path, file: io.TextIOBase) -> None:
        self._path = path
        self._file = file
        self._text = ""
        self._at = 0
        self._lines = 1  # the line of the first character of `_text`
        self._size = 0
        self._decoder = json.JSONDecoder()

    def enter(self, name: str) -> bool:
        """Goes to the value of a name of the object; False where there is none."""
        self._expect("{")
        while self._peek() != "}":
            found = self._value()
            self._expect(":")
            if found == name:
                return True
            self._value()
            if self._peek() != "}":
                self._expect(",")
        return False

    def values(self, opening: str) -> Iterator[tuple[str, Any]]:
        if self._peek() != opening:
            found = _NAMES.get(self._peek(), "something else")
            raise UserError(f"{self._path}: expected a JSON {_NAMES[opening]}, found {found}")
        self._at += 1
        closing, name = "}" if opening == "{" else "]", ""
        while self._peek() != closing:
            if opening == "{":
                key = self._value()
                if not isinstance(key, str):
                    raise self._broken("a name in quotation marks is missing")
                name = key
                self._expect(":")
            yield name, self._value()
            if self._peek() != closing:
                self._expect(",")
                if self._peek() == closing:
                    raise self._broken("a comma before the end")
        self._at += 1

    def end(self) -> None:
        if self._peek():
            raise self._broken("more after the end")

    def _peek(self) -> str:
        """The next character that is not blank; "" at the end."""
        at = self._at
        if at < len(self._text):
            # Most often one of these two; the pattern takes ten times as long.
            at += self._text[at] == " "
            if at < len(self._text) and self._text[at] > " ":
                self._at = at
                return self._text[at]
        while True:
            blank = _BLANK.match(self._text, self._at)
            assert blank is not None  # it matches nothing as well
            self._at = blank.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(PIECE):
                return ""

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._broken(f"expected {character!r}")
        self._at += 1

    def _value(self) -> Any:
        """The next value. One that goes on beyond what is in memory is read once more, with more."""
        self._peek()
        piece = PIECE
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > LINE:
                    raise self._broken(f"{error.msg}, or a record of more than {LINE // MB} MB", error.pos) from None
                if not self._more(piece):
                    raise self._broken(error.msg, error.pos) from None
                piece = min(2 * piece, LINE // 2)
            except (ValueError, RecursionError) as error:
                # Python's own limits: digits of a number, and nesting.
                reason = "a number of too many digits" if isinstance(error, ValueError) else "nested too deeply"
                raise self._broken(reason) from None
            else:
                if end - self._at > LINE:
                    raise self._broken(f"a record of more than {LINE // MB} MB")
                self._at = end
                return value

    def _more(self, piece: int) -> bool:
        """Reads on, and forgets what was read before; False at the end."""
        new = self._file.read(piece)
        self._lines += self._text.count("\n", 0, self._at)
        self._text = self._text[self._at :] + new
        self._at = 0
        self._size += len(new)
        if self._size > UNPACKED:
            raise UserError(
                f"{self._path} has more than {UNPACKED // MB:,} MB: no official release has so much; download it again"
            )
        return bool(new)

    def _broken(self, reason: str, at: int | None = None) -> UserError:
        line = self._lines + self._text.count("\n", 0, self._at if at is None else at)
        return UserError(
            f"{self._path}, line {line}: broken JSON ({reason}); the file may be truncated, download it again"
        )
