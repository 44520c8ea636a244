"""Grades an answer by words, numbers and list parts; the embedded reader does not understand meaning.

A paraphrase that shares no word with the reference gets 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import FieldKind, Grading
from actors.reader.english import NUMBERS, STOP_WORDS, content_stems, stem, words

_SEPARATOR = re.compile(r"[;,\n]\s|\s/\s|\b(?:and|or)\b", re.IGNORECASE)
_LETTER = re.compile(r"^\(?([A-Z])(?:\)|\.|:|$)\s*(.*)$")
_NUMERIC = re.compile(r"\d+(?:\.\d+)?")
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_ARTICLES = frozenset(("a", "an", "the"))
# An answer with other negations is the opposite, however similar the rest is.
_NEGATIONS = frozenset("not no never neither nor without except isn't wasn't aren't weren't".split())
SAME_FROM = 4  # least grade of an answer that means the same
SHORT = 12  # words, up to which two answers are compared word by word
SHARED = 0.5  # of the content words of two longer answers, for them to agree
_OPPOSITE = {"yes": "no", "no": "yes"}

Words = tuple[str, ...]


def verdict(grading: Grading) -> str:
    """Returns the reply to a request to judge, in the lines of its form."""
    grade, reason = compare(grading.reference, grading.answer, grading.choices)
    if grading.asks is FieldKind.SAME:
        return f"{grading.asks}: {'yes' if grade >= SAME_FROM else 'no'}"
    return f"{FieldKind.REASONING}: {reason}\n{FieldKind.GRADE}: {grade}"


def compare(reference: Sequence[str], answer: str, choices: Sequence[str] = ()) -> tuple[int, str]:
    """Returns a grade from 1 to 5 and the reason. The answer needs every string of `reference`, and no more."""
    # Before anything is split: a reference may contain separators.
    if [answer.strip()] == [part.strip() for part in reference]:
        return 5, "It says what the reference says."
    stated = comparison_key(answer)
    if not stated or stated == ("unknown",):
        return 1, "It gives no answer."
    if choices and len(reference) == 1:
        return _choice(comparison_key(reference[0]), answer, [comparison_key(choice) for choice in choices])
    expected = [parts for part in reference for piece in _pieces(part) if (parts := comparison_key(piece))]
    if len(expected) == 1 and expected[0] in (("yes",), ("no",)):
        right = expected[0][0]
        if right not in stated or _OPPOSITE[right] in stated:
            return 1, "It does not say the same."
        return (5, "It says the same.") if stated == (right,) else (4, "It says the same and more.")
    return _parts(expected, [comparison_key(piece) for piece in _pieces(answer)])


def agree(answer: str, other: str) -> bool:
    """Tests whether two answers are the same; unknown (an empty text) agrees only with unknown."""
    if not answer or not other:
        return answer == other
    if max(len(answer.split()), len(other.split())) <= SHORT:
        return max(compare([answer], other)[0], compare([other], answer)[0]) >= SAME_FROM
    first, second = set(content_stems(answer)), set(content_stems(other))
    return len(first & second) >= SHARED * len(first | second)


def comparison_key(text: str) -> Words:
    """Normalises words (lower case, no articles) and numbers with their scale: "$6.9 million" is ("6900000",)."""
    # `1,234` is 1234, `50%` is `50 percent`, `-3` is `minus 3`, `.5` is 0.5.
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.replace("%", " percent "))
    text = re.sub(r"(?<![\w.])[-−](?=[\d.])", "minus ", text)
    text = re.sub(r"(?<!\w)\.(?=\d)", "0.", text)
    parts: list[str] = []
    for word in words(re.sub(r"(?<=\w)[-–](?=\w)", " ", text)):
        if _NUMERIC.fullmatch(word) or word in NUMBERS:
            parts.append(f"{float(NUMBERS.get(word, word)):.12g}")
        # `6.9 million` is one number.
        elif word in _SCALES and parts and _NUMERIC.fullmatch(parts[-1]):
            parts[-1] = f"{float(parts[-1]) * _SCALES[word]:.12g}"
        else:
            parts.append(word.replace(".", ""))
    # A text of articles alone keeps them.
    return tuple(word for word in parts if word not in _ARTICLES) or tuple(parts)


def _pieces(text: str) -> list[str]:
    return [piece for piece in _SEPARATOR.split(text) if comparison_key(piece)] or [text]


def _choice(right: Words, answer: str, choices: Sequence[Words]) -> tuple[int, str]:
    stated = comparison_key(answer)
    lettered = _LETTER.match(answer)
    if stated in choices:
        named = {stated}
    elif lettered and ord(lettered[1]) - ord("A") < len(choices):
        named = {choices[ord(lettered[1]) - ord("A")]} | ({comparison_key(lettered[2])} & {*choices})
    else:
        named = {choice for choice in choices if _within(choice, stated)}
    if named != {right}:
        return 1, "It names another choice, several or none."
    if stated == right or lettered:
        return 5, "It names the right choice."
    return 4, "It names the right choice in other words."


def _parts(expected: Sequence[Words], stated: Sequence[Words]) -> tuple[int, str]:
    """Pairs parts by decreasing likeness; a part left over on either side makes the answer wrong."""
    # Places are negative, since the order is reversed: of equal pairs the first parts come first.
    pairs = sorted(
        ((_likeness(w, s), -i, -j) for i, w in enumerate(expected) for j, s in enumerate(stated)), reverse=True
    )
    levels: dict[int, int] = {}
    used: set[int] = set()
    for level, i, j in pairs:
        if -i not in levels and -j not in used and level > 1:
            levels[-i] = level
            used.add(-j)
    right = sum(level >= 4 for level in levels.values())
    if not expected:
        return 1, "The reference has no words to compare."
    if right == len(expected) == len(stated):
        return min(levels.values()), "It says what the reference says."
    if sorted(word for part in expected for word in part) == sorted(word for part in stated for word in part):
        return 4, "It has the reference's words in another order."
    if right == len(expected):
        return 3, "It says what the reference says and something else."
    if 2 * right >= len(expected):
        return 3, f"It has {right} of the {len(expected)} parts."
    if right or len(expected) > 1:
        return (2, f"It has {right} of the {len(expected)} parts.") if levels else (1, "It shares nothing that counts.")
    level = max(levels.values(), default=1)
    return level, "It is less than the reference says." if level > 1 else "It says something else."


def _likeness(expected: Words, stated: Words) -> int:
    """Compares one part with another.

    5: the same words. 4: other endings, or further words around it. 3: a part of it, or a further number.
    2: a word of it. 1: nothing of it, or another number.
    """
    if expected == stated:
        return 5
    # Another number or negation outweighs all likeness.
    numbers, stated_numbers = _numbers(expected), _numbers(stated)
    if not numbers <= stated_numbers or _NEGATIONS & {*stated} != _NEGATIONS & {*expected}:
        return 1
    if tuple(map(stem, expected)) == tuple(map(stem, stated)):
        return 4
    if _within(expected, stated):
        return 4 if numbers == stated_numbers else 3
    common = ({*expected} & {*stated}) - STOP_WORDS
    if common and {*stated} <= {*expected}:
        return 3
    return 2 if common else 1


def _numbers(parts: Words) -> set[str]:
    """Finds the numbers among some words, with their signs."""
    pairs = zip(("", *parts), parts, strict=False)
    return {f"minus {word}" if before == "minus" else word for before, word in pairs if _NUMERIC.fullmatch(word)}


def _within(part: Words, whole: Words) -> bool:
    """True where `part` is a run of words of `whole`."""
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))
