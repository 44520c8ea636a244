"""Reads the value of one part of a reply by what its field holds; what is not certain is a fault with its reason.

A value stops where it ends: remarks, notes and offers of help after it are not read.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import letters
from actors.prompting.parts import OTHER_LABEL, Part, Twice, is_rule, literal
from actors.prompting.stated import is_unknown, stated_answer, stated_confidence, undecorated
from actors.prompting.text import one_line
from actors.prompting.triples import read_triple

# Free text that may be long; of any other only what stands on its line is the value.
PROSE = frozenset((FieldKind.REASONING, FieldKind.THOUGHT, FieldKind.SUMMARY, FieldKind.DESCRIPTION))
_QUOTED_CHARACTERS = 80
_FEW_WORDS = 8
_NOTHING = re.compile(
    r"[(\[]?\s?(?:none|null|nil|n/?a|nothing|empty|no|[-–—]+|not applicable|not needed|left out|omitted)?"
    r"(?:\s(?:needed|required|applicable|found|given|missing|relevant|at all|to add|of (?:them|these))){0,2}\s?[)\]]?",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"<[^<>]*\s[^<>]*\s[^<>]*>|<(?:the|an?|one) [^<>]+>"
    r"|[\[{(<](?:your|insert|explain|write|put|enter|fill in)\b[^\[\](){}<>]*[\]})>]"
    r"|\[0-1\]|your (?:answer|reasoning)|see (?:above|below|text|reasoning|explanation)\.?",
    re.IGNORECASE,
)
# The form's own words for the parts of a triple.
_PARTS = frozenset(
    "entity object relation attribute value head tail subject predicate <entity> <relation> <head> <tail>".split()
)
_PLAIN = r"[^\W_]++(?:[ '&-][^\W_]++)*+"
_PLAIN_TRIPLE = re.compile(rf"(?!none-)({_PLAIN})(?: \| {_PLAIN}){{2}}", re.IGNORECASE)
_UNDECIDED = re.compile(r"\bor wait\b|\bhmm\b|\bwait,", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"(?:</?\w{2,20}>\s*)+$")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#39|nbsp);")
_ABBREVIATED = frozenset("prof capt dept corp univ messrs".split())
_SENTENCE = re.compile(r"(?P<first>.{1,60}?\b(?P<last>[^\W\d_]{4,}|\d{4})[\"'”*]{0,3})\.\s(?=[A-Z][^.]*\s[a-z])")
_BULLET = re.compile(
    r"\A\s*+(?:[-*+•·▪◦–]\s++|[Qq]?\(?\d{1,2}[.):]\s++|\(?[a-z][.)]\s++|\[\d{1,2}\]\s++|\[[ xX]\]\s++|>\s++)"
)
_NONE_BECAUSE = re.compile(r"none\s?[,;:.(–—-].*", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*+\(?\d{1,2}[.)]\s")
# How models take their leave, or comment on what they said.
_CHATTER = re.compile(
    r"\W{0,4}(?:note\b|notes?:|let me know|please (?:let|note)|i hope|hope (?:this|that)|feel free|"
    r"if you (?:need|want|have|would)|is there anything|would you like|(?:these|this|those|the above) "
    r"(?:triples?|lines?|answers?|keywords?|sub-questions?|reply|response|graph|format|form)\b|"
    r"that(?:'s| is) (?:all|it)\b|end of)",
    re.IGNORECASE,
)
_LEAD = re.compile(r".{0,120}[:：]\s*$")
_BY = (
    r"(?:from |see |sources?:? |as (?:stated|given|shown|seen|mentioned|described|per)\b|based on |"
    r"according to |stated in |per |because |since |mentioned in |shown in )"
)
_CITED = re.compile(
    rf"(?:(?:\s+|(?<=[\]*\"”]))(?:\[(?:(?:source|text|picture) )?\d{{1,2}}(?:\s?[,;]\s?\d{{1,2}})*\]|\({_BY}[^()]*\))"
    rf"|(?:(?<=\w),|\s[–—-])\s(?!from |see |per |since ){_BY}.*)\s*\.?$",
    re.IGNORECASE,
)
_TICKS = "✅✔☑✓❌\ufe0f"
_NUMBER_WORDS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}
_ANY_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b")
_ZEROS = re.compile(r"\.0{1,2}(?!\d)")
_MORE_DIGITS = re.compile(r"[.,:]\d")
# What a grade is out of: `/5`, ` out of 5`, ` (on a scale of 1 to 5)`.
_SCALE = re.compile(
    r"[\s(,]{0,3}(?:/|(?:out )?of(?: a (?:possible|maximum))?|on a scale (?:of|from) 1\s?(?:to|[-–]))\s?"
    r"(?P<most>\d{1,4}|ten|hundred)(?:\.0)?(?![\w])\)?"
)
_COUNTED = re.compile(r" (?!(?:or|and|to)\b)[a-z][a-z -]{2,40}\.?")
_ENDS_A_CHOICE = re.compile(r"\s*(?:(?:node|type)?$|[.,;:!)\]–—(\n]|-\s|\s[-–—]\s|\b(?:because|since|as)\b)")
_NUMBER_NOUN = (
    r"(?:numbers?|nos?\.?|candidates?|sources?|pictures?|images?|pages?|nodes?|passages?|items?|evidence|the|#)"
)
_NUMBER = re.compile(rf"\s*(?:{_NUMBER_NOUN}\s?){{0,3}}[\[(#]{{0,2}}(\d{{1,3}})[\])]{{0,2}}", re.IGNORECASE)
_RANGE = re.compile(r"\s?[-–]\s?[\[(]?(\d{1,3})[\])]?(?![\w.])")
_SEPARATOR = re.compile(r"\s*(?:,\s*and\b|[,，、;&+/]|and\b|as well as\b|\s(?=\[))\s*", re.IGNORECASE)
_REMARK = re.compile(r"\s*(?:\([^()]*\)|(?<=\])\s[^\d\[,]+$|[:–—-]\s[^\d]*)")


@dataclass(frozen=True, slots=True)
class Fault:
    """A field that could not be read, and why, for the model that is to put it right."""

    field: Field
    reason: str


Values = tuple[str, ...]


def read_values(part: Part, choices: Sequence[str] = ()) -> Values | Fault | None:
    """The values of a part; () where it says that there is none, None where it says nothing at all.

    An answer that is said not to be known is "unknown"; what it is called is the caller's business.
    """
    field = part.field
    if isinstance(part.value, Twice):
        return Fault(field, "it is given twice, with different values")
    held = part.value if not part.lines else None if field.kind in PROSE else _json_in(part)
    if part.lines and held is None:
        return _of_lines(field, part.lines, part.several, choices, part.closed)
    if held is None:
        return () if field.optional or field.value is Value.ANSWER else Fault(field, "it is null")
    return _of_json(field, held, choices)


def _json_in(part: Part) -> Any:
    """The JSON list or object that the lines are, or None."""
    text = "\n".join(part.lines).strip()
    if text[:1] not in "[{":
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return literal(text)
    rest = text[end:].strip(" .\n`")
    # A picture's number in brackets is no list: `[2] shows it`.
    return value if not rest or "\n" in text[end:] else None


def _of_json(field: Field, held: Any, choices: Sequence[str]) -> Values | Fault | None:
    if isinstance(held, str):
        return _of_lines(field, tuple(held.split("\n")), field.many, choices)
    if field.value is Value.NUMBERS:
        items = held if isinstance(held, list) else [held]
        if not items:
            return _none(field)
        return _numbers(field, [", ".join(map(str, items))])
    if field.many:
        if isinstance(held, list) and _is_one(field, held):
            held = [held]
        items = held if isinstance(held, list) else [held]
        return _each(field, items, choices) if items else _none(field)
    if isinstance(held, list):
        texts = [item for item in held if isinstance(item, str | int | float)]
        if not held:
            return _none(field)
        if len(texts) < len(held) or (len(held) > 1 and (field.values or field.value is Value.SHARE)):
            return Fault(field, f"one value was asked for, and {_quoted(json.dumps(held))} is a list")
        held = (" " if field.kind in PROSE else ", ").join(map(str, texts))
    if isinstance(held, bool):
        spelt = str(held).lower()
        held = spelt if spelt in map(str.lower, choices) else "yes" if held else "no"
    if isinstance(held, dict):
        inner = held.get("value", held.get("text", held.get("answer")))
        if not isinstance(inner, str | int | float):
            return Fault(field, f"one value was asked for, and {_quoted(json.dumps(held))} is an object")
        held = inner
    return _of_lines(field, (str(held),), False, choices)


def _is_one(field: Field, held: Sequence[Any]) -> bool:
    """True for a list that is one triple itself and not a list of them."""
    return (
        field.value is Value.TRIPLE
        and len(held) == 3
        and all(isinstance(part, str | int | float) and "|" not in str(part) for part in held)
    )


def _none(field: Field) -> Values | Fault:
    return () if field.optional else Fault(field, "it is empty")


def _of_lines(
    field: Field, lines: Sequence[str], several: bool, choices: Sequence[str], closed: bool = False
) -> Values | Fault | None:
    if field.many:
        return _list(field, lines, several)
    if field.value is Value.ANSWER:
        return _answer(field, answer_text(lines, closed), choices)
    if field.kind is FieldKind.REASONING:
        return (one_line(" ".join(lines)),) if " ".join(lines).strip() else None
    listed = field.value is Value.NUMBERS and sum(bool(_BULLET.match(line)) for line in lines) > 1
    lines = _own_lines(lines, field.kind in PROSE or listed)
    whole = "\n".join(lines).strip()
    if not whole:
        return None
    # `Confidence: Confidence: 0.6` says so twice.
    text = re.sub(rf"\A{re.escape(field.name)}\s?[:：]\s?", "", one_line(whole), flags=re.IGNORECASE)
    text = text if field.value is Value.SHARE else _unwrapped(text)
    if _PLACEHOLDER.fullmatch(one_line(whole)) or text.lower() == field.name.lower():
        return None
    if _says_nothing(field, text, choices):
        return _none(field)
    if field.values:
        value = one_of(text, field)
        return (value,) if value else Fault(field, f"{_quoted(text)} is none of {', '.join(field.values)}")
    if field.value is Value.SHARE:
        share = stated_confidence(text)
        return Fault(field, f"{_quoted(text)} is no number from 0 to 1") if share is None else (repr(share),)
    if field.value is Value.NUMBERS:
        return _numbers(field, lines)
    return (text,)


def _own_lines(lines: Sequence[str], prose: bool) -> list[str]:
    """The lines that belong to the value: down to a rule, a farewell or another label; of a short value its line, with
    what goes on in small letters."""
    kept: list[str] = []
    blank = False
    for line in lines:
        if not line.strip():
            blank = bool(kept)
            continue
        if kept and (is_rule(line) or _CHATTER.match(line) or (not prose and OTHER_LABEL.match(line))):
            break
        if not kept and is_rule(line):
            continue
        first_small = line.strip()[0].islower()
        if kept and not prose and (blank or not first_small):
            break
        kept.append(line)
        blank = False
    return kept


def _says_nothing(field: Field, text: str, choices: Sequence[str]) -> bool:
    """True for `none` and the like. An answer may be just that, and so may one of the values."""
    plain = text.strip(" .!*_`\"'")
    if (
        field.value is Value.ANSWER
        or field.kind is FieldKind.REASONING
        or plain.lower() in (value.lower() for value in field.values)
    ):
        return False
    if field.optional and (
        _NONE_BECAUSE.fullmatch(plain) or (field.value is Value.TEXT and plain.lower() == "unknown")
    ):
        return True
    return bool(_NOTHING.fullmatch(plain))


def _unwrapped(text: str) -> str:
    """Without a bullet, and without emphasis or quotation marks around the whole."""
    # `2. Bundesliga` and `[2] shows it` begin with a number that belongs to them.
    text = text if re.match(r"\[?\d", text) else _BULLET.sub("", text, count=1)
    text = _decoded(undecorated(text.strip())[0].strip())
    return text.strip("`").removesuffix("**").strip() if text.count("**") % 2 else text.strip("`").strip()


def one_of(text: str, field: Field) -> str | None:
    """The field's value that a text is, or begins with before a remark (`yes, because ...`)."""
    values = field.values
    plain = undecorated(text.strip(f" {_TICKS}"))[0].strip(f" \"'`*_()[]<>{_TICKS}").casefold()
    if plain in ("true", "false") and {"yes", "no"} <= set(values):
        plain = "yes" if plain == "true" else "no"
    if all(map(str.isdigit, values)):
        plain = _ANY_NUMBER_WORD.sub(lambda word: _NUMBER_WORDS[word[0]], plain)
    begun = [value for value in values if plain.startswith(value.casefold())]
    # The longest, as one allowed value may begin with another.
    value = max(begun, key=len, default=None)
    if value is None:
        return None
    rest = plain[len(value) :].lstrip("*_`\"'")
    if value.isdigit():
        return _one_number(value, rest, field)
    return value if _ENDS_A_CHOICE.match(rest) and not _names_another(rest, value, values) else None


def _one_number(value: str, rest: str, field: Field) -> str | None:
    """The number that a text begins with, unless it goes on, is on another scale, or stands beside another."""
    rest = _ZEROS.sub("", rest, count=1) if rest.startswith(".") else rest
    scale = _SCALE.match(rest) if field.kind is FieldKind.GRADE else None
    if scale and scale["most"] != field.values[-1]:
        return None
    rest = rest[scale.end() :] if scale else rest
    counted = field.kind is not FieldKind.GRADE and _COUNTED.fullmatch(rest)
    if _MORE_DIGITS.match(rest) or not (_ENDS_A_CHOICE.match(rest) or counted):
        return None
    hedged = any(
        re.search(rf"\b(?:or|maybe|perhaps|possibly)\s(?:even |a )?{other}\b", rest)
        for other in field.values
        if other != value
    )
    return None if hedged or _names_another(rest, value, field.values) else value


def _names_another(rest: str, value: str, values: Sequence[str]) -> bool:
    """True for `yes / no` and `yes, no`, which state both; in a sentence after a value the other may be spoken of."""
    others = [re.escape(other.casefold()) for other in values if other != value]
    return any(re.fullmatch(rf"\W{{1,3}}(?:or )?{other}\W*", rest) for other in others)


def _answer(field: Field, value: str, choices: Sequence[str]) -> Values | Fault | None:
    plain = _unwrapped(value)
    if _PLACEHOLDER.fullmatch(value) or plain.lower() == field.name.lower() or not _says_anything(value):
        return None
    if field.optional and not choices and _NOTHING.fullmatch(plain.strip(" .")):
        return ()
    if _UNDECIDED.search(value):
        return Fault(field, f"{_quoted(value)} is not one answer")
    stated, _ = stated_answer(value, choices)
    if stated == "":
        if not one_line(value).strip(" .…-–—_*"):
            return None
        return Fault(field, f"{_quoted(value)} is not one of the choices {', '.join(letters(choices))}")
    if stated is None:
        return ()
    if not choices and not _says_anything(stated):
        return None
    if choices:
        return (stated,)
    # `Answer: Answer: - red` has its bullet behind the second label.
    stated = stated if stated[:1].isdigit() else _BULLET.sub("", stated, count=1)
    stated = _first_sentence(stated)
    return None if stated.lower() == field.name.lower() or not _says_anything(stated) else (stated,)


def _decoded(text: str) -> str:
    """Characters that are spelt as in HTML as they are."""
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def _first_sentence(answer: str) -> str:
    """An answer of a few words without the sentences that explain it."""
    match = _SENTENCE.match(answer)
    if match is None or match["last"].lower() in _ABBREVIATED or len(match["first"].split()) > _FEW_WORDS:
        return answer
    return match["first"]


def _says_anything(value: str) -> bool:
    """False for a row of marks; a sign or two may be an answer."""
    return any(map(str.isalnum, value)) or 0 < len(value.strip(" ?.…*_`\"'")) < 3


def answer_text(lines: Sequence[str], closed: bool = False) -> str:
    """An answer on one line: the first line that says anything, the lines of a list, or all lines down to the next
    field (`closed`) unless one of these is a sentence. The sources that it cites are no part of it."""
    return _uncited(one_line(_answer_lines(lines, closed)))


def _answer_lines(lines: Sequence[str], closed: bool) -> str:
    first = next((i for i, line in enumerate(lines) if any(map(str.isalnum, line))), 0)
    value, rest = lines[first].strip(), list(lines[first + 1 :])
    if first and OTHER_LABEL.match(value):
        return ""
    if _BULLET.match(value):
        items = [value]
        for line in rest:
            if not _BULLET.match(line):
                break
            items.append(line)
        # A single `1. ...` may be how the answer is spelt; only several make a list.
        if len(items) > 1 or not value[0].isdigit():
            return ", ".join(_BULLET.sub("", item, count=1).strip() for item in items)
    while rest and not any(map(str.isalnum, rest[-1])):
        rest.pop()
    if closed and all(line.strip() and line.strip()[-1] not in ".!?" and not OTHER_LABEL.match(line) for line in rest):
        return " ".join([value, *map(str.strip, rest)])
    return value


def _uncited(value: str) -> str:
    value = re.sub(r"(?<=\d)\\text\{\s*([^{}]{1,40})\}", r" \1", value)
    if value.count("**") == 1:
        # `**Answer: Yes** - because ...`: the emphasis that began before the label ends with the value.
        value = value.partition("**")[0] or value.partition("**")[2]
    value = _decoded(_CLOSING_TAG.sub("", value))
    while (cited := _CITED.sub("", value)) != value and cited.strip(" *_`."):
        value = cited
    return value


def _numbers(field: Field, lines: Sequence[str]) -> Values | Fault:
    """The numbers of what was shown, as `1, 3`."""
    text = re.sub(
        rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", lambda word: _NUMBER_WORDS[word[0].lower()], " ".join(lines), flags=re.I
    )
    numbers: list[int] = []
    bulleted = [line for line in lines if _BULLET.match(line) and not _NUMBERED.match(line)]
    if len(bulleted) > 1 and len(bulleted) == len(lines):
        for line in bulleted:
            line = line if re.match(r"\s*\[\d", line) else _BULLET.sub("", line, count=1)
            match = _NUMBER.match(line.strip("*_` "))
            rest = line.strip("*_` ")[match.end() :] if match else ""
            if match is None or not re.match(r"\s*$|[\]):.,]|\s?[-–—:(]|\s", rest):
                return Fault(field, f"{_quoted(line)} names no number")
            numbers.append(int(match[1]))
    else:
        if len(lines) > 1:
            return Fault(field, f"{_quoted(text)} is not a list of numbers")
        rest = undecorated(text.strip())[0].strip()
        if len(rest) > 1 and rest[0] + rest[-1] in ("[]", "()", "{}") and rest[1:-1].count(rest[0]) == 0:
            rest = rest[1:-1]
        while True:
            match = _NUMBER.match(rest)
            if match is None:
                return Fault(field, f"{_quoted(text)} is not a list of numbers")
            numbers.append(int(match[1]))
            rest = rest[match.end() :]
            if reach := _RANGE.match(rest):
                numbers += range(numbers[-1] + 1, min(int(reach[1]), numbers[-1] + 50) + 1)
                rest = rest[reach.end() :]
            if remark := _REMARK.match(rest):
                if _SEPARATOR.search(remark[0]) and not remark[0].strip().startswith("("):
                    return Fault(field, f"{_quoted(text)} is not a list of numbers alone")
                rest = rest[remark.end() :]
            separator = _SEPARATOR.match(rest)
            if separator is None:
                break
            rest = rest[separator.end() :]
        if rest.strip(" .*_`\"'"):
            return Fault(field, f"{_quoted(text)} is not a list of numbers alone")
    return (", ".join(map(str, dict.fromkeys(numbers))),)


def _list(field: Field, lines: Sequence[str], several: bool) -> Values | Fault | None:
    """The values of a field that may have many: on its line, on a line each, or as a list."""
    if field.value is Value.TRIPLE and len(lines) == 1:
        # The quick way: nothing but words between the bars, and not those of the form.
        plain = _PLAIN_TRIPLE.fullmatch(lines[0])
        if plain and plain[1] not in _PARTS:
            return (lines[0],)
    items = list(_list_lines(field, lines, several))
    if field.value is Value.TRIPLE:
        # Several on one line: `(a, b, c); (d, e, f)`.
        items = [part for item in items for part in re.split(r"(?<=\))\s*[;,]\s*(?=\()", item)]
    items = [item for item in items if item]
    if not items:
        return None
    first = _unwrapped(items[0]).strip(" .!*_`\"'")
    if len(items) == 1 and (_NOTHING.fullmatch(first) or _NONE_BECAUSE.fullmatch(first)):
        return _none(field)
    if several and field.value is Value.TEXT and len(items) == 1 and field.kind is not FieldKind.SUB_QUESTION:
        items = [part.strip() for part in re.split(r"\s*;\s*" if ";" in items[0] else r",\s+(?:and\s+)?", items[0])]
    return _each(field, items, ())


def _list_lines(field: Field, lines: Sequence[str], several: bool) -> list[str]:
    """The lines that are items: the first, and those of a list that follows."""
    kept: list[str] = []
    blank = False
    for number, line in enumerate(lines):
        plain = line.strip()
        if not plain or (kept and re.fullmatch(r"[\s|:+=-]+", plain)):
            blank = bool(kept)
            continue
        bulleted = bool(_BULLET.match(line))
        if kept and (is_rule(line) or (_CHATTER.match(line) and not bulleted)):
            break
        if is_rule(line):
            continue
        if kept and not bulleted:
            is_triple = field.value is Value.TRIPLE and read_triple(plain) is not None
            # After a blank line, or after a value on the label's own line, only what has the form of an item is one.
            if (blank or (lines[0].strip() and not several)) and not is_triple:
                if number and plain[0].islower() and not blank and field.value is Value.TEXT:
                    kept[-1] += f" {plain}"
                    continue
                if field.value is Value.TRIPLE and re.search(r"[|→]|->", plain):
                    kept.append(plain)  # meant as one, and read as a fault below
                    continue
                break
        kept.append(plain)
        blank = False
    return kept


def _each(field: Field, items: Sequence[Any], choices: Sequence[str]) -> Values | Fault | None:
    values: list[str] = []
    for item in items:
        value = _item(field, item)
        if isinstance(value, Fault):
            return value
        if value:
            values.append(value)
    if not values:
        return None
    return tuple(values)


def _item(field: Field, item: Any) -> str | Fault:
    if field.value is Value.TRIPLE:
        triple = read_triple(item)
        if triple is not None and (any(map(_PLACEHOLDER.fullmatch, triple)) or set(triple) <= _PARTS):
            return ""
        if triple is None and isinstance(item, str) and _PLACEHOLDER.fullmatch(_BULLET.sub("", item, count=1).strip()):
            return ""
        return " | ".join(triple) if triple else Fault(field, f"{_quoted(item)} is not of three parts")
    if field.value is Value.CALL:
        return _call(field, item)
    if isinstance(item, dict):
        texts = [held for held in item.values() if isinstance(held, str)]
        if len(texts) != 1:
            return Fault(field, f"{_quoted(json.dumps(item))} is not one text")
        item = texts[0]
    if not isinstance(item, str | int | float):
        return Fault(field, f"{_quoted(json.dumps(item))} is not one text")
    text = _BULLET.sub("", str(item), count=1).strip()
    return "" if _PLACEHOLDER.fullmatch(text) else one_line(_unwrapped(text))


def _call(field: Field, item: Any) -> str | Fault:
    """`tool | words`, also written `tool: words`, `tool("words")`, or as an object."""
    tools = {tool.casefold(): tool for tool in field.tools or ("texts", "pictures", "web")}
    tool = words = ""
    if isinstance(item, dict):
        held = {str(k).lower(): v for k, v in item.items()}
        tool = str(next((held[k] for k in ("tool", "name", "tool_name", "action") if k in held), ""))
        rest = [v for k, v in held.items() if k not in ("tool", "name", "tool_name", "action", "step", "id", "number")]
        if len(rest) == 1 and isinstance(rest[0], dict):
            rest = list(rest[0].values())
        words = rest[0] if len(rest) == 1 and isinstance(rest[0], str) else ""
    elif isinstance(item, list | tuple) and len(item) == 2:
        tool, words = map(str, item)
    elif isinstance(item, str):
        plain = _BULLET.sub("", item.strip(), count=1).strip().strip("`").strip()
        plain = re.sub(r"^(?:step|call)\s?\d{0,2}\s?[:：.]\s*", "", plain, flags=re.IGNORECASE)
        plain = undecorated(plain)[0]
        match = re.fullmatch(
            r"[\s*_`\"'<\[(]*(\w+)[*_`\"'>]*\s*(?:\||:|：|->|→|–|—|\s-\s|\()\s*[*_]{0,2}\s*(.+?)\s*\)?",
            plain,
            re.DOTALL,
        )
        if match:
            tool, words = match[1], match[2]
            if "(" in plain[: match.start(2)] and not plain.rstrip(" .;").endswith(")"):
                return Fault(field, f"{_quoted(item)} is not `tool | what to look for`")
        elif _PLACEHOLDER.fullmatch(plain):
            return ""
    tool = tools.get(tool.strip(" `\"'*_").casefold(), "")
    words = re.sub(r"^(?:query|q|words|search)\s?=\s?", "", one_line(words))
    words = _unwrapped(words)
    if not tool or not words or _PLACEHOLDER.fullmatch(words):
        return Fault(field, f"{_quoted(item)} is not `{', '.join(tools.values())} | what to look for`")
    return f"{tool} | {words}"


def _quoted(item: Any) -> str:
    """The item as it is shown to the model, shortened."""
    line = one_line(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False))
    return f"`{line if len(line) <= _QUOTED_CHARACTERS else line[:_QUOTED_CHARACTERS] + ' ...'}`"


def is_refusal(text: str) -> bool:
    """True where a whole reply only says that nothing can be said."""
    return is_unknown(one_line(text))


def chatter(line: str) -> bool:
    """True for a line that speaks about the reply."""
    return bool(_CHATTER.match(line) or _LEAD.fullmatch(line))


Reader = Callable[[Part], Values | Fault | None]
