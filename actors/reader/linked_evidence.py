"""Relates statements to a question, and links statements into chains that cover it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from actors.reader.phrases import Kinds, kinds_of, phrases
from actors.reader.question import QuestionForm
from actors.reader.statements import Statement

HOP_DISCOUNT = 0.92  # a statement that answers alone beats a chain that covers the same words
LINK_LIMIT = 6  # sources; a name in more of them links unrelated statements
HOPS = 2  # shared names over which statements are linked
PAIR_WEIGHT = 0.6  # a pair of neighbours repeats its two words, so it counts less

Chain = tuple[float, tuple[int, ...]]  # its strength, and the numbers of its entries


@dataclass(frozen=True, slots=True)
class Entry:
    """Statement in relation to a question.

    mask: has a bit for each stem of the question that it contains. phrases: its possible answers, each with its fit.
    """

    statement: Statement
    mask: int
    focus: float
    phrases: Sequence[tuple[str, float]]


@dataclass(slots=True)
class WeightedQuestion:
    """Question with the weights of its stems (they sum to 1)."""

    form: QuestionForm
    weights: dict[str, float]
    kinds: Kinds
    _covered: dict[int, float] = field(default_factory=dict)

    def entry(self, statement: Statement) -> Entry:
        """Relates a statement to the question."""
        # Bits are in the order of the weights, as `covered` expects.
        stems = set(statement.stems)
        mask = sum(1 << bit for bit, part in enumerate(self.weights) if part in stems)
        focused = [(part, weight) for part, weight in self.weights.items() if part in self.form.focus]
        focus = sum(weight for part, weight in focused if part in stems)
        whole = sum(weight for _, weight in focused) or 1.0
        return Entry(statement, mask, focus / whole, phrases(statement, self.form, self.kinds, self.weights))

    def covered(self, mask: int) -> float:
        """Returns the weight of the question's stems in a mask."""
        if mask not in self._covered:
            self._covered[mask] = sum(w for bit, w in enumerate(self.weights.values()) if mask >> bit & 1)
        return self._covered[mask]


def weigh_question(form: QuestionForm, statements: Sequence[Statement]) -> WeightedQuestion:
    """Weighs stems by inverse document frequency within the prompt. A word in no statement counts half."""
    frequency = Counter(part for statement in statements for part in statement.stems)
    raw = {}
    for part in form.stems:
        weight = math.log(1 + (len(statements) + 1) / (1 + frequency[part]))
        pair = PAIR_WEIGHT if " " in part else 1.0
        raw[part] = pair * weight if frequency[part] else 0.0 if " " in part else weight / 2
    total = sum(raw.values()) or 1.0
    return WeightedQuestion(form, {part: weight / total for part, weight in raw.items()}, kinds_of(statements))


@dataclass
class LinkedEvidence:
    """Statements in relation to a question, with the chains that link them."""

    asked: WeightedQuestion
    entries: Sequence[Entry]

    @staticmethod
    def of(form: QuestionForm, statements: Sequence[Statement]) -> "LinkedEvidence":
        """Weighs the question by these statements."""
        asked = weigh_question(form, statements)
        return LinkedEvidence(asked, [asked.entry(statement) for statement in statements])

    @property
    def statements(self) -> list[Statement]:
        return [entry.statement for entry in self.entries]

    def bearing(self, entry: Entry) -> float:
        """Returns the share of the question that a statement covers alone."""
        return self.asked.covered(entry.mask) * entry.statement.trust

    @cached_property
    def chains(self) -> list[Chain]:
        """The best chain that starts in each entry.

        A hop follows a name that two statements share and the question does not mention (the bridge). The strength is

            covered weight of the question * least trust of a statement * HOP_DISCOUNT ** hops
        """
        by_name: dict[str, list[int]] = {}
        for i, entry in enumerate(self.entries):
            for name, _ in entry.statement.names:
                by_name.setdefault(name, []).append(i)
        bridges = {
            name: where
            for name, where in by_name.items()
            if len(where) > 1
            and name not in self.asked.form.names
            and len({self.entries[i].statement.source for i in where}) <= LINK_LIMIT
        }
        best_of: list[tuple[float, int, float, tuple[int, ...]]] = [
            (self.bearing(e), e.mask, e.statement.trust, (i,)) for i, e in enumerate(self.entries)
        ]
        for _ in range(HOPS):
            # A copy: every hop of a round starts from the chains of the previous round.
            longer = list(best_of)
            for i, entry in enumerate(self.entries):
                for name, _ in entry.statement.names:
                    for j in bridges.get(name, ()):
                        _, mask, trust, chain = best_of[j]
                        one, other = entry.statement, self.entries[j].statement
                        same_table = one.cells and other.cells and one.title == other.title
                        # No hop that returns, covers nothing new, or leads to another row of the same table.
                        if i in chain or mask | entry.mask == entry.mask or same_table:
                            continue
                        joint = mask | entry.mask
                        least = min(trust, entry.statement.trust)
                        strength = self.asked.covered(joint) * least * HOP_DISCOUNT ** len(chain)
                        if strength > longer[i][0]:
                            longer[i] = (strength, joint, least, (i, *chain))
            best_of = longer
        return [(strength, chain) for strength, _, _, chain in best_of]

    @property
    def best_chain(self) -> Chain:
        """The strongest chain. It has no statement where nothing is covered."""
        strength, chain = max(self.chains, key=lambda chain: chain[0], default=(0.0, ()))
        return strength, chain if strength > 0 else ()
