"""Fills the form of a task, whatever the task is, from the findings of the turn.

Each field gets what its type and kind ask for: the answer, numbers of candidates, triples, relevant sentences, words to
look up. A field that may be left out is left out where nothing was found for it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from actors.messages import Field, FieldKind, NodeType, Value
from actors.prompting.safe_text import one_line
from actors.reader.english import PICTURE_WORDS, content_stems, name_spans, normal_name, stem, words
from actors.reader.findings import Findings
from actors.reader.question import parts
from actors.reader.statements import NOTHING, Statement

SENTENCES = 4  # of a text
MOST_VALUES = 8  # of a field that sets no number
RELATION_WORDS = 6  # at most, between two names
KEPT = 0.6  # share of the best candidate's value, for another one to be selected too
_PICTURE_STEMS = frozenset(map(stem, PICTURE_WORDS))
_SOURCE = re.compile(r"\[(\d+)\]")


def fill(fields: Sequence[Field], findings: Findings) -> str:
    """Returns the reply: a line for each value, fields in the form's order."""
    lines: list[str] = []
    for field in fields:
        most = (field.most or MOST_VALUES) if field.many else 1
        # One line a value: text after a line break might be read as another field.
        values = [one_line(value) for value in values_of(field, findings) if value.strip()]
        lines += [f"{field.name}: {value}" for value in dict.fromkeys(values[:most])]

    # A reply states something, if only that there is nothing.
    return "\n".join(lines) or f"{fields[0].name}: none"


def values_of(field: Field, findings: Findings) -> Iterable[str]:
    """Returns the values of a field, best first. Empty texts are none."""
    if field.values:
        return [choice(field, findings)]
    match field.value:
        case Value.ANSWER:
            return [findings.answer or ("" if field.optional else "unknown")]
        case Value.SHARE:
            return [f"{findings.confidence:.2f}"]
        case Value.NUMBERS:
            return [", ".join(map(str, numbers(field, findings)))]
        case Value.TRIPLE:
            return triples(findings)
        case Value.PAIR:
            return pairs(findings)
        case Value.CALL:
            return calls(field.tools, findings)
        case _:
            return texts(field, findings)


def choice(field: Field, findings: Findings) -> str:
    """Returns one of the values that the form allows. Of a verdict the first affirms and the last denies."""
    first, last = field.values[0], field.values[-1]
    match field.kind:
        case FieldKind.TYPE:
            return next_step(findings)
        case FieldKind.INTENTS:
            return field.values[min(len(parts(findings.question)), len(field.values)) - 1]
        case FieldKind.SIDE:
            # The last value is for neither of them.
            answer = findings.answer
            return next((side for side, other in findings.answers.items() if answer and other == answer), last)
        case FieldKind.ACTION:
            # The last value ends the search.
            searches = findings.searches()
            return last if findings.suffices or not searches else tool_for(searches[0], field.values)
        case FieldKind.RELEVANT:
            affirmed = findings.bears
        case FieldKind.VISUAL:
            affirmed = asks_for_sight(findings.question)
        case FieldKind.RETRIEVE:
            affirmed = not findings.suffices
        case FieldKind.SUPPORTED:
            given = [normal_name(line.text) for line in findings.lines(FieldKind.ANSWER)]
            affirmed = given[:1] == [normal_name(findings.answer)]
        case _:
            affirmed = findings.suffices
    return first if affirmed else last


def next_step(findings: Findings) -> NodeType:
    """Returns the type of a plan's next node: searches until the evidence suffices, then an answer, then the end."""
    if findings.searches() and not findings.suffices:
        return NodeType.RETRIEVAL
    answered = any(node.text.startswith(NodeType.ANSWER) for node in findings.lines(FieldKind.NODE))
    return NodeType.STOP if answered else NodeType.ANSWER


def asks_for_sight(text: str) -> bool:
    """True where the words of a question, apart from its names, ask for something visible."""
    name_stems = {stem(word) for name, _, _ in name_spans(text) for word in words(name)}
    return not _PICTURE_STEMS.isdisjoint(set(content_stems(text)) - name_stems)


def tool_for(text: str, tools: Sequence[str]) -> str:
    """Returns the tool that looks for a text: the first one, or one for pictures if the text asks for sight."""
    visual = [tool for tool in tools if "picture" in tool or "image" in tool]
    return visual[0] if visual and asks_for_sight(text) else tools[0]


def numbers(field: Field, findings: Findings) -> list[int]:
    """Selects the lines, or else the numbered evidence, that cover the question, best first.

    A line is worth what it states, or what the sources that it names state. Statements of the best chain count
    together: a table's row and the passage about one of its cells.
    """
    kind = FieldKind.NODE if field.kind is FieldKind.PARENTS else FieldKind.CANDIDATE
    evidence = findings.evidence
    number_of: dict[str, int] = {}
    for line in findings.lines(kind):
        for source in (f"{kind.lower()} {line.number}", *_SOURCE.findall(line.text)):
            number_of.setdefault(source, line.number or 0)
    if not number_of:
        sources = (entry.statement.source for entry in evidence.entries)
        number_of = {source: int(source) for source in sources if source.isdecimal()}

    values: dict[int, float] = dict.fromkeys(number_of.values(), 0.0)
    strength, chain = evidence.best_chain
    for place, entry in enumerate(evidence.entries):
        number = number_of.get(entry.statement.source)
        if number is not None:
            value = strength if place in chain else entry.bearing
            values[number] = max(values[number], value)

    ranked = sorted(values, key=lambda number: -values[number])
    least = KEPT * max(values.values(), default=0.0)
    selected = [number for number in ranked if values[number] > 0 and values[number] >= least]
    # One has to be named where the form demands it, even if none covers anything.
    return (selected or ranked[: not field.optional])[: field.most or MOST_VALUES]


def triples(findings: Findings) -> list[str]:
    """Lists the triples of relevant statements, without given ones, or else one that the question presumes."""
    found = {line.text for line in findings.lines(FieldKind.FOUND)}
    stated = [" | ".join(edge) for statement in findings.relevant() for edge in edges(statement)]
    missing = [triple for triple in dict.fromkeys(stated) if triple not in found]
    if stated or found:
        return missing or ["none"]
    [subject, *_] = [*names(findings.question), "The question"]
    return [f"{subject} | has | {theme(findings)}"]


def edges(statement: Statement) -> Iterator[tuple[str, str, str]]:
    """Yields the triples of a statement: itself, the cells of a row, words between two names, or the whole text."""
    title, text = statement.title or "The evidence", statement.text
    if statement.triple:
        yield statement.triple
        return
    # A row is about its first value that is no number.
    subject = next((value for _, value in statement.cells if not value[:1].isdigit()), title)
    yield from ((subject, header, value) for header, value in statement.cells if value != subject)
    between = []
    for (head, _, end), (tail, start, _) in pairwise(name_spans(text)):
        relation = text[end:start].strip(" ,")
        if relation.islower() and len(relation.split()) <= RELATION_WORDS:
            between.append((head, relation, tail))
    yield from between
    if not between and not statement.cells:
        yield title, "shows" if statement.seen else "states", text.rstrip(".")


def pairs(findings: Findings) -> list[str]:
    """Lists the question's parts, with the answer to the whole where it is known."""
    known = {findings.question: findings.answer if findings.suffices else ""}
    return [f"{part} | {known.get(part) or 'uncertain'}" for part in parts(findings.question)]


def calls(tools: Sequence[str], findings: Findings) -> list[str]:
    """Plans a search for each part of the question, and one in texts for what pictures may not name."""
    searches = [(tool_for(part, tools), part) for part in parts(findings.question)]
    return [f"{tool} | {part}" for tool, part in (*searches, (tools[0], findings.question))]


def texts(field: Field, findings: Findings) -> list[str]:
    """Returns the texts of a field by its kind."""
    # What the reader cannot tell from its findings, such as the faults that a role's own form asks for.
    if field.label and field.optional:
        return []
    match field.kind:
        case FieldKind.SUMMARY | FieldKind.DESCRIPTION | FieldKind.THOUGHT:
            if field.optional and not findings.bears:
                return []
            relevant = findings.relevant(seen=field.kind is FieldKind.DESCRIPTION)
            return [sentences(relevant[:SENTENCES]) or NOTHING]
        case FieldKind.SUB_QUESTION if field.many:
            return list(parts(findings.question))
        case FieldKind.QUERY | FieldKind.SUB_QUESTION | FieldKind.INSTRUCTION:
            if not findings.suffices:
                return [*findings.searches(), findings.question]
            # A question can go without a search, but no instruction without a text.
            unneeded = field.optional and field.kind is not FieldKind.INSTRUCTION
            return [] if unneeded else [findings.question]
        case FieldKind.CANDIDATE:
            return [answer for answer in findings.answers.values() if answer] or ["unknown"]
        case FieldKind.ENTITY | FieldKind.KEYWORD:
            return names(findings.question)
        case FieldKind.THEME:
            return [theme(findings)]
        case _:
            return []


def names(text: str) -> list[str]:
    """Returns the names in a text, or else the text itself."""
    found = {normal_name(name): name for name, _, _ in name_spans(text)}
    return list(found.values()) or [text]


def theme(findings: Findings) -> str:
    """Returns what the question asks for, in a word or two."""
    form = findings.evidence.asked.form
    head = [word for word in words(form.text) if stem(word) in form.head]
    return " ".join(dict.fromkeys(head)) or str(form.answer_type)


def sentences(statements: Sequence[Statement]) -> str:
    """Writes statements as sentences, each once. A title stands before those that do not contain it."""
    lines: dict[str, None] = {}
    last_title = ""
    for statement in statements:
        title = statement.title
        text = f"{(statement.text or f'{title} is shown').rstrip('.')}."
        # A reader takes an earlier title for that of the sentences after it.
        if title and title != last_title and (last_title or title.lower() not in text.lower()):
            text = f"{title}: {text}"
            last_title = title
        lines[text] = None
    return " ".join(lines)
