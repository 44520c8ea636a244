"""Finds candidate answers: phrases of statements that together cover a question, comparisons, yes or no, choices."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from actors.reader.english import (
    COLOURS,
    KINDS,
    MONTHS,
    NUMBERS,
    PEOPLE,
    PLACES,
    STOP_WORDS,
    YEAR,
    content_stems,
    name_spans,
    normal_name,
    stem,
    words,
)
from actors.reader.question import AnswerType, QuestionForm, question_form
from actors.reader.statements import Statement

_DATE = re.compile(rf"\b(?:\d{{1,2}} )?(?:{MONTHS})(?: \d{{1,2}},)?(?: \d{{4}})?\b")
_COUNTED = re.compile(rf"\b(?:\d[\d,.]*\d|\d|{'|'.join(NUMBERS)})\b", re.IGNORECASE)
_QUANTITY = re.compile(r"(?:[$£€]\s?)?\b\d[\d,.]*(?:[- ]?(?:%|[a-zµ]+))?", re.IGNORECASE)
_QUOTE = re.compile(r"['‘“](.{1,60}?)['’”](?=\W|$)")
_AFTER_SAYS = re.compile(
    r"\b(?:reads?|reading|says?|saying|words?|lettering|text|letters)\s+(?:of\s+)?([A-Z0-9][\w ]*)"
)
_CAPITALS = re.compile(r"\b[A-Z][A-Z0-9]+(?: [A-Z0-9]+)*\b")
_COLOUR = re.compile(rf"\b(?:{'|'.join(sorted(COLOURS))})\b", re.IGNORECASE)
_APPOSITION = re.compile(
    r",\s+(?:its|his|her|their|the|an?)\s+([\w\- ]{2,40}?)(?=[,.;]|\s+(?:of|who|that|which|from|in|at)\b)"
)
_WORD_SPANS = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_KIND_STEMS = {stem(kind): frozenset(map(stem, members.split())) for kind, members in KINDS.items()}
_PLACE_CUES = frozenset(("in", "at", "from", "near", "to", "on"))
_PEOPLE_STEMS = frozenset(map(stem, PEOPLE))
_PLACE_STEMS = frozenset(map(stem, PLACES))


@dataclass(frozen=True, slots=True)
class Phrase:
    """Possible answer. `fit` is in (0, 1]; `key` is equal for mentions of the same answer."""

    text: str
    key: str
    fit: float


def phrases(
    statement: Statement, form: QuestionForm, kinds: Mapping[str, frozenset[str]], weights: Mapping[str, float]
) -> list[Phrase]:
    """Returns every phrase of the statement that could answer the question, once, with its best fit.

    kinds: stems of the kinds of each normal name; weights: of the question's stems.
    """
    fitting = [] if statement.cells else _from_text(statement, form, kinds, weights)
    for header, value in statement.cells:
        stems, fit = {stem(word) for word in words(header)}, 0.0
        # Best where the header is the noun asked for, then where it is of its kind, then by the value alone.
        if form.head and form.head[-1] in stems:
            fit = 1.0
        elif form.answer_type in (AnswerType.PERSON, AnswerType.PLACE):
            named = stems & (_PEOPLE_STEMS if form.answer_type is AnswerType.PERSON else _PLACE_STEMS)
            fit = 0.9 if named else 0.8 * _name_fit(value, form, kinds)
        elif form.answer_type is AnswerType.TIME:
            fit = 0.9 if YEAR.search(value) or _DATE.search(value) else 0.0
        elif form.answer_type in (AnswerType.COUNT, AnswerType.QUANTITY):
            fit = (0.9 if stems & {*form.head, *form.focus} else 0.3) if re.search(r"\d", value) else 0.0
        elif form.answer_type is AnswerType.COLOUR:
            fit = 0.9 if _COLOUR.search(value) else 0.0
        elif form.answer_type is AnswerType.THING:
            named = stems & set(form.head) if form.head else stems & form.focus
            fit = 0.9 if named else 0.15 if value[:1].isdigit() else 0.8 * _name_fit(value, form, kinds)
        fitting.append((value, fit))
    if statement.title and form.answer_type in (AnswerType.THING, AnswerType.PERSON, AnswerType.PLACE):
        # A table's title is `page - table`. The page may be the answer, but less likely than a passage's title.
        title = statement.title.split(" - ")[0] if statement.cells else statement.title
        fitting.append((title, (0.6 if statement.cells else 0.9) * _name_fit(title, form, kinds)))
    best: dict[str, Phrase] = {}
    question = f" {' '.join(words(form.text))} "
    for text, fit in fitting:
        key = normal_name(text)
        # A name in the question is not its answer.
        if key and fit > 0 and f" {key} " not in question and (key not in best or best[key].fit < fit):
            best[key] = Phrase(text.strip(" .,;"), key, min(1.0, fit))
    return list(best.values())


def kinds_of(statements: list[Statement]) -> dict[str, frozenset[str]]:
    """Finds the kinds of each name. They are a column's header, the nouns after `is a`, the noun before it."""
    kinds: dict[str, set[str]] = {}
    for statement in statements:
        for header, value in statement.cells:
            kinds.setdefault(normal_name(value), set()).update(stem(word) for word in words(header))
        # The patterns below are for passages.
        if statement.seen or statement.cells:
            continue
        subject = re.match(
            r"^(.{2,70}?)\s+(?:\([^)]*\)\s+)?(?:is|was|are|were)\s+(?:an?|the|one of the)\s+([^.,;]+)", statement.text
        )
        if subject:
            noun_group = re.split(r"\b(?:that|which|who|in|by|from|of|for|at|on|with)\b", subject[2])[0]
            for name in {normal_name(subject[1]), normal_name(statement.title)}:
                kinds.setdefault(name, set()).update(stem(word) for word in words(noun_group))
        for name, start, end in name_spans(statement.text):
            # Only the word right before the name counts; 24 characters hold it.
            before = words(statement.text[max(0, start - 24) : start])[-1:]
            if before and before[0] not in STOP_WORDS:
                kinds.setdefault(normal_name(name), set()).add(stem(before[0]))
            apposition = _APPOSITION.match(statement.text[end:])
            if apposition:
                kinds.setdefault(normal_name(name), set()).update(stem(word) for word in words(apposition[1]))
    return {name: frozenset(stems) for name, stems in kinds.items()}


def _from_text(
    statement: Statement, form: QuestionForm, kinds: Mapping[str, frozenset[str]], weights: Mapping[str, float]
) -> list[tuple[str, float]]:
    text = statement.text
    spans: list[tuple[str, int, int, float]] = []
    if form.answer_type is AnswerType.TIME:
        spans = [(m[0], m.start(), m.end(), 1.0 if YEAR.search(m[0]) else 0.7) for m in _DATE.finditer(text)]
        # `Which year` asks for the year of a date, and a text without a full date may have a year.
        if "year" in form.head or not spans:
            spans = [(m[0], m.start(), m.end(), 1.0) for m in YEAR.finditer(text)]
    elif form.answer_type in (AnswerType.COUNT, AnswerType.QUANTITY):
        pattern = _COUNTED if form.answer_type is AnswerType.COUNT else _QUANTITY
        for m in pattern.finditer(text):
            # The words after a number should name the counted thing.
            after = [stem(word) for word in words(text[m.end() :][:40])[:4]]
            fit = 1.0 if form.head and form.head[-1] in after else 0.7 if set(after) & form.focus else 0.25
            spans.append((m[0], m.start(), m.end(), fit))
    elif form.answer_type is AnswerType.COLOUR:
        spans = [(m[0], m.start(), m.end(), 1.0) for m in _COLOUR.finditer(text)]
    elif form.answer_type is AnswerType.LETTERING:
        # From the surest sign of written text to the weakest.
        spans = [(m[1], m.start(1), m.end(1), 1.0) for m in _QUOTE.finditer(text)]
        spans = spans or [(m[1], m.start(1), m.end(1), 0.9) for m in _AFTER_SAYS.finditer(text)]
        spans = spans or [(m[0], m.start(), m.end(), 0.6) for m in _CAPITALS.finditer(text)]
    elif form.answer_type in (AnswerType.THING, AnswerType.PERSON, AnswerType.PLACE):
        stated = 0.85 if form.head and form.head[-1] in {stem(word) for word in words(text)} else 0.0
        for name, start, end in name_spans(text):  # "the boat of X is called Y": X or Y is a boat
            fit = _name_fit(name, form, kinds)
            last = words(text[max(0, start - 12) : start])[-1:]
            # Places follow `in` or `from`, doers follow `by`.
            if form.answer_type is AnswerType.PLACE and last and last[0] in _PLACE_CUES:
                fit = max(fit, 0.85)
            elif form.answer_type is AnswerType.PERSON and last == ["by"]:
                fit = max(fit, 0.75)
            # A statement about the title does not make the title the thing asked for.
            fit = fit if normal_name(name) == normal_name(statement.title) else max(fit, stated)
            spans.append((name, start, end, fit))
        if form.answer_type is AnswerType.THING:
            spans += _things(text, form)
    if not spans:
        return []
    places = [(m.start(), weights[s]) for m in _WORD_SPANS.finditer(text) if (s := stem(m[0].lower())) in weights]
    before = form.answer_type in (AnswerType.COLOUR, AnswerType.COUNT)  # "three red stars": they precede their noun
    near = []
    for _, start, end, _ in spans:
        distances = ((p - end if p >= end else (start - p) * (3 if before else 1), weight) for p, weight in places)
        # 4 keeps an adjacent word from outweighing all others.
        near.append(sum(weight / (4 + max(0, distance)) for distance, weight in distances))
    top = max(near) or 1.0
    return [(name, fit * (0.6 + 0.4 * n / top)) for (name, _, _, fit), n in zip(spans, near, strict=True)]


def _name_fit(name: str, form: QuestionForm, kinds: Mapping[str, frozenset[str]]) -> float:
    """Fits a name by its kind. 1 where the evidence states the kind asked for, less where it is unknown."""
    key = normal_name(name)
    known = kinds.get(key, frozenset())
    fitting: frozenset[str] = frozenset(form.head[-1:])
    if form.answer_type is AnswerType.PERSON:
        fitting |= _PEOPLE_STEMS
        looks = 2 <= len(key.split()) <= 4 and not re.search(r"\d| of | the ", key)
    elif form.answer_type is AnswerType.PLACE:
        fitting |= _PLACE_STEMS
        looks = len(key.split()) <= 3
    else:
        looks = True
    # Without a known kind, the shape of the name decides: people have two to four words, places at most three.
    if known & fitting:
        return 1.0
    return (0.6 if looks else 0.25) if not known else 0.35 if looks else 0.15


def _things(text: str, form: QuestionForm) -> list[tuple[str, int, int, float]]:
    """Finds nouns of the kind asked for, and noun groups for questions such as "what is X doing"."""
    members = _KIND_STEMS.get(form.head[-1], frozenset()) if form.head else frozenset()
    spans: list[tuple[str, int, int, float]] = []
    group: list[re.Match[str]] = []
    # None ends the last group.
    for match in [*_WORD_SPANS.finditer(text), None]:
        word = match[0].lower() if match else ""
        joined = group and match and text[group[-1].end() : match.start()] == " "
        if group and (not joined or word in STOP_WORDS):
            last = group[-1]
            # Capitalised groups are names, which `name_spans` finds.
            if not last[0][0].isupper():
                start, end = group[0].start(), last.end()
                spans.append((text[start:end], start, end, 0.1 if members else 0.4))
            group = []
        if match and word and word not in STOP_WORDS and word not in NUMBERS:
            if stem(word) in members:
                spans.append((match[0], match.start(), match.end(), 1.0))
            group.append(match)
    return spans


HOP_DISCOUNT = 0.92  # a statement that answers alone beats a chain that covers the same words
FOCUS_BONUS = 0.15  # share of a candidate's value that its statement earns by the main clause's words
LINK_LIMIT = 6  # sources; a name in more of them links unrelated statements
HOPS = 2  # shared names over which statements are linked
NEARLY = 0.93  # of the best answer's value, for another to be listed with it
PAIR_WEIGHT = 0.6  # a pair of neighbours repeats its two words, so it counts less


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
    kinds: Mapping[str, frozenset[str]]
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
    return WeightedQuestion(form, {part: weight / total for part, weight in raw.items()}, kinds_of(list(statements)))


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


_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COLOUR_STEMS = frozenset(map(stem, COLOURS))
_NEGATION = frozenset(("not", "never", "no", "without", "none"))
HINTED = 0.3  # weight of a choice's words in the question
REPEATED = 0.05  # weight of further statements for a choice, which may repeat the first
FAINT = 0.1  # weight of similar spelling: it only breaks ties


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
