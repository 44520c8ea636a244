"""The state in which a task is carried out: the task, what the agent has read, and what it would answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages import Field, FieldKind, Given, Task
from actors.reader.find import Candidate, Entry, View, candidates, chains, view
from actors.reader.lexicon import COLOURS, NUMBERS, STOP_WORDS
from actors.reader.question_form import question_form
from actors.reader.sight import gaussian
from actors.reader.statement import Statement
from actors.reader.text import name_spans, normal_name, stem, words

CLEAR = 0.45  # value of an answer from which on a name is taken for known
UNSURE = 0.12  # spread of a judgement at skill 0, as a share of what is judged


@dataclass(frozen=True, slots=True)
class Work:
    """`entries` are first-hand, heard and given statements with, in `reached`, the best chain from each of them.

    `answer` is what the agent would answer ("" for unknown) with its `value` in [0, 1] and `confidence`;
    `done` what it has searched for or asked before in this discussion, and `heard` are the others' answers in it, as
    (agent, answer).
    """

    task: Task
    material: Sequence[Given]
    question: str
    choices: tuple[str, ...]
    at: View
    entries: Sequence[Entry]
    reached: Sequence[tuple[float, tuple[int, ...]]]
    answer: str
    value: float
    confidence: float
    pictures: int
    skill: float
    hops: int
    seed: int
    done: tuple[str, ...] = ()
    heard: tuple[tuple[str, str], ...] = ()

    def given(self, kind: FieldKind) -> list[Given]:
        """The lines of material of one kind, in order."""
        return [given for given in self.material if given.kind is kind]

    def field(self, kind: FieldKind) -> Field | None:
        """The line of the form that a value of this kind belongs on."""
        return next((field for field in self.task.fields if field.kind is kind), None)

    def judged(self, what: str, value: float) -> float:
        """A value as this agent perceives it: the less skilled, the further off."""
        return value + UNSURE * (1 - self.skill) * gaussian(self.seed, "judge", what)

    def bearing(self, entry: Entry) -> float:
        """The share of the question that a statement covers on its own."""
        return self.at.covered(entry.mask) * entry.statement.trust

    def most_bearing(self, most: int, *, seen: bool | None = None) -> list[Statement]:
        """Statements by how much they bear on the question, those of the best chain first; none that do not bear.

        `seen` keeps to what pictures show (True) or to what is told (False).
        """
        best = max(self.reached, key=lambda reached: reached[0], default=(0.0, ()))
        linked = best[1] if best[0] > 0 else ()
        rest = sorted(range(len(self.entries)), key=lambda i: (-self.bearing(self.entries[i]), i))
        top = max(map(self.bearing, self.entries), default=0.0)
        # The small number keeps out what covers nothing, even where nothing covers anything.
        order = [*linked, *(i for i in rest if self.bearing(self.entries[i]) >= max(0.5 * top, 1e-9))]
        kept = dict.fromkeys(self.entries[i].statement for i in order)
        return [statement for statement in kept if seen is None or statement.seen == seen][:most]

    def found_out(self, question: str) -> str:
        """The name that the statements give in answer to another question, if they give it clearly; else "".

        A name is the title of something read, or a table's cell: other phrases may be anything. It is clear when all
        names, numbers and colours of the question are in the statements that lead to it.
        """
        statements = [entry.statement for entry in self.entries]
        if not statements:
            return ""
        at = view(question_form(question), statements)
        entries = [at.entry(statement) for statement in statements]
        ranking: list[Candidate] = candidates(entries, chains(at, entries, self.hops))
        titles = {normal_name(name) for s in statements for name in (s.title, *(value for _, value in s.cells))}
        if not ranking or ranking[0].value < CLEAR or ranking[0].key not in titles:
            return ""
        there = {s for i in ranking[0].chain for s in entries[i].statement.stems}
        return ranking[0].text if _identifying_stems(question) <= there else ""


def one_of(field: Field, word: str) -> list[str]:
    """The word as the form spells it; nothing where it is none of the values that the form allows."""
    spelt = {value.lower(): value for value in field.values}
    return [spelt.get(word, word)] if not spelt or word in spelt else []


def yes_or_no(field: Field, yes: bool) -> list[str]:
    """The value for yes or for no, as the form spells it."""
    return one_of(field, "yes" if yes else "no")


def known_answer(given: Given) -> str:
    """The answer that a line gives; "" for unknown."""
    return "" if normal_name(given.text) == "unknown" else given.text


def _identifying_stems(question: str) -> set[str]:
    """The stems of a question's names, numbers and colours."""
    # At the start of the question a capital need not mean a name.
    names = {stem(word) for name, start, _ in name_spans(question) if start for word in words(name)}
    marks = {stem(word) for word in words(question) if word in COLOURS or word in NUMBERS or word.isdigit()}
    return {word for word in names | marks if word not in STOP_WORDS}
