"""Finds the fields of a form on lines that begin with a field's name, and in tags.

Linear in the reply's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import lru_cache

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import PROSE, Form, RawField
from actors.prompting.list_values import looks_like_triple
from actors.prompting.reply_text import undecorated

# What models call a field, other than its name and its plural.
_OTHER_NAMES = {
    FieldKind.ANSWER: ("final answer", "correct answer", "ans"),
    FieldKind.CONFIDENCE: ("confidence level", "confidence score", "confidence rating", "conf"),
    FieldKind.GRADE: ("score", "rating"),
    FieldKind.KEYWORD: ("key word", "key phrase", "keyphrase"),
    FieldKind.PARENTS: ("parent", "parent node"),
    FieldKind.QUERY: ("search query",),
    FieldKind.REASONING: ("reason", "rationale", "explanation"),
    FieldKind.SELECTED: tuple(f"selected {what}" for what in ("number", "candidate", "source", "picture", "page")),
    FieldKind.STEP: ("call", "tool call"),
    FieldKind.SUB_QUESTION: ("subquestion", "sub question"),
    FieldKind.THOUGHT: ("thinking", "reasoning"),
    FieldKind.TRIPLE: ("triplet",),
    FieldKind.TYPE: ("node type", "type of node"),
}
# Words before a field's name; some of them mark a final value.
_BEFORE = (
    "the|my|our|your|final|overall|corrected|revised|updated|new|best|short|kept|relevant|chosen|remaining|resulting"
)
_WORDS_BEFORE = re.compile(rf"^(?:{_BEFORE}){{1,3}}")
FINAL = re.compile(r"final|corrected|revised|updated|new", re.IGNORECASE)

_MARKS = r"(?:\W|_){0,16}+"
_CLOSED_BY = str.maketrans("“‘([<", "”’)]>")
_OPENED = re.compile(r"[*_`\"'“‘]+$")
_NEXT_QUESTION = re.compile(r"\W{0,6}(?:next )?question(?: \d{1,2})?[*_]{0,3}\s?[:：]", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([A-Za-z][\w -]{1,20})>")


class Labels:
    """The names of a form's fields in replies: as labels of lines and keys of objects.

    No two fields share one: a field's own name goes before other names of another.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields: dict[str, Field] = {}
        self.names: list[str] = []
        own = [(field, field.name) for field in fields]
        others = [(field, name) for field in fields for name in _OTHER_NAMES.get(field.kind, ())]
        for field, name in [*own, *others]:
            for label in (name, plural(name)):
                if _letters(label) not in self._fields:
                    self._fields[_letters(label)] = field
                    self.names.append(label)
        # The longest first, as `reasoning` begins with `reason`.
        self.names.sort(key=len, reverse=True)
        self._plurals = {_letters(plural(name)) for name in self.names if not name.endswith("s")}

    def field(self, name: str) -> Field | None:
        """Returns the field of a label or key, in any case and with anything between its words."""
        plain = _letters(name)
        return self._fields.get(plain) or self._fields.get(_WORDS_BEFORE.sub("", plain, count=1))

    def is_plural(self, name: str) -> bool:
        """True for the label of several values."""
        return _letters(name) in self._plurals


@lru_cache(maxsize=256)
def labels(fields: tuple[Field, ...]) -> Labels:
    """Returns the labels of a form's fields, once for all replies."""
    return Labels(fields)


def plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else name if name.endswith("s") else f"{name}s"


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]+", "", name.lower())


def untagged(text: str, names: Labels) -> str:
    """Turns tags that are fields' names into labels of lines: `<answer>Paris</answer>`. Other tags on their own lines
    are left out then. A label within reasoning is no field."""
    if "<" not in text:
        return text
    lines: list[str] = []
    start, prose, tagged = 0, False, False
    for tag in _TAG.finditer(text):
        field = names.field(tag[2])
        if field is None:
            continue
        inner = text[start : tag.start()]
        lines.append(inner.replace("\n", " ") if prose else inner)
        lines.append("\n" if tag[1] else f"\n{field.name}: ")
        start, prose, tagged = tag.end(), not tag[1] and field.kind in PROSE, True
    if not tagged:
        return text
    lines.append(text[start:].replace("\n", " ") if prose else text[start:])
    return html.unescape("\n".join(line for line in "".join(lines).split("\n") if not _TAG.fullmatch(line.strip())))


@lru_cache(maxsize=256)
def _label_pattern(names: Labels) -> re.Pattern[str]:
    """Matches a line that begins with a field's name: `**Final answer:** ...`, `2. My answer is: ...`, `### Answer`."""
    any_name = "|".join(re.escape(name).replace("\\ ", r"[ _-]?").replace("\\-", r"[ _-]?") for name in names.names)
    return re.compile(
        rf"\s*+(?P<before>{_MARKS}(?:\d{{1,2}}[.)](?:\W|_){{0,8}}+)?)"
        rf"(?P<words>(?:(?:{_BEFORE})[ _]){{0,3}})(?P<name>{any_name})(?P<number>[\s_]?+(?:#\s?)?\d{{1,2}}(?![\w.]))?"
        r"(?:\sis(?=\s?[:：]))?(?:\s?\([^()\n]{1,40}\)(?=[*_`]{0,3}\s?[:：]))?"
        r"(?P<after>[\s*_`\"'”’]{0,8}+)(?:(?:[:：﹕]|=(?!=)|->|=>|→|(?<=[*_\s])[–—-](?=\s))(?P<closing>[*_`]{0,3}+)(?P<value>.*)|$)",
        re.IGNORECASE,
    )


def fields_in_lines(text: str, form: Form, names: Labels) -> tuple[str, list[RawField]]:
    """Finds fields under labels that begin a line; returns the text before the first, and the fields.

    A line that is a triple all by itself is one, wherever a form asks for triples.
    """
    pattern = _label_pattern(names)
    triples = next((field for field in form.fields if field.value is Value.TRIPLE), None)
    before: list[str] = []
    found: list[tuple[Field, list[str], bool, bool]] = []  # field, lines, several, final
    for line in text.split("\n"):
        # Small models go on with a question of their own, and answer that.
        if found and _NEXT_QUESTION.match(line):
            break
        label = pattern.match(line)
        field = names.field(label["name"]) if label else None
        if (
            label
            and field
            and (
                # A name alone on its line is a heading where it has a mark, or the form's spelling.
                label["value"] is not None or set(label["before"]) & set("#*_") or label["name"][0].isupper()
            )
        ):
            final = bool(FINAL.search(f"{label['words']} {label['name']}"))
            several = names.is_plural(label["name"]) and not label["number"]
            found.append((field, [_after_label(label)], several, final))
        # Before the first label, only a row of a table is a triple; other text there is prose.
        elif (
            triples
            and (found[-1][0] is not triples if found else line.lstrip().startswith("|"))
            and looks_like_triple(line)
        ):
            found.append((triples, [line], True, False))
        else:
            (found[-1][1] if found else before).append(line)
    return "\n".join(before), [
        RawField(f, tuple(lines), None, several, final, closed=number < len(found))
        for number, (f, lines, several, final) in enumerate(found, 1)
    ]


def _after_label(label: re.Match[str]) -> str:
    """Returns the value on the label's line, without the end of an emphasis or quotation that began before the name."""
    value = (label["value"] or "").strip()
    opened = _OPENED.search(label["before"])
    if not opened:
        return value
    if label["after"].strip() + (label["closing"] or ""):
        # On one line of an object that is broken off or none, the end of the value is not certain.
        return "" if label["after"].startswith(('"', "'")) else value
    # Marks are closed in the reverse order of opening, and where they close within the line a remark may follow.
    mark = opened[0].translate(_CLOSED_BY)[::-1]
    inner, closing, rest = value.partition(mark)
    return inner if closing and re.match(r"\s?(?:$|[–—(-])", rest) else value.removesuffix(mark)


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
    if found and form.fields[0].kind is FieldKind.REASONING and text[: found[0].start()].strip():
        stated.add(FieldKind.REASONING)  # without its label
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
