"""Reads the shared part of a request, and simulates one agent's errors of reading."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist

from actors.messages import Remark, Source, derive_seed
from actors.prompting.prompt import CHOICES, EVIDENCE, HEADINGS, OWN, QUESTION
from actors.reader.english import COLOURS, KINDS, NUMBERS, count_tokens, sentences
from actors.reader.linked_evidence import Entry, WeightedQuestion, weigh_question
from actors.reader.question import question_form
from actors.reader.statements import Statement, cells_of, read_statement, second_hand

_OBJECTS = frozenset(" ".join(KINDS.values()).split())
_WORD = re.compile(r"[^\W_]+")
_NORMAL = NormalDist()
_SEEDS = 2.0**63  # one more than the largest derived seed
PICTURE_TOKENS = 256  # prompt tokens of a picture
CACHED_REMARKS = 1024  # of a question; there are as many as samples


def uniform(seed: int, *parts: str | int) -> float:
    """Draws a number in (0, 1) that depends on its name and not on earlier draws."""
    return (derive_seed(seed, *parts) + 0.5) / _SEEDS


def gaussian(seed: int, *parts: str | int) -> float:
    """Draws from the standard normal distribution, by name like `uniform`."""
    # Rounding may lead to 0 and 1, which have no quantile.
    return _NORMAL.inv_cdf(min(max(uniform(seed, *parts), 1e-12), 1 - 1e-12))


# Colours, numbers and things in the descriptions of a prompt's pictures, each in order.
Palette = Sequence[Sequence[str]]


def look(picture: Sequence[Statement], palette: Palette, rate: float, seed: int) -> list[Statement]:
    """Returns a picture's statements as seen: with probability `rate`, one is missed or, as often, misread.

    In a misread one another colour, number or thing of the palette takes the place of one.
    """
    seen = []
    for k, statement in enumerate(picture):
        # Named by source and position: other evidence in the prompt changes no draw.
        draw, text = uniform(seed, "see", statement.source, k), statement.text
        if draw >= rate or not text:
            seen.append(statement)
            continue
        places = [
            (match, others)
            for match in _WORD.finditer(text)
            for group in palette
            if match[0].lower() in group
            if (others := [word for word in group if word != match[0].lower()])
        ]
        if draw >= rate / 2 and places:
            position, rest = divmod(uniform(seed, "misread", statement.source, k) * len(places), 1)
            match, others = places[int(position)]
            text = text[: match.start()] + others[int(rest * len(others))] + text[match.end() :]
            seen.append(read_statement(statement.source, statement.title, text, seen=True))
    return seen


_TAGGED = re.compile(r"^\[([^\]]*)\]\s*(.*)$")
_CHOICE = re.compile(r"^\(([A-Z])\)\s*(.*)$")


class Page:
    """Question, choices and statements of a request, without any agent's errors. Parsed once for all agents."""

    def __init__(self, shared: str, images: Sequence[Source]) -> None:
        self.question, self.choices, texts = read_shared(shared)
        self._pictures = [
            # Of a picture without a description only the title is known.
            [read_statement(image.id, image.title, part, seen=True) for part in sentences(image.text) or [""]]
            for image in images
        ]
        told = [word for picture in self._pictures for one in picture for word in _WORD.findall(one.text.lower())]
        kinds = (COLOURS, frozenset(NUMBERS), _OBJECTS)
        self._palette: Palette = [list(dict.fromkeys(word for word in told if word in kind)) for kind in kinds]
        self.statements = (*texts, *(statement for picture in self._pictures for statement in picture))
        self.asked: WeightedQuestion = weigh_question(question_form(self.question), self.statements)
        self._texts = [self.asked.entry(statement) for statement in texts]
        # Made once: most agents see most pictures correctly.
        self._seen = {statement: self.asked.entry(statement) for picture in self._pictures for statement in picture}
        self._told = lru_cache(maxsize=CACHED_REMARKS)(
            lambda remark, trust: [self.asked.entry(statement) for statement in second_hand(remark, trust)]
        )
        self.tokens = count_tokens(shared) + PICTURE_TOKENS * len(images)

    def perceived(self, oversight: float, blindness: float, seed: int) -> list[Entry]:
        """Returns the first-hand entries of one agent. It overlooks sentences, and misses or misreads pictures."""
        named = [(entry, entry.statement.source, entry.statement.text) for entry in self._texts]
        entries = [entry for entry, *name in named if uniform(seed, "overlook", *name) >= oversight]
        for picture in self._pictures:
            seen = look(picture, self._palette, blindness, seed)
            entries += [self._seen.get(statement) or self.asked.entry(statement) for statement in seen]
        return entries

    def heard(self, remarks: Sequence[Remark], known: set[str], trust: float) -> list[Entry]:
        """Returns second-hand entries, except statements that the agent has read itself.

        Messages with the same words count once, under the name of the first speaker.
        """
        first: dict[object, Remark] = {}
        for remark in remarks:
            first.setdefault((remark.content, remark.fields), remark)
        entries: dict[str, Entry] = {}
        for remark in first.values():
            # Its weight for one agent does not change what it states.
            for entry in self._told(replace(remark, weight=None, own=False), trust):
                if entry.statement.quote not in known:
                    entries.setdefault(entry.statement.quote, entry)
        return list(entries.values())


def read_shared(text: str) -> tuple[str, tuple[str, ...], list[Statement]]:
    """Parses a request's shared part: question, choices, and statements of passages and rows in prompt order.

    Text under the headings of `prompting.prompt`, as an AutoGen conversation has no other form. A title ends at its
    first colon, as in a quotation.
    """
    lines: dict[str, list[str]] = {}
    # Lines before the first heading are collected too, and never used.
    section: list[str] = []
    for line in text.splitlines():
        if line in HEADINGS:
            section = lines.setdefault(line, [])
        else:
            section.append(line)
    choices = tuple(match[2] for line in lines.get(CHOICES, ()) if (match := _CHOICE.match(line)))
    statements: list[Statement] = []
    for line in (*lines.get(OWN, ()), *lines.get(EVIDENCE, ())):
        match = _TAGGED.match(line)
        title, colon, content = (match[2] if match else line).partition(": ")
        if not colon:
            title, content = "", title
        # A row is one statement: single cells would mean little.
        parts = [content] if cells_of(content) else sentences(content)
        statements += [read_statement(match[1] if match else "", title, part, seen=False) for part in parts]
    return " ".join(lines.get(QUESTION, ())), choices, statements
