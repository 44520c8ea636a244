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
from actors.prompting.answer_value import read_answer
from actors.prompting.form import PARTS, PROSE, Form, RawField, is_long
from actors.prompting.own_words import own_words
from actors.prompting.plain_value import SENTENCE_ENDS, THE_ANSWER_IS
from actors.prompting.reply_json import decode, escaped, mended
from actors.prompting.safe_text import one_line
from actors.prompting.words import words

# A line that begins with a name: `**Final answer:** ...`, `2. My answer is: ...`, `| Answer | ... |`.
_LABEL = re.compile(
    r"(?P<marks>[\W_]{0,16}+(?:\d{1,2}[.)][\W_]{0,8}+)?)(?P<name>[^\W\d_][^:：﹕=→|\n\"']{0,60}?)[\s*_`]*"
    r"(?:(?:[:：﹕]|=(?!=)|->|=>|→|(?<=[*_\s])[–—-](?=\s)|\|(?=[^|]*\|\s*\Z))[*_`]*(?P<value>.*)|\Z)"
)
_HEADING = re.compile(r"\s*(?:[A-Z]|[\W_]*[#*_])")
_BEFORE_NAME = re.compile(rf"(?:{'|'.join(words('names', 'before'))})(?=[a-z])")
# `Answer: Paris (confidence 0.8)`, `Answer: Paris, confidence: 80%`, and the former at the end of a reply.
_WITH_SHARE = re.compile(
    r"^([^a-z\n]{0,20}(?:\w{1,8} ){0,3}answer\b[^\n]{0,400}?)[ ,;.|*_]{0,4}\(?[ ]?confidence[*_]{0,3}:?[ ]"
    r"([^()\s]{1,12}(?:\spercent)?)\)?[.*_]*$",
    re.IGNORECASE | re.MULTILINE,
)
_SHARE_AT_END = re.compile(r"\(confidence:?\s([^()]{1,20})\)\s*\Z", re.IGNORECASE)
_FEW_WORDS = 6
# Marks and words of a label or a sentence, in Chinese too.
_NO_BARE_ANSWER = re.compile(r"[:：?？是<{\[|]|答案|\b(?:is|are|was|it's|I|think|sure|help|assist)\b")
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
        self._tag = re.compile(rf"^\s*<({names})>(.*?)(</\1>|\Z)", re.IGNORECASE | re.DOTALL | re.MULTILINE)

    def field(self, name: str) -> Field | None:
        """Returns the field of a label, tag or key, in any case and with anything between its words."""
        letters = _letters(re.sub(r"\([^()]*\)|\sis\Z", "", name[:80]))
        while letters not in self._fields and (before := _BEFORE_NAME.match(letters)):
            letters = letters[before.end() :]
        return self._fields.get(letters)

    def labelled(self, line: str) -> RawField | None:
        """Reads a line that begins with a label. None for any other line."""
        label = _LABEL.match(line)
        field = self.field(label["name"]) if label else None
        if label is None or field is None or (label["value"] is None and not _HEADING.match(line)):
            triple = self._fields.get(FieldKind.TRIPLE.casefold())
            return RawField(triple, (line,)) if triple and line.lstrip().startswith("|") else None
        value = (label["value"] or "").strip(" \t|" if "|" in label["marks"] else None)
        emphasis = label["marks"].rpartition(" ")[2]
        if emphasis and value.count(emphasis) % 2:  # it began before the label
            value = value.removesuffix(emphasis)
        is_plural = re.search(r"s\W*\Z", label["name"], re.IGNORECASE) is not None
        return RawField(field, (value,), is_plural and not field.name.endswith("s"))

    def tags_as_labels(self, text: str) -> str:
        """Turns tags that begin lines and are fields' names into labels, `<answer>Paris</answer>`, and prose into a
        line."""

        def label(tag: re.Match[str]) -> str:
            field = self.field(tag[1])
            value = html.unescape(tag[2])
            value = one_line(value) if field and field.kind in PROSE else value
            return f"\n{tag[1]}: {value}" + ("\n" if tag[3] else "")

        for _ in self._fields:  # behind the end of a tag another one may begin
            text = self._tag.sub(label, text)
        return text


labels = lru_cache(maxsize=256)(Labels)  # once for all replies


def _letters(name: str) -> str:
    return re.sub(r"[\W\d_]+", "", name.casefold())


def find_fields(text: str, form: Form, among: Form, cut_off: bool = False) -> tuple[str, list[RawField]]:
    """Returns the text before the first field, and the fields. Others of the form `among` end them and are left out."""
    names = labels(among.fields)
    text = own_words(text, names.field)
    before, raws = fields_in_json(text, names, cut_off)
    if not raws:
        text = names.tags_as_labels(text)
        before, raws = fields_in_lines(text, names)
        required = {field for field in form.fields if not field.optional}
        if not cut_off and required - {raw.field for raw in raws}:
            before, raws = fields_in_lines(labels_apart(text, form), names)
    raws = [raw for raw in raws if raw.field in form.fields]
    # Only the text before the fields with labels can be of a field without one.
    for field in form.fields if not cut_off else ():
        is_missing = all(raw.field != field for raw in raws) and not (raws and field.optional)
        if is_missing and (more := fields_in_sentences(before, form, field)):
            raws = [*more, *raws]
            before = ""
    return before, raws


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
    return "\n".join(lines[0]), whole


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
    if any(map(names.labelled, text.partition("{")[0].split("\n"))):
        return "", []
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
            lines = [line_of(field, part) for part in (item if isinstance(item, list) else [item])] or ["none"]
            if field.many:
                lines = ["", *map(one_line, lines)]
            elif len(lines) > 1:
                lines = [", ".join(lines)]
            raws.append(RawField(field, tuple("\n".join(lines).split("\n"))))
    return raws


def line_of(field: Field, value: Any) -> str:
    """Writes a value of JSON, or an item of a list, as a reply in lines has it."""
    names = PARTS.get(field.value, ("",))
    if isinstance(value, dict) and names[0] in value:
        value = [value.get(name, "") for name in names]
    if isinstance(value, list):
        return " | ".join(str(part).replace("|", "/") for part in value)
    return value if isinstance(value, str) else json.dumps(value)


def fields_in_sentences(text: str, form: Form, field: Field) -> list[RawField]:
    """Finds a field that has no label: an answer after `the answer is`, or a value alone on its line."""
    is_answer = field.value is Value.ANSWER
    if is_answer and THE_ANSWER_IS.search(text):
        _, raws = fields_in_lines(THE_ANSWER_IS.sub(f"\n{field.name}: ", text), labels((field,)))
        first_sentences = {SENTENCE_ENDS.split(raw.lines[0])[0].rstrip(" .,;(") for raw in raws}
        lines = [*SENTENCE_ENDS.split(raws[-1].lines[0]), *raws[-1].lines[1:]]
        return [RawField(field, tuple(lines))] if len(first_sentences) == 1 else []
    lines = [line for line in text.split("\n") if line.strip()]
    is_short = len(lines) == 1 and len(lines[0].split()) <= _FEW_WORDS and not _NO_BARE_ANSWER.search(lines[0])
    if is_answer and lines and (form.choices or is_short):
        values = read_answer(field, lines[0], form.choices)
        is_answer = isinstance(values, tuple) and values != ()
    else:
        is_answer = False
    return [RawField(field, tuple(lines))] if lines and (is_answer or field.values) else []
