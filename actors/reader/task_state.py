"""Judges what was read for a task: relevance, sufficiency, support, selection."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages import Field, FieldKind, InputLine, Task
from actors.reader.candidates import (
    Candidate,
    Chain,
    Entry,
    WeightedQuestion,
    best_chain,
    candidates,
    chains,
    choose,
    weigh_question,
)
from actors.reader.english import COLOURS, NUMBERS, PICTURE_WORDS, STOP_WORDS, name_spans, normal_name, stem, words
from actors.reader.grading import compare
from actors.reader.perception import gaussian
from actors.reader.question import question_form
from actors.reader.statements import Statement, statements_in

CLEAR = 0.45  # least value of an answer that counts as known
UNSURE = 0.12  # spread of a judgement at skill 0


@dataclass(frozen=True, slots=True)
class TaskState:
    """Task with the agent's knowledge.

    lines: the lines that the turn is given, numbered.
    entries: first-hand, heard and given statements; `chains` has the best chain from each.
    answer: the agent's answer ("" for unknown), with its `value` in [0, 1] and `confidence`.
    noise: scale of the error of judgements; done: earlier searches; heard: the others' (agent, answer).
    """

    task: Task
    lines: Sequence[InputLine]
    question: str
    asked: WeightedQuestion
    entries: Sequence[Entry]
    chains: Sequence[Chain]
    answer: str
    value: float
    confidence: float
    pictures: int
    skill: float
    noise: float
    seed: int
    done: tuple[str, ...] = ()
    heard: tuple[tuple[str, str], ...] = ()

    def lines_of(self, kind: FieldKind) -> list[InputLine]:
        """Returns the given lines of one kind, in order."""
        return [line for line in self.lines if line.kind is kind]

    def field(self, kind: FieldKind) -> Field | None:
        """Returns the form's field of a kind."""
        return next((field for field in self.task.fields if field.kind is kind), None)

    def judged(self, what: str, value: float) -> float:
        """Returns a value as this agent perceives it, with an error that decreases with its skill."""
        return value + self.noise * UNSURE * (1 - self.skill) * gaussian(self.seed, "judge", what)

    def bearing(self, entry: Entry) -> float:
        """Returns the share of the question that a statement covers alone."""
        return self.asked.covered(entry.mask) * entry.statement.trust

    def most_bearing(self, most: int, *, seen: bool | None = None) -> list[Statement]:
        """Returns relevant statements, those of the best chain first, then by coverage. `seen`: only about pictures."""
        linked = best_chain(self.chains)[1]
        rest = sorted(range(len(self.entries)), key=lambda i: (-self.bearing(self.entries[i]), i))
        top = max(map(self.bearing, self.entries), default=0.0)
        # The small number excludes statements that cover nothing.
        order = [*linked, *(i for i in rest if self.bearing(self.entries[i]) >= max(0.5 * top, 1e-9))]
        kept = dict.fromkeys(self.entries[i].statement for i in order)
        return [statement for statement in kept if seen is None or statement.seen == seen][:most]

    def found_out(self, question: str) -> str:
        """Returns the name (a title or a table's cell) that clearly answers another question, or "".

        The statements that lead to it then contain all names, numbers and colours of the question.
        """
        statements = [entry.statement for entry in self.entries]
        if not statements:
            return ""
        asked = weigh_question(question_form(question), statements)
        entries = [asked.entry(statement) for statement in statements]
        ranking: list[Candidate] = candidates(entries, chains(asked, entries))
        titles = {normal_name(name) for s in statements for name in (s.title, *(value for _, value in s.cells))}
        if not ranking or ranking[0].value < CLEAR or ranking[0].key not in titles:
            return ""
        # At the start of the question a capital need not begin a name.
        names = {stem(word) for name, start, _ in name_spans(question) if start for word in words(name)}
        marks = {stem(word) for word in words(question) if word in COLOURS or word in NUMBERS or word.isdigit()}
        there = {s for i in ranking[0].chain for s in entries[i].statement.stems}
        return ranking[0].text if {word for word in names | marks if word not in STOP_WORDS} <= there else ""

    def candidate_values(self) -> dict[int, float]:
        """Maps candidates to the share of the question that they, or the sources they name, cover."""
        given = [(n, line) for line in self.lines_of(FieldKind.CANDIDATE) if (n := line.number) is not None]
        if given:
            numbered = [(n, s) for n, line in given for s in statements_in(f"candidate {n}", line.text)]
            # Candidates are linked with the evidence, which cannot be selected.
            everything: list[Statement] = [*(s for _, s in numbered), *(entry.statement for entry in self.entries)]
            asked = weigh_question(self.asked.form, everything)
            entries: list[Entry] = [asked.entry(s) for s in everything]
            reached = chains(asked, entries)
            holding = {source: n for n, line in given for source in _SHOWN.findall(line.text)}
            sources = (entry.statement.source for entry in self.entries)
            numbers: list[int | None] = [*(n for n, _ in numbered), *map(holding.get, sources)]
            covered = asked.covered
        else:
            entries, reached, covered = list(self.entries), list(self.chains), self.asked.covered
            numbers = [int(e.statement.source) if e.statement.source.isdigit() else None for e in entries]
        values: dict[int, float] = {}
        strength, linked = best_chain(reached)
        for i, (entry, number) in enumerate(zip(entries, numbers, strict=True)):
            if number is None:
                continue
            value = strength if i in linked else covered(entry.mask) * entry.statement.trust
            values[number] = max(values.get(number, 0.0), value * self.judged(f"candidate {number}", 1.0))
        question = f" {' '.join(words(self.question))} "
        for n, line in given:  # a candidate that the question names is its subject
            if len(words(line.text)) <= 4 and f" {normal_name(line.text)} " in question:
                values[n] = max(values.get(n, 0.0), NAMED)
        return values

    def strongest(self) -> float:
        """Measures the share of the question that the best chain or the best candidate covers."""
        return max([*(strength for strength, _ in self.chains), *self.candidate_values().values()], default=0.0)


def one_of(field: Field, word: str) -> list[str]:
    """Returns the word in the form's spelling. [] if it is none of the allowed values."""
    spelt = {value.lower(): value for value in field.values}
    return [spelt.get(word, word)] if not spelt or word in spelt else []


def yes_or_no(field: Field, yes: bool) -> list[str]:
    """Returns yes or no in the form's spelling."""
    return one_of(field, "yes" if yes else "no")


_SEEN = re.compile(r"\bcan (?:one|you|be) see", re.IGNORECASE)
_SHOWN = re.compile(r"\[(\d+)\]")  # the number of a source
BEARS = 0.28  # of the question's weight, for a source to be relevant
SUFFICES = 0.5  # least value of an answer that needs no more evidence
CONFIRMED = 0.4  # least support of an answer that the evidence confirms
NAMED = 0.5  # value of a candidate that is a name in the question
LEAST = 0.05  # of the question's weight, for a candidate to be selected at all
KEPT = 0.6  # of the best candidate's value, for another one to be selected too


def relevant(state: TaskState, line: Field) -> list[str]:
    """Judges the evidence. In a form that also asks for a selection, it is relevant if there is one."""
    selecting = state.field(FieldKind.SELECTED)
    if selecting:
        return yes_or_no(line, bool(selected(state, selecting)))
    return yes_or_no(line, state.judged("bears", state.strongest()) >= BEARS)


def dismissed(state: TaskState) -> bool:
    """Tests whether the same form declares the evidence irrelevant."""
    line = state.field(FieldKind.RELEVANT)
    return line is not None and relevant(state, line)[:1] == yes_or_no(line, False)


def suffices(state: TaskState) -> bool:
    """Tests whether this agent considers its answer sufficient."""
    return bool(state.answer) and state.judged("suffices", state.value) >= SUFFICES


def visual(state: TaskState, line: Field) -> list[str]:
    """Judges whether the wording asks for something visible, or the best chain has a picture."""
    strength, chain = best_chain(state.chains)
    shown = strength >= BEARS and any(state.entries[i].statement.seen for i in chain)
    return yes_or_no(line, asks_for_sight(state.question) or (state.pictures > 0 and shown))


def asks_for_sight(question: str) -> bool:
    """Tests whether the wording, apart from names, asks for something visible."""
    plain = question
    for name, start, end in reversed(name_spans(question)):
        if start:
            plain = f"{plain[:start]}{' ' * len(name)}{plain[end:]}"
    plain_words = words(plain)
    return bool(
        PICTURE_WORDS & {*plain_words, *(word.removesuffix("s") for word in plain_words)} or _SEEN.search(plain)
    )


def selected(state: TaskState, line: Field) -> list[str]:
    """Selects the candidates, or else the numbered evidence, that cover the question, best first.

    Statements of the best chain count together: a table's row and the passage about a cell of it.
    """
    values = state.candidate_values()
    least = max(KEPT * max(values.values(), default=0.0), LEAST)
    kept = sorted((n for n, value in values.items() if value >= least), key=lambda n: -values[n])[: line.most or 5]
    return [", ".join(map(str, kept))] if kept else []


def supported(state: TaskState, line: Field) -> list[str]:
    """Judges whether the evidence confirms the first given answer, or else the first given candidate."""
    answers = state.lines_of(FieldKind.ANSWER) or state.lines_of(FieldKind.CANDIDATE)
    answer = answers[0].text if answers and normal_name(answers[0].text) != "unknown" else ""
    return yes_or_no(line, bool(answer) and state.judged("supported", support(state, answer)) >= CONFIRMED)


def support(state: TaskState, answer: str) -> float:
    """Returns an answer's support: as the reader's best answer, or by a chain that names it."""
    own = state.value if state.answer and compare([state.answer], answer)[0] >= 4 else 0.0
    ranking = choose(state.asked, state.entries, state.chains, [answer])
    stated_at = [f.value for f in ranking if f.chain]
    # Evidence that names an answer counts less than evidence that leads to it.
    return max(own, 0.8 * stated_at[0] if stated_at else 0.0)


def sureness(state: TaskState) -> float:
    """Returns the confidence in a judgement: higher with the distance from the threshold."""
    return min(0.98, 0.5 + abs(state.strongest() - BEARS))
