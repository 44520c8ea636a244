"""How the embedded reader judges an answer: by words, numbers and list parts, for it knows nothing of meaning.

A paraphrase that shares no word with the reference gets 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import Grading
from actors.reader.lexicon import NUMBERS, STOP_WORDS
from actors.reader.text import stem, words

_SEPARATOR = re.compile(r"[;,\n]\s|\s/\s|\b(?:and|or)\b", re.IGNORECASE)
_LETTER = re.compile(r"^\(?([A-Z])(?:\)|\.|:|$)\s*(.*)$")
_NUMERIC = re.compile(r"\d+(?:\.\d+)?")
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_ARTICLES = frozenset(("a", "an", "the"))
_NEGATIONS = frozenset("not no never neither nor without except isn't wasn't aren't weren't".split())
_OPPOSITE = {"yes": "no", "no": "yes"}

Words = tuple[str, ...]


def verdict(grading: Grading) -> str:
    """The reply to a request to judge, in the two lines that such requests ask for."""
    grade, reason = compare(grading.reference, grading.answer, grading.choices)
    return f"Reason: {reason}\nGrade: {grade}"


def compare(reference: Sequence[str], answer: str, choices: Sequence[str] = ()) -> tuple[int, str]:
    """A grade from 1 to 5 and why. Every string of `reference` has to be in the answer, and nothing else."""
    if [answer.strip()] == [part.strip() for part in reference]:
        return 5, "It says what the reference says."
    said = key(answer)
    if not said or said == ("unknown",):
        return 1, "It gives no answer."
    if choices and len(reference) == 1:
        return _choice(key(reference[0]), answer, [key(choice) for choice in choices])
    wanted = [found for part in reference for piece in _pieces(part) if (found := key(piece))]
    if len(wanted) == 1 and wanted[0] in (("yes",), ("no",)):
        return _yes_or_no(wanted[0][0], said)
    return _parts(wanted, [key(piece) for piece in _pieces(answer)])


def key(text: str) -> Words:
    """Words in lower case without articles; numbers in one form, with their scale: "$6.9 million" is ("6900000",)."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.replace("%", " percent "))
    text = re.sub(r"(?<![\w.])[-−](?=[\d.])", "minus ", text)
    text = re.sub(r"(?<!\w)\.(?=\d)", "0.", text)
    found: list[str] = []
    for word in words(re.sub(r"(?<=\w)[-–](?=\w)", " ", text)):
        if _NUMERIC.fullmatch(word) or word in NUMBERS:
            found.append(f"{float(NUMBERS.get(word, word)):.12g}")
        elif word in _SCALES and found and _NUMERIC.fullmatch(found[-1]):
            found[-1] = f"{float(found[-1]) * _SCALES[word]:.12g}"
        else:
            found.append(word.replace(".", ""))
    return tuple(word for word in found if word not in _ARTICLES) or tuple(found)


def _pieces(text: str) -> list[str]:
    return [piece for piece in _SEPARATOR.split(text) if key(piece)] or [text]


def _choice(right: Words, answer: str, choices: Sequence[Words]) -> tuple[int, str]:
    said = key(answer)
    lettered = _LETTER.match(answer)
    if said in choices:
        named = {said}
    elif lettered and ord(lettered[1]) - ord("A") < len(choices):
        named = {choices[ord(lettered[1]) - ord("A")]} | ({key(lettered[2])} & {*choices})
    else:
        named = {choice for choice in choices if _within(choice, said)}
    if named != {right}:
        return 1, "It names another choice, several or none."
    if said == right or lettered:
        return 5, "It names the right choice."
    return 4, "It names the right choice in other words."


def _yes_or_no(right: str, said: Words) -> tuple[int, str]:
    if right not in said or _OPPOSITE[right] in said:
        return 1, "It does not say the same."
    return (5, "It says the same.") if said == (right,) else (4, "It says the same and more.")


def _parts(wanted: Sequence[Words], said: Sequence[Words]) -> tuple[int, str]:
    """Parts are paired best likeness first; a part left over on either side keeps the answer from being right."""
    pairs = sorted(((_likeness(w, s), -i, -j) for i, w in enumerate(wanted) for j, s in enumerate(said)), reverse=True)
    levels: dict[int, int] = {}
    used: set[int] = set()
    for level, i, j in pairs:
        if -i not in levels and -j not in used and level > 1:
            levels[-i] = level
            used.add(-j)
    right = sum(level >= 4 for level in levels.values())
    if not wanted:
        return 1, "The reference has no words to compare."
    if right == len(wanted) == len(said):
        return min(levels.values()), "It says what the reference says."
    if sorted(word for part in wanted for word in part) == sorted(word for part in said for word in part):
        return 4, "It has the reference's words in another order."
    if right == len(wanted):
        return 3, "It says what the reference says and something else."
    if 2 * right >= len(wanted):
        return 3, f"It has {right} of the {len(wanted)} parts."
    if right or len(wanted) > 1:
        return (2, f"It has {right} of the {len(wanted)} parts.") if levels else (1, "It shares nothing that counts.")
    level = max(levels.values(), default=1)
    return level, "It is less than the reference says." if level > 1 else "It says something else."


def _likeness(wanted: Words, said: Words) -> int:
    """5: the same words; 4: the same but for endings, or with words around it; 3: a part of it, or with another number
    beside it; 2: a word of it; 1: nothing of it, or another number."""
    if wanted == said:
        return 5
    numbers, told = _numbers(wanted), _numbers(said)
    if not numbers <= told or _NEGATIONS & {*said} != _NEGATIONS & {*wanted}:
        return 1
    if tuple(map(stem, wanted)) == tuple(map(stem, said)):
        return 4
    if _within(wanted, said):
        return 4 if numbers == told else 3
    common = ({*wanted} & {*said}) - STOP_WORDS
    if common and {*said} <= {*wanted}:
        return 3
    return 2 if common else 1


def _numbers(found: Words) -> set[str]:
    """The numbers among some words, with their signs."""
    return {
        f"minus {word}" if i and found[i - 1] == "minus" else word
        for i, word in enumerate(found)
        if _NUMERIC.fullmatch(word)
    }


def _within(part: Words, whole: Words) -> bool:
    """Whether `part` is a run of words of `whole`."""
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))
