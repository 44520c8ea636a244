"""Finds the phrases of a statement that could answer a question, and how well each fits."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from actors.messages import UNTITLED
from actors.prompting.answer_value import is_answer
from actors.reader.english import (
    COLOURS,
    KINDS,
    MONTHS,
    NUMBERS,
    PEOPLE,
    PLACES,
    STOP_WORDS,
    YEAR,
    name_spans,
    normal_name,
    stem,
    stems,
    words,
)
from actors.reader.question import AnswerType, QuestionForm
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
_SUBJECT = re.compile(r"^(.{2,70}?)\s+(?:\([^)]*\)\s+)?(?:is|was|are|were)\s+(?:an?|the|one of the)\s+([^.,;]+)")
_NOUN_GROUP_END = re.compile(r"\b(?:that|which|who|in|by|from|of|for|at|on|with)\b")
_NO_PERSON = re.compile(r"\d| of | the ")
_WORD_SPANS = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_KIND_STEMS = {stem(kind): frozenset(map(stem, members.split())) for kind, members in KINDS.items()}
_PLACE_CUES = frozenset(("in", "at", "from", "near", "to", "on"))
_STEMS_OF = {AnswerType.PERSON: frozenset(map(stem, PEOPLE)), AnswerType.PLACE: frozenset(map(stem, PLACES))}

NEAR = 4  # characters added to a distance; keeps an adjacent word from outweighing all others
BEFORE = 24  # characters before a name that hold the word before it
PREPOSITION = 12  # characters before a name that hold a preposition

Span = tuple[int, int, float]  # start and end in a statement's text, and its fit
Kinds = Mapping[str, frozenset[str]]  # stems of the kinds of each normal name


class Phrase(NamedTuple):
    """Words of a statement that could answer a question, with their fit in (0, 1].

    key: equal for mentions of the same answer.
    """

    key: str
    text: str
    fit: float


def phrases(statement: Statement, form: QuestionForm, kinds: Kinds, weights: Mapping[str, float]) -> list[Phrase]:
    """Returns every phrase of the statement that could answer the question, once, with its best fit.

    weights: of the question's stems.
    """
    if statement.cells:
        fits = [(value, _cell_fit(header, value, form, kinds)) for header, value in statement.cells]
    else:
        fits = _from_text(statement, form, kinds, weights)

    title = statement.title
    if title and title not in UNTITLED and form.answer_type.is_name:
        share = 0.9
        if statement.cells:
            # A table's title is `page - table`. The page may be the answer, but less likely than a passage's title.
            title = title.split(" - ")[0]
            share = 0.6
        fits.append((title, share * _name_fit(title, form, kinds)))

    best: dict[str, Phrase] = {}
    for text, fit in fits:
        key = normal_name(text)
        is_better = key not in best or best[key].fit < fit
        text = text.strip(" .,;")
        # A name in the question is not its answer. Words in the middle of a sentence would be no answer to those who
        # read the reply.
        if key and fit > 0 and is_better and not form.mentions(key) and is_answer(text):
            best[key] = Phrase(key, text, min(1.0, fit))
    return list(best.values())


def kinds_of(statements: Sequence[Statement]) -> Kinds:
    """Finds the kinds of each name. They are a column's header, the nouns after `is a`, the noun before it."""
    kinds: dict[str, set[str]] = {}

    def add(name: str, text: str) -> None:
        kinds.setdefault(normal_name(name), set()).update(stems(text))

    for statement in statements:
        text = statement.text
        for header, value in statement.cells:
            add(value, header)
        # The patterns below are for passages.
        if statement.seen or statement.cells:
            continue

        subject = _SUBJECT.match(text)
        if subject:
            noun_group = _NOUN_GROUP_END.split(subject[2])[0]
            add(subject[1], noun_group)
            add(statement.title, noun_group)

        for name, start, end in name_spans(text):
            preceding = words(text[max(0, start - BEFORE) : start])[-1:]
            if STOP_WORDS.isdisjoint(preceding):
                add(name, " ".join(preceding))
            apposition = _APPOSITION.match(text[end:])
            if apposition:
                add(name, apposition[1])
    return {name: frozenset(stems) for name, stems in kinds.items()}


def _cell_fit(header: str, value: str, form: QuestionForm, kinds: Kinds) -> float:
    """Fits a cell: best where the header is the noun asked for, then where it is of its kind, then by the value."""
    header_stems = set(stems(header))
    if form.head and form.head[-1] in header_stems:
        return 1.0
    match form.answer_type:
        case AnswerType.PERSON | AnswerType.PLACE if header_stems & _STEMS_OF[form.answer_type]:
            return 0.9
        case AnswerType.TIME if YEAR.search(value) or _DATE.search(value):
            return 0.9
        case AnswerType.COLOUR if _COLOUR.search(value):
            return 0.9
        case AnswerType.COUNT | AnswerType.QUANTITY if any(map(str.isdecimal, value)):
            return 0.9 if header_stems & {*form.head, *form.focus} else 0.3
        case AnswerType.THING if header_stems & (set(form.head) or form.focus):
            return 0.9
        case AnswerType.THING if value[:1].isdigit():
            return 0.15
        case answer_type if answer_type.is_name:
            return 0.8 * _name_fit(value, form, kinds)
    return 0.0


def _from_text(
    statement: Statement, form: QuestionForm, kinds: Kinds, weights: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Finds phrases in running text. Those near the question's words fit better."""
    text = statement.text
    spans = _spans(statement, form, kinds)
    if not spans:
        return []

    weight_at: dict[int, float] = {}
    for word in _WORD_SPANS.finditer(text):
        weight = weights.get(stem(word[0].lower()))
        if weight is not None:
            weight_at[word.start()] = weight

    # "three red stars": counts and colours precede their noun.
    factor = 3 if form.answer_type in (AnswerType.COLOUR, AnswerType.COUNT) else 1
    nearness: list[float] = []
    for start, end, _ in spans:
        near = 0.0
        for place, weight in weight_at.items():
            distance = max(place - end, (start - place) * factor, 0)
            near += weight / (NEAR + distance)
        nearness.append(near)

    nearest = max(nearness) or 1.0
    fits: list[tuple[str, float]] = []
    for (start, end, fit), near in zip(spans, nearness, strict=True):
        fits.append((text[start:end], fit * (0.6 + 0.4 * near / nearest)))
    return fits


def _spans(statement: Statement, form: QuestionForm, kinds: Kinds) -> list[Span]:
    """Finds the phrases of the kind asked for in running text."""
    text = statement.text
    match form.answer_type:
        case AnswerType.TIME:
            # `Which year` asks for the year of a date, and a text without a full date may have a year.
            if "year" in form.head or not _DATE.search(text):
                return _matches(YEAR, text)
            dates: list[Span] = []
            for date in _DATE.finditer(text):
                fit = 1.0 if YEAR.search(date[0]) else 0.7
                dates.append((*date.span(), fit))
            return dates
        case AnswerType.COUNT:
            return list(_counted(_COUNTED, text, form))
        case AnswerType.QUANTITY:
            return list(_counted(_QUANTITY, text, form))
        case AnswerType.COLOUR:
            return _matches(_COLOUR, text)
        case AnswerType.LETTERING:
            # From the surest sign of written text to the weakest.
            return (
                _matches(_QUOTE, text, group=1)
                or _matches(_AFTER_SAYS, text, group=1, fit=0.9)
                or _matches(_CAPITALS, text, fit=0.6)
            )
        case AnswerType.THING:
            return [*_names(statement, form, kinds), *_things(text, form)]
        case AnswerType.PERSON | AnswerType.PLACE:
            return list(_names(statement, form, kinds))
    return []


def _matches(pattern: re.Pattern[str], text: str, group: int = 0, fit: float = 1.0) -> list[Span]:
    return [(*match.span(group), fit) for match in pattern.finditer(text)]


def _counted(pattern: re.Pattern[str], text: str, form: QuestionForm) -> Iterator[Span]:
    """Finds numbers. The words after a number should name the counted thing."""
    for number in pattern.finditer(text):
        following = stems(text[number.end() :][:40])[:4]
        fit = 0.25
        if form.head and form.head[-1] in following:
            fit = 1.0
        elif not form.focus.isdisjoint(following):
            fit = 0.7
        yield (*number.span(), fit)


def _names(statement: Statement, form: QuestionForm, kinds: Kinds) -> Iterator[Span]:
    """Finds names. "the boat of X is called Y": X or Y is a boat."""
    text = statement.text
    least_fit = 0.0
    if form.head and form.head[-1] in stems(text):
        least_fit = 0.85
    title = normal_name(statement.title)
    for name, start, end in name_spans(text):
        fit = _name_fit(name, form, kinds)
        preceding = words(text[max(0, start - PREPOSITION) : start])[-1:]

        # Places follow `in` or `from`, doers follow `by`.
        if form.answer_type is AnswerType.PLACE and not _PLACE_CUES.isdisjoint(preceding):
            fit = max(fit, 0.85)
        elif form.answer_type is AnswerType.PERSON and preceding == ["by"]:
            fit = max(fit, 0.75)

        # A statement about the title does not make the title the thing asked for.
        if normal_name(name) != title:
            fit = max(fit, least_fit)
        yield start, end, fit


def _name_fit(name: str, form: QuestionForm, kinds: Kinds) -> float:
    """Fits a name by its kind, or else by its shape: people have two to four words, places at most three."""
    key = normal_name(name)
    name_kinds = kinds.get(key, frozenset())
    kinds_asked_for = _STEMS_OF.get(form.answer_type, frozenset()).union(form.head[-1:])
    if name_kinds & kinds_asked_for:
        return 1.0

    has_shape = True
    if form.answer_type is AnswerType.PERSON:
        has_shape = 2 <= len(key.split()) <= 4 and not _NO_PERSON.search(key)
    elif form.answer_type is AnswerType.PLACE:
        has_shape = len(key.split()) <= 3
    if name_kinds:
        return 0.35 if has_shape else 0.15
    return 0.6 if has_shape else 0.25


def _things(text: str, form: QuestionForm) -> list[Span]:
    """Finds nouns of the kind asked for, and noun groups for questions such as "what does X hold"."""
    members = _KIND_STEMS.get("".join(form.head[-1:]), frozenset())
    spans: list[Span] = []
    groups: list[list[re.Match[str]]] = [[]]
    for match in _WORD_SPANS.finditer(text):
        word = match[0].lower()
        group = groups[-1]
        is_next_word = not group or text[group[-1].end() : match.start()] == " "
        if word in STOP_WORDS or not is_next_word:
            group = []
            groups.append(group)
        if word in STOP_WORDS or word in NUMBERS:
            continue

        group.append(match)
        if stem(word) in members:
            spans.append((*match.span(), 1.0))

    group_fit = 0.1 if members else 0.4
    for group in filter(None, groups):
        # Capitalised groups are names, which `name_spans` finds.
        if not group[-1][0][0].isupper():
            spans.append((group[0].start(), group[-1].end(), group_fit))
    return spans
