"""The shared part of a request as the reader sees it, parsed once for all agents, samples and rounds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import Remark, Request
from actors.prompting.prompt import CHOICES, EVIDENCE, HEADINGS, OWN, QUESTION
from actors.reader.find import Entry, View, chains, view
from actors.reader.question_form import question_form
from actors.reader.sight import Palette, look, overlooked, palette
from actors.reader.statement import Statement, cells_of, read_statement, second_hand
from actors.reader.text import count_tokens, sentences

_TAGGED = re.compile(r"^\[([^\]]*)\]\s*(.*)$")
_CHOICE = re.compile(r"^\(([A-Z])\)\s*(.*)$")


class Page:
    """Question, choices and statements, without the errors of any one agent."""

    def __init__(self, request: Request, picture_tokens: int) -> None:
        self.question, self.choices, texts = read_shared(request.shared)
        self._pictures = [
            # A picture without a description shows no more than its title.
            [read_statement(image.id, image.title, part, seen=True) for part in sentences(image.text) or [""]]
            for image in request.images
        ]
        self._palette: Palette = palette(self._pictures)
        self.statements: tuple[Statement, ...] = (
            *texts,
            *(statement for picture in self._pictures for statement in picture),
        )
        self.view: View = view(question_form(self.question), self.statements)
        self._texts = [self.view.entry(statement) for statement in texts]
        # Made once: most agents see most pictures as they are.
        self._seen = {statement: self.view.entry(statement) for picture in self._pictures for statement in picture}
        self._statements: dict[tuple[str, tuple[tuple[str, str], ...], float], tuple[Entry, ...]] = {}
        self.tokens = count_tokens(request.shared) + picture_tokens * len(request.images)

    def perceived(self, oversight: float, blindness: float, seed: int) -> list[Entry]:
        """First-hand entries of one agent: some sentences overlooked, some pictures missed or misread."""
        entries = [entry for entry in self._texts if not overlooked(entry.statement, oversight, seed)]
        for picture in self._pictures:
            seen = look(picture, self._palette, blindness, seed)
            entries += [self._seen.get(statement) or self.view.entry(statement) for statement in seen]
        return entries

    def heard(self, remarks: Sequence[Remark], known: set[str], trust: float) -> list[Entry]:
        """Second-hand entries; what the agent read itself is not counted twice."""
        entries: dict[str, Entry] = {}
        for remark in remarks:
            key = remark.content, remark.fields, trust
            if key not in self._statements:
                # Messages are as many as samples: start again rather than track which were used last.
                if len(self._statements) > 1024:
                    self._statements.clear()
                self._statements[key] = tuple(map(self.view.entry, second_hand(remark, trust)))
            for entry in self._statements[key]:
                if entry.statement.quote not in known:
                    entries.setdefault(entry.statement.quote, entry)
        return list(entries.values())


def most_relevant(at: View, entries: Sequence[Entry], hops: int) -> tuple[int, ...]:
    """The chain that covers most of the question, for a colleague to go on from; () when nothing is covered."""
    best = max(chains(at, entries, hops), key=lambda c: c[0], default=(0.0, ()))
    return best[1] if best[0] > 0 else ()


def read_shared(text: str) -> tuple[str, tuple[str, ...], list[Statement]]:
    """Question, choices and the statements of passages and rows of a request's shared part, in prompt order.

    This part is read as text, under the headings of `prompting.prompt`: the evidence is nowhere else in a request, and
    a conversation of AutoGen's has no other form. A title ends at its first colon, as where a quotation is read back.
    """
    lines: dict[str, list[str]] = {}
    # Lines before the first heading are collected too, and used by nobody.
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
        # A row is one statement: its cells would not mean much one by one.
        parts = [content] if cells_of(content) else sentences(content)
        statements += [read_statement(match[1] if match else "", title, part, seen=False) for part in parts]
    return " ".join(lines.get(QUESTION, ())), choices, statements
