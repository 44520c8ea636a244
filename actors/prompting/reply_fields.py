"""Finds the fields of a form in a reply: under labels, in tags, in JSON, or without labels.

Text without labels is read where it can only be of one field. Linear in the reply's length: repetitions in patterns are
bounded, possessive, or tried from one place only.
"""

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.answer_value import is_unknown, stated_answer
from actors.prompting.field_values import decode, literal, one_of, read_triple
from actors.prompting.form import PROSE, Form, RawField
from actors.prompting.reply_text import BOXED, BULLET, OFFER, chatter, ends_a_value, may_follow, undecorated
from actors.prompting.safe_text import clean, one_line

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
FINAL = re.compile(r"final|corrected|revised|updated|new", re.IGNORECASE)

_MARKS = r"(?:\W|_){0,16}+"
# Marks with a meaning of their own: tags, objects, lists of lists, LaTeX, citations, channels.
_MARKED = re.compile(r"[<◁{\\【]|\[\^|\^\[|\][(\[]|\[[A-Z]{2}|\[\s{0,80}\[|assistant")
_CLOSED_BY = str.maketrans("“‘([<", "”’)]>")
_NEXT_QUESTION = re.compile(r"\W{0,6}(?:next )?question(?: \d{1,2})?[*_]{0,3}\s?[:：]", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([A-Za-z][\w -]{1,20})>")
_VALUES = 200  # tried as JSON in one reply: each costs a scan of the rest at worst
_COMMAS = 200  # tried as the end of a broken object, from the last
# A key, and the text under it where that goes on to the end.
_KEY = re.compile(r"[\s,{]*+[\"'“]([^\"'“”\n]{1,40})[\"'”]\s{0,8}+:(?:\s{0,80}+\"((?:[^\"\\]|\\.)*+)\\?$)?", re.DOTALL)
_THE_ANSWER_IS = re.compile(
    r"(?:^|[\s,;(])(?:the|my|our|so the)\s(?:final\s|correct\s|right\s|best\s|most likely\s)?(?:answer|choice|option)\s"
    r"(?:to (?:the|this|your) question\s)?"
    r"(?:is|would be)\s?[:：]?\s+(?=[^\n])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<!\bSt)(?<!\bMt)(?<!\bFt)(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bProf)(?<=[\w\"'”’)*])[.!](?:\s|$)"
)
_AFTER_INITIAL = re.compile(r"(?:[\w'’-]{1,40}\s){0,4}[A-Z]\.\s+\S")
_REFUSES = re.compile(
    r"\b(?:sorry|help with|assist)\b|\b(?:am|'m|’m) (?:unable|not able)\b|\bi (?:cannot|can't|can’t)\b|\bas an ai\b"
    r"|\b(?:rather not|prefer not to|declines? to)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"\W*(?:none|nothing|no)\b(?:\s[^\n?]{0,80})?", re.IGNORECASE)
_BARE_NUMBER = re.compile(r"[^\w-]{0,8}\d(?:\W{1,3}(?:out of )?\d)?\W{0,8}")
_HEADING = re.compile(r"\s*#{1,4}\s")
_SHORT_WORDS = 6
# Marks and words of a label or a sentence, in Chinese too.
_NO_BARE_ANSWER = re.compile(r"[:：?？是<{\[|]|答案|\b(?:is|are|was|I|it's|think|sure)\b")


class Labels:
    """The names of a form's fields in replies: as labels of lines and keys of objects.

    No two fields share one: a field's own name goes before other names of another.
    """

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.triples = next((field for field in fields if field.value is Value.TRIPLE), None)
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
        any_name = "|".join(re.escape(name).replace("\\ ", r"[ _-]?").replace("\\-", r"[ _-]?") for name in self.names)
        # A line that begins with a name: `**Final answer:** ...`, `2. My answer is: ...`, `### Answer`.
        self.pattern = re.compile(
            rf"\s*+(?P<before>{_MARKS}(?:\d{{1,2}}[.)](?:\W|_){{0,8}}+)?)"
            rf"(?P<words>(?:(?:{_BEFORE})[ _]){{0,3}})(?P<name>{any_name})"
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
    for number, line in enumerate(lines, 1):
        name, _, value = line.partition(": ")
        if name not in fields or not (value := value.strip()):
            return []
        # In the middle of a whole form, reasoning may mention marks.
        if fields[name].kind is not FieldKind.REASONING and _MARKED.search(value):
            return []
        raws.append(RawField(fields[name], (value,), closed=number < len(lines)))
    return raws


def find_fields(text: str, form: Form, among: Form, cut_off: bool = False) -> tuple[str, list[RawField]]:
    """Returns the text before the first field, and the fields. Others of the form `among` end them and are left out."""
    names = labels(among.fields)
    before, raws = fields_in_json(text, names, cut_off)
    if raws and before.rpartition("\n")[2].strip():
        # An object within a line may be quoted (`Reasoning: the record {...} is`) where lines state all that is
        # required.
        stated = {raw.field for raw in fields_in_lines(text, names)[1]}
        if all(field.optional or field in stated for field in among.fields):
            raws = []
    if not raws:
        before, raws = fields_in_lines(untagged(text, names), names)
    return before, [raw for raw in raws if raw.field in form.fields]


def untagged(text: str, names: Labels) -> str:
    """Turns tags that are fields' names into labels of lines: `<answer>Paris</answer>`. Drops other tags on a line
    alone."""
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


def fields_in_lines(text: str, names: Labels) -> tuple[str, list[RawField]]:
    """Returns the text before the first label that begins a line, and the fields under labels.

    A line that is a triple all by itself is one, wherever a form asks for triples.
    """
    triples = names.triples
    before: list[str] = []
    found: list[tuple[Field, list[str], bool, bool]] = []  # field, lines, several, final
    for line in text.split("\n"):
        # Small models invent another question, and answer that.
        if found and _NEXT_QUESTION.match(line):
            break
        label = names.pattern.match(line)
        field = names.field(label["name"]) if label else None
        # A name alone on its line is a heading where it has a mark, or the form's spelling.
        spelt = label and (label["value"] is not None or label["name"][0].isupper())
        if label and field and (spelt or set(label["before"]) & set("#*_")):
            final = bool(FINAL.search(f"{label['words']} {label['name']}"))
            several = names.is_plural(label["name"]) and not label["number"]
            found.append((field, [_after_label(label)], several, final))
        # Before the first label, only a row of a table is a triple; other text there is prose.
        elif (
            triples
            and (found[-1][0] is not triples if found else line.lstrip().startswith("|"))
            and "|" in line
            and read_triple(line.strip())
        ):
            found.append((triples, [line], True, False))
        else:
            (found[-1][1] if found else before).append(line)
    return "\n".join(before), [
        RawField(f, tuple(lines), None, several, final, closed=number < len(found))
        for number, (f, lines, several, final) in enumerate(found, 1)
    ]


def _after_label(label: re.Match[str]) -> str:
    """Returns the value on the label's line. An emphasis or quotation that began before the name ends with it."""
    value = (label["value"] or "").strip()
    opened = re.search(r"[*_`\"'“‘]+$", label["before"])
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


def fields_in_json(text: str, names: Labels, cut_off: bool) -> tuple[str, list[RawField]]:
    """Finds fields in objects whose keys name them. Lines after the objects may revise them.

    Returns the text before the first object, and the fields; of an object that was cut off only the complete pairs.
    """
    found: list[RawField] = []
    start, end = None, 0
    for begun, ended, value in _values(text):
        inside = list(_of_value(value, names))
        if inside:
            found += inside
            start, end = begun if start is None else start, ended
    if start is None:  # an object without its end: its complete pairs, and the field that was cut off
        start = text.find("{")
        if start < 0 or not re.match(r"\{\s{0,80}[\"'“]", text[start : start + 100]):
            return "", []
        commas = [start + comma.start() for comma in re.finditer(r",(?=\s*[\"'“])", text[start:])][-_COMMAS:]
        value, end = None, start
        for end in (*([] if cut_off else [len(text)]), *reversed(commas)):
            with suppress(ValueError, RecursionError):
                value, _ = decode(f"{text[start:end].rstrip()}}}")
                break
        found = list(_of_value(value, names)) if isinstance(value, dict) else []
        if {raw.field for raw in found} & {names.field(key[1]) for key in _KEY.finditer(text, end)}:
            return "", []  # the text behind the last complete pair may change a value
        key = _KEY.match(text, end if found else start)
        if not cut_off and end < len(text) and (key is None or text[key.end() :].strip()):
            return "", []
        if key and (field := names.field(key[1])):
            # Reasoning is of use without its end; the value of any other field is not.
            written = literal(f'["{key[2]}"]') if key[2] and field.kind is FieldKind.REASONING else None
            lines = tuple(str(written[0]).split("\n")) if isinstance(written, list) else ("",)
            found.append(RawField(field, lines=lines))
        return text[:start], found
    behind = text[end:]
    if not cut_off and behind.strip():
        between, later = fields_in_lines(untagged(behind, names), names)
        found = [*found[:-1], replace(found[-1], after=tuple(between.split("\n"))), *later]
    return text[:start], found


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yields (start, end, value) of the outermost JSON objects and lists in a text."""
    place, last = 0, max(text.rfind("}"), text.rfind("]")) + 1
    for _ in range(_VALUES):
        opening = re.compile(r"[{\[]").search(text, place)
        if opening is None:
            return
        start = opening.start()
        try:
            value, end = decode(text, start)
        except (ValueError, RecursionError):  # the latter for brackets that are nested too deeply
            # Python's spelling, or a comma too many, where it is all there is.
            end, last = last, 0
            value = literal(text[start:end]) if end > start else None
            if value is None:
                place = start + 1
                continue
        yield start, end, value
        place = end


def _of_value(value: Any, names: Labels) -> Iterator[RawField]:
    """Yields the fields that keys of an object name, or else keys of objects inside it."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _of_value(item, names)
    elif isinstance(value, dict):
        named = [(field, k, v) for k, v in value.items() if isinstance(k, str) and (field := names.field(k))]
        for field, label, inner in named:
            yield RawField(field, value=inner, several=names.is_plural(label), final=bool(FINAL.search(label)))
        if not named:
            for inner in value.values():
                if isinstance(inner, dict | list):
                    yield from _of_value(inner, names)


def unlabelled_fields(text: str, form: Form, missing: Sequence[Field]) -> list[RawField]:
    """Finds the fields that are `missing` in text that names no field. None where that is not certain."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return []
    answer = next((field for field in missing if field.value is Value.ANSWER), None)
    if answer and (found := _answer(text, answer, form)):
        return found
    if len(form.fields) == 1 and form.fields[0].optional and len(lines) == 1 and _NOTHING.fullmatch(lines[0].strip()):
        return [RawField(form.fields[0], ("none",))]
    required = [field for field in missing if not field.optional]
    left = required or (list(missing) if len(form.fields) == 1 else [])
    if len(left) != 1 or left[0].value is Value.ANSWER or left[0].many:
        return []
    field = left[0]
    if field.values:
        if all(map(str.isdigit, field.values)) and not (len(lines) == 1 and _BARE_NUMBER.fullmatch(lines[0])):
            return []  # a sentence or a list may begin with a number
        stated = [value for line in (lines[0], lines[-1]) if (value := one_of(line.strip(" *_`#>-"), field))]
        return [RawField(field, (stated[0],))] if len(set(stated)) == 1 else []
    if field.kind not in PROSE:
        return []
    own = [line for line in lines if not (OFFER.match(line) or (chatter(line) and line.rstrip().endswith((":", "："))))]
    whole = one_line(" ".join(own))
    unfit = (
        any(map(_HEADING.match, own))  # the prompt, repeated
        or len(whole.split()) < 3
        or is_unknown(whole)
        or _REFUSES.search(whole)
        or whole[:1] in "<{["
        or _THE_ANSWER_IS.match(whole)  # in place of the thought that was asked for
    )
    return [] if unfit else [RawField(field, tuple(own))]


def _answer(text: str, field: Field, form: Form) -> list[RawField]:
    """Finds an answer in a box, after `the answer is`, or alone."""
    boxes = BOXED.findall(text)
    if boxes:
        return [RawField(field, (boxes[-1],))]
    if called := called_the_answer(text):
        # A letter's full stop may end a sentence or be a name's (`John F. Kennedy`), unless letters are the choices'.
        initials = not form.choices and any(map(_AFTER_INITIAL.match, called))
        values = {sentence(value) for value in called}
        last = sentence(called[-1])
        on_line, *behind = text[text.rfind(called[-1]) + len(last) :].split("\n")
        behind = behind if ends_a_value(on_line) else [on_line, *behind]
        negated = any(value.lower().startswith("not ") for value in values)
        one = (
            len(values) == 1 and not (initials or negated) and may_follow(behind, lambda line: sentence(line) in values)
        )
        return [RawField(field, (values.pop(),))] if one else []
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and (heading := re.fullmatch(r"\s*#{2,6}\s+([^#:<>]{1,80})", lines[-1])):
        return [RawField(field, (heading[1],))]
    if _REFUSES.search(one_line(text)):
        return []
    bare = False
    if len(lines) == 1 and form.choices:
        bare = bool(stated_answer(lines[0], form.choices)[0])
    elif len(lines) == 1 and not BULLET.match(lines[0]) and not _NO_BARE_ANSWER.search(lines[0]):
        bare = 0 < len(lines[0].strip(" *_`\"'.").split()) <= _SHORT_WORDS  # few words, and no sentence
    return [RawField(field, (lines[0],))] if bare else []


def called_the_answer(text: str) -> list[str]:
    """Returns the text after each `the answer is`. It ends with its line, or where the next one begins."""
    found = list(_THE_ANSWER_IS.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    called = [text[match.end() : min(end, match.end() + 300)] for match, end in zip(found, ends, strict=True)]
    return [value.partition("\n")[0].rstrip(" ,;(") for value in called]


def sentence(value: str) -> str:
    """Returns the first sentence."""
    end = _SENTENCE_END.search(value)
    return (value[: end.start()] if end else value).strip()
