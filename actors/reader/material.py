"""The lines of material that a turn is given, numbered, and what they state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from actors.messages import FieldKind, Given
from actors.prompting.safe_text import one_line
from actors.reader.statement import STATING, Statement, statements_in


def numbered(material: Sequence[Given]) -> tuple[Given, ...]:
    """The material as the prompt shows it, each text on one line; a line without a number gets its place among its
    kind."""
    counts: Counter[FieldKind] = Counter()
    lines: list[Given] = []  # numbers become the sources of statements, by which they are quoted and told apart
    for given in material:
        counts[given.kind] = counts[given.kind] + 1 if given.number is None else given.number
        text, outcome = one_line(given.text), one_line(given.outcome)
        lines.append(replace(given, text=text, number=counts[given.kind], outcome=outcome))
    return tuple(lines)


def statements(material: Sequence[Given]) -> list[Statement]:
    """The statements of the lines: triples and sentences, those of a planning graph's nodes last."""
    # Of a node only the outcome states something: its text says what is to be done.
    stating = [(given, given.text) for given in material if given.kind in STATING]
    stating += [(given, given.outcome) for given in material if given.kind is FieldKind.NODE]
    return [
        statement
        for given, text in stating
        for statement in statements_in(f"{given.kind.lower()} {given.number}", text)
    ]


def looked_up(material: Sequence[Given]) -> list[str]:
    """The earlier searches: the queries, and those sub-questions that something follows."""
    pairs = pairwise(material)
    settled = (FieldKind.FOUND, FieldKind.ANSWER)
    questions = [line.text for line, after in pairs if line.kind is FieldKind.SUB_QUESTION and after.kind in settled]
    return [*(given.text for given in material if given.kind is FieldKind.QUERY), *questions]
