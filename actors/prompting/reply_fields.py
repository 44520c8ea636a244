"""Finds the fields of a form in a reply: in JSON, under labels, in tags, or in sentences.

Linear in the reply's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

import html
import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import PARTS, PROSE, Form, RawField, is_long
from actors.prompting.own_words import own_words
from actors.prompting.plain_value import SENTENCE_ENDS
from actors.prompting.reply_json import decode, escaped, mended
from actors.prompting.safe_text import clean, one_line
from actors.prompting.words import words

# Marks with a meaning of their own: tags, objects, lists of lists, LaTeX, citations, channels, another label.
_MARKED = re.compile(r"[Cc]onfidence|[<◁{\\【]|\[\^|\^\[|\][(\[]|\[[A-Z]{2}|\[\s{0,80}\[|assistant")
# A line that begins with a name: `**Final answer:** ...`, `2. My answer is: ...`, `| Answer | ... |`.
_LABEL = re.compile(
    r"(?P<marks>[\W_]{0,16}+(?:\d{1,2}[.)][\W_]{0,8}+)?)(?P<name>[^\W\d_][^:：﹕=→|\n\"']{0,60}?)[\s*_`]*"
    r"(?:[:：﹕]|=(?!=)|->|=>|→|(?<=[*_\s])[–—-](?=\s)|\|(?=[^|]*\|\s*\Z))[*_`]*(?P<value>.*)"
)
_HEADING = re.compile(r"\s*(?:[A-Z]|[\W_]*[#*_])")
_BEFORE_NAME = re.compile(rf"(?:{'|'.join(words('names', 'before'))})(?=[a-z])")
# `Answer: Paris (confidence 0.8)`, `Answer: Paris, confidence: 80%`, and the former at the end of a reply.
_WITH_SHARE = re.compile(
    r"^([^a-z\n]{0,20}(?:(?:final|my|the|correct) )?answer\b[^\n]{0,400}?)[ ,;.|*_]{0,4}\(?[ ]?confidence[*_]{0,3}:?[ ]"
    r"([^()\s]{1,12}(?:\spercent)?)\)?[.*_]*$",
    re.IGNORECASE | re.MULTILINE,
)
_SHARE_AT_END = re.compile(r"\(confidence:?\s([^()]{1,20})\)\s*\Z", re.IGNORECASE)
_THE_ANSWER_IS = re.compile(
    r"(?:^|(?<=[\s,;(]))(?:the|my|our)\s(?:final\s|correct\s|right\s|best\s|most likely\s)?(?:answer|choice|option)\s"
    r"(?:to (?:the|this|your) question\s)?(?:is|would be)\s?[:：]?\s+(?=[^\n])",
    re.IGNORECASE | re.MULTILINE,
)
_FEW_WORDS = 6
# Marks and words of a label or a sentence, in Chinese too.
_NO_BARE_ANSWER = re.compile(r"[:：?？是<{\[|]|答案|\b(?:is|are|was|it's|think|sure|help|assist)\b")
_REFUSES = re.compile(r"\b(?:I|sorry|cannot|can't|can’t|unable)\b")
_OBJECTS = 200  # tried in one reply: each costs a scan of the rest at worst


class Labels:
    """The names of a form's fields in replies: labels of lines, names of tags and keys of objects.

    No two fields share one: a field's own name goes before other names of another.
    """

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = {_letters(field.name): field for field in fields}
        for field in fields:
            for name in (field.name, re.sub("y$", "ie", field.name), *words("names", field.kind)):
                self._fields.setdefault(_letters(name), field)
                self._fields.setdefault(_letters(f"{name}s"), field)
        names = "|".join(re.sub(r"\W", "[ _-]?", field.name) for field in fields)
        self._tag = re.compile(rf"<({names})>(.*?)(</\1>|\Z)", re.IGNORECASE | re.DOTALL)

    def field(self, name: str) -> Field | None:
        """Returns the field of a label, tag or key, in any case and with anything between its words."""
        letters = _letters(re.sub(r"\([^()]*\)|\sis\Z", "", name[:80]))
        while letters not in self._fields and (before := _BEFORE_NAME.match(letters)):
            letters = letters[before.end() :]
        return self._fields.get(letters)

    def labelled(self, line: str) -> RawField | None:
        """Reads a line that begins with a label. None for any other line."""
        label = _LABEL.match(line)
        name = label["name"] if label else line
        field = self.field(name) if label or _HEADING.match(line) else None
        if field is None:
            is_row = line.lstrip().startswith("|") and FieldKind.TRIPLE.casefold() in self._fields
            return RawField(self._fields[FieldKind.TRIPLE.casefold()], (line,)) if is_row else None
        value = label["value"].strip(" \t|" if line.lstrip().startswith("|") else None) if label else ""
        emphasis = re.search(r"[*_`]*\Z", label["marks"]) if label else None
        if emphasis and emphasis[0] and value.count(emphasis[0]) % 2:  # it began before the label
            value = value.removesuffix(emphasis[0])
        is_plural = re.search(r"s\W*\Z", name, re.IGNORECASE) is not None
        return RawField(field, (value,), is_plural and not field.name.endswith("s"))

    def tags_as_labels(self, text: str) -> str:
        """Turns tags that are fields' names into labels: `<answer>Paris</answer>`. Prose becomes one line."""

        def label(tag: re.Match[str]) -> str:
            field = self.field(tag[1])
            value = html.unescape(tag[2])
            value = one_line(value) if field and field.kind in PROSE else value
            return f"\n{tag[1]}: {value}" + ("\n" if tag[3] else "")

        return self._tag.sub(label, text)


labels = lru_cache(maxsize=256)(Labels)  # once for all replies


def _letters(name: str) -> str:
    return re.sub(r"[\W\d_]+", "", name.casefold())


def find_fields(text: str, form: Form, among: Form, cut_off: bool = False) -> tuple[str, list[RawField]]:
    """Returns the text before the first field, and the fields. Others of the form `among` end them and are left out."""
    names = labels(among.fields)
    if not cut_off and is_as_asked(text, form):
        return fields_in_lines(clean(text).strip(), names)
    text = own_words(text, names.field)
    before, raws = fields_in_json(text, names, cut_off)
    if not raws:
        text = names.tags_as_labels(text)
        before, raws = fields_in_lines(text, names)
        if not cut_off and {raw.field for raw in raws} < {*form.fields}:
            before, raws = fields_in_lines(labels_apart(text, form), names)
    return before, [raw for raw in raws if raw.field in form.fields]


def is_as_asked(text: str, form: Form) -> bool:
    """True for a reply in exactly the lines that were asked for, without marks that have a meaning.

    In the middle of it, reasoning may quote tags and labels.
    """
    names = {field.name: field for field in form.fields}
    missing = {field.name for field in form.fields if not field.optional}
    for line in clean(text).strip().split("\n"):
        name, _, value = line.partition(": ")
        if name not in names or not value.strip() or (name != FieldKind.REASONING and _MARKED.search(value)):
            return False
        missing.discard(name)
    return not missing


def fields_in_lines(text: str, names: Labels) -> tuple[str, list[RawField]]:
    """Returns the text before the first label that begins a line, and the fields under labels."""
    raws: list[RawField] = []
    lines: list[list[str]] = [[]]  # before the first label, and behind each
    for line in _WITH_SHARE.sub(r"\1\nConfidence: \2", text).split("\n"):
        if raw := names.labelled(line):
            raws.append(raw)
            lines.append([])
        else:
            lines[-1].append(line)
    whole = [replace(raw, lines=(*raw.lines, *more)) for raw, more in zip(raws, lines[1:], strict=True)]
    return "\n".join(lines[0]), [in_plain_lines(raw) for raw in whole]


def labels_apart(text: str, form: Form) -> str:
    """Puts each label within a line on a new one: `Reasoning: ... Answer: ... Confidence: ...`.

    Only where every label occurs there once: a repeated one may be quoted.
    """
    names = "|".join(re.escape(field.name) for field in form.fields)
    label = re.compile(rf"(?:(?<=[|;,.])|(?<![A-Za-z])\s|^)\s*[*_]{{0,3}}(?P<name>{names})[*_]{{0,3}}:(?=[\s*_])")
    apart = _SHARE_AT_END.sub(r"\nConfidence: \1", text)
    stated = [found["name"] for found in label.finditer(apart)]
    if len(set(stated)) < len(stated) or len(stated) < max(2, len(form.fields)):
        return text
    # The sentence of an answer ends before its confidence.
    return re.sub(r"[ |;,]+\n|(?<=[a-z0-9)])\.\n(?=Confidence)", "\n", label.sub(r"\n\g<name>:", apart))


def fields_in_json(text: str, names: Labels, cut_off: bool) -> tuple[str, list[RawField]]:
    """Finds fields in objects whose keys name them. Lines after the objects may revise them.

    Returns the text before the first object, and the fields. Where the text was cut off, the last may lack words.
    """
    text = escaped(text)
    raws: list[RawField] = []
    start = end = 0
    for brace in islice(re.finditer("{", text), _OBJECTS):
        with suppress(ValueError, RecursionError):  # the latter for brackets that are nested too deeply
            value, behind = decode(text, brace.start()) if brace.start() >= end else ({}, 0)
            if inside := fields_of(value, names):
                start = start if raws else brace.start()
                end = behind
                raws += inside
    if not raws:
        before, opening, rest = text.partition("{")
        return before, fields_of(mended(opening + rest, cut_off), names)
    between, later = fields_in_lines(text[end:], names)
    # Text behind an object may take back what was decided in it.
    raws = [raw if is_long(raw.field) else replace(raw, lines=(*raw.lines, *between.split("\n"))) for raw in raws]
    return text[:start], [*raws, *later]


def fields_of(value: Any, names: Labels) -> list[RawField]:
    """Returns the fields that keys of an object name, with their values as lines."""
    raws = []
    for key, item in value.items() if isinstance(value, dict) else ():
        field = names.field(key)
        if field and (item is not None or field.value is Value.ANSWER):
            raws.append(RawField(field, lines_of(field, item)))
    return raws


def lines_of(field: Field, value: Any) -> tuple[str, ...]:
    """Writes a value of JSON in lines, as under a label."""
    texts = in_words(field, value)
    if field.many and texts:
        return ("", *map(one_line, texts))
    return ((" " if field.kind in PROSE else ", ").join(texts) if texts else "none",)


def in_words(field: Field, value: Any) -> list[str]:
    """Writes a value of JSON as a reply in lines has it, or those of a list."""
    names = PARTS.get(field.value, ("",))
    if isinstance(value, dict) and names[0] in value:
        value = [value.get(name, "") for name in names]
    elif isinstance(value, list) and (len(value) != len(names) or not re.match(r"\['[^|]*\Z", str(value))):
        return [text for item in value for text in in_words(field, item)]
    if isinstance(value, list):
        return [" | ".join(str(part).replace("|", "/") for part in value)]
    return [value if isinstance(value, str) else json.dumps(value)]


def in_plain_lines(raw: RawField) -> RawField:
    """Returns a list that is JSON, or objects on a line each, in plain lines."""
    lines = [line.strip(" ,") for line in raw.lines if line.strip()]
    if not raw.field.many or not lines or not lines[0].startswith("{" if lines[1:] else ("{", "[")):
        return raw
    with suppress(ValueError, RecursionError):
        return replace(raw, lines=lines_of(raw.field, [json.loads(escaped(line)) for line in lines]))
    return raw


def fields_in_sentences(text: str, form: Form, field: Field) -> list[RawField]:
    """Finds a field that has no label: an answer after `the answer is`, or a value alone on its line."""
    if field.value is Value.ANSWER and _THE_ANSWER_IS.search(text):
        _, raws = fields_in_lines(_THE_ANSWER_IS.sub(f"\n{field.name}: ", text), labels((field,)))
        sentences = [SENTENCE_ENDS.split(raw.lines[0]) for raw in raws]
        different = {value.rstrip(" .,;(") for value, *_ in sentences}
        return [replace(raws[-1], lines=(*sentences[-1], *raws[-1].lines[1:]))] if len(different) == 1 else []
    lines = [line for line in text.split("\n") if line.strip()]
    is_answer = field.value is Value.ANSWER
    few = len(lines) == 1 and len(lines[0].split()) <= _FEW_WORDS and not _NO_BARE_ANSWER.search(lines[0])
    may_be_value = field.values or (is_answer and (form.choices or few))
    return [RawField(field, tuple(lines))] if may_be_value and lines and not _REFUSES.search(lines[0]) else []
