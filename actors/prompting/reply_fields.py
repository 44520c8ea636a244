"""Finds the fields of a form in a reply: in JSON, under labels, in tags, or in sentences.

Linear in the reply's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

import html
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.field_values import read_values
from actors.prompting.form import PARTS, PROSE, FieldFault, FieldText, Form, is_long
from actors.prompting.own_words import own_words
from actors.prompting.plain_value import SENTENCE_ENDS, THE_ANSWER_IS
from actors.prompting.reply_json import decode, escaped, mended
from actors.prompting.safe_text import one_line
from actors.prompting.words import pattern, words

# A line that begins with a name: `**Final answer:** ...`, `2. My answer is: ...`, `| Answer | ... |`.
_LABEL = re.compile(
    r"(?P<marks>[\W_]{0,16}+(?:\d{1,2}[.)][\W_]{0,8}+)?)(?P<name>[^\W\d_][^:：﹕=→|\n\"']{0,60}?)[\s*_`]*"
    r"(?:(?:[:：﹕\t]|=(?!=)|->|=>|→|(?<=[*_\s])[–—-](?=\s)|\|(?=[^|]*\|?\s*\Z))[*_`]*(?P<value>.*)|\Z)"
)
# A head of several cells, a rule and one row.
_TABLE = re.compile(r"^\|(?P<head>[^|\n]+\|[^\n]+)\|\s*\n\|[\s:|-]+\|\s*\n\|(?P<row>[^\n]+)\|\s*\Z", re.MULTILINE)
_HEADING = re.compile(r"\s*(?:[A-Z]|[\W_]*[#*_])")
_BEFORE_NAME = pattern("<names.before>(?=[a-z])")
_NO_NAME = re.compile(r"\([^()]*\)|\sis\Z")  # a remark in brackets, and `Answer is: ...`
_NO_LETTERS = re.compile(r"[\W\d_]+")
_NAME_CHARACTERS = 80
# `Answer: Paris (confidence 0.8)`, `Answer: Paris, confidence: 80%`, and the former at the end of a reply.
_WITH_SHARE = re.compile(
    r"^([^a-z\n]{0,20}(?:\w{1,8} ){0,3}answer\b[^\n]{0,400}?)[ ,;.|*_]{0,4}\(?[ ]?confidence[*_]{0,3}:?[ ]"
    r"([^()\s]{1,12}(?:\spercent)?)\)?[.*_]*$",
    re.IGNORECASE | re.MULTILINE,
)
_SHARE_AT_END = re.compile(r"\(confidence:?\s([^()]{1,20})\)\s*\Z", re.IGNORECASE)
# `Ergebnis: B`, `Solution: B`. A solution in words leads to an answer, and may be none.
_RESULT = pattern(
    r"^[\s>*_#-]{0,8}(?:<names.before>\s)?(?:<names.result>|<names.conclusion>(?=\W{1,8}(?-i:[A-Z])\W{0,4}$))"
    r"[*_]{0,3}\s?[:：=](?!=)",
    re.IGNORECASE | re.MULTILINE,
)
# `["B"]`, `## B`: marks around a value alone in a reply.
_QUOTED = re.compile(r"\A[\[({]\s*([\"'])([^\"'\n]{1,200})\1\s*[\])}]\Z")
_HEADING_MARKS = re.compile(r"\A(?:#{2,6}|>{1,6})\s++")
_BETWEEN_OBJECTS = " ,\n]`"
_SHORT_WORDS = 6
# Marks and words of a label or a sentence, in Chinese too.
_NO_BARE_ANSWER = re.compile(r"[:：?？是<{\[|]|答案|\b(?:is|are|was|it's|I|think|sure|help|assist)\b")


class Labels:
    """The names of a form's fields in replies: labels of lines, names of tags and keys of objects.

    No two fields share one: a field's own name goes before other names of another.
    """

    def __init__(self, fields: tuple[Field, ...]) -> None:
        names = [field.name for field in fields]
        self._fields = dict(zip(map(_letters, names), fields, strict=True))
        for field in fields:
            for name in (field.name, re.sub("y$", "ie", field.name), *words("names", field.kind)):
                self._fields.setdefault(_letters(name), field)
                self._fields.setdefault(_letters(f"{name}s"), field)

        tags = re.sub(r"[^\w|]", "[ _-]?", "|".join(names))
        self._tag = re.compile(rf"^\s*<({tags})>(.*?)(</\1>|\Z)", re.IGNORECASE | re.DOTALL | re.MULTILINE)
        labels_within_line = "|".join(map(re.escape, names))
        self._label_within_line = re.compile(
            rf"(?:(?<=[|;,.])|(?<![A-Za-z])\s|^)\s*[*_]{{0,3}}(?P<name>{labels_within_line})[*_]{{0,3}}:(?=[\s*_])"
        )

    def field(self, name: str) -> Field | None:
        """Returns the field of a label, tag or key, in any case and with anything between its words."""
        letters = _letters(_NO_NAME.sub("", name[:_NAME_CHARACTERS]))
        while letters not in self._fields:
            word = _BEFORE_NAME.match(letters)
            if word is None:
                return None
            letters = letters[word.end() :]
        return self._fields[letters]

    def field_text(self, line: str) -> FieldText | None:
        """Reads a line that begins with a label, or a row of a table of triples. None for any other line."""
        label = _LABEL.match(line)
        field = None
        if label and (label["value"] is not None or _HEADING.match(line)):
            field = self.field(label["name"])
        if label is None or field is None:
            triple_field = self._fields.get(FieldKind.TRIPLE.casefold())
            is_row = line.lstrip().startswith("|")
            return FieldText(triple_field, [line]) if triple_field and is_row else None

        value = (label["value"] or "").strip()
        if "|" in label["marks"]:
            value = value.strip(" \t|")
        emphasis = label["marks"].rpartition(" ")[2]
        if emphasis and value.count(emphasis) % 2:  # it began before the label
            value = value.removesuffix(emphasis)
        is_plural = label["name"].casefold().endswith("s") and not field.name.endswith("s")
        return FieldText(field, [value], is_plural)

    def table_as_labels(self, text: str) -> str:
        """Turns a table of one row at the end, whose head names fields, into labels."""
        table = _TABLE.search(text)
        if table is None:
            return text
        names = table["head"].split("|")
        values = table["row"].split("|")
        if len(names) != len(values) or not all(map(self.field, map(str.strip, names))):
            return text
        lines = [f"{name.strip()}: {value.strip()}" for name, value in zip(names, values, strict=True)]
        return text[: table.start()] + "\n".join(lines)

    def tags_as_labels(self, text: str) -> str:
        """Turns tags that begin lines and are fields' names into labels, and prose in them into a line:
        `<answer>Paris</answer>`."""

        def label(tag: re.Match[str]) -> str:
            field = self.field(tag[1])
            value = html.unescape(tag[2])
            if field and field.kind in PROSE:
                value = one_line(value)
            end = "\n" if tag[3] else ""
            return f"\n{tag[1]}: {value}{end}"

        # Behind the end of a tag another one may begin.
        for _ in self._fields:
            text, count = self._tag.subn(label, text)
            if not count:
                break
        return text

    def labels_apart(self, text: str, fields: Sequence[Field]) -> str:
        """Puts each label within a line on a new one: `Reasoning: ... Answer: ... Confidence: ...`.

        Only where every label occurs there once: a repeated one may be quoted.
        """
        apart = _SHARE_AT_END.sub(r"\nConfidence: \1", text)
        present = [match["name"] for match in self._label_within_line.finditer(apart)]
        if len(set(present)) < len(present) or len(present) < max(2, len(fields)):
            return text

        apart = self._label_within_line.sub(r"\n\g<name>:", apart)
        # The sentence of an answer ends before its confidence.
        return re.sub(r"[ |;,]+\n|(?<=[a-z0-9)])\.\n(?=Confidence)", "\n", apart)


labels = lru_cache(maxsize=256)(Labels)  # once for all replies


def _letters(name: str) -> str:
    return _NO_LETTERS.sub("", name.casefold())


def find_fields(text: str, form: Form, full_form: Form, cut_off: bool = False) -> tuple[str, list[FieldText]]:
    """Returns the text before the first field, and the fields. Others of the full form end them and are left out."""
    names = labels(full_form.fields)
    text = own_words(text, names.field)
    preamble, field_texts = fields_in_json(text, names, cut_off)
    if not field_texts:
        text = names.tags_as_labels(names.table_as_labels(text))
        preamble, field_texts = fields_in_lines(text, names)
        if not cut_off and _missing(form, field_texts):
            apart = labels(form.fields).labels_apart(_RESULT.sub(f"{FieldKind.ANSWER}:", text), form.fields)
            if apart != text:
                preamble, field_texts = fields_in_lines(apart, names)

    if cut_off and field_texts:
        # In the last field, or in a remark behind its short value.
        last_text = field_texts[-1]
        last_text.is_cut = is_long(last_text.field) or len(last_text.lines) == 1
    field_texts = [field_text for field_text in field_texts if field_text.field in form.fields]
    if cut_off:
        return preamble, field_texts

    # Only the text before the fields with labels can be of a field without one.
    for field in _missing(form, field_texts):
        unlabelled = field_in_sentences(preamble, form, field)
        if unlabelled:
            preamble = ""
            field_texts.insert(0, unlabelled)
    return preamble, field_texts


def _missing(form: Form, field_texts: Sequence[FieldText]) -> list[Field]:
    """Lists the fields that a reply lacks. Optional ones are among them where it has none at all."""
    present = {field_text.field for field_text in field_texts}
    missing: list[Field] = []
    for field in form.fields:
        may_be_left_out = present and field.optional
        if field not in present and not may_be_left_out:
            missing.append(field)
    return missing


def fields_in_lines(text: str, names: Labels) -> tuple[str, list[FieldText]]:
    """Returns the text before the first label that begins a line, and the fields under labels."""
    preamble: list[str] = []
    field_texts: list[FieldText] = []
    lines = preamble
    for line in _WITH_SHARE.sub(r"\1\nConfidence: \2", text).split("\n"):
        field_text = names.field_text(line)
        if field_text:
            field_texts.append(field_text)
            lines = field_text.lines
        else:
            lines.append(line)
    return "\n".join(preamble), field_texts


def fields_in_json(text: str, names: Labels, cut_off: bool) -> tuple[str, list[FieldText]]:
    """Finds fields in objects whose keys name them, unless a label comes first. Lines after them may revise them.

    Returns the text before the first object, and the fields. Where the text was cut off, the last may lack words.
    """
    text = escaped(text)
    preamble, brace, _ = text.partition("{")
    if not brace or any(map(names.field_text, preamble.split("\n"))):
        return "", []

    field_texts: list[FieldText] = []
    end = len(preamble)
    with suppress(ValueError, RecursionError):  # the latter for brackets that are nested too deeply
        while text.startswith("{", end):
            value, end = decode(text, end)
            field_texts += fields_of(value, names)
            while end < len(text) and text[end] in _BETWEEN_OBJECTS:
                end += 1
    if not field_texts:
        return preamble, fields_of_part(text[len(preamble) :], names, cut_off)

    # Text behind an object may take back what was decided in it.
    behind, later_texts = fields_in_lines(text[end:], names)
    for field_text in field_texts:
        if not is_long(field_text.field):
            field_text.lines += behind.split("\n")
    return preamble, [*field_texts, *later_texts]


def fields_of_part(text: str, names: Labels, cut_off: bool) -> list[FieldText]:
    """Returns the fields of an object that lacks its end."""
    partial = mended(text, cut_off)
    field_texts = fields_of(partial, names)
    if cut_off and field_texts:
        # A string with its closing quote is whole. The empty line after it tells that the reply was cut off later.
        last_key = next(reversed(partial))
        closed = mended(text, cut_off=False)
        if isinstance(partial[last_key], str) and closed.get(last_key) == partial[last_key]:
            field_texts[-1].lines.append("")
    return field_texts


def fields_of(value: Any, names: Labels) -> list[FieldText]:
    """Returns the fields that keys of an object name, or of an object in it, with their values as lines."""
    if not isinstance(value, dict):
        return []
    field_texts: list[FieldText] = []
    for key, item in value.items():
        field = names.field(key)
        if field is None:
            field_texts += fields_of(item, names)
        elif item is not None or field.value is Value.ANSWER:
            items = item if isinstance(item, list) else [item]
            lines = [line_of(field, item) for item in items] or ["none"]
            if field.many:
                lines = ["", *map(one_line, lines)]
            elif len(lines) > 1:
                lines = [", ".join(lines)]
            field_texts.append(FieldText(field, "\n".join(lines).split("\n")))
    return field_texts


def line_of(field: Field, value: Any) -> str:
    """Writes a value of JSON, or an item of a list, as a reply in lines has it."""
    names = PARTS.get(field.value, ("",))
    if isinstance(value, dict) and names[0] in value:
        value = [value.get(name, "") for name in names]
    if isinstance(value, list):
        parts = [str(part).replace("|", "/") for part in value]
        return " | ".join(parts)
    return value if isinstance(value, str) else json.dumps(value)


def field_in_sentences(text: str, form: Form, field: Field) -> FieldText | None:
    """Finds a field that has no label: an answer after `the answer is`, or a value alone on its line."""
    if field.value is Value.ANSWER and THE_ANSWER_IS.search(text):
        _, field_texts = fields_in_lines(THE_ANSWER_IS.sub(f"\n{field.name}: ", text), labels((field,)))
        answers = set()
        for field_text in field_texts:
            field_text.lines[:1] = SENTENCE_ENDS.split(field_text.lines[0])
            answers.add(field_text.lines[0].rstrip(" .,;("))
        if len(answers) > 1:
            return None
        return field_texts[-1]

    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or not (field.values or field.value is Value.ANSWER):
        return None
    if field.value is Value.ANSWER:
        first_line = _QUOTED.sub(r"\2", _HEADING_MARKS.sub("", lines[0]))
        lines[0] = first_line
        is_short = (
            len(lines) == 1 and len(first_line.split()) <= _SHORT_WORDS and not _NO_BARE_ANSWER.search(first_line)
        )
        if not form.choices and not is_short:
            return None
        answer = read_values(FieldText(field, [first_line]), form.choices)
        if not answer or isinstance(answer, FieldFault):
            return None
    return FieldText(field, lines)
