"""Takes statements apart into triples, and questions or evidence into entities, key phrases and themes.

The rules are others than those of `retrieval.extract`, which builds the graph that is searched: here a statement gives
the few edges that an agent would write into an answer, there a source gives all that link its names. Recorded results
rest on both, so only the separator of listed things is shared.
"""

from __future__ import annotations

import re

from actors.messages import Field, FieldKind
from actors.reader.lexicon import STOP_WORDS
from actors.reader.statement import Statement
from actors.reader.text import LIST_SEPARATOR, name_spans, normal_name, sentences, stem, words
from actors.reader.work import Work

MOST_TRIPLES = 24  # where a form sets no number: a whole graph, within the default limit of a reply
MOST_WORDS = 6  # of a relation; longer ones are sentences
_VERBS = "is|are|was|were|has|have|had"
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_SHOWS = re.compile(r"\b(?:shows?|depicts?|features?|contains?|one can see|can be seen|there (?:is|are))\s+(.+)$", re.I)
_LETTERED = re.compile(r"\b(?:words?|letters|lettering|text)\s+(.+?)\s+(?:is|are)\s+written\b", re.IGNORECASE)
_IS = re.compile(rf"^(?P<head>.{{2,80}}?)\s+(?P<verb>{_VERBS})\s+(?P<tail>.+)$")
_OF = re.compile(r"^[Tt]he\s+(?P<relation>[\w\- ]{2,40}?)\s+(?:of|in|at)\s+(?P<whole>.+)$")
_PRONOUN = re.compile(r"^(?:it|he|she|they)\b", re.IGNORECASE)
_PREPOSITION = re.compile(r"^(?:along|among|near|across|within|around|beside|according to)\s+", re.IGNORECASE)
_PREPOSITIONS = frozenset("along among near across within around beside upon per via against".split())
_HAS = re.compile(r"\b[Tt]he ([a-z][\w-]+(?: [a-z][\w-]+)?) of (?:the )?([A-Z][\w'’ -]*\w|[a-z][\w-]+)")
_SPAN = re.compile(r"\b\d[\d,.]*\d?\b")

Parts = tuple[str, str, str]


def triples_of(statement: Statement) -> list[Parts]:
    """(head, relation, tail) of what one statement says; none where its wording has no form that is known here."""
    if statement.triple:
        return [statement.triple]
    if statement.cells:
        return _row(statement)
    if statement.seen:
        return _picture(statement)
    return _sentence(statement.text.rstrip(" .?!"), statement.title)


def triple(work: Work, line: Field) -> list[str]:
    """Those of the given triples and of the evidence that bear on the question, best first; where there are none, what
    the question itself states.

    All of them where the form sets no number, or where nothing is asked. Those that were found already are not given
    again.
    """
    found = {given.text for given in work.given(FieldKind.FOUND)}
    everything = line.most is None or not work.at.weights
    values: dict[Parts, float] = {}
    for entry, reached in zip(work.entries, work.reached, strict=True):
        # A link of a good chain bears on the question too, a little less than what covers it directly.
        value = max(work.bearing(entry), 0.9 * reached[0] * (len(reached[1]) > 1))
        for parts in triples_of(entry.statement):
            values[parts] = max(values.get(parts, 0.0), value)
    ranked = sorted(values, key=lambda parts: -values[parts])
    ranked = [parts for parts in ranked if " | ".join(parts) not in found]
    kept = [parts for parts in ranked if everything or values[parts] > 0]
    if found and not kept:
        return ["none"]
    kept = kept or _presumed(work.question)
    return [" | ".join(parts) for parts in kept[: MOST_TRIPLES if everything else line.most]]


def entity(work: Work, line: Field) -> list[str]:
    """Names in the question, or in what was read where nothing is asked.

    A question that names nothing has what it describes: `the film`, by its noun.
    """
    if not work.question:
        names = list({key: name for statement in work.most_bearing(8) for key, name in statement.names}.values())
    else:
        names = named(work.question) or noun_groups(work.question)
    return _distinct(names)[: line.most or 8]


def keyword(work: Work, line: Field) -> list[str]:
    """Names and noun groups of the question, or of what was read where nothing is asked."""
    about = work.question
    if not about:
        about = " ".join(f"{statement.title}. {statement.text}" for statement in work.most_bearing(3))
    return _distinct([*named(about), *(phrase for phrase in noun_groups(about) if phrase[0].islower())])[
        : line.most or 8
    ]


def theme(work: Work, line: Field) -> list[str]:
    """The relations that the question is about: its noun groups without the names, the one asked for first."""
    groups = [phrase for phrase in noun_groups(work.question) if phrase[:1].islower()]
    head = [phrase for phrase in groups if stem(words(phrase)[-1]) in work.at.form.head]
    return _distinct([*head, *groups] or [str(work.at.form.answer_type)])[: line.most or 4]


def named(text: str) -> list[str]:
    """Names in a text, without the prepositions and verbs that open its sentences with a capital letter."""
    names = []
    for name, start, end in name_spans(text):
        bare = _PREPOSITION.sub("", name)
        opens = start == 0 or text[:start].rstrip().endswith((".", "?", "!"))
        # At the start of a sentence a capital alone makes no name: it needs another sign.
        if bare != name or not opens or " " in name or text.count(name) > 1 or text[end:].startswith("'s"):
            names.append(re.sub(r"^[Tt]he ", "", bare))
    return names


def noun_groups(text: str) -> list[str]:
    """Runs of words that carry content, names apart, in order."""
    groups: list[str] = []
    run: list[str] = []
    end = 0
    for match in _WORD.finditer(text):
        word = match[0]
        # A change between capitals and small letters ends a run: names stay apart.
        joined = text[end : match.start()].isspace() and run and run[-1][0].isupper() == word[0].isupper()
        end = match.end()
        if word.lower().removesuffix("'s") in STOP_WORDS | _PREPOSITIONS:
            groups, run = [*groups, " ".join(run)], []
        elif joined and len(run) < 3:
            run.append(word)
        else:
            groups, run = [*groups, " ".join(run)], [word]
    return [phrase for phrase in (*groups, " ".join(run)) if phrase and not phrase.isdigit()]


def _row(statement: Statement) -> list[Parts]:
    """A row is about its cell under the header that the table is named for, else about its first name."""
    titled = {stem(word) for word in words(statement.title)}
    named = [(h, v) for h, v in statement.cells if v and not v[:1].isdigit()]
    # `Film` is the key of a table of films.
    key = next((v for h, v in named if stem(h.lower()) in titled), named[0][1] if named else statement.title)
    return [(key, header.lower(), value) for header, value in statement.cells if value and value != key]


def _picture(statement: Statement) -> list[Parts]:
    text = statement.text.rstrip(" .")
    if not text:
        return []
    if lettered := _LETTERED.search(text):
        return [(statement.title, "bears the words", lettered[1])]
    if shows := _SHOWS.search(text):
        things = LIST_SEPARATOR.split(shows[1])
        return [(statement.title, "picture shows", thing) for thing in things if thing]
    return _sentence(text, statement.title)


def _sentence(text: str, title: str) -> list[Parts]:
    """`The R of X is Y` gives X, R, Y; else the subject, the words up to each name or number after it, and that."""
    verb = _IS.match(text)
    if verb and (of := _OF.match(verb["head"])):
        whole = title if _generic(of["whole"]) and title else of["whole"]
        return [(whole, of["relation"], verb["tail"])] if len(verb["tail"].split()) <= 10 else []
    spans = _spans(text)
    # The last span cannot be the subject: nothing comes after it.
    own = [span for span in spans[:-1] if normal_name(text[slice(*span)]) == normal_name(title)]
    opening = spans[:1] if spans and spans[0][0] <= 4 and _names(text, spans[0], title) else []
    subject, start = title, 0
    if own or opening:
        span = (own or opening)[0]
        subject, start = text[slice(*span)], span[1]
        spans = [other for other in spans if other[0] >= start]
    # Without a name at the start and without a title nobody knows what the sentence is about.
    elif not title:
        return []
    elif pronoun := _PRONOUN.match(text):
        start = pronoun.end()
    triples: list[Parts] = []
    for s, e in spans:
        relation = _relation(text[start:s])
        if relation and normal_name(text[s:e]) != normal_name(subject):
            triples.append((subject, relation, text[s:e]))
            start = e
    if not triples and verb and len(verb["head"].split()) <= 5 and len(verb["tail"].split()) <= 10:
        triples = [(subject if _generic(verb["head"]) else verb["head"], verb["verb"], verb["tail"])]
    # Few, as an agent would write them (see above).
    return triples[:3]


def _spans(text: str) -> list[tuple[int, int]]:
    """The places of names and numbers, in order; numbers within names are not counted apart."""
    spans = sorted({(start, end) for _, start, end in name_spans(text)} | {m.span() for m in _SPAN.finditer(text)})
    return [span for span in spans if not any(o != span and o[0] <= span[0] and span[1] <= o[1] for o in spans)]


def _names(text: str, span: tuple[int, int], title: str) -> bool:
    """True where an opening span is a name; one of a single word is one before a verb, or in a title."""
    name = text[slice(*span)]
    after = words(text[span[1] : span[1] + 30])[:1]
    verb = bool(after) and (after[0].endswith(("ed", "s")) or after[0] in ("won", "made", "had", "can"))
    return " " in name or normal_name(name) in normal_name(title).split() or verb


def _relation(text: str) -> str:
    between = text.strip(" ,;:()'\"")
    between = re.sub(r"\s+(?:the|a|an)$", "", between)
    return " ".join(between.split()[-MOST_WORDS:])


def _generic(noun: str) -> bool:
    """`the museum`, `it`: something that the title names."""
    # Without the first letter, which may be a capital only as the first of the sentence.
    return not name_spans(noun[1:]) and len(noun.split()) <= 2


def _presumed(question: str) -> list[Parts]:
    """The triples that a question presumes: those of its statements, and that things have what it asks of them (`the
    source of the river`)."""
    triples: list[Parts] = []
    for sentence in sentences(question):
        if not sentence.endswith("?"):
            triples += _sentence(sentence.rstrip(" .!"), "")
        triples += [(f"{m[2]}", "has", m[1]) for m in _HAS.finditer(sentence)]
    return triples


def _distinct(names: list[str]) -> list[str]:
    kept: dict[str, str] = {}
    for text in names:
        if key := normal_name(text):
            kept.setdefault(key, text)
    return list(kept.values())
