"""Judges what was read for a task: relevance, sufficiency, support, selection."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages import Field, FieldKind, InputLine, Task
from actors.reader.candidates import candidates, choose
from actors.reader.english import COLOURS, NUMBERS, PICTURE_WORDS, STOP_WORDS, name_spans, normal_name, stem, words
from actors.reader.grading import compare
from actors.reader.linked_evidence import LinkedEvidence
from actors.reader.perception import gaussian
from actors.reader.question import question_form
from actors.reader.statements import Statement, statements_in

CLEAR = 0.45  # least value of an answer that counts as known
UNSURE = 0.12  # spread of a judgement at skill 0


@dataclass(frozen=True, slots=True)
class TaskState:
    """Task with the agent's knowledge.

    lines: the lines that the turn is given, numbered.
    evidence: first-hand, heard and given statements.
    answer: the agent's answer ("" for unknown), with its `value` in [0, 1] and `confidence`.
    noise: scale of the error of judgements; done: earlier searches; heard: the others' (agent, answer).
    """

    task: Task
    lines: Sequence[InputLine]
    question: str
    evidence: LinkedEvidence
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

    def most_bearing(self, most: int, *, seen: bool | None = None) -> list[Statement]:
        """Returns relevant statements, those of the best chain first, then by coverage. `seen`: only about pictures."""
        statements, bearing = self.evidence.statements, list(map(self.evidence.bearing, self.evidence.entries))
        # The small number excludes statements that cover nothing.
        least = max(0.5 * max(bearing, default=0.0), 1e-9)
        rest = sorted((i for i, share in enumerate(bearing) if share >= least), key=lambda i: -bearing[i])
        kept = dict.fromkeys(statements[i] for i in (*self.evidence.best_chain[1], *rest))
        return [statement for statement in kept if seen is None or statement.seen == seen][:most]

    def found_out(self, question: str) -> str:
        """Returns the name (a title or a table's cell) that clearly answers another question, or "".

        The statements that lead to it then contain all names, numbers and colours of the question.
        """
        statements = self.evidence.statements
        ranking = candidates(LinkedEvidence.of(question_form(question), statements))
        titles = {normal_name(name) for s in statements for name in (s.title, *(value for _, value in s.cells))}
        if not ranking or ranking[0].value < CLEAR or ranking[0].key not in titles:
            return ""
        # At the start of the question a capital need not begin a name.
        names = {stem(word) for name, start, _ in name_spans(question) if start for word in words(name)}
        marks = {stem(word) for word in words(question) if word in COLOURS or word in NUMBERS or word.isdigit()}
        there = {s for i in ranking[0].chain for s in statements[i].stems}
        return ranking[0].text if {word for word in names | marks if word not in STOP_WORDS} <= there else ""

    def candidate_values(self) -> dict[int, float]:
        """Maps candidates to the share of the question that they, or the sources they name, cover."""
        evidence, sources = self.evidence, [statement.source for statement in self.evidence.statements]
        numbers: list[int | None] = [int(source) if source.isdigit() else None for source in sources]
        given = [(n, line) for line in self.lines_of(FieldKind.CANDIDATE) if (n := line.number) is not None]
        if given:
            numbered = [(n, s) for n, line in given for s in statements_in(f"candidate {n}", line.text)]
            # Candidates are linked with the evidence, which cannot be selected.
            evidence = LinkedEvidence.of(evidence.asked.form, [*(s for _, s in numbered), *evidence.statements])
            holding = {source: n for n, line in given for source in _SHOWN.findall(line.text)}
            numbers = [*(n for n, _ in numbered), *map(holding.get, sources)]
        values: dict[int, float] = {}
        strength, linked = evidence.best_chain
        for i, (entry, number) in enumerate(zip(evidence.entries, numbers, strict=True)):
            if number is None:
                continue
            value = strength if i in linked else evidence.bearing(entry)
            values[number] = max(values.get(number, 0.0), value * self.judged(f"candidate {number}", 1.0))
        question = f" {' '.join(words(self.question))} "
        for n, line in given:  # a candidate that the question names is its subject
            if len(words(line.text)) <= 4 and f" {normal_name(line.text)} " in question:
                values[n] = max(values.get(n, 0.0), NAMED)
        return values

    def strongest(self) -> float:
        """Measures the share of the question that the best chain or the best candidate covers."""
        return max([self.evidence.best_chain[0], *self.candidate_values().values()])


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
    strength, chain = state.evidence.best_chain
    shown = strength >= BEARS and any(state.evidence.entries[i].statement.seen for i in chain)
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
    ranking = choose(state.evidence, [answer])
    stated_at = [f.value for f in ranking if f.chain]
    # Evidence that names an answer counts less than evidence that leads to it.
    return max(own, 0.8 * stated_at[0] if stated_at else 0.0)


def sureness(state: TaskState) -> float:
    """Returns the confidence in a judgement: higher with the distance from the threshold."""
    return min(0.98, 0.5 + abs(state.strongest() - BEARS))
