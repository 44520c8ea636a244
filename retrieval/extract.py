"""Reads triples off passages, table rows and pictures' captions by rules, without a model.

HM-RAG builds its graph with LightRAG, which has a language model extract entities and relations (DeepSeek-R1-70B in the
paper). These rules stand in for it: they cost nothing and say nothing that is not there, but they miss what is said
indirectly. Their English is that of encyclopaedias and schoolbooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from actors.messages import Kind, Source, Triple
from actors.reader.text import LIST_SEPARATOR

Edge = tuple[str, str, str]

SHOWS = "shows"
LISTED = "listed in"
MENTIONED = "mentioned with"  # the weak fallback: two names in one sentence
LONGEST_NAME = 80
LONGEST_TAIL = 12  # words

_WORD = r"[A-Z0-9][\w'’&.-]*"
_NAME = re.compile(rf"(?<![\w]){_WORD}(?:\s+(?:of\s+the\s+|of\s+|de\s+|von\s+|van\s+)?{_WORD})*")
_SENTENCE = re.compile(r"(?:(?<=[a-z0-9)\"'][.!?])|(?<=[A-Z]{3}[.!?]))\s+(?=[A-Z\"'(])|\n+")
_OPENING = frozenset(
    "a an the it its he she his her they their this that these those in on at for from by with as when while after "
    "before if because although but and or so one two some many most all there here what which who how you we i".split()
)
# Openings that stand for the thing in the title: `It was ...`, `The club has ...`.
_PRONOUN = re.compile(r"^(?:It|He|She|They|This|These)\s+(?=[a-z])")
_NOUN = re.compile(r"^The\s+[a-z-]+\s+(?=(?:is|was|are|were|has|had|have|[a-z]+(?:s|ed))\b)")
_CONNECTED = re.compile(r"^(?:So|For example|However|Also|Then),\s+")
# `The director of X was Y`: what stands before the first name belongs to the relation.
_LEAD = re.compile(r"^(?:The|A|An)\s+([a-z][a-z -]*?)(?:\s+of)?\s*$")
_COPULA = r"(?:is|are|was|were)"
_OFFICE = re.compile(
    rf"The (?P<office>[a-z][\w-]+(?: [a-z][\w-]+)?) of (?:the|this) [a-z][\w-]+ {_COPULA} (?P<who>[A-Z].*)$"
)
_SAYS = re.compile(
    r"^(?:(?:The|A|An)\s+)?(?P<head>\S+(?:\s+\S+){0,4}?)\s+"
    r"(?P<relation>(?:is|are|was|were|has|have|had|means?|contains?|causes?|includes?|can|do|does)(?:\s+not)?)\s+(?P<tail>.+)$"
)
_PREDICATE = re.compile(
    r"^(?P<relation>[a-z]+(?:\s+[a-z]+){0,3}?\s+(?:in|on|at|by|with|from|of|to|for|as|into|near|a|an|the|called))"
    r"\s+(?P<tail>.+)$"
)
_SEEN = re.compile(r"\b(?P<verb>shows?|see|seen|depicts?|features?|reads?|contains?|is|are)\b\s+(?P<what>.+)$")
_CELL = re.compile(r"^\s*(?P<header>[^=:]{1,60}?)\s*[=:]\s*(?P<value>.+?)\s*$")


def triples_of(source: Source) -> Iterator[Triple]:
    """What the source states, each once, in reading order; ids are the source's with a number.

    Passages: `X is a Y`, verbs between two names, and what the title's subject does. Table rows: the row's name, header
    and value, and the table it stands in. Pictures: what their caption says is seen. Names that no rule links are
    `mentioned with` each other.
    """
    match source.kind:
        case Kind.TABLE:
            edges = _of_row(source.title, source.text)
        case Kind.IMAGE:
            edges = _of_caption(source.title, source.text)
        case _:
            edges = _of_passage(source.title, source.text)
    # A dict keeps the reading order, by which triples are numbered.
    kept: dict[Edge, None] = {}
    for edge in edges:
        head, relation, tail = (_tidy(part) for part in edge)
        if head and relation and tail and head != tail and len(head) <= LONGEST_NAME:
            kept.setdefault((head, relation, tail))
    for number, (head, relation, tail) in enumerate(kept, 1):
        yield Triple(f"{source.id}#{number}", head, relation, tail, source.id)


def _of_row(title: str, text: str) -> Iterator[Edge]:
    """The row goes by its first part without a header, or else by the first value that is no number."""
    name, cells = "", []
    for part in text.split("; "):
        cell = _CELL.match(part)
        if cell:
            cells.append((cell["header"], cell["value"]))
        elif part.strip() and not name:
            name = part
    name = name or next((value for _, value in cells if re.search(r"[^\W\d_]{2}", value)), cells[0][1] if cells else "")
    owner, dash, table = title.rpartition(" - ")
    if dash:
        yield name, f"{LISTED} {table} of", owner
    else:
        yield name, LISTED, title
    for header, value in cells:
        yield name, header, value


def _of_caption(title: str, text: str) -> Iterator[Edge]:
    for sentence in _sentences(text):
        seen = _SEEN.search(sentence)
        if sentence.startswith("Lettering: "):
            yield from ((title, "reads", word) for word in sentence.removeprefix("Lettering: ").split("; "))
        elif not seen:
            yield title, SHOWS, sentence
        elif seen["verb"] in ("is", "are"):
            yield title, f"{sentence[: seen.start()].strip()} {seen['verb']}", seen["what"]
        else:
            relation = SHOWS if seen["verb"] in ("see", "seen") else seen["verb"]
            for thing in LIST_SEPARATOR.split(seen["what"]):
                yield title, relation, thing


def _of_passage(title: str, text: str) -> Iterator[Edge]:
    """`It`, `The club` and `the founder of the club` are of what the title names, where the text names it at all: a
    heading is nobody."""
    named = title if title and title in text else None
    for sentence in _sentences(text):
        spoken = _CONNECTED.sub("", sentence)
        if named and (office := _OFFICE.match(spoken)):
            yield named, office["office"], _short(office["who"])
            continue
        for stand_in in (_PRONOUN, _NOUN) if named else ():
            spoken = stand_in.sub(f"{named} ", spoken, count=1)
        yield from _of_sentence(spoken, title)


def _of_sentence(sentence: str, title: str) -> Iterator[Edge]:
    names = _names(sentence, title)
    starts = bool(names) and not sentence[: names[0][0]].strip()
    rest = sentence[names[0][1] :].strip() if names else ""
    kind = re.match(rf"^({_COPULA}\s+(?:an?|one of the|the))\s+([^,;()]+)", rest) if starts else None
    if starts and kind:
        yield sentence[names[0][0] : names[0][1]], kind[1], _short(kind[2])
    if len(names) > 1:
        for (start, end), (then, close) in pairwise(names):
            between = sentence[end:then].strip()
            lead = _LEAD.match(sentence[:start]) if start == names[0][0] else None
            relation = _relation(f"{lead[1]} {between}" if lead else between)
            # Longer or punctuated text between two names is no relation between them.
            linked = relation and len(between.split()) <= 8 and not re.search(r"[.;()]|,\s|^,", between)
            yield sentence[start:end], relation if linked else MENTIONED, sentence[then:close]
    elif starts and not kind:
        predicate = _PREDICATE.match(rest)
        if predicate:
            yield sentence[names[0][0] : names[0][1]], _relation(predicate["relation"]), _short(predicate["tail"])
        else:
            yield from _words(sentence)
    elif not starts:
        yield from _words(sentence)


def _words(sentence: str) -> Iterator[Edge]:
    """Things without a capital: `A solid has a shape of its own`."""
    clause = _SAYS.match(sentence)
    # `Some solids ...` says something of solids; `It ...` or `When ...` names nothing.
    if clause and clause["head"].split()[0].lower() not in _OPENING - {"some", "many", "most", "all", "two"}:
        yield clause["head"], clause["relation"], _short(clause["tail"])


def _names(sentence: str, title: str) -> list[tuple[int, int]]:
    """Spans of names: the title wherever it stands, and words with a capital, without an opening such as `The`."""
    escaped = re.escape(title)
    spans = [match.span() for match in re.finditer(rf"(?<!\w){escaped}(?!\w)", sentence)] if title else []
    for match in _NAME.finditer(sentence):
        start, end = match.span()
        first = sentence[start:end].split()[0]
        if first.lower() in _OPENING:
            start += len(first) + 1
        while end > start and sentence[end - 1] in ".'’-&":
            end -= 1
        name = sentence[start:end].strip()
        overlaps = any(start < b and a < end for a, b in spans)
        # One word at the start of a sentence is a capital anyway, so it names nothing by that alone.
        if len(name) > 1 and not overlaps and (start > 0 or " " in name or not sentence[:1].isupper()):
            spans.append((start, end))
    return sorted(spans)


def _sentences(text: str) -> list[str]:
    return [part.strip().rstrip(".!?;:") for part in _SENTENCE.split(text) if part.strip()]


def _relation(words: str) -> str:
    """Without the articles and copulas at its ends, which say nothing: `director of was` is `director of`."""
    words = re.sub(r"\s+(?:a|an|the|its|his|her|their)$", "", f" {words.strip(' ,')}").strip()
    return re.sub(rf"(?<=\w)\s+{_COPULA}$", "", words).strip(" ,")


def _short(tail: str) -> str:
    words = re.split(r",\s|;\s|\s\(", tail)[0].split()
    return " ".join(words[:LONGEST_TAIL])


def _tidy(part: str) -> str:
    """On one line, and without the bar that separates the parts of a triple."""
    return " ".join(part.replace("|", "/").split()).strip(" .,;:\"'")
