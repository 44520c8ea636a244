"""Finds candidate answers: phrases of statements, compared alternatives, yes or no, choices."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from actors.reader.english import COLOURS, NUMBERS, YEAR, content_stems, name_spans, normal_name, stem, words
from actors.reader.linked_evidence import LinkedEvidence, WeightedQuestion
from actors.reader.question import AnswerType, question_form

FOCUS_BONUS = 0.15  # share of a candidate's value that its statement earns by the main clause's words
NEARLY = 0.93  # of the best answer's value, for another to be listed with it
HINTED = 0.3  # weight of a choice's words in the question
REPEATED = 0.05  # weight of further statements for a choice, which may repeat the first
FAINT = 0.1  # weight of similar spelling: it only breaks ties

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COLOUR_STEMS = frozenset(map(stem, COLOURS))
_NEGATION = frozenset(("not", "never", "no", "without", "none"))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Candidate answer, with its value in [0, 1]. `chain`: statements that lead to it, its own first."""

    text: str
    value: float
    chain: tuple[int, ...]

    @property
    def key(self) -> str:
        """Equal for mentions of the same answer."""
        return normal_name(self.text)


def candidates(evidence: LinkedEvidence) -> list[Candidate]:
    """Returns the phrases of all statements as candidates, each answer once with its best value, best first."""
    best: dict[str, Candidate] = {}
    for entry, (strength, chain) in zip(evidence.entries, evidence.chains, strict=True):
        for text, fit in entry.phrases:
            # A badly fitting phrase of the right statement is still a candidate.
            value = strength * (0.45 + 0.55 * fit) * (1 - FOCUS_BONUS + FOCUS_BONUS * entry.focus)
            candidate = Candidate(text, value, chain)
            if value > 0 and (candidate.key not in best or best[candidate.key].value < value):
                best[candidate.key] = candidate
    return ranked(best.values())


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sorts candidates, best first, and equal ones by key."""
    return sorted(candidates, key=lambda f: (-f.value, f.key))


def compare_options(evidence: LinkedEvidence) -> list[Candidate]:
    """Compares two alternatives. Resolves both to a name in the evidence, finds a number for each, and orders them."""
    form = evidence.asked.form
    # Alternatives without a word such as `larger` are compared by their years.
    group, smallest = form.order or ("time", True)
    values: list[tuple[float, Candidate]] = []
    for option in form.options:
        named = _resolve(evidence, option)
        if found := _number_of(evidence, named.key, group):
            number, sure, entry = found
            values.append((number, Candidate(named.text, named.value * sure, (entry, *named.chain))))
    # A tie, or too few numbers: each stays possible, the first named a little more.
    if len(values) < 2 or values[0][0] == values[1][0]:
        return [replace(named, value=0.3 * named.value * (1 - 0.1 * i)) for i, (_, named) in enumerate(values)]
    (_, first), (_, second) = sorted(values, key=lambda v: v[0], reverse=not smallest)
    chain = tuple(dict.fromkeys((*first.chain, *second.chain)))
    # A comparison is as certain as its less certain number.
    sure = min(first.value, second.value)
    return [Candidate(first.text, sure, chain), Candidate(second.text, 0.6 * sure, chain)]


def _resolve(evidence: LinkedEvidence, option: str) -> Candidate:
    """Finds the name that an alternative has in the evidence."""
    spelt = [option, *(name for name, _, _ in name_spans(option) if len(words(option)) - len(words(name)) <= 2)]
    for name in spelt:  # "Night River" or "the film Night River"
        for i, statement in enumerate(evidence.statements):
            if any(normal_name(name) == known for known, _ in statement.names):
                return Candidate(name, 1.0, (i,))
    form = question_form(option)
    # Words without weight in the whole question count a little.
    weights = {part: evidence.asked.weights.get(part, 0.05) for part in form.stems}
    total = sum(weights.values()) or 1.0
    inner = WeightedQuestion(form, {part: weight / total for part, weight in weights.items()}, evidence.asked.kinds)
    ranking = candidates(LinkedEvidence(inner, [inner.entry(statement) for statement in evidence.statements]))
    return ranking[0] if ranking else Candidate(option, 0.2, ())


def _number_of(evidence: LinkedEvidence, key: str, group: str) -> tuple[float, float, int] | None:
    """Finds the year or number in the statements about a name: (number, certainty, entry)."""
    best: tuple[float, float, int] | None = None
    question_stems = set(evidence.asked.form.stems)
    for i, entry in enumerate(evidence.entries):
        statement = entry.statement
        if not any(key == name for name, _ in statement.names):
            continue
        options = [(header, value) for header, value in statement.cells] or [(statement.text, statement.text)]
        for header, value in options:
            # In running text a year is hardly the compared number; a cell contains nothing else.
            plain = value if statement.cells else YEAR.sub("", value)
            match = YEAR.search(value) if group == "time" else _NUMBER.search(plain)
            if not match or key == normal_name(value):
                continue
            named = bool(question_stems & {stem(word) for word in words(header)}) if statement.cells else False
            own = statement.cells or normal_name(statement.title) == key
            # More certain on the name's page or in its row, under a header in the question, and near the question.
            sure = statement.trust * (0.5 + 0.25 * bool(own) + 0.15 * named + 0.1 * evidence.asked.covered(entry.mask))
            if best is None or sure > best[1]:
                best = (float(match[0].replace(",", "")), sure, i)
    return best


def decide_yes_or_no(evidence: LinkedEvidence) -> list[Candidate]:
    """Answers yes if a chain covers (nearly) the whole question. No if it is about the subject and differs."""
    asked, (strength, chain) = evidence.asked, evidence.best_chain
    if strength < 0.3:
        return []
    linked = [evidence.entries[i].statement for i in chain]
    stated = {part for statement in linked for part in statement.stems}
    missing = [s for s in asked.form.stems if s not in stated and asked.weights[s] > 0]
    lacking = sum(asked.weights[s] for s in missing)
    named = {stem(word) for name in asked.form.names for word in name.split()}
    # A colour, number or name that the chain lacks is assumed to differ there.
    contradicted = any(s in _COLOUR_STEMS or s in NUMBERS or s in named or s.isdigit() for s in missing)
    told = {word for statement in linked for word in words(statement.text)}
    negated = bool(_NEGATION & told - set(words(asked.form.text)))
    yes = 1 - lacking if not contradicted else 0.4 * (1 - lacking)
    no = lacking * 1.6 + 0.35 * contradicted + 0.3 * negated
    total = yes + no or 1.0
    shares = {"yes": strength * yes / total, "no": strength * no / total}
    return ranked(Candidate(word, value, chain) for word, value in shares.items())


def choose(evidence: LinkedEvidence, choices: Sequence[str]) -> list[Candidate]:
    """Ranks choices by their overlap with relevant statements; words that fewer choices have count more.

    A choice may have faint support by its spelling alone (`magnetic` and `magnets`). Others are left out.
    """
    own = [set(content_stems(choice)) for choice in choices]
    shares = Counter(stem for stems in own for stem in stems)
    statements, form = evidence.statements, evidence.asked.form
    question_stems = set(form.stems)
    stated = [set(statement.stems) for statement in statements]
    spelt = _runs(" ".join([form.text, *(f"{statement.title} {statement.text}" for statement in statements)]))
    ranking = []
    for choice, stems in zip(choices, own, strict=True):
        # Sorted: a sum of floats depends on its order, which differs between processes for a set.
        rare = {stem: 1.0 / shares[stem] for stem in sorted(stems)}
        total = sum(rare.values()) or 1.0
        best: tuple[int, ...] = ()
        support = repeated = 0.0
        for statement, statement_stems, (strength, chain) in zip(statements, stated, evidence.chains, strict=True):
            overlap = sum(weight for stem, weight in rare.items() if stem in statement_stems) / total
            # The choice's words count a little even where the statement is not about the question.
            value = overlap * (0.3 + 0.7 * strength) * statement.trust
            repeated += value
            if value > support:
                best, support = chain, value
        hinted = sum(weight for stem, weight in rare.items() if stem in question_stems) / total
        parts = _runs(choice)
        faint = FAINT * len(parts & spelt) / (len(parts) or 1)
        value = min(1.0, support + REPEATED * (repeated - support) + HINTED * hinted + faint)
        ranking.append(Candidate(choice, value, best))
    return ranked(f for f in ranking if f.value > 0)


def _runs(text: str) -> set[str]:
    """Finds runs of four letters within content stems."""
    return {stem[i : i + 4] for stem in set(content_stems(text)) for i in range(len(stem) - 3)}


def answers(evidence: LinkedEvidence, choices: Sequence[str]) -> Sequence[Candidate]:
    """Finds answers of the kind asked for. A list joins all that are nearly as good as the best."""
    form = evidence.asked.form
    if choices:
        return choose(evidence, choices)
    if form.answer_type is AnswerType.YES_NO:
        return decide_yes_or_no(evidence)
    if form.answer_type is AnswerType.OPTION:
        return compare_options(evidence)
    ranking = candidates(evidence)
    listing = form.several and form.answer_type in (AnswerType.THING, AnswerType.PERSON, AnswerType.PLACE)
    together = [f for f in ranking if listing and f.value >= NEARLY * ranking[0].value]
    if len(together) < 2:
        return ranking
    text = ", ".join(f.text for f in together)
    chain = tuple(dict.fromkeys(i for f in together for i in f.chain))
    return [Candidate(text, ranking[0].value, chain), *ranking[len(together) :]]
