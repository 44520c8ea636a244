"""Judges what was read: does it bear on the question, does it suffice for an answer, which parts should be kept?"""

from __future__ import annotations

import re

from actors.messages import Field, FieldKind
from actors.reader.decide import choose
from actors.reader.find import Entry, chains, view
from actors.reader.judge import compare
from actors.reader.lexicon import PICTURE_WORDS
from actors.reader.statement import Statement, statements_in
from actors.reader.text import name_spans, normal_name, words
from actors.reader.work import Work, known_answer, yes_or_no

_SEEN = re.compile(r"\bcan (?:one|you|be) see", re.IGNORECASE)
_SHOWN = re.compile(r"\[(\d+)\]")  # the number of a source that is shown
BEARS = 0.28  # of the question's weight, for a source to count as bearing on it
SUFFICES = 0.5  # value of the best answer from which on it needs no more reading
STANDS = 0.4  # support from which on an answer is borne out
NAMED = 0.5  # value of a candidate that is a name in the question
LEAST = 0.05  # of the question's weight, for a candidate to be selected at all
KEPT = 0.6  # of the best candidate's value, for another to be selected beside it


def relevant(work: Work, line: Field) -> list[str]:
    """Yes where the evidence bears on the question; in a form that also asks for a selection, where one is made."""
    selecting = work.field(FieldKind.SELECTED)
    if selecting:
        return yes_or_no(line, bool(selected(work, selecting)))
    return yes_or_no(line, work.judged("bears", _bearing(work)) >= BEARS)


def dismissed(work: Work) -> bool:
    """True where the same form says that nothing here bears on the question."""
    line = work.field(FieldKind.RELEVANT)
    return line is not None and relevant(work, line)[:1] == yes_or_no(line, False)


def enough(work: Work, line: Field) -> list[str]:
    """Yes where what was read answers the question."""
    return yes_or_no(line, suffices(work))


def retrieve(work: Work, line: Field) -> list[str]:
    """Something has to be looked up as long as what is there does not answer the question."""
    return yes_or_no(line, not suffices(work))


def suffices(work: Work) -> bool:
    """True where this agent takes its answer to need no more reading."""
    return bool(work.answer) and work.judged("suffices", work.value) >= SUFFICES


def visual(work: Work, line: Field) -> list[str]:
    """Yes where the wording asks for a sight, or the best chain of statements has one."""
    return yes_or_no(
        line, looks(work.question) or (work.pictures > 0 and any(e.statement.seen for e in _answering(work)))
    )


def looks(question: str) -> bool:
    """True where the wording, names apart, asks for something that is seen."""
    plain = question
    for name, start, end in reversed(name_spans(question)):
        if start:
            plain = f"{plain[:start]}{' ' * len(name)}{plain[end:]}"
    plain_words = words(plain)
    return bool(
        PICTURE_WORDS & {*plain_words, *(word.removesuffix("s") for word in plain_words)} or _SEEN.search(plain)
    )


def selected(work: Work, line: Field) -> list[str]:
    """The candidates, or the numbered evidence, that the question is covered by, best first; nothing when none bears.

    What is linked to the best chain counts with it: a table's row and the passage about what stands in that row.
    """
    values = _candidate_values(work)
    top = max(values.values(), default=0.0)
    least = max(KEPT * top, LEAST)
    ranked = sorted((n for n, value in values.items() if value >= least), key=lambda n: -values[n])
    kept = ranked[: line.most or 5]
    return [", ".join(map(str, kept))] if kept else []


def _candidate_values(work: Work) -> dict[int, float]:
    """By number, how far the question is covered, by a candidate alone or as part of the best chain. One that names
    sources by their numbers has what these say."""
    given = [(n, line) for line in work.given(FieldKind.CANDIDATE) if (n := line.number) is not None]
    if given:
        numbered = [(n, s) for n, line in given for s in statements_in(f"candidate {n}", line.text)]
        # Candidates are linked with what was read, which has no numbers of its own to be selected by.
        everything: list[Statement] = [*(s for _, s in numbered), *(entry.statement for entry in work.entries)]
        at = view(work.at.form, everything)
        entries: list[Entry] = [at.entry(s) for s in everything]
        reached = chains(at, entries, work.hops)
        holding = {source: n for n, line in given for source in _SHOWN.findall(line.text)}
        sources = (entry.statement.source for entry in work.entries)
        numbers: list[int | None] = [*(n for n, _ in numbered), *map(holding.get, sources)]
        covered = at.covered
    else:
        entries, reached, covered = list(work.entries), list(work.reached), work.at.covered
        numbers = [int(e.statement.source) if e.statement.source.isdigit() else None for e in entries]
    values: dict[int, float] = {}
    best = max(reached, key=lambda r: r[0], default=(0.0, ()))
    for i, (entry, number) in enumerate(zip(entries, numbers, strict=True)):
        if number is None:
            continue
        value = best[0] if i in best[1] else covered(entry.mask) * entry.statement.trust
        values[number] = max(values.get(number, 0.0), value * work.judged(f"candidate {number}", 1.0))
    question = f" {' '.join(words(work.question))} "
    for n, line in given:  # a name that the question spells out is what it is about, however much else it says
        if len(words(line.text)) <= 4 and f" {normal_name(line.text)} " in question:
            values[n] = max(values.get(n, 0.0), NAMED)
    return values


def supported(work: Work, line: Field) -> list[str]:
    """Yes where the evidence bears out the first answer, or else the first candidate, that is given."""
    answers = work.given(FieldKind.ANSWER) or work.given(FieldKind.CANDIDATE)
    answer = known_answer(answers[0]) if answers else ""
    return yes_or_no(line, bool(answer) and work.judged("supported", support(work, answer)) >= STANDS)


def support(work: Work, answer: str) -> float:
    """The support of an answer in the evidence: as the reader's own best answer, or by the chain that names it."""
    own = work.value if work.answer and compare([work.answer], answer)[0] >= 4 else 0.0
    ranking = choose(work.at, work.entries, [answer], work.hops)
    stated_at = [f.value for f in ranking if f.chain]
    # That the evidence names an answer is less than that it leads to it.
    return max(own, 0.8 * stated_at[0] if stated_at else 0.0)


def sureness(work: Work) -> float:
    """The confidence in a judgement about the evidence: the further from its limit, the higher."""
    return min(0.98, 0.5 + abs(_bearing(work) - BEARS))


def _bearing(work: Work) -> float:
    """The share of the question that the best chain of statements covers, or the best candidate."""
    return max([*(strength for strength, _ in work.reached), *_candidate_values(work).values()], default=0.0)


def _answering(work: Work) -> list[Entry]:
    """The entries of the chain that covers most of the question."""
    reached = max(work.reached, key=lambda r: r[0], default=(0.0, ()))
    return [work.entries[i] for i in reached[1]] if reached[0] >= BEARS else []
