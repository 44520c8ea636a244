"""The errors of one agent's reading: statements overlooked, pictures missed or misread, all drawn from its seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from actors.messages import derive_seed
from actors.reader.lexicon import COLOURS, KINDS, NUMBERS
from actors.reader.statement import Statement, read_statement

_OBJECTS = frozenset(" ".join(KINDS.values()).split())
_WORD = re.compile(r"[^\W_]+")
_NORMAL = NormalDist()
# One more than the largest derived seed.
_SPAN = 2.0**63


def uniform(seed: int, *parts: str | int) -> float:
    """A draw in (0, 1) that depends on its name and not on how many others were drawn before."""
    # 0.5 keeps the draw above 0.
    return (derive_seed(seed, *parts) + 0.5) / _SPAN


def gaussian(seed: int, *parts: str | int) -> float:
    """A draw from the standard normal distribution, named like a `uniform` one."""
    # 0 and 1, to which rounding may still lead, have no quantile.
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
    """The palette of some pictures, in the order in which their descriptions mention things."""
    mentioned = [
        word for picture in pictures for statement in picture for word in _WORD.findall(statement.text.lower())
    ]
    groups = (
        tuple(dict.fromkeys(w for w in mentioned if w in kind)) for kind in (COLOURS, frozenset(NUMBERS), _OBJECTS)
    )
    return Palette(tuple(groups))


def look(picture: Sequence[Statement], colours: Palette, rate: float, seed: int) -> list[Statement]:
    """A picture's statements as seen: at `rate` each, one is missed or, as often, misread."""
    seen = []
    for k, statement in enumerate(picture):
        # Named by source and place, so that other evidence in the prompt changes no draw.
        draw = uniform(seed, "see", statement.source, k)
        if draw >= rate or not statement.text:
            seen.append(statement)
        elif draw >= rate / 2 and (text := colours.swap(statement.text, uniform(seed, "misread", statement.source, k))):
            seen.append(read_statement(statement.source, statement.title, text, seen=True))
    return seen


def overlooked(statement: Statement, rate: float, seed: int) -> bool:
    """True where the agent with this seed reads past the statement."""
    return uniform(seed, "overlook", statement.source, statement.text) < rate
