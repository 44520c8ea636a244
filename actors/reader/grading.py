"""Grades an answer by words, numbers and list parts. A paraphrase that shares no word with the reference gets 1."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from actors.messages import FieldKind, Grading
from actors.reader.english import NUMBERS, STOP_WORDS, stem, words

_SEPARATOR = re.compile(r"[;,\n]\s|\s/\s|\b(?:and|or)\b", re.IGNORECASE)
_NUMERIC = re.compile(r"-?\d+(?:\.\d+)?")
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_ARTICLES = frozenset(("a", "an", "the"))
# An answer with other negations is the opposite, however similar the rest is.
_NEGATIONS = frozenset("not no never neither nor without except isn't wasn't aren't weren't".split())
SAME_FROM = 4  # least grade of an answer that means the same

Words = tuple[str, ...]


def verdict(grading: Grading) -> str:
    """Returns the reply to a request to judge, in the lines of its form."""
    grade, reason = compare(grading.reference, grading.answer, grading.choices)
    if grading.asks is FieldKind.SAME:
        same = "yes" if grade >= SAME_FROM else "no"
        return f"{grading.asks}: {same}"
    return f"{FieldKind.REASONING}: {reason}\n{FieldKind.GRADE}: {grade}"


def compare(reference: Sequence[str], answer: str, choices: Sequence[str] = ()) -> tuple[int, str]:
    """Returns a grade from 1 to 5 and the reason. The answer needs the words of every string of `reference`.

    5: the same words in any order. 4: other endings, or further words around them. 3: half of the words, or all of them
    and a further number or part. 2: some of them. 1: none, or another number, negation or choice.
    """
    # Before anything is split: a reference may contain no words.
    if [answer.strip()] == [part.strip() for part in reference]:
        return 5, "It says what the reference says."
    if comparison_key(answer) in ((), ("unknown",)):
        return 1, "It gives no answer."

    parts = _parts(answer)
    expected_parts = list(chain.from_iterable(map(_parts, reference)))
    answer_words = sorted(chain.from_iterable(parts))
    expected = sorted(chain.from_iterable(expected_parts))
    if answer_words == expected:
        return 5, "It says what the reference says."
    if choices or _contradicts(set(answer_words), set(expected)):
        return 1, "It says something else."

    answer_stems = set(map(stem, answer_words))
    shared = [word for word in expected if stem(word) in answer_stems]
    if len(shared) == len(expected):
        has_further_part = len(parts) - sum(map(STOP_WORDS.issuperset, parts)) > len(expected_parts)
        if has_further_part or not _numbers(answer_words) <= _numbers(expected):
            return 3, "It says the same and something else."
        return 4, "It says the same in other words."

    if STOP_WORDS.issuperset(shared):
        return 1, "It says something else."
    grade = 3 if 2 * len(shared) >= len(expected) else 2
    return grade, f"It has {len(shared)} of the {len(expected)} words."


def comparison_key(text: str) -> Words:
    """Normalises words and numbers with their scale, without articles: "$6.9 million" is ("6900000",)."""
    # `1,234` is 1234, `50%` is `50 percent`, `minus 3` is `-3`, `.5` is 0.5.
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.replace("%", " percent "))
    text = re.sub(r"(?<![\w.])[-−](?=[\d.])", " minus ", text)
    text = re.sub(r"(?<!\w)\.(?=\d)", "0.", text)
    key: list[str] = []
    for word in words(re.sub(r"(?<=\w)[-–](?=\w)", " ", text)):
        if _NUMERIC.fullmatch(word) or word in NUMBERS:
            number = float(NUMBERS.get(word, word))
            if key[-1:] == ["minus"]:
                key.pop()
                number = -number
            key.append(f"{number:.12g}")
        elif word in _SCALES and key and _NUMERIC.fullmatch(key[-1]):
            # `6.9 million` is one number.
            number = float(key[-1]) * _SCALES[word]
            key[-1] = f"{number:.12g}"
        else:
            key.append(word.replace(".", ""))
    return tuple(word for word in key if word not in _ARTICLES) or tuple(key)


def _contradicts(answer: set[str], expected: set[str]) -> bool:
    """True for words with another negation or number, or with both yes and no."""
    if _NEGATIONS & answer != _NEGATIONS & expected:
        return True
    if expected <= {"yes", "no"} <= answer:
        return True

    numbers = _numbers(answer)
    expected_numbers = _numbers(expected)
    # A number may be missing or be added; one in the place of another one contradicts.
    if expected_numbers - numbers and numbers - expected_numbers:
        return True
    return bool(expected_numbers) and expected_numbers.isdisjoint(numbers)


def _numbers(key: Iterable[str]) -> set[str]:
    return set(filter(_NUMERIC.fullmatch, key))


def _parts(text: str) -> list[Words]:
    """Splits a list into the words of its parts."""
    keys = map(comparison_key, _SEPARATOR.split(text))
    return list(filter(None, keys)) or [comparison_key(text)]
