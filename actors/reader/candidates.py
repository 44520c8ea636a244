"""Finds candidate answers: phrases of statements, compared alternatives, yes or no, choices."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from actors.reader.english import (
    COLOURS,
    COMPARISONS,
    NUMBERS,
    YEAR,
    content_stems,
    name_spans,
    normal_name,
    stem,
    stems,
    words,
)
from actors.reader.linked_evidence import CACHED_EVIDENCE, Entry, LinkedEvidence
from actors.reader.question import AnswerType

FOCUS_BONUS = 0.15  # share of a candidate's value that its statement earns by the main clause's words
NEARLY = 0.93  # of the best answer's value, for another to be listed with it
HINTED = 0.3  # weight of a choice's words in the question
REPEATED = 0.05  # weight of further statements for a choice, which may repeat the first
FAINT = 0.1  # weight of similar spelling: it only breaks ties
RUN = 4  # letters that two similar words share

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COLOUR_STEMS = frozenset(map(stem, COLOURS))
_NEGATION = frozenset(("not", "never", "no", "without", "none"))


class Candidate(NamedTuple):
    """Candidate answer, with its value in [0, 1].

    key: equal for mentions of the same answer.
    chain: statements that lead to it, its own first.
    """

    key: str
    text: str
    value: float
    chain: tuple[int, ...] = ()


@lru_cache(maxsize=CACHED_EVIDENCE)
def answers(evidence: LinkedEvidence, choices: tuple[str, ...]) -> Sequence[Candidate]:
    """Finds answers of the kind asked for. A list joins all that are nearly as good as the best."""
    form = evidence.asked.form
    if choices:
        return choose(evidence, choices)
    if form.answer_type is AnswerType.YES_NO:
        return decide_yes_or_no(evidence)
    if form.answer_type is AnswerType.OPTION:
        return compare_options(evidence)

    ranking = candidates(evidence)
    if not (ranking and form.several and form.answer_type.is_name):
        return ranking
    best = ranking[0].value
    texts: list[str] = []
    numbers: dict[int, None] = {}
    for candidate in ranking:
        if candidate.value < NEARLY * best:
            break
        texts.append(candidate.text)
        numbers |= dict.fromkeys(candidate.chain)
    if len(texts) < 2:
        return ranking
    joint = ", ".join(texts)
    return [Candidate(normal_name(joint), joint, best, tuple(numbers)), *ranking[len(texts) :]]


def candidates(evidence: LinkedEvidence) -> list[Candidate]:
    """Returns the phrases of all statements as candidates, each answer once with its best value, best first."""
    best_values: dict[str, float] = {}
    best: dict[str, tuple[str, tuple[int, ...]]] = {}
    for entry, (strength, numbers) in zip(evidence.entries, evidence.chains, strict=True):
        focus = 1 - FOCUS_BONUS + FOCUS_BONUS * entry.focus
        for key, text, fit in entry.phrases:
            # A badly fitting phrase of the right statement is still a candidate.
            value = strength * (0.45 + 0.55 * fit) * focus
            if value > best_values.get(key, 0):
                best_values[key] = value
                best[key] = (text, numbers)
    return ranked(Candidate(key, text, best_values[key], numbers) for key, (text, numbers) in best.items())


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sorts candidates, best first, and equal ones by key."""
    return sorted(candidates, key=lambda candidate: (-candidate.value, candidate.key))


def compare_options(evidence: LinkedEvidence) -> list[Candidate]:
    """Compares two alternatives. Resolves both to a name in the evidence, finds a number for each, and orders them."""
    form = evidence.asked.form
    # Alternatives without a word such as `larger` are compared by their years.
    comparison = form.comparison or COMPARISONS[0]
    numbers: list[float] = []
    names: list[Candidate] = []
    for option in form.options:
        name = _resolve(evidence, option)
        result = _number_of(evidence, name.key, comparison.of_time)
        if result:
            number, certainty, place = result
            numbers.append(number)
            names.append(name._replace(value=name.value * certainty, chain=(place, *name.chain)))

    # A tie, or too few numbers: each stays possible, the first named a little more.
    if len(set(numbers)) < 2:
        return [name._replace(value=0.3 * name.value * (1 - 0.1 * place)) for place, name in enumerate(names)]

    winner, loser = names
    if (numbers[0] < numbers[1]) != comparison.smallest_wins:
        loser, winner = names
    statements = tuple(dict.fromkeys((*winner.chain, *loser.chain)))
    # A comparison is as certain as its less certain number.
    certainty = min(winner.value, loser.value)
    return [
        winner._replace(value=certainty, chain=statements),
        loser._replace(value=0.6 * certainty, chain=statements),
    ]


def _resolve(evidence: LinkedEvidence, option: str) -> Candidate:
    """Finds the name that an alternative has in the evidence."""
    spellings = [option]
    for name, _, _ in name_spans(option):
        # "Night River" of "the film Night River".
        if len(words(option)) - len(words(name)) <= 2:
            spellings.append(name)
    for spelling in spellings:
        key = normal_name(spelling)
        for number, entry in enumerate(evidence.entries):
            if entry.statement.names_thing(key):
                return Candidate(key, spelling, 1.0, (number,))

    narrowed = evidence.asked.narrowed(option)
    entries = [narrowed.entry(entry.statement) for entry in evidence.entries]
    ranking = candidates(LinkedEvidence(narrowed, entries))
    return next(iter(ranking), Candidate(normal_name(option), option, 0.2))


def _number_of(evidence: LinkedEvidence, key: str, of_time: bool) -> tuple[float, float, int] | None:
    """Finds the year or number in the statements about a name: (number, certainty, entry)."""
    best: tuple[float, float, int] | None = None
    for place, entry in enumerate(evidence.entries):
        statement = entry.statement
        if not statement.names_thing(key):
            continue
        for header, text in statement.cells or (("", statement.text),):
            number = YEAR.search(text)
            if not of_time:
                # In running text a year is hardly the compared number; a cell contains nothing else.
                plain_text = text if statement.cells else YEAR.sub("", text)
                number = _NUMBER.search(plain_text)
            if not number or key == normal_name(text):
                continue
            certainty = _certainty(evidence, entry, key, header)
            if best is None or certainty > best[1]:
                best = (float(number[0].replace(",", "")), certainty, place)
    return best


def _certainty(evidence: LinkedEvidence, entry: Entry, key: str, header: str) -> float:
    """Returns the certainty that a number is a name's.

    Greater on the name's page or in its row, under a header in the question, and near the question.
    """
    statement = entry.statement
    certainty = 0.5
    if statement.cells or normal_name(statement.title) == key:
        certainty += 0.25
    if not set(stems(header)).isdisjoint(evidence.asked.form.stems):
        certainty += 0.15
    return statement.trust * (certainty + 0.1 * evidence.asked.covered(entry.mask))


def decide_yes_or_no(evidence: LinkedEvidence) -> list[Candidate]:
    """Answers yes if a chain covers (nearly) the whole question. No if it is about the subject and differs."""
    form = evidence.asked.form
    weights = evidence.asked.weights
    strength, numbers = evidence.best_chain
    if strength < 0.3:
        return []

    chain_stems: set[str] = set()
    chain_words: set[str] = set()
    for number in numbers:
        statement = evidence.entries[number].statement
        chain_stems.update(statement.stems)
        chain_words.update(words(statement.text))

    # A colour, number or name that the chain lacks is assumed to differ there.
    differing = {*_COLOUR_STEMS, *NUMBERS, *map(stem, " ".join(form.names).split())}
    lacking = 0.0
    differs = False
    for part in form.stems:
        if part not in chain_stems and weights[part] > 0:
            lacking += weights[part]
            differs = differs or part in differing or part.isdigit()

    yes = 1 - lacking
    no = lacking * 1.6
    if differs:
        yes *= 0.4
        no += 0.35
    if _NEGATION & chain_words - set(form.words):
        no += 0.3
    total = yes + no or 1.0
    return ranked(
        [
            Candidate("yes", "yes", strength * yes / total, numbers),
            Candidate("no", "no", strength * no / total, numbers),
        ]
    )


def choose(evidence: LinkedEvidence, choices: Sequence[str]) -> list[Candidate]:
    """Ranks choices by their overlap with relevant statements; words that fewer choices have count more.

    A choice may have faint support by its spelling alone (`magnetic` and `magnets`). Others are left out.
    """
    question_stems = set(evidence.asked.form.stems)
    choice_stems = [set(content_stems(choice)) for choice in choices]
    frequency = Counter(chain.from_iterable(choice_stems))
    runs_of_prompt = _runs(question_stems)
    for entry in evidence.entries:
        runs_of_prompt |= _runs(entry.statement.stems)

    ranking: list[Candidate] = []
    for choice, stems_of_choice in zip(choices, choice_stems, strict=True):
        # Sorted: a sum of floats depends on its order, which differs between processes for a set.
        weights = {part: 1.0 / frequency[part] for part in sorted(stems_of_choice)}
        best_chain: tuple[int, ...] = ()
        support = 0.0
        repeated = 0.0
        for entry, (strength, numbers) in zip(evidence.entries, evidence.chains, strict=True):
            # The choice's words count a little even where the statement is not about the question.
            overlap = _overlap(weights, entry.statement.stems)
            value = overlap * (0.3 + 0.7 * strength) * entry.statement.trust
            repeated += value
            if value > support:
                best_chain = numbers
                support = value

        runs = _runs(stems_of_choice)
        faint = FAINT * len(runs & runs_of_prompt) / (len(runs) or 1)
        hinted = HINTED * _overlap(weights, question_stems)
        value = min(1.0, support + REPEATED * (repeated - support) + hinted + faint)
        if value > 0:
            ranking.append(Candidate(normal_name(choice), choice, value, best_chain))
    return ranked(ranking)


def _overlap(weights: dict[str, float], text_stems: Collection[str]) -> float:
    """Returns the share of the weights whose stems are in a text."""
    total = sum(weights.values()) or 1.0
    return sum(weight for part, weight in weights.items() if part in text_stems) / total


def _runs(text_stems: Iterable[str]) -> set[str]:
    """Finds runs of letters within stems, without pairs of them."""
    runs: set[str] = set()
    for part in text_stems:
        if " " not in part:
            for start in range(len(part) - RUN + 1):
                runs.add(part[start : start + RUN])
    return runs
