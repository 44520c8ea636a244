"""Reads a task back from a request's own part: what to do, with what, and the lines that the reply must have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.prompting import prompt
from actors.reader.lexicon import NUMBERS
from actors.reader.parse import STATING, Statement, stated
from actors.reader.text import normal_name, stem

_LINE = re.compile(r"^([A-Za-z][\w -]{0,40}?)\s*:\s*(.*)$")
_VALUES = re.compile(r"(?:^|; )one of ([^;]+)(?=;|$)")
_MANY = "as many such lines as needed"
_OPTIONAL = re.compile(r"this line may be left out|as many such lines as needed, or none")
_GIVEN = re.compile(r"^\\?([A-Z][A-Za-z-]{1,30})(?: (\d{1,3}))?(?: \([^)]*\))?\s*:\s*(.*)$")
_SURE = re.compile(r"\s*\(confidence ([0-9.]+)\)\s*$")
_ONE = re.compile(r"^the (?:number|name) of (?:one|the)\b", re.IGNORECASE)
ARROW = " -> "
_AT_MOST = re.compile(r"\b(?:at most|up to|no more than)\s+(\w+)(?:\s+([\w-]+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the form: `asks` in words; a value has to be one of `values` where there are any."""

    name: str
    asks: str
    values: tuple[str, ...] = ()
    many: bool = False
    optional: bool = False

    def one_of(self, *words: str) -> str | None:
        """The first of these words that is allowed here, as it is spelt there."""
        spelt = {value.lower(): value for value in self.values}
        return next((spelt.get(word, word) for word in words if not spelt or word in spelt), None)


@dataclass(frozen=True, slots=True)
class Given:
    """One line of material: `Candidate 3: ...` has kind, number and text; a line of no such form has a text only."""

    kind: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class SetTask:
    """A task as the prompt sets it."""

    instruction: str
    lines: tuple[Line, ...]
    given: tuple[Given, ...]

    def of(self, *kinds: str) -> list[Given]:
        return [given for given in self.given if given.kind in kinds]

    def statements(self) -> list[Statement]:
        """What the given lines state: triples, and sentences of what was found (after the arrow of a node's line)."""
        found = [(given, given.text) for given in self.of(*STATING)]
        found += [(node, node.text.partition(ARROW)[2]) for node in self.of("Node")]
        return [said for given, text in found for said in stated(f"{given.kind.lower()} {given.number}", text)]

    def looked_up(self) -> list[str]:
        """What was searched for or asked before: the queries, and those sub-questions that something follows."""
        pairs = zip(self.given, self.given[1:], strict=False)
        asked = [one.text for one, after in pairs if one.kind == "Sub-question" and after.kind in ("Found", "Answer")]
        return [*(query.text for query in self.of("Query")), *asked]

    def limit(self, line: Line, most: int) -> int:
        """How many values are asked for at most: `at most five` in the words for the line, or
        `at most five triples` in the instruction."""
        if _ONE.search(line.asks):
            return 1
        named = {stem(line.name.lower()), stem("candidates")}
        for text, anything in ((line.asks, True), (self.instruction, False)):
            for word, noun in _AT_MOST.findall(text):
                number = int(word) if word.isdigit() else NUMBERS.get(word.lower(), 0)
                if number and (anything or stem(noun.lower()) in named):
                    return number
        return most


def read_task(own: Mapping[str, Sequence[str]]) -> SetTask | None:
    """The task among the sections of a request's own part; None for a request to answer."""
    if prompt.TASK not in own:
        return None
    lines = tuple(line for text in own.get(prompt.REPLY_FORM, ()) if (line := _line(text)))
    given: list[Given] = []
    numbers: dict[str, int] = {}
    for text in own.get(prompt.GIVEN, ()):
        match = _GIVEN.match(text)
        kind = match[1] if match else ""
        numbers[kind] = int(match[2]) if match and match[2] else numbers.get(kind, 0) + 1
        given.append(Given(kind, numbers[kind], match[3] if match else text))
    return SetTask(" ".join(own[prompt.TASK]), lines, tuple(given))


def answer_and_sureness(text: str) -> tuple[str, float]:
    """The answer of an `Answer n:` line, and its confidence where it is stated (0.5 where not); "" for unknown."""
    match = _SURE.search(text)
    try:
        sure = float(match[1]) if match else 0.5
    except ValueError:
        sure = 0.5
    answer = (text[: match.start()] if match else text).strip().removeprefix("Answer: ")
    return ("" if normal_name(answer) in ("unknown", "") else answer), sure


def _line(text: str) -> Line | None:
    match = _LINE.match(text)
    if not match:
        return None
    asks = match[2]
    values = _VALUES.findall(asks)
    allowed = tuple(value.strip() for value in values[-1].split(" | ")) if values and " | " in values[-1] else ()
    return Line(match[1], asks, allowed, _MANY in asks, bool(_OPTIONAL.search(asks)))
