"""Reads the wording of a question: the answer it asks for, its alternatives, and its parts."""

import re
from dataclasses import dataclass
from enum import StrEnum

from actors.reader.english import (
    COMPARISONS,
    PEOPLE,
    PLACES,
    STOP_WORDS,
    Comparison,
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

    @property
    def is_name(self) -> bool:
        """True for the kinds of answers that names may be."""
        return self in (AnswerType.PERSON, AnswerType.PLACE, AnswerType.THING)


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """Wording of a question.

    words: its words, in lower case.
    stems: of its content words and of pairs of neighbours.
    focus: stems of the main clause.
    head: stems of the noun after which/what/how many, its last word last.
    names: normal forms of the names.
    several: the question asks for a list.
    options: the two alternatives of `X or Y`.
    """

    text: str
    words: tuple[str, ...]
    stems: tuple[str, ...]
    focus: frozenset[str]
    head: tuple[str, ...]
    answer_type: AnswerType
    names: frozenset[str]
    several: bool
    options: tuple[str, ...]
    comparison: Comparison | None

    def mentions(self, name: str) -> bool:
        """Tests whether the question has the words of a normal name, one after another."""
        return f" {name} " in f" {' '.join(self.words)} "


_AUXILIARY = "is|are|was|were|did|does|do|has|have|had|can|could|will|would"
_ASKS_YES_NO = re.compile(rf"(?:^|,\s*)(?:{_AUXILIARY})\b", re.IGNORECASE)
_BEGINS_WITH_VERB = re.compile(rf"(?:{_AUXILIARY})\b", re.IGNORECASE)
_QUESTION_WORD = re.compile(r"\b(who|whose|whom|which|what|when|where|how|why)\b", re.IGNORECASE)
_GROUP = r"\s+((?:[\w'’\-]+(?:\(e?s\))?\s*){1,4})"
_HEAD = re.compile(rf"\b(?:which|what(?:\s+(?:is|are|was|were)\s+the)?|how\s+many|whose){_GROUP}", re.IGNORECASE)
_DEFINITE = re.compile(rf"\bthe{_GROUP}", re.IGNORECASE)
# End the noun after `which`: verbs, prepositions and relative pronouns.
_HEAD_END = frozenset(
    """is are was were did does do has have had can of in on at by from with that which who whose for to came come
    appeared appears shows featuring made held won built sung written shown known born found founded""".split()
)
_HEAD_WORDS = 3
_OR = re.compile(r",?\s+or\s+")
_BEFORE_LEFT = re.compile(rf"^(?:(?:{_AUXILIARY})|which|what|between|either)\s+", re.IGNORECASE)
_AFTER_RIGHT = re.compile(r",\s+|\s+(?:the one with|as the)\s+")
_LISTED = re.compile(r"\w\(e?s\)|\ball\b|\beach of\b|\blist\b", re.IGNORECASE)
_PLURAL = re.compile(r"\b(?:which|what)\s+(?:\w+\s+)?(\w+s)\s+(?:have|are|were|do|did|show|feature)\b", re.IGNORECASE)
_RELATIVE_WORD = re.compile(r"\b(?:that|whose|who|which|where|with|featuring|showing)\b", re.IGNORECASE)
_LETTERING = re.compile(
    r"\b(?:written|lettering|inscri\w+|(?:word|text|letter|slogan|number|name)s?\b.*\b(?:on|written)|reads?|says?)\b",
    re.IGNORECASE,
)
# `Name` is a header for people in tables, but in a question anything has a name.
_PEOPLE_STEMS = frozenset(map(stem, PEOPLE - {"name"}))
_PLACE_STEMS = frozenset(map(stem, PLACES))
# `the film that had Mira Holt as Anna`: a noun and a clause that describes it, up to the end of the question.
_DESCRIBED = re.compile(
    r"\bthe ((?:[a-z]+ ){1,2}?)(?:(?:that|which|who) |(?=(?:whose|where|with|featuring) ))(.+?)[ ?.]*$"
)


def question_form(text: str) -> QuestionForm:
    """Parses one question. A description without a question word asks for a thing."""
    question_words = words(text)
    comparison = next((order for order in COMPARISONS if not order.words.isdisjoint(question_words)), None)
    options = _alternatives(text, comparison)
    head = _head(text)
    answer_type = AnswerType.OPTION if options else _answer_type(text, question_words, head)
    stems = tuple(dict.fromkeys(features(text)))
    plural = _PLURAL.search(text) and not text.lower().startswith(("what is", "what was"))
    return QuestionForm(
        text=text,
        words=tuple(question_words),
        stems=stems,
        focus=_focus(text) or frozenset(stems),
        head=head,
        answer_type=answer_type,
        names=frozenset(normal_name(name) for name, _, _ in name_spans(text)),
        several=bool(plural or _LISTED.search(text)),
        options=options,
        comparison=comparison,
    )


def parts(text: str) -> tuple[str, ...]:
    """Splits a question into the question for a thing that it describes, if it does, and itself."""
    described = _DESCRIBED.search(text)
    if described is None:
        return (text,)
    return f"Which {described[1]}{described[2]}?", text


def _alternatives(text: str, comparison: Comparison | None) -> tuple[str, ...]:
    """Returns the two alternatives of a question that compares, or that asks for yes or no. Else ()."""
    alternatives = _OR.split(text.rstrip(" ?."), maxsplit=1)
    # Elsewhere `or` only joins words of a description.
    if len(alternatives) < 2 or not (comparison or _BEGINS_WITH_VERB.match(text)):
        return ()
    left = re.split(r"[:,]\s+", alternatives[0])[-1].strip()
    left = _BEFORE_LEFT.sub("", left)
    right = _AFTER_RIGHT.split(alternatives[1])[0]
    if not left.strip() or not right.strip():
        return ()
    return left.strip(" \"'"), right.strip(" \"'")


def _head(text: str) -> tuple[str, ...]:
    """Returns the stems of the noun that is asked for, or else of the first definite noun."""
    noun = _HEAD.search(text) or _DEFINITE.search(text)
    if not noun:
        return ()
    stems: list[str] = []
    for word in words(noun[1].replace("(s)", "").replace("(es)", "")):
        if word in _HEAD_END or (stems and word.endswith("ed")):
            break
        if word not in STOP_WORDS:
            stems.append(stem(word))
    return tuple(stems[:_HEAD_WORDS])


def _focus(text: str) -> frozenset[str]:
    """Returns the stems of the main clause."""
    question_word = _QUESTION_WORD.search(text)
    start = question_word.end() if question_word else 0
    main_clause = text[start:]
    relative = _RELATIVE_WORD.search(main_clause)
    if relative:
        main_clause = main_clause[: relative.start()]
    elif question_word:
        # `In the film X, who ...`: the main clause begins before the question word.
        main_clause = text[: question_word.start()] + main_clause
    return frozenset(content_stems(main_clause))


def _answer_type(text: str, question_words: list[str], head: tuple[str, ...]) -> AnswerType:
    question_word = _QUESTION_WORD.search(text)
    yes_no = _ASKS_YES_NO.search(text)
    if yes_no and (not question_word or yes_no.start() < question_word.start()):
        return AnswerType.YES_NO
    first = question_word[1].lower() if question_word else ""

    # The wording precedes the noun: `how many cities` asks for a count, not a place.
    if "colour" in head:
        return AnswerType.COLOUR
    if first in ("what", "which") and not {"color", "colour", "colors", "colours"}.isdisjoint(question_words):
        return AnswerType.COLOUR
    if question_word and first == "how":
        following = words(text[question_word.end() :])
        if not following:
            return AnswerType.THING
        return AnswerType.COUNT if following[0] == "many" else AnswerType.QUANTITY

    if first == "when" or not {"year", "date", "decade"}.isdisjoint((*head, *map(stem, head))):
        return AnswerType.TIME
    if first in ("who", "whom"):
        return AnswerType.PERSON
    if first == "where":
        return AnswerType.PLACE
    if first in ("what", "which") and _LETTERING.search(text) and {"person", "man", "woman"}.isdisjoint(head):
        return AnswerType.LETTERING
    if not _PEOPLE_STEMS.isdisjoint(head):
        return AnswerType.PERSON
    if not _PLACE_STEMS.isdisjoint(head):
        return AnswerType.PLACE
    return AnswerType.THING
