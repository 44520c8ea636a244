"""Finds candidate answers, and the chains of statements that lead to them.

Candidates are phrases of statements that together cover a question, compared alternatives, yes or no, or choices.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from actors.reader.english import COLOURS, NUMBERS, YEAR, content_stems, name_spans, normal_name, stem, words
from actors.reader.phrases import Kinds, Phrase, kinds_of, phrases
from actors.reader.question import AnswerType, QuestionForm, question_form
from actors.reader.statements import Statement

HOP_DISCOUNT = 0.92  # a statement that answers alone beats a chain that covers the same words
FOCUS_BONUS = 0.15  # share of a candidate's value that its statement earns by the main clause's words
LINK_LIMIT = 6  # sources; a name in more of them links unrelated statements
HOPS = 2  # shared names over which statements are linked
NEARLY = 0.93  # of the best answer's value, for another to be listed with it
PAIR_WEIGHT = 0.6  # a pair of neighbours repeats its two words, so it counts less
HINTED = 0.3  # weight of a choice's words in the question
REPEATED = 0.05  # weight of further statements for a choice, which may repeat the first
FAINT = 0.1  # weight of similar spelling: it only breaks ties

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COLOUR_STEMS = frozenset(map(stem, COLOURS))
_NEGATION = frozenset(("not", "never", "no", "without", "none"))


@dataclass(frozen=True, slots=True)
class Entry:
    """Statement in relation to a question. `mask` has a bit for each stem of the question that it contains."""

    statement: Statement
    mask: int
    focus: float
    phrases: tuple[Phrase, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Candidate answer, with its value in [0, 1]. `chain`: statements that lead to it, its own first."""

    text: str
    key: str
    value: float
    chain: tuple[int, ...]


@dataclass(slots=True)
class WeightedQuestion:
    """Question with the weights of its stems (they sum to 1)."""

    form: QuestionForm
    weights: dict[str, float]
    kinds: Kinds
    _covered: dict[int, float] = field(default_factory=dict)

    def entry(self, statement: Statement) -> Entry:
        """Relates a statement to the question."""
        # Bits are in the order of the weights, as `covered` expects.
        stems = set(statement.stems)
        mask = sum(1 << bit for bit, part in enumerate(self.weights) if part in stems)
        focused = [(part, weight) for part, weight in self.weights.items() if part in self.form.focus]
        focus = sum(weight for part, weight in focused if part in stems)
        whole = sum(weight for _, weight in focused) or 1.0
        return Entry(statement, mask, focus / whole, tuple(phrases(statement, self.form, self.kinds, self.weights)))

    def covered(self, mask: int) -> float:
        """Returns the weight of the question's stems in a mask."""
        if mask not in self._covered:
            self._covered[mask] = sum(w for bit, w in enumerate(self.weights.values()) if mask >> bit & 1)
        return self._covered[mask]


def weigh_question(form: QuestionForm, statements: Sequence[Statement]) -> WeightedQuestion:
    """Weighs stems by inverse document frequency within the prompt. A word in no statement counts half."""
    frequency = Counter(part for statement in statements for part in statement.stems)
    raw = {}
    for part in form.stems:
        weight = math.log(1 + (len(statements) + 1) / (1 + frequency[part]))
        pair = PAIR_WEIGHT if " " in part else 1.0
        raw[part] = pair * weight if frequency[part] else 0.0 if " " in part else weight / 2
    total = sum(raw.values()) or 1.0
    return WeightedQuestion(form, {part: weight / total for part, weight in raw.items()}, kinds_of(statements))


Chain = tuple[float, tuple[int, ...]]  # its strength, and the numbers of its entries


def chains(asked: WeightedQuestion, entries: Sequence[Entry]) -> list[Chain]:
    """Returns the best chain that starts in each entry.

    A hop follows a name that two statements share and the question does not mention (the bridge). The strength is

        covered weight of the question * least trust of a statement * HOP_DISCOUNT ** hops
    """
    by_name: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        for name, _ in entry.statement.names:
            by_name.setdefault(name, []).append(i)
    bridges = {
        name: where
        for name, where in by_name.items()
        if len(where) > 1
        and name not in asked.form.names
        and len({entries[i].statement.source for i in where}) <= LINK_LIMIT
    }
    best_of: list[tuple[float, int, float, tuple[int, ...]]] = [
        (asked.covered(e.mask) * e.statement.trust, e.mask, e.statement.trust, (i,)) for i, e in enumerate(entries)
    ]
    for _ in range(HOPS):
        # A copy: every hop of a round starts from the chains of the previous round.
        longer = list(best_of)
        for i, entry in enumerate(entries):
            for name, _ in entry.statement.names:
                for j in bridges.get(name, ()):
                    _, mask, trust, chain = best_of[j]
                    one, other = entry.statement, entries[j].statement
                    same_table = one.cells and other.cells and one.title == other.title
                    # No hop that returns, covers nothing new, or leads to another row of the same table.
                    if i in chain or mask | entry.mask == entry.mask or same_table:
                        continue
                    joint = mask | entry.mask
                    least = min(trust, entry.statement.trust)
                    strength = asked.covered(joint) * least * HOP_DISCOUNT ** len(chain)
                    if strength > longer[i][0]:
                        longer[i] = (strength, joint, least, (i, *chain))
        best_of = longer
    return [(strength, chain) for strength, _, _, chain in best_of]


def best_chain(reached: Sequence[Chain]) -> Chain:
    """Returns the strongest chain. It has no statement where nothing is covered."""
    strength, chain = max(reached, key=lambda reach: reach[0], default=(0.0, ()))
    return strength, chain if strength > 0 else ()


def candidates(entries: Sequence[Entry], reached: Sequence[Chain]) -> list[Candidate]:
    """Returns the candidates of all entries, each answer once with its best value, best first."""
    best: dict[str, Candidate] = {}
    for entry, (strength, chain) in zip(entries, reached, strict=True):
        for phrase in entry.phrases:
            # A badly fitting phrase of the right statement is still a candidate.
            fit = 0.45 + 0.55 * phrase.fit
            value = strength * fit * (1 - FOCUS_BONUS + FOCUS_BONUS * entry.focus)
            if value > 0 and (phrase.key not in best or best[phrase.key].value < value):
                best[phrase.key] = Candidate(phrase.text, phrase.key, value, chain)
    return ranked(best.values())


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sorts candidates, best first, and equal ones by key."""
    return sorted(candidates, key=lambda f: (-f.value, f.key))


def compare_options(asked: WeightedQuestion, entries: Sequence[Entry]) -> list[Candidate]:
    """Compares two alternatives. Resolves both to a name in the evidence, finds a number for each, and orders them."""
    # Alternatives without a word such as `larger` are compared by their years.
    group, smallest = asked.form.order or ("time", True)
    values: list[tuple[float, str, float, tuple[int, ...]]] = []
    for name, sure, chain in [_resolve(asked, entries, option) for option in asked.form.options]:
        if number := _number_of(asked, entries, normal_name(name), group):
            values.append((number[0], name, sure * number[1], (number[2], *chain)))
    # A tie, or too few numbers: each stays possible, the first named a little more.
    if len(values) < 2 or values[0][0] == values[1][0]:
        found = [(name, 0.3 * sure * (1 - 0.1 * i), chain) for i, (_, name, sure, chain) in enumerate(values)]
    else:
        values.sort(key=lambda v: v[0], reverse=not smallest)
        chain = tuple(dict.fromkeys((*values[0][3], *values[1][3])))
        # A comparison is as certain as its less certain number.
        sure = min(values[0][2], values[1][2])
        found = [(values[0][1], sure, chain), (values[1][1], 0.6 * sure, chain)]
    return [Candidate(name, normal_name(name), value, chain) for name, value, chain in found]


def _resolve(asked: WeightedQuestion, entries: Sequence[Entry], option: str) -> tuple[str, float, tuple[int, ...]]:
    spelt = [option, *(name for name, _, _ in name_spans(option) if len(words(option)) - len(words(name)) <= 2)]
    for name in spelt:  # "Night River" or "the film Night River"
        for i, entry in enumerate(entries):
            if any(normal_name(name) == known for known, _ in entry.statement.names):
                return name, 1.0, (i,)
    form = question_form(option)
    # Words without weight in the whole question count a little.
    weights = {part: asked.weights.get(part, 0.05) for part in form.stems}
    total = sum(weights.values()) or 1.0
    inner = WeightedQuestion(form, {part: weight / total for part, weight in weights.items()}, asked.kinds)
    described = [inner.entry(entry.statement) for entry in entries]
    ranking = candidates(described, chains(inner, described))
    if not ranking:
        return option, 0.2, ()
    return ranking[0].text, ranking[0].value, ranking[0].chain


def _number_of(
    asked: WeightedQuestion, entries: Sequence[Entry], key: str, group: str
) -> tuple[float, float, int] | None:
    """Finds the year or number in the statements about a name: (number, certainty, entry)."""
    best: tuple[float, float, int] | None = None
    question_stems = set(asked.form.stems)
    for i, entry in enumerate(entries):
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
            sure = statement.trust * (0.5 + 0.25 * bool(own) + 0.15 * named + 0.1 * asked.covered(entry.mask))
            if best is None or sure > best[1]:
                best = (float(match[0].replace(",", "")), sure, i)
    return best


def decide_yes_or_no(asked: WeightedQuestion, entries: Sequence[Entry], reached: Sequence[Chain]) -> list[Candidate]:
    """Answers yes if a chain covers (nearly) the whole question. No if it is about the subject and differs."""
    strength, chain = best_chain(reached)
    if strength < 0.3:
        return []
    stated = {part for i in chain for part in entries[i].statement.stems}
    missing = [s for s in asked.form.stems if s not in stated and asked.weights[s] > 0]
    lacking = sum(asked.weights[s] for s in missing)
    named = {stem(word) for name in asked.form.names for word in name.split()}
    # A colour, number or name that the chain lacks is assumed to differ there.
    contradicted = any(s in _COLOUR_STEMS or s in NUMBERS or s in named or s.isdigit() for s in missing)
    told = {word for i in chain for word in words(entries[i].statement.text)}
    negated = bool(_NEGATION & told - set(words(asked.form.text)))
    yes = 1 - lacking if not contradicted else 0.4 * (1 - lacking)
    no = lacking * 1.6 + 0.35 * contradicted + 0.3 * negated
    total = yes + no or 1.0
    shares = {"yes": strength * yes / total, "no": strength * no / total}
    return ranked(Candidate(word, word, value, chain) for word, value in shares.items())


def choose(
    asked: WeightedQuestion, entries: Sequence[Entry], reached: Sequence[Chain], choices: Sequence[str]
) -> list[Candidate]:
    """Ranks choices by their overlap with relevant statements; words that fewer choices have count more.

    A choice may have faint support by its spelling alone (`magnetic` and `magnets`). Others are left out.
    """
    own = [set(content_stems(choice)) for choice in choices]
    shares = Counter(stem for stems in own for stem in stems)
    question_stems = set(asked.form.stems)
    stated = [set(entry.statement.stems) for entry in entries]
    spelt = _runs(" ".join([asked.form.text, *(f"{e.statement.title} {e.statement.text}" for e in entries)]))
    ranking = []
    for choice, stems in zip(choices, own, strict=True):
        # Sorted: a sum of floats depends on its order, which differs between processes for a set.
        rare = {stem: 1.0 / shares[stem] for stem in sorted(stems)}
        total = sum(rare.values()) or 1.0
        best: tuple[int, ...] = ()
        support = repeated = 0.0
        for entry, statement_stems, (strength, chain) in zip(entries, stated, reached, strict=True):
            overlap = sum(weight for stem, weight in rare.items() if stem in statement_stems) / total
            # The choice's words count a little even where the statement is not about the question.
            value = overlap * (0.3 + 0.7 * strength) * entry.statement.trust
            repeated += value
            if value > support:
                best, support = chain, value
        hinted = sum(weight for stem, weight in rare.items() if stem in question_stems) / total
        parts = _runs(choice)
        faint = FAINT * len(parts & spelt) / (len(parts) or 1)
        value = min(1.0, support + REPEATED * (repeated - support) + HINTED * hinted + faint)
        ranking.append(Candidate(choice, normal_name(choice), value, best))
    return ranked(f for f in ranking if f.value > 0)


def _runs(text: str) -> set[str]:
    """Finds runs of four letters within content stems."""
    return {stem[i : i + 4] for stem in set(content_stems(text)) for i in range(len(stem) - 3)}


def answers(
    asked: WeightedQuestion, choices: Sequence[str], entries: Sequence[Entry], reached: Sequence[Chain]
) -> Sequence[Candidate]:
    """Finds answers of the kind asked for. A list joins all that are nearly as good as the best."""
    if choices:
        return choose(asked, entries, reached, choices)
    if asked.form.answer_type is AnswerType.YES_NO:
        return decide_yes_or_no(asked, entries, reached)
    if asked.form.answer_type is AnswerType.OPTION:
        return compare_options(asked, entries)
    ranking = candidates(entries, reached)
    listing = asked.form.several and asked.form.answer_type in (AnswerType.THING, AnswerType.PERSON, AnswerType.PLACE)
    together = [f for f in ranking if listing and f.value >= NEARLY * ranking[0].value]
    if len(together) < 2:
        return ranking
    text = ", ".join(f.text for f in together)
    chain = tuple(dict.fromkeys(i for f in together for i in f.chain))
    return [Candidate(text, normal_name(text), ranking[0].value, chain), *ranking[len(together) :]]
