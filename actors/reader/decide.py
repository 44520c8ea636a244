"""Questions that are not answered by copying a phrase: comparisons, yes or no, given choices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from actors.reader.find import Candidate, Entry, View, candidates, chains, ranked
from actors.reader.lexicon import COLOURS, NUMBERS
from actors.reader.question_form import AnswerType, question_form
from actors.reader.text import content_stems, name_spans, normal_name, stem, words

_YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COLOUR_STEMS = frozenset(map(stem, COLOURS))
_NEGATION = frozenset(("not", "never", "no", "without", "none"))
HINTED = 0.3  # weight of a choice's words in the question itself
REPEATED = 0.05  # what further statements for a choice add, which may all say the same thing
FAINT = 0.1  # weight of likeness in spelling alone: it only breaks ties


def compare(at: View, entries: Sequence[Entry], hops: int) -> list[Candidate]:
    """Resolves both alternatives to something named in the evidence, reads a number for each, and orders them."""
    resolved = [_resolve(at, entries, option, hops) for option in at.form.options]
    # Alternatives without a word such as `larger` are compared by their years.
    group, smallest = at.form.order or ("time", True)
    values: list[tuple[float, str, float, tuple[int, ...]]] = []
    for name, sure, chain in resolved:
        number = _number_of(at, entries, normal_name(name), group)
        if number is None:
            continue
        values.append((number[0], name, sure * number[1], (number[2], *chain)))
    # A tie, or too few numbers: each stays possible, the first named a little more.
    if len(values) < 2 or values[0][0] == values[1][0]:
        return [
            Candidate(name, normal_name(name), 0.3 * sure * (1 - 0.1 * i), chain)
            for i, (_, name, sure, chain) in enumerate(values)
        ]
    values.sort(key=lambda v: v[0], reverse=not smallest)
    chain = tuple(dict.fromkeys((*values[0][3], *values[1][3])))
    # A comparison is as sure as the less sure of its two numbers.
    sure = min(values[0][2], values[1][2])
    return [
        Candidate(values[0][1], normal_name(values[0][1]), sure, chain),
        Candidate(values[1][1], normal_name(values[1][1]), 0.6 * sure, chain),
    ]


def _resolve(at: View, entries: Sequence[Entry], option: str, hops: int) -> tuple[str, float, tuple[int, ...]]:
    spelt = [option, *(name for name, _, _ in name_spans(option) if len(words(option)) - len(words(name)) <= 2)]
    for name in spelt:  # "Night River" or "the film Night River"
        for i, entry in enumerate(entries):
            if any(normal_name(name) == known for known, _ in entry.statement.names):
                return name, 1.0, (i,)
    form = question_form(option)
    inner = View(form, _renormalised(at, form.stems), at.kinds)
    described = [inner.entry(entry.statement) for entry in entries]
    ranking = candidates(described, chains(inner, described, hops))
    if not ranking:
        return option, 0.2, ()
    return ranking[0].text, ranking[0].value, ranking[0].chain


def _renormalised(at: View, stems: Sequence[str]) -> dict[str, float]:
    # Words that the whole question has no weight for count a little.
    weights = {s: at.weights.get(s, 0.05) for s in stems}
    total = sum(weights.values()) or 1.0
    return {s: weight / total for s, weight in weights.items()}


def _number_of(at: View, entries: Sequence[Entry], key: str, group: str) -> tuple[float, float, int] | None:
    """The year or number that the statements about a name give it: (number, how sure, entry)."""
    best: tuple[float, float, int] | None = None
    question_stems = set(at.form.stems)
    for i, entry in enumerate(entries):
        statement = entry.statement
        if not any(key == name for name, _ in statement.names):
            continue
        options = [(header, value) for header, value in statement.cells] or [(statement.text, statement.text)]
        for header, value in options:
            # In running text a year is hardly the number that is compared; a cell has nothing else in it.
            match = (
                _YEAR.search(value)
                if group == "time"
                else _NUMBER.search(_YEAR.sub("", value) if not statement.cells else value)
            )
            if not match or key == normal_name(value):
                continue
            named = bool(question_stems & {stem(word) for word in words(header)}) if statement.cells else False
            own = statement.cells or normal_name(statement.title) == key
            # Surer on its own page or in its own row, under a header that is asked for, and near the question.
            sure = statement.trust * (0.5 + 0.25 * bool(own) + 0.15 * named + 0.1 * at.covered(entry.mask))
            if best is None or sure > best[1]:
                best = (float(match[0].replace(",", "")), sure, i)
    return best


def yes_or_no(at: View, entries: Sequence[Entry], hops: int) -> list[Candidate]:
    """Yes when a chain covers (nearly) all that is asked; no when it is about the subject and says something else."""
    reached = chains(at, entries, hops)
    if not reached:
        return []
    # Of equals the first.
    best = max(range(len(entries)), key=lambda i: (reached[i][0], -i))
    strength, chain = reached[best]
    stated: set[str] = set()
    for i in chain:
        stated.update(entries[i].statement.stems)
    missing = [s for s in at.form.stems if s not in stated and at.weights[s] > 0]
    lacking = sum(at.weights[s] for s in missing)
    named = {stem(word) for name in at.form.names for word in name.split()}
    # A colour, number or name that the chain lacks is taken to be another one there.
    contradicted = any(s in _COLOUR_STEMS or s in NUMBERS or s in named or s.isdigit() for s in missing)
    negated = bool(
        _NEGATION & {word for i in chain for word in words(entries[i].statement.text)} - set(words(at.form.text))
    )
    if strength < 0.3:
        return []
    yes = 1 - lacking if not contradicted else 0.4 * (1 - lacking)
    no = lacking * 1.6 + 0.35 * contradicted + 0.3 * negated
    total = yes + no or 1.0
    shares = {"yes": strength * yes / total, "no": strength * no / total}
    return ranked(Candidate(word, word, value, chain) for word, value in shares.items())


def choose(at: View, entries: Sequence[Entry], choices: Sequence[str], hops: int) -> list[Candidate]:
    """Each choice by its overlap with what bears on the question, words that fewer choices have counting more.

    A choice without a word that occurs may still have the faint support of its spelling (`magnetic` where `magnets` is
    said); one that nothing supports is not an option.
    """
    reached = chains(at, entries, hops)
    own = [set(content_stems(choice)) for choice in choices]
    shares = Counter(stem for stems in own for stem in stems)
    question_stems = set(at.form.stems)
    stated = [set(entry.statement.stems) for entry in entries]
    spelt = _runs(" ".join([at.form.text, *(f"{e.statement.title} {e.statement.text}" for e in entries)]))
    ranking = []
    for choice, stems in zip(choices, own, strict=True):
        # Sorted: a sum of floats depends on its order, and the order of a set on the process.
        rare = {stem: 1.0 / shares[stem] for stem in sorted(stems)}
        total = sum(rare.values()) or 1.0
        best: tuple[int, ...] = ()
        support = repeated = 0.0
        for entry, statement_stems, (strength, chain) in zip(entries, stated, reached, strict=True):
            overlap = sum(weight for stem, weight in rare.items() if stem in statement_stems) / total
            # Words of the choice count for something even where the statement is not about the question.
            value = overlap * (0.3 + 0.7 * strength) * entry.statement.trust
            repeated += value
            if value > support:
                best, support = chain, value
        hinted = sum(weight for stem, weight in rare.items() if stem in question_stems) / total
        parts = _runs(choice)
        faint = FAINT * len(parts & spelt) / (len(parts) or 1)
        ranking.append(
            Candidate(
                choice,
                normal_name(choice),
                min(1.0, support + REPEATED * (repeated - support) + HINTED * hinted + faint),
                best,
            )
        )
    return ranked(f for f in ranking if f.value > 0)


def _runs(text: str) -> set[str]:
    """Runs of four letters within content stems."""
    return {stem[i : i + 4] for stem in set(content_stems(text)) for i in range(len(stem) - 3)}


def listed(ranking: Sequence[Candidate], at: View, nearly: float = 0.93) -> Sequence[Candidate]:
    """For a question that asks for several: all answers that stand nearly as well as the best, as one."""
    if (
        not ranking
        or not at.form.several
        or at.form.answer_type not in (AnswerType.THING, AnswerType.PERSON, AnswerType.PLACE)
    ):
        return ranking
    together = [f for f in ranking if f.value >= nearly * ranking[0].value]
    if len(together) < 2:
        return ranking
    text = ", ".join(f.text for f in together)
    chain = tuple(dict.fromkeys(i for f in together for i in f.chain))
    return [Candidate(text, normal_name(text), ranking[0].value, chain), *ranking[len(together) :]]
