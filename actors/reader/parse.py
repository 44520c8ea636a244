"""Reads a request back into question, choices, statements, opinions and role, by its headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from actors.messages import Source
from actors.prompting import prompt
from actors.reader.text import features, name_spans, normal_name, sentences

_TAGGED = re.compile(r"^\[([^\]]*)\]\s*(.*)$")
_CHOICE = re.compile(r"^\(([A-Z])\)\s*(.*)$")
_CELL = re.compile(r"^\s*([^:=|;]{1,60}?)\s*(?:=|:)\s*(.*?)\s*$")
_SAID = re.compile(r"^(?:(.*\S)\s+)?Answer:\s*(.*?)(?:(?:\s*\(confidence |; Confidence: )([0-9.]+)\)?)?$")
STATING = frozenset(("Found", "Triple", "Summary", "Description", "Thought"))
_SEARCHING = frozenset(("Query", "Sub-question", "Instruction"))
# What this reader says where it has nothing to tell, and what it makes of what it read: no statements of anything.
_STOCK = re.compile(
    r"Nothing that was read bears on the question\.|No picture that is shown bears on the question\.|"
    r"Next to find out: .*$|So the answer may be .*$"
)
_FIELD = re.compile(
    r"(?:^|; )(Found|Triple|Summary|Description|Thought|Query|Sub-question|Instruction|Answer|Confidence|Action|Best|"
    r"Enough|Entity|Intents|Keyword|Parents|Relevant|Retrieve|Same|Score|Selected|Step|Supported|Theme|Type|Visual): "
)
_QUOTED = re.compile(r"(?:\[([^\]]*)\]\s*)?\"([^\"]+)\"?")
_HEADINGS = frozenset(
    (
        prompt.REPAIR,
        prompt.QUESTION,
        prompt.CHOICES,
        prompt.EVIDENCE,
        prompt.PICTURES,
        prompt.DISCUSSION,
        prompt.ROLE,
        prompt.WEIGHTS,
        prompt.ORDERS,
        prompt.TASK,
        prompt.GIVEN,
        prompt.REPLY_FORM,
    )
)


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


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a colleague, or the agent itself earlier, answered; `weight` as stated to the reader."""

    speaker: str
    content: str
    answer: str | None
    confidence: float
    weight: float
    own: bool = False


def statement(source: str, title: str, text: str, seen: bool, trust: float = 1.0) -> Statement:
    """A statement with its stems (title's included) and its names: title, cell values, capitalised spans."""
    cells = _cells(text) if not seen else ()
    names: dict[str, str] = {}
    titles = (title, *(title.split(" - ") if cells else ()))
    for name in (*titles, *(value for _, value in cells), *(span for span, _, _ in name_spans(text))):
        key = normal_name(name)
        if key and len(name) < 80 and not key.isdigit():
            names.setdefault(key, name)
    stems = dict.fromkeys((*features(title), *features(text)))
    return Statement(source, title, text.replace('"', "'"), cells, tuple(stems), tuple(names.items()), seen, trust)


def sections(text: str) -> dict[str, list[str]]:
    """Lines under each heading; text before the first heading is dropped, of a repeated heading all lines count."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line in _HEADINGS:
            lines = found.setdefault(line, [])
        else:
            lines.append(line)
    return found


def question_and_choices(shared: dict[str, list[str]]) -> tuple[str, tuple[str, ...]]:
    choices = (match[2] for line in shared.get(prompt.CHOICES, ()) if (match := _CHOICE.match(line)))
    return " ".join(shared.get(prompt.QUESTION, ())), tuple(choices)


def told(shared: dict[str, list[str]]) -> list[Statement]:
    """The statements of passages and table rows, in prompt order."""
    found: list[Statement] = []
    for line in shared.get(prompt.EVIDENCE, ()):
        match = _TAGGED.match(line)
        title, colon, text = (match[2] if match else line).partition(": ")
        if not colon:
            title, text = "", title
        parts = [text] if _cells(text) else sentences(text)
        found += [statement(match[1] if match else "", title, part, seen=False) for part in parts]
    return found


def shown(images: Sequence[Source]) -> list[list[Statement]]:
    """Per picture the sentences of its description; a picture without one shows no more than its title."""
    return [
        [statement(image.id, image.title, part, seen=True) for part in sentences(image.text) or [""]]
        for image in images
    ]


def opinions(own: dict[str, list[str]]) -> list[Opinion]:
    """Colleagues' messages with their stated weights, and the agent's own earlier turns, which may have one as well."""
    marks = [mark for line in own.get(prompt.WEIGHTS, ()) for mark in line.rpartition(": ")[2].split(", ")]
    found = []
    for line, mark in zip_longest(own.get(prompt.DISCUSSION, ()), marks, fillvalue=""):
        tagged = _TAGGED.match(line)
        told = dict(fields(tagged[2])) if tagged else {}
        of_task = bool(told.keys() - {"Answer"})
        said = None if not tagged or of_task else _SAID.match(tagged[2])
        if tagged and said:
            answer = None if said[2].rstrip(".").lower() in ("unknown", "") else said[2]
            confidence = min(1.0, _number(said[3], 0.5))
            weight = mark.rpartition(prompt.YOU)[2]
            opinion = Opinion(tagged[1], said[1] or "", answer, confidence, _number(weight, 0.0))
            if prompt.YOU in mark:
                found.append(replace(opinion, weight=0.0, own=True))
            if prompt.YOU not in mark or opinion.weight:
                found.append(opinion)
        elif tagged:
            final = told.get("Answer", "").rstrip(".")
            stated_weight = _number(mark.rpartition(prompt.YOU)[2], 0.0)
            found.append(
                Opinion(
                    speaker=tagged[1],
                    content=tagged[2],
                    answer=None if final.lower() in ("unknown", "") else final,
                    confidence=min(1.0, _number(told.get("Confidence"), 0.5)),
                    weight=stated_weight,
                    own=prompt.YOU in mark and not stated_weight,
                )
            )
    return found


def fields(content: str) -> list[tuple[str, str]]:
    """(name, value) of a message that was the reply to a task, as it reads in a discussion; () of any other."""
    if not _FIELD.match(content):
        return []
    marks = list(_FIELD.finditer(content))
    ends = [mark.start() for mark in marks[1:]] + [len(content)]
    return [(mark[1], content[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=True)]


def searched(own: dict[str, list[str]]) -> list[str]:
    """What was asked or looked for before, by the replies to tasks in a discussion."""
    lines = [tagged[2] for line in own.get(prompt.DISCUSSION, ()) if (tagged := _TAGGED.match(line))]
    return [said for line in lines for name, said in fields(line) if name in _SEARCHING]


def second_hand(opinion: Opinion, trust: float) -> list[Statement]:
    """What a colleague's reasoning states: its quotations where it quotes, else its sentences."""
    told = fields(opinion.content)
    if told:
        return [s for name, text in told if name in STATING for s in stated(opinion.speaker, text, trust)]
    content = _STOCK.sub("", opinion.content)
    quoted = _QUOTED.findall(content)
    found = []
    for source, text in quoted or [("", sentence) for sentence in sentences(content)]:
        title, colon, rest = text.partition(": ")
        if not colon or len(title) > 80:
            title, rest = "", text
        found.append(statement(source or opinion.speaker, title, rest, seen=False, trust=trust))
    return found


def stated(source: str, text: str, trust: float = 1.0) -> list[Statement]:
    """The statements of a line that says what was found: a triple is one, any other text has one per sentence, under
    the last title that stood before a colon."""
    text = _STOCK.sub("", text).strip()
    parts = tuple(part.strip() for part in text.split(" | "))
    if len(parts) == 3:
        said = statement(source, parts[0], f"{parts[1]} {parts[2]}", seen=False, trust=trust)
        return [replace(said, triple=(parts[0], parts[1], parts[2]), names=_of_triple(parts[0], parts[2]))]
    quoted = _QUOTED.findall(text)
    if quoted:
        return [said for _, quote in quoted for said in stated(source, quote.replace('"', "'"), trust)]
    found, title = [], ""
    for piece in sentences(text):
        before, colon, rest = piece.partition(": ")
        if colon and len(before) <= 160 and "=" not in before:
            title, piece = before, rest
        found.append(statement(source, title, piece, seen=False, trust=trust))
    return found


def _of_triple(head: str, tail: str) -> tuple[tuple[str, str], ...]:
    return tuple({normal_name(name): name for name in (head, tail) if normal_name(name)}.items())


def _cells(text: str) -> tuple[tuple[str, str], ...]:
    """Header and value of each cell when the text reads as a table row (two or more `header: value` parts), else ()."""
    for separator in ("; ", " | "):
        pairs = [match for part in text.split(separator) if (match := _CELL.match(part))]
        if len(pairs) >= 2:
            return tuple((match[1], match[2].rstrip(".")) for match in pairs)
    return ()


def _number(text: str | None, default: float) -> float:
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return default
