"""Grades an answer by words, numbers and list parts. A paraphrase that shares no word with the reference gets 1."""

import re
from collections.abc import Sequence

from actors.messages import FieldKind, Grading
from actors.reader.english import NUMBERS, STOP_WORDS, content_stems, stem, words

_SEPARATOR = re.compile(r"[;,\n]\s|\s/\s|\b(?:and|or)\b", re.IGNORECASE)
_NUMERIC = re.compile(r"-?\d+(?:\.\d+)?")
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_ARTICLES = frozenset(("a", "an", "the"))
# An answer with other negations is the opposite, however similar the rest is.
_NEGATIONS = frozenset("not no never neither nor without except isn't wasn't aren't weren't".split())
SAME_FROM = 4  # least grade of an answer that means the same
SHORT = 12  # words, up to which two answers are compared word by word
SHARED = 0.5  # of the content words of two longer answers, for them to agree

Words = tuple[str, ...]


def verdict(grading: Grading) -> str:
    """Returns the reply to a request to judge, in the lines of its form."""
    grade, reason = compare(grading.reference, grading.answer, grading.choices)
    if grading.asks is FieldKind.SAME:
        return f"{grading.asks}: {'yes' if grade >= SAME_FROM else 'no'}"
    return f"{FieldKind.REASONING}: {reason}\n{FieldKind.GRADE}: {grade}"


def compare(reference: Sequence[str], answer: str, choices: Sequence[str] = ()) -> tuple[int, str]:
    """Returns a grade from 1 to 5 and the reason. The answer needs the words of every string of `reference`.

    5: the same words in any order. 4: other endings, or further words around them. 3: half of the words, or all of them
    and a further number or part. 2: some of them. 1: none, or another number or negation.
    """
    # Before anything is split: a reference may contain no words.
    if [answer.strip()] == [part.strip() for part in reference]:
        return 5, "It says what the reference says."
    stated = comparison_key(answer)
    if not stated or stated == ("unknown",):
        return 1, "It gives no answer."
    if choices and len(reference) == 1:
        right, known = comparison_key(reference[0]), [comparison_key(choice) for choice in choices]
        lettered = re.match(r"^\(?([A-Z])(?:\)|\.|:|$)\s*(.*)$", answer)
        if stated in known:
            named = {stated}
        elif lettered and ord(lettered[1]) - ord("A") < len(known):
            named = {known[ord(lettered[1]) - ord("A")]} | ({comparison_key(lettered[2])} & {*known})
        else:
            # Choices whose words are a run of the answer's.
            named = {stated[i:j] for j in range(len(stated) + 1) for i in range(j + 1)} & {*known}
        if named != {right}:
            return 1, "It names another choice, several or none."
        exact = stated == right or lettered
        return (5, "It names the right choice.") if exact else (4, "It names the right choice in other words.")
    pieces, expected = _pieces(answer), [piece for part in reference for piece in _pieces(part)]
    said, wanted = (sorted(word for piece in parts for word in piece) for parts in (pieces, expected))
    if said == wanted:
        return 5, "It says what the reference says."
    numbers, further = ({*filter(_NUMERIC.fullmatch, parts)} for parts in (wanted, said))
    if (
        (wanted in (["yes"], ["no"]) and {"yes", "no"} <= {*said})
        or _NEGATIONS & {*said} != _NEGATIONS & {*wanted}
        or (numbers and (not numbers & further or (numbers - further and further - numbers)))
    ):
        return 1, "It says something else."
    stems = {*map(stem, said)}
    told = [word for word in wanted if stem(word) in stems]
    if len(told) == len(wanted):
        telling = [piece for piece in pieces if not {*piece} <= STOP_WORDS]
        more = len(telling) > len(expected) or not further <= numbers
        return (3, "It says the same and something else.") if more else (4, "It says the same in other words.")
    if {*told} <= STOP_WORDS:
        return 1, "It says something else."
    return (3 if 2 * len(told) >= len(wanted) else 2), f"It has {len(told)} of the {len(wanted)} words."


def agree(answer: str, other: str) -> bool:
    """Tests whether two answers are the same. Unknown (an empty text) agrees only with unknown."""
    if not answer or not other:
        return answer == other
    if max(len(answer.split()), len(other.split())) <= SHORT:
        return max(compare([answer], other)[0], compare([other], answer)[0]) >= SAME_FROM
    first, second = set(content_stems(answer)), set(content_stems(other))
    return len(first & second) >= SHARED * len(first | second)


def comparison_key(text: str) -> Words:
    """Normalises words and numbers with their scale, without articles: "$6.9 million" is ("6900000",)."""
    # `1,234` is 1234, `50%` is `50 percent`, `minus 3` is `-3`, `.5` is 0.5.
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.replace("%", " percent "))
    text = re.sub(r"(?<![\w.])[-−](?=[\d.])", " minus ", text)
    text = re.sub(r"(?<!\w)\.(?=\d)", "0.", text)
    parts: list[str] = []
    for word in words(re.sub(r"(?<=\w)[-–](?=\w)", " ", text)):
        if _NUMERIC.fullmatch(word) or word in NUMBERS:
            sign = parts.pop() and "-" if parts[-1:] == ["minus"] else ""
            parts.append(f"{sign}{float(NUMBERS.get(word, word)):.12g}")
        # `6.9 million` is one number.
        elif word in _SCALES and parts and _NUMERIC.fullmatch(parts[-1]):
            parts[-1] = f"{float(parts[-1]) * _SCALES[word]:.12g}"
        else:
            parts.append(word.replace(".", ""))
    return tuple(word for word in parts if word not in _ARTICLES) or tuple(parts)


def _pieces(text: str) -> list[Words]:
    return [key for piece in _SEPARATOR.split(text) if (key := comparison_key(piece))] or [comparison_key(text)]
