"""Findings of one turn: the evidence that bears on the question, the answer, and what is left to look up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.messages import FieldKind, InputLine
from actors.reader.english import content_stems
from actors.reader.linked_evidence import LinkedEvidence
from actors.reader.question import parts
from actors.reader.statements import Statement

BEARS = 0.28  # least share of the question that relevant evidence covers
SUFFICES = 0.5  # least value of an answer that needs no more evidence
BRIDGES = 2  # names that the evidence adds to the question, which are looked up next


@dataclass(frozen=True, slots=True)
class Findings:
    """What the reader knows in a turn that has a task.

    evidence: first-hand, heard and given statements.
    answer: "" where it is unknown; its value, and the confidence in it, are in [0, 1].
    given: the task's lines, numbered within their kind.
    stated: fields of the discussion's messages, as (name, value), in order.
    answers: the last answer of each colleague, "" for unknown.
    """

    question: str
    evidence: LinkedEvidence
    answer: str
    value: float
    confidence: float
    given: Sequence[InputLine]
    stated: Sequence[tuple[str, str]]
    answers: Mapping[str, str]

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
        return [line for line in self.given if line.kind is kind]

    def relevant(self, *, seen: bool = False) -> list[Statement]:
        """Returns relevant statements, those of the best chain first, or all where none is.

        seen: only those about pictures.
        """
        evidence = self.evidence
        statements = [entry.statement for entry in evidence.entries]
        shares = [entry.bearing for entry in evidence.entries]
        least = 0.5 * max(shares, default=0.0)

        _, chain = evidence.best_chain
        ranking = sorted(range(len(statements)), key=lambda number: -shares[number])
        ranked = [statements[number] for number in (*chain, *ranking) if shares[number] >= least or number in chain]
        return [statement for statement in dict.fromkeys(ranked) if statement.seen or not seen]

    def searches(self) -> list[str]:
        """Returns what is still to be looked up: names that the best chain adds, then the question's parts."""
        searched = [value for name, value in self.stated if name in SEARCHES]
        searched += [line.text for line in (*self.lines(FieldKind.QUERY), *self.lines(FieldKind.NODE)[1:])]
        covered = [set(content_stems(text)) for text in searched]

        _, chain = self.evidence.best_chain
        names = {name: None for number in chain for _, name in self.evidence.entries[number].statement.names}
        stems = self.evidence.asked.weights.keys()
        bridges = [name for name in names if name[0].isupper() and stems.isdisjoint(content_stems(name))]
        texts = [*bridges[:BRIDGES], *parts(self.question)]
        return [text for text in texts if not any(set(content_stems(text)) <= stems for stems in covered)]


SEARCHES = (FieldKind.QUERY, FieldKind.SUB_QUESTION, FieldKind.INSTRUCTION)  # fields that look something up
