"""Finds the fields of a form in a reply: under labels, in tags, in JSON, or without labels.

Text without labels is read where it can only be of one field. Linear in the reply's length: repetitions in patterns are
bounded, possessive, or tried from one place only.
"""

import html
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from actors.messages import Field, FieldKind, Value
from actors.prompting.answer_value import stated_answer
from actors.prompting.field_values import decode, doubled, one_of, read_triple
from actors.prompting.form import PROSE, Form, RawField
from actors.prompting.reply_text import BULLET, SENTENCE_ENDS, ends_a_value, may_follow, undecorated
from actors.prompting.safe_text import clean

# What models call a field, other than its name and its plural.
_OTHER_NAMES = {
    FieldKind.ANSWER: ("final answer", "correct answer", "ans"),
    FieldKind.CONFIDENCE: ("confidence level", "confidence score", "confidence rating", "conf"),
    FieldKind.GRADE: ("score", "rating"),
    FieldKind.PARENTS: ("parent", "parent node"),
    FieldKind.REASONING: ("reason", "rationale", "explanation"),
}
# Words before a field's name.
_BEFORE = "the|my|our|your|final|overall|corrected|revised|updated|new|best|short|relevant"

_MARKS = r"(?:\W|_){0,16}+"
# Marks with a meaning of their own: tags, objects, lists of lists, LaTeX, citations, channels.
_MARKED = re.compile(r"[<◁{\\【]|\[\^|\^\[|\][(\[]|\[[A-Z]{2}|\[\s{0,80}\[|assistant")
_CLOSED_BY = str.maketrans("“‘([<", "”’)]>")
_TAG = re.compile(r"<(/?)([A-Za-z][\w -]{1,20})>")
_VALUES = 200  # tried as JSON in one reply: each costs a scan of the rest at worst
_THE_ANSWER_IS = re.compile(
    r"(?:^|[\s,;(])(?:the|my|our|so the)\s(?:final\s|correct\s|right\s|best\s|most likely\s)?(?:answer|choice|option)\s"
    r"(?:to (?:the|this|your) question\s)?"
    r"(?:is|would be)\s?[:：]?\s+(?=[^\n])",
    re.IGNORECASE,
)
_AFTER_INITIAL = re.compile(r"(?:[\w'’-]{1,40}\s){0,4}[A-Z]\.\s+\S")
_REFUSES = re.compile(
    r"\b(?:sorry|help with|assist)\b|\b(?:am|'m|’m) (?:unable|not able)\b|\bi (?:cannot|can't|can’t)\b|\bas an ai\b"
    r"|\b(?:rather not|prefer not to|declines? to)\b",
    re.IGNORECASE,
)
_SHORT_WORDS = 6
# Marks and words of a label or a sentence, in Chinese too.
_NO_BARE_ANSWER = re.compile(r"[:：?？是<{\[|]|答案|\b(?:is|are|was|I|it's|think|sure)\b")


class Labels:
    """The names of a form's fields in replies: as labels of lines and keys of objects.

    No two fields share one: a field's own name goes before other names of another.
    """

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields: dict[str, Field] = {}
        self._plurals: set[str] = set()
        names: list[str] = []
        others = [(field, name) for field in fields for name in _OTHER_NAMES.get(field.kind, ())]
        for field, name in [*((field, field.name) for field in fields), *others]:
            for label in (name, plural(name)):
                if _letters(label) not in self._fields:
                    self._fields[_letters(label)] = field
                    names.append(label)
                    self._plurals |= {_letters(label)} if label != name else set()
        # The longest first, as `reasoning` begins with `reason`.
        names.sort(key=len, reverse=True)
        any_name = "|".join(re.escape(name).replace("\\ ", r"[ _-]?").replace("\\-", r"[ _-]?") for name in names)
        # A line that begins with a name: `**Final answer:** ...`, `2. My answer is: ...`, `### Answer`.
        self.pattern = re.compile(
            rf"\s*+(?P<before>{_MARKS}(?:\d{{1,2}}[.)](?:\W|_){{0,8}}+)?)"
            rf"(?:(?:{_BEFORE})[ _]){{0,3}}(?P<name>{any_name})"
            r"(?P<number>[\s_]?+(?:#\s?)?\d{1,2}(?![\w.]))?"
            r"(?:\sis(?=\s?[:：]))?(?:\s?\([^()\n]{1,40}\)(?=[*_`]{0,3}\s?[:：]))?"
            r"(?P<after>[\s*_`\"'”’]{0,8}+)(?:(?:[:：﹕]|=(?!=)|->|=>|→|(?<=[*_\s])[–—-](?=\s))"
            r"(?P<closing>[*_`]{0,3}+)(?P<value>.*)|$)",
            re.IGNORECASE,
        )

    def field(self, name: str) -> Field | None:
        """Returns the field of a label or key, in any case and with anything between its words."""
        plain = _letters(name)
        return self._fields.get(plain) or self._fields.get(re.sub(rf"^(?:{_BEFORE}){{1,3}}", "", plain, count=1))

    def is_plural(self, name: str) -> bool:
        """True for the label of several values."""
        return _letters(name) in self._plurals


labels = lru_cache(maxsize=256)(Labels)  # once for all replies


def plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else name if name.endswith("s") else f"{name}s"


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]+", "", name.lower())


def fields_as_asked(text: str, form: Form) -> list[RawField]:
    """Finds the fields of a reply in exactly the lines that were asked for.

    None for any other reply, nor where a value has marks with a meaning. Reasoning may quote tags and labels there.
    """
    fields = {field.name: field for field in form.fields}
    lines = clean(text).strip().split("\n")
    raws = []
    for line in lines:
        name, _, value = line.partition(": ")
        if name not in fields or not (value := value.strip()):
            return []
        # In the middle of a whole form, reasoning may mention marks.
        if fields[name].kind is not FieldKind.REASONING and _MARKED.search(value):
            return []
        raws.append(RawField(fields[name], (value,)))
    return raws


def find_fields(text: str, form: Form, among: Form, cut_off: bool = False) -> tuple[str, list[RawField]]:
    """Returns the text before the first field, and the fields. Others of the form `among` end them and are left out."""
    names = labels(among.fields)
    before, raws = fields_in_json(text, names, cut_off)
    if not raws:
        before, raws = fields_in_lines(text, names)
    return before, [raw for raw in raws if raw.field in form.fields]


def fields_in_lines(text: str, names: Labels) -> tuple[str, list[RawField]]:
    """Returns the text before the first label that begins a line, and the fields under labels.

    Tags that are fields' names are labels too: `<answer>Paris</answer>`. Other tags on a line alone are left out.
    """
    tags = [(tag, field) for tag in _TAG.finditer(text) if (field := names.field(tag[2]))]
    if tags:
        pieces, start, prose = list[str](), 0, False
        for tag, field in tags:
            inner = text[start : tag.start()]
            pieces += [inner.replace("\n", " ") if prose else inner, "\n" if tag[1] else f"\n{field.name}: "]
            start, prose = tag.end(), not tag[1] and field.kind in PROSE
        lines = "".join([*pieces, text[start:].replace("\n", " ") if prose else text[start:]]).split("\n")
        text = html.unescape("\n".join(line for line in lines if not _TAG.fullmatch(line.strip())))
    triples = names.field(FieldKind.TRIPLE)
    before: list[str] = []
    found: list[tuple[Field, list[str], bool]] = []  # field, lines, several
    for line in text.split("\n"):
        label = names.pattern.match(line)
        field = names.field(label["name"]) if label else None
        # A name alone on its line is a heading where it has a mark, or the form's spelling.
        spelt = label and (label["value"] is not None or label["name"][0].isupper())
        if label and field and (spelt or set(label["before"]) & set("#*_")):
            several = names.is_plural(label["name"]) and not label["number"]
            value = (label["value"] or "").strip()
            # An emphasis or quotation that began before the name ends with the value.
            if opened := re.search(r"[*_`\"'“‘]+$", label["before"]):
                if not label["after"].strip() + (label["closing"] or ""):
                    value = value.removesuffix(opened[0].translate(_CLOSED_BY)[::-1])
                elif label["after"].startswith(('"', "'")):
                    value = ""  # on one line of an object that is broken off or none, the end is not certain
            found.append((field, [value], several))
        # A row of a table may be a triple without a label. Before the first label, other text with bars is prose.
        elif (
            triples
            and (found[-1][0] is not triples if found else line.lstrip().startswith("|"))
            and "|" in line
            and read_triple(line.strip())
        ):
            found.append((triples, [line], True))
        else:
            (found[-1][1] if found else before).append(line)
    return "\n".join(before), [RawField(field, tuple(lines), several) for field, lines, several in found]


def on_lines_of_their_own(text: str, form: Form) -> str:
    """Puts each label within a line on a new one: `Reasoning: ... Answer: ... Confidence: ...`, and
    `Reasoning: ... Answer: ... (confidence 0.80)`, as prompts show messages of others.

    Only where every label occurs there once: a repeated one may be quoted.
    """
    names = "|".join(re.escape(field.name) for field in form.fields)
    pattern = re.compile(rf"(?:(?<=[\s|;,.])|^)(?:\|\s?)?[*_]{{0,3}}(?P<name>{names})[*_]{{0,3}}:(?=[\s*_])")
    found = list(pattern.finditer(text))
    stated = {label["name"] for label in found}
    if len(stated) < len(found):
        return text
    if found and found[-1]["name"] == FieldKind.ANSWER and undecorated(text[found[-1].end() :])[1] is not None:
        stated.add(FieldKind.CONFIDENCE)
    if len(stated) < max(2, len(form.fields)):
        return text
    pieces, start = [], 0
    for label in found:
        before = text[start : label.start()].rstrip(" \t\n|;,")
        # The sentence of an answer ends before its confidence.
        stop = label["name"] == FieldKind.CONFIDENCE and re.search(r"[a-z0-9)]\.$", before[-2:])
        pieces += [before[:-1] if stop else before, f"\n{label['name']}:"]
        start = label.end()
    return "".join([*pieces, text[start:]])


def fields_in_json(text: str, names: Labels, cut_off: bool) -> tuple[str, list[RawField]]:
    """Finds fields in objects whose keys name them. Lines after the objects may revise them.

    Returns the text before the first object, and the fields. Where the text was cut off, the last may lack words.
    """
    found: list[RawField] = []
    start, end = -1, 0
    for _ in range(_VALUES):
        opening = text.find("{", end)
        if opening < 0:
            break
        end = opening + 1
        with suppress(ValueError, RecursionError):  # the latter for brackets that are nested too deeply
            value, behind = decode(text, opening)
            if inside := fields_of(value, names):
                start, end = opening if start < 0 else start, behind
                found += inside
    start = start if found else text.find("{")
    if not found and start >= 0 and (cut_off or not text.rstrip("`\n ").endswith("}")):  # an object without its end
        with suppress(ValueError):
            begun = doubled(text[start:].replace("\n", " "))  # line breaks in strings are none of JSON's
            found = fields_of(from_json(begun, allow_partial="trailing-strings" if cut_off else True), names)
    elif found and text[end:].strip():
        between, later = fields_in_lines(text[end:], names)
        # Text behind an object may take back what was decided in it.
        decided = [n for n, raw in enumerate(found) if raw.field.values or raw.field.value is Value.ANSWER]
        last = decided[-1] if decided else len(found) - 1
        found[last] = replace(found[last], lines=(*found[last].lines, *between.split("\n")))
        found += later
    return text[: max(start, 0)], found


def fields_of(pairs: dict[str, Any], names: Labels) -> list[RawField]:
    """Returns the fields that keys of an object name, with their values as lines."""
    found = []
    for key, value in pairs.items():
        if field := names.field(key):
            if isinstance(value, list) and field.kind in PROSE:
                lines = tuple(map(str, value))
            elif isinstance(value, str):
                lines = tuple(value.split("\n"))
            elif isinstance(value, bool) and field.value is not Value.ANSWER:
                lines = ("yes" if value else "no",)
            else:
                lines = (json.dumps(value, ensure_ascii=False),)
            found.append(RawField(field, lines, names.is_plural(key)))
    return found


def unlabelled_fields(text: str, form: Form, missing: Sequence[Field]) -> list[RawField]:
    """Finds the fields that are `missing` in text that names no field: an answer, or one of a field's values, at the
    beginning or the end. None where that is not certain."""
    lines = [line for line in text.split("\n") if line.strip()]
    required = [field for field in missing if not field.optional]
    answer = next((field for field in missing if field.value is Value.ANSWER), None)
    if not lines:
        return []
    if answer and (value := unlabelled_answer(text, lines, form.choices)):
        return [RawField(answer, (value,))]
    if len(form.fields) == 1 and form.fields[0].optional and text.strip(" \n.").lower() == "none":
        return [RawField(form.fields[0], ("none",))]
    # A list may begin with a number.
    if len(required) != 1 or (required[0].values[:1] == ("1",) and (len(lines) > 1 or "-" in text)):
        return []
    stated = {one_of(line.strip(" *_`#>-"), required[0]) for line in (lines[0], lines[-1])} - {None}
    return [RawField(required[0], tuple(map(str, stated)))] if len(stated) == 1 else []


def unlabelled_answer(text: str, lines: Sequence[str], choices: Sequence[str]) -> str:
    """Finds an answer after `the answer is`, or alone. Empty where there is none."""
    if called := called_the_answer(text):
        # A letter's full stop may end a sentence or be a name's (`John F. Kennedy`), unless letters are the choices'.
        initials = not choices and any(map(_AFTER_INITIAL.match, called))
        values = {sentence(value) for value in called}
        last = sentence(called[-1])
        on_line, *behind = text[text.rfind(called[-1]) + len(last) :].split("\n")
        behind = behind if ends_a_value(on_line) else [on_line, *behind]
        negated = any(value.lower().startswith("not ") for value in values)
        certain = len(values) == 1 and not (initials or negated)
        return last if certain and may_follow(behind, lambda line: sentence(line) in values) else ""
    line = lines[0]
    if len(lines) > 1 or _REFUSES.search(line):
        return ""
    if choices:
        return line if stated_answer(line, choices)[0] else ""
    # Few words, and no sentence.
    few = 0 < len(line.strip(" *_`\"'.").split()) <= _SHORT_WORDS
    return line if few and not BULLET.match(line) and not _NO_BARE_ANSWER.search(line) else ""


def called_the_answer(text: str) -> list[str]:
    """Returns the text after each `the answer is`. It ends with its line, or where the next one begins."""
    found = list(_THE_ANSWER_IS.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    called = [text[match.end() : min(end, match.end() + 300)] for match, end in zip(found, ends, strict=True)]
    return [value.partition("\n")[0].rstrip(" ,;(") for value in called]


def sentence(value: str) -> str:
    """Returns the first sentence."""
    end = SENTENCE_ENDS.search(f"{value} X")
    return (value[: end.start()] if end else value).strip()
