"""Relates statements to a question, and links statements into chains that cover it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter, itemgetter

from actors.reader.phrases import Kinds, Phrase, kinds_of, phrases
from actors.reader.question import QuestionForm, question_form
from actors.reader.statements import Statement

HOP_DISCOUNT = 0.92  # a statement that answers alone beats a chain that covers the same words
LINK_LIMIT = 6  # sources; a name in more of them links unrelated statements
HOPS = 2  # shared names over which statements are linked
PAIR_WEIGHT = 0.6  # a pair of neighbours repeats its two words, so it counts less
CACHED_ENTRIES = 2048  # of a question
CACHED_EVIDENCE = 1024  # of all questions
CACHED_MASKS = 4096
CACHED_OPTIONS = 8
UNWEIGHTED = 0.05  # weight of an alternative's word that has none in the whole question

Chain = tuple[float, tuple[int, ...]]  # its strength, and the numbers of its entries


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Statement in relation to a question. Made once, so that it equals itself alone.

    mask: has a bit for each stem of the question that the statement contains.
    bearing: share of the question that it covers alone, times its trust.
    focus: share of the main clause's weight that it covers.
    links: its names that the question does not mention.
    phrases: its possible answers.
    """

    statement: Statement
    mask: int
    bearing: float
    focus: float
    links: Sequence[str]
    phrases: Sequence[Phrase]


class WeightedQuestion:
    """Question with the weights of its stems (they sum to 1) and the kinds of the names in its evidence."""

    def __init__(self, form: QuestionForm, weights: dict[str, float], kinds: Kinds) -> None:
        total = sum(weights.values()) or 1.0
        self.form = form
        self.weights = {part: weight / total for part, weight in weights.items()}
        self.kinds = kinds
        # Parts that do not depend on the turn are computed once.
        self.entry = lru_cache(maxsize=CACHED_ENTRIES)(self._entry)
        self.covered = lru_cache(maxsize=CACHED_MASKS)(self._covered)
        self.narrowed = lru_cache(maxsize=CACHED_OPTIONS)(self._narrowed)
        self._focus = {part: weight for part, weight in self.weights.items() if part in form.focus}

    def _entry(self, statement: Statement) -> Entry:
        """Relates a statement to the question."""
        stems = set(statement.stems)
        mask = 0
        for bit, part in enumerate(self.weights):
            if part in stems:
                mask |= 1 << bit
        focus = 0.0
        for part, weight in self._focus.items():
            if part in stems:
                focus += weight
        whole = sum(self._focus.values()) or 1.0
        return Entry(
            statement,
            mask,
            bearing=self.covered(mask) * statement.trust,
            focus=focus / whole,
            links=[name for name, _ in statement.names if name not in self.form.names],
            phrases=phrases(statement, self.form, self.kinds, self.weights),
        )

    def _covered(self, mask: int) -> float:
        """Returns the weight of the question's stems in a mask, whose bits are in the order of the weights."""
        covered = 0.0
        for bit, weight in enumerate(self.weights.values()):
            if mask >> bit & 1:
                covered += weight
        return covered

    def _narrowed(self, option: str) -> "WeightedQuestion":
        """Returns the question for one of its alternatives."""
        form = question_form(option)
        weights = {part: self.weights.get(part, UNWEIGHTED) for part in form.stems}
        return WeightedQuestion(form, weights, self.kinds)


def weigh_question(form: QuestionForm, statements: Sequence[Statement]) -> WeightedQuestion:
    """Weighs stems by inverse document frequency within the prompt. A word in no statement counts half."""
    frequency = Counter(chain.from_iterable(map(attrgetter("stems"), statements)))
    weights = {}
    for part in form.stems:
        weight = math.log(1 + (len(statements) + 1) / (1 + frequency[part]))
        if " " in part:
            weight *= PAIR_WEIGHT if frequency[part] else 0.0
        elif not frequency[part]:
            weight *= 0.5
        weights[part] = weight
    return WeightedQuestion(form, weights, kinds_of(statements))


@dataclass(eq=False)
class LinkedEvidence:
    """Statements in relation to a question, with the chains that link them."""

    asked: WeightedQuestion
    entries: Sequence[Entry]

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """Entries that share a link with each entry. Rows of one table are no neighbours."""
        by_link: dict[str, dict[int, None]] = {}  # in the order of the entries
        for number, entry in enumerate(self.entries):
            for link in entry.links:
                by_link.setdefault(link, {})[number] = None
        for link, numbers in by_link.items():
            if len(numbers) > LINK_LIMIT:
                sources = {self.entries[number].statement.source for number in numbers}
                if len(sources) > LINK_LIMIT:
                    by_link[link] = {}

        tables = [entry.statement.table for entry in self.entries]
        neighbours: list[list[int]] = []
        for number, entry in enumerate(self.entries):
            linked: dict[int, None] = {}
            for link in entry.links:
                linked |= by_link[link]
            linked.pop(number, None)
            table = tables[number]
            neighbours.append([place for place in linked if table is None or tables[place] != table])
        return neighbours

    @cached_property
    def chains(self) -> list[Chain]:
        """The best chain that starts in each entry. A hop leads to a neighbour and covers something new.

        Strength of a chain:

            covered weight of the question * least trust of a statement * HOP_DISCOUNT ** hops
        """
        covered = self.asked.covered
        best: list[tuple[float, int, float, tuple[int, ...]]] = []
        for number, entry in enumerate(self.entries):
            best.append((entry.bearing, entry.mask, entry.statement.trust, (number,)))

        for _ in range(HOPS):
            # A copy: every hop of a round starts from the chains of the previous round.
            longer = list(best)
            for number, neighbours in enumerate(self.neighbours):
                if not neighbours:
                    continue
                entry_mask = self.entries[number].mask
                entry_trust = self.entries[number].statement.trust
                for neighbour in neighbours:
                    _, chain_mask, chain_trust, numbers = best[neighbour]
                    mask = chain_mask | entry_mask
                    if mask == entry_mask or number in numbers:
                        continue
                    trust = min(chain_trust, entry_trust)
                    strength = covered(mask) * trust * HOP_DISCOUNT ** len(numbers)
                    if strength > longer[number][0]:
                        longer[number] = (strength, mask, trust, (number, *numbers))
            best = longer
        return [(strength, numbers) for strength, _, _, numbers in best]

    @cached_property
    def best_chain(self) -> Chain:
        """The strongest chain. It has no statement where nothing is covered."""
        strength, numbers = max(self.chains, key=itemgetter(0), default=(0.0, ()))
        return (strength, numbers) if strength > 0 else (strength, ())

    @cached_property
    def shares(self) -> list[float]:
        """Share of the question that each statement covers, alone or together with the best chain."""
        strength, numbers = self.best_chain
        return [strength if number in numbers else entry.bearing for number, entry in enumerate(self.entries)]


# Many messages of other words quote the same statements.
linked = lru_cache(maxsize=CACHED_EVIDENCE)(LinkedEvidence)
