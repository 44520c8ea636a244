"""What the shared part of a request amounts to for the reader, parsed once for all agents, samples and rounds."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages import Request
from actors.reader.ask import parse_ask
from actors.reader.find import Entry, View, chains, view
from actors.reader.parse import Opinion, Statement, question_and_choices, second_hand, sections, shown, told
from actors.reader.sight import Palette, look, overlooked, palette
from actors.reader.text import count_tokens


class Page:
    """Question, choices and statements, without the errors of any one agent."""

    def __init__(self, request: Request, picture_tokens: int) -> None:
        shared = sections(request.shared)
        self.question, self.choices = question_and_choices(shared)
        texts, self._pictures = told(shared), shown(request.images)
        self._palette: Palette = palette(self._pictures)
        self.statements: tuple[Statement, ...] = (*texts, *(said for picture in self._pictures for said in picture))
        self.view: View = view(parse_ask(self.question), self.statements)
        self._texts = [self.view.entry(said) for said in texts]
        self._seen = {said: self.view.entry(said) for picture in self._pictures for said in picture}
        self._said: dict[tuple[str, float], tuple[Entry, ...]] = {}
        self.tokens = count_tokens(request.shared) + picture_tokens * len(request.images)

    def taken_in(self, oversight: float, blindness: float, seed: int) -> list[Entry]:
        """First-hand entries of one agent: some sentences overlooked, some pictures missed or misread."""
        entries = [entry for entry in self._texts if not overlooked(entry.said, oversight, seed)]
        for picture in self._pictures:
            seen = look(picture, self._palette, blindness, seed)
            entries += [self._seen.get(said) or self.view.entry(said) for said in seen]
        return entries

    def heard(self, said: Sequence[Opinion], known: set[str], trust: float) -> list[Entry]:
        """Second-hand entries; what the agent read itself is not counted twice."""
        entries: dict[str, Entry] = {}
        for opinion in said:
            key = opinion.content, trust
            if key not in self._said:
                if len(self._said) > 1024:
                    self._said.clear()
                self._said[key] = tuple(map(self.view.entry, second_hand(opinion, trust)))
            for entry in self._said[key]:
                if entry.said.quote not in known:
                    entries.setdefault(entry.said.quote, entry)
        return list(entries.values())


def most_relevant(at: View, entries: Sequence[Entry], hops: int) -> tuple[int, ...]:
    """The chain that covers most of the question, for a colleague to go on from; () when nothing is covered."""
    best = max(chains(at, entries, hops), key=lambda c: c[0], default=(0.0, ()))
    return best[1] if best[0] > 0 else ()
