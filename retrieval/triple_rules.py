"""Extracts triples from passages, table rows and pictures' captions by rules, without a model.

They take the place of LightRAG's language model (HM-RAG), and miss indirect statements. Their English is that of
encyclopaedias and schoolbooks.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from actors.messages import UNTITLED

Edge = tuple[str, str, str]  # head, relation, tail
Span = tuple[int, int]

SHOWS = "shows"
READS = "reads"
LISTED = "listed in"
MENTIONED = "mentioned with"  # two names in one sentence, where no rule finds a relation
LONGEST_NAME = 80
LONGEST_TAIL = 12  # words
LONGEST_RELATION = 8  # words between two names
MOST_WRITTEN = 12  # words or phrases of a picture's OCR text
OCR_TEXT = "Lettering: "  # precedes OCR text

_WORD = r"[A-Z0-9][\w'’&.-]*"
_NAME = re.compile(rf"(?<![\w]){_WORD}(?:\s+(?:of\s+the\s+|of\s+|de\s+|von\s+|van\s+)?{_WORD})*")
_SENTENCE = re.compile(r"(?:(?<=[a-z0-9)\"'][.!?])|(?<=[A-Z]{3}[.!?]))\s+(?=[A-Z\"'(])|\n+")
_OPENING = frozenset(
    "a an the it its he his she her they their this that these those in on at for from by with as when while after "
    "before between during since until if because although but and or so one two some many most all there here what "
    "which who how you we i".split()
)
_NO_SUBJECT = _OPENING - {"some", "many", "most", "all", "two"}
# Openings that refer to the title: `It was ...`, `The club has ...`.
_PRONOUN = re.compile(r"^(?:It|He|She|They|This|These)\s+(?=[a-z])")
_NOUN = re.compile(r"^The\s+[a-z-]+\s+(?=(?:is|was|are|were|has|had|have|[a-z]+(?:s|ed))\b)")
_CONNECTED = re.compile(r"^(?:So|For example|However|Also|Then),\s+")
# `The director of X was Y`: the words before the first name belong to the relation.
_LEAD = re.compile(r"^(?:The|A|An)\s+([a-z][a-z -]*?)(?:\s+of)?\s*$")
_COPULA = r"(?:is|are|was|were)"
_COPULA_END = re.compile(rf"(?<=\w)\s+{_COPULA}$")
_KIND = re.compile(rf"^({_COPULA}\s+(?:an?|one of the|the))\s+([^,;()]+)")
_PASSIVE = re.compile(rf"\b(?:{_COPULA}|by)\b")
_OFFICE = re.compile(
    rf"The (?P<office>[a-z][\w-]+(?: [a-z][\w-]+)?) of (?:the|this) [a-z][\w-]+ {_COPULA} (?P<who>[A-Z].*)$"
)
_CLAUSE = re.compile(
    r"^(?:(?:The|A|An)\s+)?(?P<head>\S+(?:\s+\S+){0,4}?)\s+"
    r"(?P<relation>(?:is|are|was|were|has|have|had|means?|contains?|causes?|includes?|can|do|does)(?:\s+not)?)\s+(?P<tail>.+)$"
)
_PREDICATE = re.compile(
    r"^(?P<relation>[a-z]+(?:\s+[a-z]+){0,3}?\s+(?:in|on|at|by|with|from|of|to|for|as|into|near|a|an|the|called))"
    r"\s+(?P<tail>.+)$"
)
_SEEN = re.compile(r"\b(?P<verb>shows?|see|seen|depicts?|features?|reads?|contains?|is|are)\b\s+(?P<what>.+)$")
_WRITTEN = re.compile(r"\b(?:words?|letters|lettering|text)\s+(.+?)\s+(?:is|are)\s+written\b", re.IGNORECASE)
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"(?<!\w)(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,?\s+)?"
    rf"(?:{_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?|{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH},?\s+\d{{4}})(?!\w)"
)
_YEAR = re.compile(r"(?<=[Ii]n |[Bb]y )\d{4}(?!\w)|(?<=since |Since |until |Until )\d{4}(?!\w)")
_FIGURE = re.compile(r"[\d.,:/%°*+-]*\d[\d.,:/%°*+-]*(?:st|nd|rd|th|s)?")
_PREPOSITIONS = frozenset(
    "about after around at before between by during for from in near of on since to until with".split()
)
_JOINING = re.compile(r"^(?:and|but|then)(?:\s+then|\s+later)?\s+(?=[a-z])")
_LISTS = re.compile(r"^(?:/|&)$|(?:^|\s)(?:and|or|nor)(?:\s+the)?$")
_LIST_SEPARATOR = re.compile(r",\s+(?:and\s+)?|\s+and\s+")
_NO_RELATION = re.compile(r"[.;()]|,\s|^,|,$")  # punctuation between two names
_ARTICLE_END = re.compile(r"\s+(?:a|an|the|its|his|her|their)$")
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}")
_WORDLIKE = re.compile(r"[^\W\d_]{3}")
_CELL = re.compile(r"^\s*(?P<header>[^=:]{1,60}?)\s*[=:]\s*(?P<value>.+?)\s*$")


def of_row(title: str, text: str) -> Iterator[Edge]:
    """Extracts a table row: its name with its table, if that has a title, then with each header and value.

    The name is the first part without a header, or else the first value that is no number.
    """
    cells: list[tuple[str, str]] = []
    names: list[str] = []
    for part in text.split("; "):
        cell = _CELL.match(part)
        if cell:
            cells.append((cell["header"], cell["value"]))
        elif part.strip():
            names.append(part)

    values = [value for _, value in cells]
    names += filter(_TWO_LETTERS.search, values)
    name = next(iter(names + values), "")

    page, dash, table = title.rpartition(" - ")
    if dash:
        yield name, f"{LISTED} {table} of", page
    elif title not in UNTITLED:
        yield name, LISTED, title
    for header, value in cells:
        yield name, header, value


def of_caption(title: str, text: str) -> Iterator[Edge]:
    """Extracts what a picture shows, and its OCR text."""
    for sentence in _sentences(text):
        if sentence.startswith(OCR_TEXT):
            # One triple for all words: a single word on a picture states nothing about the title.
            words = dict.fromkeys(filter(_WORDLIKE.search, sentence.removeprefix(OCR_TEXT).split("; ")))
            yield title, READS, "; ".join(list(words)[:MOST_WRITTEN])
            continue

        written = _WRITTEN.search(sentence)
        seen = _SEEN.search(sentence)
        if written:
            yield title, READS, written[1]
        elif not seen:
            yield title, SHOWS, sentence
        elif seen["verb"] in ("is", "are"):
            yield title, f"{sentence[: seen.start()].strip()} {seen['verb']}", seen["what"]
        else:
            relation = seen["verb"].replace("seen", "see").replace("see", SHOWS)
            for thing in _LIST_SEPARATOR.split(seen["what"]):
                yield title, relation, thing


def of_passage(title: str, text: str, subject: str) -> Iterator[Edge]:
    """Extracts the sentences of a passage. They are `X is a Y`, verbs between two names, and predicates of the subject.

    subject: the thing that `It` and `The club` refer to; empty if unknown.
    """
    for sentence in _sentences(text):
        sentence = _CONNECTED.sub("", sentence)
        office = _OFFICE.match(sentence)
        if subject and office:
            yield subject, office["office"], _short(office["who"])
            continue
        if subject:
            for reference in (_PRONOUN, _NOUN):
                sentence = reference.sub(lambda _: f"{subject} ", sentence, count=1)
        yield from _of_sentence(sentence, title)


def _of_sentence(sentence: str, title: str) -> Iterator[Edge]:
    names = _names(sentence, title)
    predicate = None
    kind = None
    first_name = ""
    if names:
        start, end = names[0]
        first_name = sentence[start:end]
        if not sentence[:start].strip() and not _is_figure(first_name, title):
            rest = sentence[end:].strip()
            kind = _KIND.match(rest)
            predicate = _PREDICATE.match(rest)

    if kind:
        yield first_name, kind[1], _short(kind[2])
    edges = list(_between(sentence, names, title))
    yield from edges
    if edges or kind:
        return
    if predicate:
        yield first_name, _relation(predicate["relation"]), _short(predicate["tail"])
        return

    # Things without a capital: `A solid has a shape`. `Some solids ...` is about solids; `It ...` is not.
    clause = _CLAUSE.match(sentence)
    if clause and clause["head"].split()[0].lower() not in _NO_SUBJECT:
        yield clause["head"], clause["relation"], _short(clause["tail"])


def distinct(edges: Iterable[Edge]) -> list[Edge]:
    """Cleans edges, in order and each once. Leaves out those with an empty part or a head that is no name."""
    tidy: dict[Edge, None] = {}
    for edge in edges:
        head, relation, tail = map(_tidy, edge)
        if head and relation and tail and head != tail and len(head) <= LONGEST_NAME:
            tidy[head, relation, tail] = None
    return list(tidy)


def _tidy(part: str) -> str:
    # Without the bar that separates the parts of a triple in a reply.
    words = part.replace("|", "/").split()
    return " ".join(words).strip(" .,;:\"'")


def _between(sentence: str, names: Sequence[Span], title: str) -> Iterator[Edge]:
    """Relations between neighbouring names.

    A date or number is no subject: the words after it belong to the actor of the last deed (`was born on August 4,
    1961 in Honolulu`).
    """
    actor = ""
    deed = ""
    # (preposition, date) of dates before the first actor.
    opening_dates: list[tuple[str, str]] = []
    for (start, end), (next_start, next_end) in pairwise(names):
        head = sentence[start:end]
        tail = sentence[next_start:next_end]
        words_between = sentence[end:next_start].strip()
        figure = _is_figure(head, title)
        if figure and not actor:
            # `On 12 May 1931, Karl Renner opened ...`: the date belongs to the deed that follows.
            preposition = sentence[:start].lower().split()[-1:]
            if not _PREPOSITIONS.isdisjoint(preposition):
                opening_dates.append((preposition[0], head))
            continue

        actor = actor or head
        relation = words_between
        lead = _LEAD.match(sentence[:start])
        if lead and not _PASSIVE.search(lead[1]):
            relation = f"{lead[1]} {words_between}"
        relation = _relation(relation)
        # Longer or punctuated text between two names is no relation.
        related = len(words_between.split()) <= LONGEST_RELATION and not _NO_RELATION.search(words_between)
        if not relation or not related or _LISTS.search(relation):
            if not _is_figure(tail, title):
                yield actor if figure else head, MENTIONED, tail
            continue

        joined = _JOINING.match(relation)
        if joined:
            relation = relation[joined.end() :]
        adverbial = relation in _PREPOSITIONS
        if joined or figure:
            head = actor
        if adverbial and deed and (figure or _is_figure(tail, title)):
            head = actor
            relation = f"{deed} {relation}"

        if not adverbial:
            words = relation.split()
            if len(words) > 1 and words[-1] in _PREPOSITIONS:
                words.pop()
            actor = head
            deed = " ".join(words)
            for preposition_of_date, date in opening_dates:
                yield actor, f"{deed} {preposition_of_date}", date
            opening_dates.clear()

        yield head, relation, tail


def _is_figure(name: str, title: str) -> bool:
    """Tests for a date or a number that is not the title."""
    return name != title and bool(_DATE.fullmatch(name) or _FIGURE.fullmatch(name))


def _names(sentence: str, title: str) -> list[Span]:
    """Spans of names: the title anywhere, whole dates, and capitalised words, without an opening such as `The`."""
    spans: list[Span] = []
    if title:
        spans = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(title)}(?!\w)", sentence)]
    rest = sentence

    for date in (*_DATE.finditer(sentence), *_YEAR.finditer(sentence)):
        if not _overlaps(date.span(), spans):
            spans.append(date.span())
            # Otherwise its number would be part of another name.
            rest = f"{rest[: date.start()]}{'_' * len(date[0])}{rest[date.end() :]}"

    for match in _NAME.finditer(rest):
        start, end = match.span()
        first_word = match[0].split()[0]
        if first_word.lower() in _OPENING:
            start += len(first_word) + 1
        end = start + len(sentence[start:end].rstrip(".'’-&"))
        name = sentence[start:end].strip()
        # A single word at the start of a sentence always has a capital.
        capital_by_place = start == 0 and " " not in name and sentence[:1].isupper()
        if len(name) > 1 and not capital_by_place and not _overlaps((start, end), spans):
            spans.append((start, end))

    return sorted(spans)


def _overlaps(span: Span, names: Iterable[Span]) -> bool:
    start, end = span
    return any(start < name_end and name_start < end for name_start, name_end in names)


def _sentences(text: str) -> list[str]:
    return [part.strip().rstrip(".!?;:") for part in _SENTENCE.split(text) if part.strip()]


def _relation(words: str) -> str:
    """A relation without articles and copulas at its end: `director of was` becomes `director of`."""
    without_article = _ARTICLE_END.sub("", f" {words.strip(' ,')}").strip()
    return _COPULA_END.sub("", without_article).strip(" ,")


def _short(tail: str) -> str:
    return " ".join(re.split(r",\s|;\s|\s\(", tail)[0].split()[:LONGEST_TAIL])
