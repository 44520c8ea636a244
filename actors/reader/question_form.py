"""The form of a question: the type of answer, the noun that names it, the alternatives, the words to be covered."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from actors.reader.lexicon import EARLIER, LATER, LESS, MORE, PEOPLE, PLACES, STOP_WORDS
from actors.reader.text import content_stems, features, name_spans, normal_name, stem, words


class AnswerType(StrEnum):
    """The kind of answer that the wording asks for."""

    YES_NO = "yes or no"
    OPTION = "one of the alternatives named"
    TIME = "time"
    COUNT = "count"
    QUANTITY = "quantity"
    COLOUR = "colour"
    LETTERING = "lettering"
    PERSON = "person"
    PLACE = "place"
    THING = "thing"


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """`focus` are the stems of the main clause, `head` those of the noun after which/what/how many."""

    text: str
    stems: tuple[str, ...]
    focus: frozenset[str]
    head: tuple[str, ...]
    answer_type: AnswerType
    names: frozenset[str]
    several: bool = False
    options: tuple[str, ...] = ()
    order: tuple[str, bool] | None = field(default=None)


_AUXILIARY = r"(?:is|are|was|were|did|does|do|has|have|had|can|could|will|would)"
_YES_NO = re.compile(rf"(?:^|,\s*){_AUXILIARY}\b", re.IGNORECASE)
_WH = re.compile(r"\b(who|whose|whom|which|what|when|where|how|why)\b", re.IGNORECASE)
_GROUP = r"\s+((?:[\w'’\-]+(?:\(e?s\))?\s*){1,4})"
_HEAD = re.compile(rf"\b(?:which|what(?:\s+(?:is|are|was|were)\s+the)?|how\s+many|whose){_GROUP}", re.IGNORECASE)
_DESCRIBED = re.compile(rf"\bthe{_GROUP}", re.IGNORECASE)
# Words at which the noun after `which` ends: verbs, prepositions and relative pronouns.
_HEAD_END = frozenset(
    """is are was were did does do has have had can of in on at by from with that which who whose for to came come
    appeared appears shows featuring made held won built sung written shown known born found founded""".split()
)
_RELATIVE = re.compile(r"\b(?:that|whose|who|which|where|with|featuring|showing)\b", re.IGNORECASE)
_LETTERING = re.compile(
    r"\b(?:written|lettering|inscri\w+|(?:word|text|letter|slogan|number|name)s?\b.*\b(?:on|written)|reads?|says?)\b",
    re.I,
)
_OR = re.compile(
    r"^(.*?)(?:[:,]|\b(?:first|earlier|later|last|is|was|were|are|between)\b)?\s*([^:,]+?),?\s+or\s+([^,?]+)\??(.*)$",
    re.I,
)
_ORDER_WORDS = tuple(
    (word, (group, smallest))
    for vocabulary, group, smallest in (
        (EARLIER, "time", True),
        (LATER, "time", False),
        (MORE, "number", False),
        (LESS, "number", True),
    )
    # Sorted, since the first word found decides, and the order of a set changes from process to process.
    for word in sorted(vocabulary)
)


def question_form(text: str) -> QuestionForm:
    """Reads the wording of one question; a description without a question word asks for a thing."""
    spoken = words(text)
    order = next((order for word, order in _ORDER_WORDS if word in spoken), None)
    # Elsewhere `or` only joins words of a description.
    options = _options(text) if order or re.match(rf"{_AUXILIARY}\b", text, re.I) else ()
    head = _head(text)
    answer_type = AnswerType.OPTION if options else _answer_type(text, spoken, head)
    stems = tuple(dict.fromkeys(features(text)))
    wh = _WH.search(text)
    main = text[wh.end() :] if wh else text
    relative = _RELATIVE.search(main)
    # `In the film X, who ...`: the main clause may begin before the question word.
    before = text[: wh.start()] if wh and not relative else ""
    focus = frozenset(content_stems(before + (main[: relative.start()] if relative else main)))
    names = frozenset(normal_name(name) for name, _, _ in name_spans(text))
    several = bool(re.search(r"\w\(e?s\)|\ball\b|\beach of\b|\blist\b", text, re.I)) or _plural(text)
    return QuestionForm(text, stems, focus or frozenset(stems), head, answer_type, names, several, options, order)


def _answer_type(text: str, spoken: list[str], head: tuple[str, ...]) -> AnswerType:
    wh = _WH.search(text)
    first = wh[1].lower() if wh else ""
    yes_no = _YES_NO.search(text)
    if yes_no and (not wh or yes_no.start() < wh.start()):
        return AnswerType.YES_NO
    # The wording decides before the noun does: `how many cities` wants a count and no place.
    if "colour" in head or (first in ("what", "which") and {"color", "colour", "colors", "colours"} & set(spoken)):
        return AnswerType.COLOUR
    if first == "how":
        after = words(text[wh.end() :] if wh else "")[:1]
        return AnswerType.COUNT if after == ["many"] else AnswerType.QUANTITY if after else AnswerType.THING
    if first == "when" or {"year", "date", "decade"} & {*head, *(stem(word) for word in head)}:
        return AnswerType.TIME
    if first in ("who", "whom"):
        return AnswerType.PERSON
    if first == "where":
        return AnswerType.PLACE
    if first in ("what", "which") and _LETTERING.search(text) and not {"person", "man", "woman"} & set(head):
        return AnswerType.LETTERING
    # `Name` is a header for people in tables, but in a question it may be the name of anything.
    if any(stem(word) in head for word in PEOPLE if word != "name"):
        return AnswerType.PERSON
    if any(stem(word) in head for word in PLACES):
        return AnswerType.PLACE
    return AnswerType.THING


def _head(text: str) -> tuple[str, ...]:
    """Stems of the noun group that names what is asked for, its last noun last."""
    match = _HEAD.search(text) or _DESCRIBED.search(text)
    if not match:
        return ()
    group: list[str] = []
    for word in words(match[1].replace("(s)", "").replace("(es)", "")):
        # A participle ends the noun: `the film directed by`.
        if word in _HEAD_END or (group and word.endswith("ed")):
            break
        if word not in STOP_WORDS:
            group.append(stem(word))
    return tuple(group[:3])


def _plural(text: str) -> bool:
    match = re.search(r"\b(?:which|what)\s+(?:\w+\s+)?(\w+s)\s+(?:have|are|were|do|did|show|feature)\b", text, re.I)
    return bool(match) and not text.lower().startswith(("what is", "what was"))


def _options(text: str) -> tuple[str, ...]:
    """The two alternatives of `X or Y`, stripped of the words around them; () when there is no `or`."""
    parts = re.split(r",?\s+or\s+", text.rstrip(" ?."), maxsplit=1)
    if len(parts) != 2:
        return ()
    left, right = parts
    left = re.split(r"[:,]\s+", left)[-1]
    left = re.sub(rf"^(?:{_AUXILIARY}|which|what|between|either)\s+", "", left.strip(), flags=re.I)
    right = re.split(r",\s+|\s+(?:the one with|as the)\s+", right)[0]
    return (left.strip(" \"'"), right.strip(" \"'")) if left.strip() and right.strip() else ()
