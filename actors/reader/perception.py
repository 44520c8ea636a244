"""Reads the shared part of a request, and simulates one agent's errors of reading."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from actors.messages import Remark, Source
from actors.prompting.prompt import CHOICES, EVIDENCE, HEADINGS, OWN, QUESTION
from actors.reader.draws import uniform
from actors.reader.english import COLOURS, KINDS, NUMBERS, count_tokens, sentences
from actors.reader.linked_evidence import Entry, weigh_question
from actors.reader.question import question_form
from actors.reader.statements import Statement, cells_of, read_statement, second_hand

PICTURE_TOKENS = 256  # prompt tokens of a picture
CACHED_MESSAGES = 1024  # of a question; there are as many as samples
CACHED_READINGS = 128  # of a question: one of each agent in each round, whatever it hears
_OBJECTS = frozenset(" ".join(KINDS.values()).split())
_WORD = re.compile(r"[^\W_]+")
_TAGGED = re.compile(r"^\[([^\]]*)\]\s*(.*)$")
_CHOICE = re.compile(r"^\(([A-Z])\)\s*(.*)$")

Fields = tuple[tuple[str, str], ...]
# Colours, numbers and things in the descriptions of a prompt's pictures, each in order.
Palette = Sequence[Sequence[str]]


class Page:
    """Question, choices and statements of a request, without any agent's errors. Parsed once for all agents."""

    def __init__(self, shared: str, images: Sequence[Source]) -> None:
        self.question, self.choices, texts = read_shared(shared)
        self._pictures = list(map(_description, images))
        descriptions = list(chain.from_iterable(self._pictures))
        self._palette = _palette(descriptions)
        self.statements = (*texts, *descriptions)
        self.asked = weigh_question(question_form(self.question), self.statements)
        self._texts = [self.asked.entry(statement) for statement in texts]
        self.perceived = lru_cache(maxsize=CACHED_READINGS)(self._perceived)
        self._read_message = lru_cache(maxsize=CACHED_MESSAGES)(self._entries_of_message)
        self.tokens = count_tokens(shared) + PICTURE_TOKENS * len(images)

    def _perceived(self, oversight: float, blindness: float, seed: int) -> Sequence[Entry]:
        """Returns the first-hand entries of one agent. It overlooks sentences, and misses or misreads pictures."""
        entries = []
        for entry in self._texts:
            statement = entry.statement
            if uniform(seed, "overlook", statement.source, statement.text) >= oversight:
                entries.append(entry)
        for picture in self._pictures:
            entries += map(self.asked.entry, look(picture, self._palette, blindness, seed))
        return entries

    def heard(self, remarks: Sequence[Remark], quotes: set[str], trust: float) -> list[Entry]:
        """Returns second-hand entries, except statements that the agent has read itself, by their `quotes`.

        Messages with the same words count once, under the name of the first speaker.
        """
        speakers: dict[tuple[str, Fields], str] = {}
        for remark in remarks:
            speakers.setdefault((remark.content, remark.fields), remark.speaker)
        entries: dict[str, Entry] = {}
        for (content, fields), speaker in speakers.items():
            for entry in self._read_message(speaker, content, fields, trust):
                if entry.statement.quote not in quotes:
                    entries.setdefault(entry.statement.quote, entry)
        return list(entries.values())

    def _entries_of_message(self, speaker: str, content: str, fields: Fields, trust: float) -> list[Entry]:
        return [self.asked.entry(statement) for statement in second_hand(speaker, content, fields, trust)]


def _description(image: Source) -> list[Statement]:
    """Reads the description of a picture. Without one, only the title is known."""
    parts = sentences(image.text) or [""]
    return [read_statement(image.id, image.title, part, seen=True) for part in parts]


def look(picture: Sequence[Statement], palette: Palette, rate: float, seed: int) -> list[Statement]:
    """Returns a picture's statements as seen: with probability `rate`, one is missed or, as often, misread."""
    perceived: list[Statement] = []
    for place, statement in enumerate(picture):
        # Named by source and position: other evidence in the prompt changes no draw.
        draw = uniform(seed, "see", statement.source, place)
        if draw >= rate or not statement.text:
            perceived.append(statement)
        elif draw >= rate / 2:
            text = _misread(statement.text, palette, uniform(seed, "misread", statement.source, place))
            if text:
                perceived.append(read_statement(statement.source, statement.title, text, seen=True))
    return perceived


def _misread(text: str, palette: Palette, draw: float) -> str:
    """Puts another colour, number or thing of the palette in the place of one. "" where there is none."""
    replacements: list[tuple[re.Match[str], list[str]]] = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        for group in palette:
            if word in group and len(group) > 1:
                alternatives = list(group)
                alternatives.remove(word)
                replacements.append((match, alternatives))
    if not replacements:
        return ""

    # One draw decides on the word and on its replacement.
    position, rest = divmod(draw * len(replacements), 1)
    match, alternatives = replacements[int(position)]
    alternative = alternatives[int(rest * len(alternatives))]
    return text[: match.start()] + alternative + text[match.end() :]


def _palette(statements: Sequence[Statement]) -> Palette:
    words: dict[str, None] = {}
    for statement in statements:
        words |= dict.fromkeys(_WORD.findall(statement.text.lower()))
    return [list(filter(group.__contains__, words)) for group in (COLOURS, NUMBERS.keys(), _OBJECTS)]


def read_shared(text: str) -> tuple[str, tuple[str, ...], list[Statement]]:
    """Parses a request's shared part: question, choices, and statements of passages and rows in prompt order.

    Text under the headings of `prompting.prompt`, as an AutoGen conversation has no other form. A title ends at its
    first colon, as in a quotation.
    """
    sections: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    # Lines before the first heading are never used.
    section: list[str] = []
    for line in text.splitlines():
        if line in HEADINGS:
            section = sections[line]
        else:
            section.append(line)

    choices: list[str] = []
    for line in sections[CHOICES]:
        choice = _CHOICE.match(line)
        if choice:
            choices.append(choice[2])

    statements: list[Statement] = []
    for line in sections[OWN] + sections[EVIDENCE]:
        number = ""
        tagged = _TAGGED.match(line)
        if tagged:
            number, line = tagged.groups()
        title, colon, content = line.partition(": ")
        if not colon:
            title = ""
            content = line
        # A row is one statement: single cells would mean little.
        parts = [content] if cells_of(content) else sentences(content)
        for part in parts:
            statements.append(read_statement(number, title, part))
    return " ".join(sections[QUESTION]), tuple(choices), statements
