"""Reads the numbers of what was shown: `1, 3`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import Field
from actors.prompting.faults import Fault, Values, quoted
from actors.prompting.marks import BULLET, in_digits
from actors.prompting.stated import undecorated

_MOST = 999  # numbers of one list
_NUMBERED = re.compile(r"\s*+\(?\d{1,2}[.)]\s")
# A line of numbers and what separates them.
_ONE = r"[\[(#]{0,2}\d{1,3}(?!\d)[\])]{0,2}"
NUMBERS_ALONE = re.compile(rf"\s*+{_ONE}(?:[\s,;]++{_ONE})*+[\s,;.]*+")
_NUMBER_NOUN = (
    r"(?:numbers?|nos?\.?|candidates?|sources?|pictures?|images?|pages?|nodes?|passages?|items?|evidence|the|#)"
)
_NUMBER = re.compile(rf"\s*(?:{_NUMBER_NOUN}\s?){{0,3}}[\[(#]{{0,2}}(\d{{1,3}})[\])]{{0,2}}", re.IGNORECASE)
_RANGE = re.compile(r"\s?[-–]\s?[\[(]?(\d{1,3})[\])]?(?![\w.])")
_SEPARATOR = re.compile(r"\s*(?:,\s*and\b|[,，、;&+/]|and\b|as well as\b|\s(?=\[))\s*", re.IGNORECASE)
_REMARK = re.compile(r"\s*(?:\([^()]*\)|(?<=\])\s[^\d\[,]+$|[:–—-]\s[^\d]*)")


def read_numbers(field: Field, lines: Sequence[str]) -> Values | Fault:
    """The numbers of what was shown, as `1, 3`."""
    if len(lines) > 1 and all(map(NUMBERS_ALONE.fullmatch, lines)):
        lines = [", ".join(line.strip(" ,;.") for line in lines)]
    text = in_digits(" ".join(lines))
    numbers: list[int] = []
    bulleted = [line for line in lines if BULLET.match(line) and not _NUMBERED.match(line)]
    if len(bulleted) > 1 and len(bulleted) == len(lines):
        for line in bulleted:
            line = line if re.match(r"\s*\[\d", line) else BULLET.sub("", line, count=1)
            match = _NUMBER.match(line.strip("*_` "))
            rest = line.strip("*_` ")[match.end() :] if match else ""
            if match is None or not re.match(r"\s*$|[\]):.,]|\s?[-–—:(]|\s", rest):
                return Fault(field, f"{quoted(line)} names no number")
            numbers.append(int(match[1]))
    else:
        if len(lines) > 1:
            return Fault(field, f"{quoted(text)} is not a list of numbers")
        rest = undecorated(text.strip())[0].strip()
        if len(rest) > 1 and rest[0] + rest[-1] in ("[]", "()", "{}") and rest[1:-1].count(rest[0]) == 0:
            rest = rest[1:-1]
        while True:
            match = _NUMBER.match(rest)
            if match is None:
                return Fault(field, f"{quoted(text)} is not a list of numbers")
            numbers.append(int(match[1]))
            if len(numbers) > _MOST:
                return Fault(field, f"{quoted(text)} has more than {_MOST} numbers")
            rest = rest[match.end() :]
            if reach := _RANGE.match(rest):
                numbers += range(numbers[-1] + 1, min(int(reach[1]), numbers[-1] + 50) + 1)
                rest = rest[reach.end() :]
            if remark := _REMARK.match(rest):
                if _SEPARATOR.search(remark[0]) and not remark[0].strip().startswith("("):
                    return Fault(field, f"{quoted(text)} is not a list of numbers alone")
                rest = rest[remark.end() :]
            separator = _SEPARATOR.match(rest)
            if separator is None:
                break
            rest = rest[separator.end() :]
        if rest.strip(" .*_`\"'"):
            return Fault(field, f"{quoted(text)} is not a list of numbers alone")
    return (", ".join(map(str, dict.fromkeys(numbers))),)
