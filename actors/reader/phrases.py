"""Finds the phrases of a statement that could answer a question, and how well each fits."""

import re
from collections.abc import Mapping, Sequence

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
_WORD_SPANS = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_KIND_STEMS = {stem(kind): frozenset(map(stem, members.split())) for kind, members in KINDS.items()}
_PLACE_CUES = frozenset(("in", "at", "from", "near", "to", "on"))
_PEOPLE_STEMS = frozenset(map(stem, PEOPLE))
_PLACE_STEMS = frozenset(map(stem, PLACES))

Span = tuple[int, int, float]  # start and end in a statement's text, and its fit
Kinds = Mapping[str, frozenset[str]]  # stems of the kinds of each normal name


def phrases(
    statement: Statement, form: QuestionForm, kinds: Kinds, weights: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Returns every phrase of the statement that could answer the question, once, with its best fit in (0, 1].

    weights: of the question's stems.
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
    best: dict[str, tuple[str, float]] = {}
    question = f" {' '.join(words(form.text))} "
    for text, fit in fitting:
        key = normal_name(text)
        # A name in the question is not its answer.
        if key and fit > 0 and f" {key} " not in question and (key not in best or best[key][1] < fit):
            best[key] = text.strip(" .,;"), min(1.0, fit)
    return list(best.values())


def kinds_of(statements: Sequence[Statement]) -> Kinds:
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
    statement: Statement, form: QuestionForm, kinds: Kinds, weights: Mapping[str, float]
) -> list[tuple[str, float]]:
    text = statement.text
    spans: list[Span] = []
    if form.answer_type is AnswerType.TIME:
        spans = [(*m.span(), 1.0 if YEAR.search(m[0]) else 0.7) for m in _DATE.finditer(text)]
        # `Which year` asks for the year of a date, and a text without a full date may have a year.
        if "year" in form.head or not spans:
            spans = [(*m.span(), 1.0) for m in YEAR.finditer(text)]
    elif form.answer_type in (AnswerType.COUNT, AnswerType.QUANTITY):
        pattern = _COUNTED if form.answer_type is AnswerType.COUNT else _QUANTITY
        for m in pattern.finditer(text):
            # The words after a number should name the counted thing.
            after = [stem(word) for word in words(text[m.end() :][:40])[:4]]
            fit = 1.0 if form.head and form.head[-1] in after else 0.7 if set(after) & form.focus else 0.25
            spans.append((*m.span(), fit))
    elif form.answer_type is AnswerType.COLOUR:
        spans = [(*m.span(), 1.0) for m in _COLOUR.finditer(text)]
    elif form.answer_type is AnswerType.LETTERING:
        # From the surest sign of written text to the weakest.
        spans = [(*m.span(1), 1.0) for m in _QUOTE.finditer(text)]
        spans = spans or [(*m.span(1), 0.9) for m in _AFTER_SAYS.finditer(text)]
        spans = spans or [(*m.span(), 0.6) for m in _CAPITALS.finditer(text)]
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
            spans.append((start, end, fit))
        if form.answer_type is AnswerType.THING:
            spans += _things(text, form)
    if not spans:
        return []
    places = [(m.start(), weights[s]) for m in _WORD_SPANS.finditer(text) if (s := stem(m[0].lower())) in weights]
    before = form.answer_type in (AnswerType.COLOUR, AnswerType.COUNT)  # "three red stars": they precede their noun
    near = []
    for start, end, _ in spans:
        distances = ((p - end if p >= end else (start - p) * (3 if before else 1), weight) for p, weight in places)
        # 4 keeps an adjacent word from outweighing all others.
        near.append(sum(weight / (4 + max(0, distance)) for distance, weight in distances))
    top = max(near) or 1.0
    return [(text[start:end], fit * (0.6 + 0.4 * n / top)) for (start, end, fit), n in zip(spans, near, strict=True)]


def _name_fit(name: str, form: QuestionForm, kinds: Kinds) -> float:
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


def _things(text: str, form: QuestionForm) -> list[Span]:
    """Finds nouns of the kind asked for, and noun groups for questions such as "what is X doing"."""
    members = _KIND_STEMS.get(form.head[-1], frozenset()) if form.head else frozenset()
    spans: list[Span] = []
    group: list[re.Match[str]] = []
    # None ends the last group.
    for match in [*_WORD_SPANS.finditer(text), None]:
        word = match[0].lower() if match else ""
        joined = group and match and text[group[-1].end() : match.start()] == " "
        if group and (not joined or word in STOP_WORDS):
            last = group[-1]
            # Capitalised groups are names, which `name_spans` finds.
            if not last[0][0].isupper():
                spans.append((group[0].start(), last.end(), 0.1 if members else 0.4))
            group = []
        if match and word and word not in STOP_WORDS and word not in NUMBERS:
            if stem(word) in members:
                spans.append((*match.span(), 1.0))
            group.append(match)
    return spans
