"""What one agent takes in of its prompt: statements overlooked, pictures missed or misread, all drawn from its seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from actors.messages import derive_seed
from actors.reader.lexicon import COLOURS, KINDS, NUMBERS
from actors.reader.statement import Statement, statement

_OBJECTS = frozenset(" ".join(KINDS.values()).split())
_WORD = re.compile(r"[^\W_]+")
_NORMAL = NormalDist()
_SPAN = 2.0**63


def uniform(seed: int, *parts: str | int) -> float:
    """A draw in (0, 1) that depends on its name and not on how many others were drawn before."""
    return (derive_seed(seed, *parts) + 0.5) / _SPAN


def gaussian(seed: int, *parts: str | int) -> float:
    return _NORMAL.inv_cdf(min(max(uniform(seed, *parts), 1e-12), 1 - 1e-12))


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours, numbers and things that the descriptions of a prompt's pictures mention, each in order."""

    groups: tuple[tuple[str, ...], ...]

    def swap(self, text: str, draw: float) -> str | None:
        """The text with one colour, number or thing replaced by another of the palette; None if it has none."""
        places = [
            (match, others)
            for match in _WORD.finditer(text)
            for group in self.groups
            if match[0].lower() in group
            if (others := [word for word in group if word != match[0].lower()])
        ]
        if not places:
            return None
        position, rest = divmod(draw * len(places), 1)
        match, others = places[int(position)]
        return text[: match.start()] + others[int(rest * len(others))] + text[match.end() :]


def palette(pictures: Iterable[Sequence[Statement]]) -> Palette:
    found = [word for picture in pictures for said in picture for word in _WORD.findall(said.text.lower())]
    groups = (tuple(dict.fromkeys(w for w in found if w in kind)) for kind in (COLOURS, frozenset(NUMBERS), _OBJECTS))
    return Palette(tuple(groups))


def look(picture: Sequence[Statement], colours: Palette, rate: float, seed: int) -> list[Statement]:
    """A picture's statements as seen: at `rate` each, one is missed or, as often, misread."""
    seen = []
    for k, said in enumerate(picture):
        draw = uniform(seed, "see", said.source, k)
        if draw >= rate or not said.text:
            seen.append(said)
        elif draw >= rate / 2 and (text := colours.swap(said.text, uniform(seed, "misread", said.source, k))):
            seen.append(statement(said.source, said.title, text, seen=True))
    return seen


def overlooked(said: Statement, rate: float, seed: int) -> bool:
    return uniform(seed, "overlook", said.source, said.text) < rate
