"""Reads one triple, however a model writes it: with bars, arrows, brackets or as an object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from actors.prompting.reply_text import BULLET

_LABEL = re.compile(r"(?:[*_]{0,2}triplet?s?(?:\s\d{1,2})?[*_]{0,2}\s?[:：]\s*)", re.IGNORECASE)
_ARROW = re.compile(
    r"\s*(?:--?>|→|⟶|⇒|=>|➔|➜)\s*"  # a -> b
    r"|\s*[-–—]{1,2}\s?[\[(]\s*([^\[\]()]{1,80}?)\s*[\])]\s?[-–—]{1,2}[>›→]?\s*"  # a -[r]-> b
    r"|\s+--\s?([^->]{1,80}?)\s?--+>?\s+"  # a --r--> b
)
_ASIDE = re.compile(
    r"\s*(?:\s[#←]\s.*|//\s.*|\s?[(\[](?:from|source|see|implied|inferred|as|based|stated|per|according|not|picture|passage|"
    r"evidence|\d)[^()\[\]]*[)\]]|\s?\[\d{1,2}(?:,\s?\d{1,2})*\])\s*[.;]?$",
    re.IGNORECASE,
)
_PAIRS = {"(": ")", "<": ">", "[": "]", "{": "}", "⟨": "⟩", "`": "`", "*": "*", '"': '"'}
_BRACKETS = ("(", "<", "[", "{", "⟨")
# The form's own words for the parts of a triple, as in the headings of a table: `Entity | Relation | Entity / value`.
_PART = (
    r"(?:entity|object|thing|relation(?:ship)?|(?:has )?attribute|property|value|head|tail|subject|predicate|source"
    r"|target)"
)
_FORM = re.compile(rf"(?:(?:first|second|{_PART})\s?/?\s?)?{_PART}(?:\s?(?:/|or)\s?{_PART})?(?: ?\d)?", re.IGNORECASE)
# Keys of objects.
_HEAD = tuple("head subject source from entity1 object1 start s h entity".split())
_RELATION = tuple("relation predicate relationship property attribute type label edge p r verb".split())
_TAIL = tuple("tail object target to value entity2 object2 end o t".split())
# Marks between words; `=`, `<` and `+` may be a relation.
_BETWEEN = re.compile(r"[\s:;,./_'\"`]*+")
_WORD = re.compile(r"\w")

Parts = tuple[str, str, str]


def read_triple(value: Any) -> Parts | None:
    """Returns head, relation and tail; None for anything that does not clearly have just these three."""
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, Mapping):
        keys = {str(key).lower(): inner for key, inner in value.items()}
        if len(keys) >= 3:
            return _checked([next((keys[k] for k in names if k in keys), None) for names in (_HEAD, _RELATION, _TAIL)])
        return None
    return _checked(value) if isinstance(value, Sequence) else None


def is_form(triple: Parts) -> bool:
    """True for the form's own words in place of a triple, as in the headings of a table."""
    return all(map(_FORM.fullmatch, triple))


def looks_like_triple(line: str) -> bool:
    """True for a line that could be nothing but a triple: three parts between bars or arrows, or in one bracket."""
    text = line.strip()
    return bool(re.search(r"[|→]|->|^\W{0,6}[(<⟨].*[)>⟩]\W{0,2}$", text)) and _of_text(text) is not None


def _of_text(text: str) -> Parts | None:
    text = _LABEL.sub("", BULLET.sub("", text.replace("｜", "|").strip(), count=1), count=1)
    whole = text
    text = _bare(text)
    text = _ASIDE.sub("", text).rstrip(" .;,") if not text.endswith(")") or _ASIDE.search(text) else text
    inner = _bare(text.rstrip(" .;,"))
    if "|" in inner:
        return _checked(re.split(r"\s*\|\s*", inner.strip().strip("|")))
    if (arrows := list(_ARROW.finditer(inner))) and inner.count('"') % 2 == 0:
        return _between_arrows(inner, arrows)
    if whole[:1] in _BRACKETS or text[:1] in _BRACKETS:
        return _checked(_between_commas(inner) if "," in inner else inner.split(";"))
    quoted = re.fullmatch(r'\s*"([^"]+)"\s*,\s*"([^"]+)"\s*,\s*"([^"]+)"\s*', inner)
    return _checked(quoted.groups()) if quoted else None


def _bare(text: str) -> str:
    """Removes brackets, quotation marks or emphasis around the whole."""
    text = text.strip()
    while len(text) > 1 and _PAIRS.get(text[0]) == text[-1] and _closes_at_end(text):
        text = text[1:-1].strip()
    return text


def _closes_at_end(text: str) -> bool:
    opening, closing = text[0], text[-1]
    if opening == closing:
        return opening not in text[1:-1].strip(opening)
    depth = 0
    for place, mark in enumerate(text):
        depth += (mark == opening) - (mark == closing)
        if not depth:
            return place == len(text) - 1
    return False


def _between_arrows(text: str, arrows: Sequence[re.Match[str]]) -> Parts | None:
    """Reads `a -> r -> b`, or `a -[r]-> b`; two arrows without a relation between them make none."""
    labelled = [arrow for arrow in arrows if arrow[1] or arrow[2]]
    if len(arrows) == 1 and labelled:
        return _checked([text[: arrows[0].start()], arrows[0][1] or arrows[0][2], text[arrows[0].end() :]])
    if len(arrows) == 2 and not labelled:
        first, second = arrows
        return _checked([text[: first.start()], text[first.end() : second.start()], text[second.end() :]])
    return None


def _between_commas(text: str) -> list[str]:
    """Splits at commas, except for those in quotation marks, brackets or numbers."""
    parts, depth, quote, start = [], 0, "", 0
    for place, mark in enumerate(text):
        if quote:
            quote = "" if mark == quote else quote
        elif mark in '"“' or (mark == "'" and (place == 0 or text[place - 1] in " ,(")):
            quote = "”" if mark == "“" else mark
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif (
            mark == ","
            and not depth
            and not (text[place - 1 : place].isdigit() and text[place + 1 : place + 2].isdigit())
        ):
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _checked(parts: Sequence[Any]) -> Parts | None:
    if len(parts) != 3 or not all(isinstance(part, str | int | float) for part in parts):
        return None
    head, relation, tail = (_plain(str(part).lower() if isinstance(part, bool) else str(part)) for part in parts)
    triple = head, relation, tail
    if any(map(_BETWEEN.fullmatch, triple)):
        return None
    # One part may be a mark with a meaning: `5 | < | 7`, `+ | is | a positive charge`; `P | > | >` states nothing.
    return triple if sum(_WORD.search(part) is not None for part in triple) > 1 else None


def _plain(part: str) -> str:
    """Puts a part on one line, without marks around the whole, and with another mark for the bar between parts."""
    part = part.strip()
    if len(part) > 1 and part[0] == part[-1] == "'":
        part = part[1:-1]
    return " ".join(_bare(part).replace("|", "/").split())
