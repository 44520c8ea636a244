"""Fills the form of a task, whatever the task is, from the findings of the turn.

Each field gets what its type and kind ask for: the answer, numbers of candidates, triples, relevant sentences, words to
look up. A field that may be left out is left out where nothing was found for it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from actors.messages import Field, FieldKind, NodeType, Value
from actors.prompting.safe_text import one_line
from actors.reader.english import PICTURE_WORDS, content_stems, cut_to_tokens, name_spans, normal_name, stem
from actors.reader.findings import Findings
from actors.reader.question import parts
from actors.reader.statements import NOTHING, Statement

SENTENCES = 4  # of a text
TEXT_TOKENS = 160  # of a text; a form with two of them fits into a reply of 512 tokens
MOST_VALUES = 8  # of a field that sets no number
RELATION_WORDS = 6  # at most, between two names
KEPT = 0.6  # share of the best candidate's value, for another one to be selected too
_PICTURE_STEMS = frozenset(map(stem, PICTURE_WORDS))
_SOURCE = re.compile(r"\[(\d+)\]")


def fill(fields: Sequence[Field], findings: Findings) -> str:
    """Returns the reply: a line for each value, fields in the form's order."""
    lines: list[str] = []
    for field in fields:
        # One line a value: text after a line break might be read as another field.
        values = dict.fromkeys(map(one_line, values_of(field, findings)))
        values.pop("", None)
        most = 1
        if field.many:
            most = field.most or MOST_VALUES
        for value in list(values)[:most]:
            lines.append(f"{field.name}: {value}")

    # A reply states something, if only that there is nothing.
    return "\n".join(lines) or f"{fields[0].name}: none"


def values_of(field: Field, findings: Findings) -> Iterable[str]:
    """Returns the values of a field, best first. Empty texts are none."""
    if field.values:
        return [choice(field, findings)]
    match field.value:
        case Value.ANSWER if field.optional:
            return [findings.answer]
        case Value.ANSWER:
            return [findings.answer or "unknown"]
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
    """Returns one of the values that the form allows. The last of them denies, or ends something."""
    values = field.values
    match field.kind:
        case FieldKind.TYPE:
            return next_step(findings)
        case FieldKind.INTENTS:
            return values[min(len(parts(findings.question)), len(values)) - 1]
        case FieldKind.SIDE:
            for name, answer in findings.colleagues.items():
                if answer and answer == findings.answer:
                    return name
            return values[-1]
        case FieldKind.ACTION:
            searches = findings.searches()
            return tool_for(searches[0], values) if searches else values[-1]
        case FieldKind.RELEVANT:
            affirmed = findings.bears
        case FieldKind.VISUAL:
            affirmed = asks_for_sight(findings.question)
        case FieldKind.RETRIEVE:
            affirmed = not findings.suffices
        case FieldKind.SUPPORTED:
            first_answer = next(iter(findings.lines(FieldKind.ANSWER)), None)
            affirmed = first_answer is not None and normal_name(first_answer.text) == normal_name(findings.answer)
        case _:
            affirmed = findings.suffices
    return values[0] if affirmed else values[-1]


def next_step(findings: Findings) -> NodeType:
    """Returns the type of a plan's next node: searches until the evidence suffices, then an answer, then the end."""
    if findings.searches():
        return NodeType.RETRIEVAL
    for node in findings.lines(FieldKind.NODE):
        if node.text.startswith(NodeType.ANSWER):
            return NodeType.STOP
    return NodeType.ANSWER


def asks_for_sight(text: str) -> bool:
    """True where the words of a question, apart from its names, ask for something visible."""
    for name, _, _ in name_spans(text):
        text = text.replace(name, "")
    return not _PICTURE_STEMS.isdisjoint(content_stems(text))


def tool_for(text: str, tools: Sequence[str]) -> str:
    """Returns the tool that looks for a text: the first one, or one for pictures if the text asks for sight."""
    if asks_for_sight(text):
        for tool in tools:
            if "picture" in tool or "image" in tool:
                return tool
    return tools[0]


def numbers(field: Field, findings: Findings) -> list[int]:
    """Selects the lines, or else the numbered evidence, that cover the question, best first.

    A line is worth what it states, or what the sources that it names state.
    """
    kind = FieldKind.NODE if field.kind is FieldKind.PARENTS else FieldKind.CANDIDATE
    evidence = findings.evidence
    number_of: dict[str, int] = {}
    for line in findings.lines(kind):
        for source in (f"{kind.lower()} {line.number}", *_SOURCE.findall(line.text)):
            number_of.setdefault(source, line.number or 0)
    if not number_of:
        for entry in evidence.entries:
            source = entry.statement.source
            if source.isdecimal():
                number_of[source] = int(source)

    values: dict[int, float] = dict.fromkeys(number_of.values(), 0.0)
    for entry, share in zip(evidence.entries, evidence.shares, strict=True):
        number = number_of.get(entry.statement.source)
        if number is not None:
            values[number] = max(values[number], share)

    ranking = sorted(values, key=lambda number: -values[number])
    best = max(values.values(), default=0.0)
    selection = [number for number in ranking if values[number] >= KEPT * best]
    if not best:
        # One has to be named, even if none covers anything.
        selection = [] if field.optional else ranking[:1]
    return selection[: field.most or MOST_VALUES]


def triples(findings: Findings) -> list[str]:
    """Lists the triples of relevant statements, without given ones, or else one that the question presumes."""
    given = {line.text for line in findings.lines(FieldKind.FOUND)}
    statement_triples: dict[str, None] = {}
    for statement in findings.relevant():
        statement_triples |= dict.fromkeys(map(" | ".join, edges(statement)))
    if statement_triples or given:
        return [triple for triple in statement_triples if triple not in given] or ["none"]
    subject = names(findings.question)[0] or "The question"
    return [f"{subject} | has | {theme(findings)}"]


def edges(statement: Statement) -> Iterator[tuple[str, str, str]]:
    """Yields the triples of a statement: itself, the cells of a row, words between two names, or the whole text."""
    title = statement.title or "The evidence"
    text = statement.text
    if statement.triple:
        yield statement.triple
    elif statement.cells:
        # A row is about its first value that is no number.
        subject = next((value for _, value in statement.cells if not value[:1].isdigit()), title)
        for header, value in statement.cells:
            if value != subject:
                yield subject, header, value
    else:
        has_relation = False
        for (head, _, end), (tail, start, _) in pairwise(name_spans(text)):
            relation = text[end:start].strip(" ,")
            if relation.islower() and len(relation.split()) <= RELATION_WORDS:
                has_relation = True
                yield head, relation, tail
        if not has_relation:
            relation = "shows" if statement.seen else "states"
            yield title, relation, text.rstrip(".")


def pairs(findings: Findings) -> list[str]:
    """Lists the question's parts, with the answer to the whole where it is known."""
    *smaller_questions, whole = parts(findings.question)
    answer = findings.answer if findings.suffices else "uncertain"
    lines = [f"{question} | uncertain" for question in smaller_questions]
    return [*lines, f"{whole} | {answer}"]


def calls(tools: Sequence[str], findings: Findings) -> list[str]:
    """Plans a search for each part of the question, and one in texts for what pictures may not name."""
    searches = [f"{tool_for(part, tools)} | {part}" for part in parts(findings.question)]
    return [*searches, f"{tools[0]} | {findings.question}"]


def texts(field: Field, findings: Findings) -> list[str]:
    """Returns the texts of a field by its kind."""
    # Fields that the reader cannot fill from its findings, such as the faults that a role's own form asks for.
    if field.label and field.optional:
        return []
    match field.kind:
        case FieldKind.SUMMARY | FieldKind.DESCRIPTION | FieldKind.THOUGHT:
            if field.optional and not findings.bears:
                return []
            statements = findings.relevant()
            if field.kind is FieldKind.DESCRIPTION:
                statements = list(filter(attrgetter("seen"), statements))
            return [cut_to_tokens(sentences(statements[:SENTENCES]), TEXT_TOKENS) or NOTHING]
        case FieldKind.SUB_QUESTION if field.many:
            return list(parts(findings.question))
        case FieldKind.QUERY | FieldKind.SUB_QUESTION if field.optional and findings.suffices:
            return []
        case FieldKind.QUERY | FieldKind.SUB_QUESTION | FieldKind.INSTRUCTION:
            return [*findings.searches(), findings.question]
        case FieldKind.CANDIDATE:
            return list(filter(None, findings.colleagues.values())) or ["unknown"]
        case FieldKind.ENTITY | FieldKind.KEYWORD:
            return names(findings.question)
        case FieldKind.THEME:
            return [theme(findings)]
        case _:
            return []


def names(text: str) -> list[str]:
    """Returns the names in a text, or else the text itself."""
    spellings = {normal_name(name): name for name, _, _ in name_spans(text)}
    return list(spellings.values()) or [text]


def theme(findings: Findings) -> str:
    """Returns what the question asks for, in a word or two."""
    form = findings.evidence.asked.form
    head = [word for word in form.words if stem(word) in form.head]
    return " ".join(dict.fromkeys(head)) or str(form.answer_type)


def sentences(statements: Sequence[Statement]) -> str:
    """Writes statements as sentences, each once, with a title where a reader would take another one for theirs."""
    lines: dict[str, None] = {}
    last_title = ""
    for statement in statements:
        title = statement.title
        text = statement.text or f"{title} is shown"
        text = f"{text.rstrip('.')}."
        # A reader takes an earlier title for that of the sentences after it.
        if title and title != last_title and (last_title or title.lower() not in text.lower()):
            text = f"{title}: {text}"
            last_title = title
        lines[text] = None
    return " ".join(lines)
