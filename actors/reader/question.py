"""Reads the wording of a question: the answer it asks for, its alternatives, and its parts."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from actors.reader.english import (
    ORDERS,
    PEOPLE,
    PLACES,
    STOP_WORDS,
    content_stems,
    features,
    name_spans,
    normal_name,
    stem,
    words,
)


class AnswerType(StrEnum):
    """Kinds of answers, by the wording of the question."""

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
    """Wording of a question.

    focus: stems of the main clause; head: of the noun after which/what/how many, its last word last.
    names: normal forms of the names; several: the question asks for a list.
    options: the two alternatives of `X or Y`; order: kind of comparison (time, number), whether the smallest wins.
    """

    text: str
    stems: tuple[str, ...]
    focus: frozenset[str]
    head: tuple[str, ...]
    answer_type: AnswerType
    names: frozenset[str]
    several: bool = False
    options: tuple[str, ...] = ()
    order: tuple[str, bool] | None = field(default=None)


_AUXILIARY = "is|are|was|were|did|does|do|has|have|had|can|could|will|would"
_WH = "who|whose|whom|which|what|when|where|how|why"
_QUESTION_WORD = re.compile(rf"\b({_WH})\b", re.IGNORECASE)
_GROUP = r"\s+((?:[\w'’\-]+(?:\(e?s\))?\s*){1,4})"
_HEAD = re.compile(rf"\b(?:which|what(?:\s+(?:is|are|was|were)\s+the)?|how\s+many|whose){_GROUP}", re.IGNORECASE)
# End the noun after `which`: verbs, prepositions and relative pronouns.
_HEAD_END = frozenset(
    """is are was were did does do has have had can of in on at by from with that which who whose for to came come
    appeared appears shows featuring made held won built sung written shown known born found founded""".split()
)
_PLURAL = re.compile(r"\b(?:which|what)\s+(?:\w+\s+)?(\w+s)\s+(?:have|are|were|do|did|show|feature)\b", re.I)
_RELATIVE_WORD = re.compile(r"\b(?:that|whose|who|which|where|with|featuring|showing)\b", re.IGNORECASE)
_LETTERING = re.compile(
    r"\b(?:written|lettering|inscri\w+|(?:word|text|letter|slogan|number|name)s?\b.*\b(?:on|written)|reads?|says?)\b",
    re.I,
)


def question_form(text: str) -> QuestionForm:
    """Parses one question. A description without a question word asks for a thing."""
    spoken = words(text)
    order = next(((about, smallest) for terms, about, smallest in ORDERS if not terms.isdisjoint(spoken)), None)
    options: tuple[str, ...] = ()
    alternatives = re.split(r",?\s+or\s+", text.rstrip(" ?."), maxsplit=1)
    # Elsewhere `or` only joins words of a description.
    if len(alternatives) == 2 and (order or re.match(rf"(?:{_AUXILIARY})\b", text, re.I)):
        left = re.split(r"[:,]\s+", alternatives[0])[-1].strip()
        left = re.sub(rf"^(?:(?:{_AUXILIARY})|which|what|between|either)\s+", "", left, flags=re.I)
        right = re.split(r",\s+|\s+(?:the one with|as the)\s+", alternatives[1])[0]
        options = (left.strip(" \"'"), right.strip(" \"'")) if left.strip() and right.strip() else ()
    noun = _HEAD.search(text) or re.search(rf"\bthe{_GROUP}", text, re.IGNORECASE)
    group: list[str] = []
    for word in words(noun[1].replace("(s)", "").replace("(es)", "")) if noun else ():
        if word in _HEAD_END or (group and word.endswith("ed")):
            break
        if word not in STOP_WORDS:
            group.append(stem(word))
    head = tuple(group[:3])
    answer_type = AnswerType.OPTION if options else _answer_type(text, spoken, head)
    stems = tuple(dict.fromkeys(features(text)))
    wh = _QUESTION_WORD.search(text)
    main = text[wh.end() :] if wh else text
    relative = _RELATIVE_WORD.search(main)
    # `In the film X, who ...`: the main clause begins before the question word.
    before = text[: wh.start()] if wh and not relative else ""
    focus = frozenset(content_stems(before + (main[: relative.start()] if relative else main)))
    names = frozenset(normal_name(name) for name, _, _ in name_spans(text))
    several = bool(re.search(r"\w\(e?s\)|\ball\b|\beach of\b|\blist\b", text, re.I)) or bool(
        _PLURAL.search(text) and not text.lower().startswith(("what is", "what was"))
    )
    return QuestionForm(text, stems, focus or frozenset(stems), head, answer_type, names, several, options, order)


def _answer_type(text: str, spoken: list[str], head: tuple[str, ...]) -> AnswerType:
    wh = _QUESTION_WORD.search(text)
    first = wh[1].lower() if wh else ""
    yes_no = re.search(rf"(?:^|,\s*)(?:{_AUXILIARY})\b", text, re.IGNORECASE)
    if yes_no and (not wh or yes_no.start() < wh.start()):
        return AnswerType.YES_NO
    # The wording precedes the noun: `how many cities` asks for a count, not a place.
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
    # `Name` is a header for people in tables, but in a question anything has a name.
    if any(stem(word) in head for word in PEOPLE if word != "name"):
        return AnswerType.PERSON
    if any(stem(word) in head for word in PLACES):
        return AnswerType.PLACE
    return AnswerType.THING


# `the film that had Mira Holt as Anna`: a noun and a clause that describes it, up to the end of the question.
_DESCRIBED = re.compile(
    r"\bthe ((?:[a-z]+ ){1,2}?)(?:(?:that|which|who) |(?=(?:whose|where|with|featuring) ))(.+?)[ ?.]*$"
)


def parts(text: str) -> tuple[str, ...]:
    """Splits a question into the question for a thing that it describes, if it does, and itself."""
    described = _DESCRIBED.search(text)
    return (f"Which {described[1]}{described[2]}?", text) if described else (text,)
