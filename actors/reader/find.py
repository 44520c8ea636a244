"""Finds the statements that together cover a question: overlap weighted by rarity, linked over shared names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from actors.reader.answer import Phrase, kinds_of, phrases
from actors.reader.question_form import QuestionForm
from actors.reader.statement import Statement

HOP_DISCOUNT = 0.92  # a statement that answers alone beats a chain that covers the same words
FOCUS_BONUS = 0.15  # share of a candidate's value that its statement earns by the main clause's words
LINK_LIMIT = 6  # sources; a name that more of them mention links anything with anything
PAIR_WEIGHT = 0.6  # a pair of neighbours repeats its two words, so it counts for less than one


@dataclass(frozen=True, slots=True)
class Entry:
    """A statement as one question sees it: `mask` has a bit per stem of the question that it contains."""

    statement: Statement
    mask: int
    focus: float
    phrases: tuple[Phrase, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate answer with its value in [0, 1] and the statements that lead to it, its own first."""

    text: str
    key: str
    value: float
    chain: tuple[int, ...]


@dataclass(slots=True)
class View:
    """A question with its stems' weights (they sum to 1), which turns statements into entries."""

    form: QuestionForm
    weights: dict[str, float]
    kinds: Mapping[str, frozenset[str]]
    _covered: dict[int, float] = field(default_factory=dict)

    def entry(self, statement: Statement) -> Entry:
        """The statement as this question sees it."""
        # Bits follow the order of the weights, by which `covered` reads them.
        mask, stems = 0, set(statement.stems)
        for bit, stem in enumerate(self.weights):
            if stem in stems:
                mask |= 1 << bit
        focused = [(stem, weight) for stem, weight in self.weights.items() if stem in self.form.focus]
        focus = sum(weight for stem, weight in focused if stem in stems)
        whole = sum(weight for _, weight in focused) or 1.0
        return Entry(statement, mask, focus / whole, tuple(phrases(statement, self.form, self.kinds, self.weights)))

    def covered(self, mask: int) -> float:
        """The weight of the question's stems in a mask."""
        if mask not in self._covered:
            self._covered[mask] = sum(w for bit, w in enumerate(self.weights.values()) if mask >> bit & 1)
        return self._covered[mask]


def view(form: QuestionForm, statements: Sequence[Statement]) -> View:
    """Weights are inverse document frequencies within the prompt; a word that no statement has counts half."""
    frequency = Counter(stem for statement in statements for stem in statement.stems)
    raw = {}
    for stem in form.stems:
        weight = math.log(1 + (len(statements) + 1) / (1 + frequency[stem]))
        pair = PAIR_WEIGHT if " " in stem else 1.0
        raw[stem] = pair * weight if frequency[stem] else 0.0 if " " in stem else weight / 2
    total = sum(raw.values()) or 1.0
    return View(form, {stem: weight / total for stem, weight in raw.items()}, kinds_of(list(statements)))


def chains(at: View, entries: Sequence[Entry], hops: int) -> list[tuple[float, tuple[int, ...]]]:
    """Per entry the strength of the best chain that starts in it, and the chain.

    A hop goes over a name that two statements share and the question does not mention (the bridge). Its strength is
    the weight of the question that the chain covers, times the trust in its weakest statement, less a discount a hop.
    """
    by_name: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        for name, _ in entry.statement.names:
            by_name.setdefault(name, []).append(i)
    bridges = {
        name: where
        for name, where in by_name.items()
        if len(where) > 1
        and name not in at.form.names
        and len({entries[i].statement.source for i in where}) <= LINK_LIMIT
    }
    reach: list[tuple[float, int, float, tuple[int, ...]]] = [
        (at.covered(e.mask) * e.statement.trust, e.mask, e.statement.trust, (i,)) for i, e in enumerate(entries)
    ]
    for _ in range(hops):
        # A copy, so that every hop of a round starts from the chains of the round before.
        longer = list(reach)
        for i, entry in enumerate(entries):
            for name, _ in entry.statement.names:
                for j in bridges.get(name, ()):
                    _, mask, trust, chain = reach[j]
                    # No hop that comes back, covers nothing new, or only goes to another row of the same table.
                    if i in chain or mask | entry.mask == entry.mask or _same_table(entry, entries[j]):
                        continue
                    joint = mask | entry.mask
                    least = min(trust, entry.statement.trust)
                    strength = at.covered(joint) * least * HOP_DISCOUNT ** len(chain)
                    if strength > longer[i][0]:
                        longer[i] = (strength, joint, least, (i, *chain))
        reach = longer
    return [(strength, chain) for strength, _, _, chain in reach]


def candidates(entries: Sequence[Entry], reached: Sequence[tuple[float, tuple[int, ...]]]) -> list[Candidate]:
    """Candidates of all entries, best value per answer, best first."""
    best: dict[str, Candidate] = {}
    for entry, (strength, chain) in zip(entries, reached, strict=True):
        for phrase in entry.phrases:
            # A badly fitting phrase of the right statement is still a candidate.
            fit = 0.45 + 0.55 * phrase.fit
            value = strength * fit * (1 - FOCUS_BONUS + FOCUS_BONUS * entry.focus)
            if value > 0 and (phrase.key not in best or best[phrase.key].value < value):
                best[phrase.key] = Candidate(phrase.text, phrase.key, value, chain)
    return ranked(best.values())


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates, best first."""
    # By key among equals, so that no order of evidence decides.
    return sorted(candidates, key=lambda f: (-f.value, f.key))


def _same_table(one: Entry, other: Entry) -> bool:
    return bool(one.statement.cells) and bool(other.statement.cells) and one.statement.title == other.statement.title
