"""Findings of one turn: the evidence that bears on the question, the answer, and the names still to look up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from actors.messages import FieldKind, InputLine
from actors.reader.english import content_stems
from actors.reader.linked_evidence import LinkedEvidence
from actors.reader.question import parts
from actors.reader.statements import Statement

BEARS = 0.28  # least share of the question that relevant evidence covers
SUFFICES = 0.5  # least value of an answer that needs no more evidence
RELEVANT = 0.5  # of the most relevant statement's share, for another one to be relevant
BRIDGES = 2  # names that the evidence adds to the question, which are looked up next
SEARCHES = (FieldKind.QUERY, FieldKind.SUB_QUESTION, FieldKind.INSTRUCTION)  # fields that look something up


@dataclass(frozen=True, slots=True)
class Findings:
    """The reader's findings in a turn that has a task.

    evidence: first-hand, heard and given statements.
    answer: "" where it is unknown; its value, and the confidence in it, are in [0, 1].
    inputs: the task's lines, numbered within their kind.
    fields: of the discussion's messages, as (name, value), in order.
    colleagues: the last answer of each, "" for unknown.
    """

    question: str
    evidence: LinkedEvidence
    answer: str
    value: float
    confidence: float
    inputs: Sequence[InputLine]
    fields: Sequence[tuple[str, str]]
    colleagues: Mapping[str, str]

    @property
    def bears(self) -> bool:
        """True where the evidence bears on the question."""
        strength, _ = self.evidence.best_chain
        return strength >= BEARS

    @property
    def suffices(self) -> bool:
        """True where the answer needs no more evidence."""
        return bool(self.answer) and self.value >= SUFFICES

    def lines(self, kind: FieldKind) -> list[InputLine]:
        """Returns the given lines of a kind."""
        return [line for line in self.inputs if line.kind is kind]

    def relevant(self) -> list[Statement]:
        """Returns relevant statements, best first, or all where none covers anything."""
        shares = self.evidence.shares
        threshold = RELEVANT * max(shares, default=0.0)
        relevant: dict[Statement, None] = {}
        for number in sorted(range(len(shares)), key=lambda number: -shares[number]):
            if shares[number] >= threshold:
                relevant[self.evidence.entries[number].statement] = None
        return list(relevant)

    def searches(self) -> list[str]:
        """Lists things to look up: names that the best chain adds, then the question's parts. None where the answer
        needs no more evidence."""
        if self.suffices:
            return []
        searches = [value for name, value in self.fields if name in SEARCHES]
        # The first node of a plan is the question itself.
        given_searches = self.lines(FieldKind.QUERY) + self.lines(FieldKind.NODE)[1:]
        searches += map(attrgetter("text"), given_searches)
        covered = [set(content_stems(text)) for text in searches]

        bridges: dict[str, None] = {}
        question_stems = self.evidence.asked.weights.keys()
        _, chain = self.evidence.best_chain
        for number in chain:
            for _, name in self.evidence.entries[number].statement.names:
                if name[0].isupper() and question_stems.isdisjoint(content_stems(name)):
                    bridges[name] = None

        remaining: list[str] = []
        for text in (*list(bridges)[:BRIDGES], *parts(self.question)):
            stems = set(content_stems(text))
            if not any(map(stems.issubset, covered)):
                remaining.append(text)
        return remaining
