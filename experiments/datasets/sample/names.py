"""Invented names, none drawn twice."""

from __future__ import annotations

import re
from random import Random

from actors.errors import UserError

# One choice is drawn from each list of a part. Any change to a list changes what every seed gives: raise
# `release.VERSION` with it.
_ONSET = "B Br C D Dr F G Gr H J K L M N P R S St T Tr V W Y".split()
_VOWEL = "a e i o u".split()
_MIDDLE = "d k l ll m n nn r rr s t v".split()
_PLACE = "mere wick stead moor ford haven thorpe".split()
_PARTS = {
    "given": (_ONSET, _VOWEL, _MIDDLE, "a an ar el en ia in is o us".split()),
    "surname": (_ONSET, _VOWEL, "ck ld nn rn sk st tt x nd lm".split(), "|er|ow|ley|by|en".split("|")),
    "w": (_ONSET, _VOWEL, _MIDDLE, "ack am el em et ick is ock on or und ash".split()),
    "stem": (_ONSET, _VOWEL, "l ll n r rn rl s sk ld nd".split()),
    "rank": ("Captain Doctor Inspector Judge Nurse Professor Sergeant Widow".split(),),
    "first": (
        "Amber Ashen Broken Copper Crimson Distant Empty Frozen Glass Golden Hollow Iron Lost Marble Midnight Night "
        "Pale Paper Quiet Rusty Salt Silent Silver Stone Velvet Wandering Winter Wooden".split(),
    ),
    "second": (
        "Apron Bridge Corridor Engine Gale Garden Gate Harbour Harvest Hour Lantern Ledger Letter Mirror Orchard "
        "Passage Promise Quarry Season Staircase Tower Valley Voyage Window".split(),
    ),
    "tune": ("Ballads Choruses Echoes Hymns Lullabies Marches Nocturnes Refrains Serenades Shanties Verses".split(),),
    "side": ("Athletic Rangers Rovers Rowers United Wanderers".split(),),
    "feast": ("Carnival Fair Feast Jubilee Pageant Parade Revel Vigil".split(),),
    "museum": ("Archive Collection Gallery House Museum Rooms".split(),),
}


class Names:
    """Fills patterns such as `{first} {second}` or `{w} Prize`; see `language.Domain` for what may stand in braces."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()
        self._families: list[str] = []

    def fill(self, pattern: str) -> str:
        """One draw, which may come again."""
        return re.sub(r"{(\w+)}", lambda match: self._part(match[1]), pattern)

    def fresh(self, pattern: str) -> str:
        """A draw that no call of `fresh` or `near` returned before. Raises UserError when the pattern runs dry."""
        # A pattern in which a thousand draws in a row are taken has run dry, or nearly so.
        for _ in range(1000):
            name = self.fill(pattern)
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise UserError(f"no new name of the form {pattern!r} is left for the sample data set: ask for fewer questions")

    def near(self, name: str, pattern: str) -> str:
        """A new name that differs from `name` in its last word only, or any new one when those are used up."""
        # Some last words have a handful of values, which are soon all taken for this first part.
        for _ in range(30):
            twin = f"{name.rsplit(maxsplit=1)[0]} {self.fill(pattern).split()[-1]}"
            if twin not in self._taken:
                self._taken.add(twin)
                return twin
        return self.fresh(pattern)

    def _part(self, kind: str) -> str:
        rng = self._rng
        if kind == "person":
            return f"{self._part('given')} {self._family()}"
        if kind == "town":
            return self._part("stem") + rng.choice(_PLACE)
        if kind == "n":
            return str(rng.randint(12, 99))
        if kind == "c":
            return "".join(rng.sample("BCDFGHKLMNPRSTVWZ", 3))
        return "".join(rng.choice(choices) for choices in _PARTS[kind])

    def _family(self) -> str:
        """A surname, one in five drawn before: people with one surname are easily confused."""
        if self._families and self._rng.random() < 0.2:
            return self._rng.choice(self._families)
        self._families.append(self._part("surname"))
        return self._families[-1]
