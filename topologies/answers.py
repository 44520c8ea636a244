"""Compares answers without any label: in votes, in measures of agreement, and with choices.

A question names the form in which its data set compares answers (`Question.compared`):

- `text`: case, articles, punctuation and the spelling of numbers do not count; the sign of a number does.
- `amounts`: TAT-QA's, in which a scale belongs to a number too (`topologies.amounts`).

Where a question has choices, answers that name the same one are the same, by text or by letter.
"""

import re
import string
from collections.abc import Sequence

from actors.messages import Question
from topologies.amounts import amounts_form

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: value for value, word in enumerate(_UNITS.split())}
NUMBER_WORDS |= {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
NUMBER_WORDS |= {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
ARTICLES = frozenset({"a", "an", "the"})
# Hyphens between words are blanks; before a number they are its sign.
_BETWEEN = re.compile(r"\s+|(?<=\w)[-\u2010-\u2014](?=\w)")
# Linear in the length of a token: no two repetitions in a row can match the same mark.
_NUMBER = re.compile(
    r"[^\w.+-]*(?:(?P<sign>[+-])[^\w.+-]*)?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)[^\w]*"
)
# `\w` includes the underscore, which here separates words as punctuation does.
_NO_WORD = re.compile(r"[^\w\s]|_")


def wording(text: str) -> str:
    """Returns a text for comparisons that ignore case and spaces."""
    return " ".join(text.casefold().split())


def ballot(question: Question, answer: str | None) -> str | None:
    """Returns the form in which votes compare an answer to a question, None for no answer.

    Answers with equal forms are the same answer.
    """
    if answer is None:
        return None
    if question.choices:
        choice = choice_of(answer, question.choices)
        if choice is not None:
            return f"({choice})"  # no other form has brackets
    if question.compared == "amounts":
        amounts = amounts_form(answer)
        if amounts:
            return amounts
    return text_form(answer)


def text_form(answer: str) -> str | None:
    """Lower case without articles and punctuation, numbers as floats; None where nothing is left.

    An answer of punctuation alone stays as it is.
    """
    # casefold rather than lower: it also makes sharp s and double s equal.
    folded = answer.casefold().replace("\u2212", "-")
    words: list[str] = []
    for token in _BETWEEN.split(folded):
        number = _NUMBER.fullmatch(token)
        if number:
            words.append(str(float((number["sign"] or "") + number["digits"].replace(",", ""))))
            continue
        for word in _NO_WORD.sub(" ", token).split():
            if word in NUMBER_WORDS:
                words.append(str(float(NUMBER_WORDS[word])))
            elif word not in ARTICLES:
                words.append(word)
    # A bare mark such as "?" has no words left, yet it is not the same as no answer.
    return " ".join(words) or folded.strip() or None


_MARKS = string.punctuation + string.whitespace + "“”‘’"
# "B", "(b)", "B.", "(B).".
_MOST_LABEL = 8  # characters of a letter with its brackets, and of quotation marks
_LETTER = re.compile(r"\(?([a-z])(?:\)|\.|:|\)\.)?", re.IGNORECASE)


def choice_of(answer: str, choices: Sequence[str]) -> int | None:
    """Index of the one choice that an answer names: by its text, by its letter ("B", "(b)", "B."), or by both.

    Texts are compared as written first, because some choices differ in capitals or punctuation alone, then without
    regard to case, then without outer punctuation too; text goes before letter where a choice is itself a letter.
    None when no choice or more than one is named, or letter and text disagree: nothing is guessed.
    """
    answer_text = " ".join(answer.split())
    texts = [" ".join(choice.split()) for choice in choices]
    for form in (str, str.casefold):
        matches = [index for index, text in enumerate(texts) if form(text) == form(answer_text)]
        if matches:
            return _only(matches)

    letters = string.ascii_uppercase[: len(texts)]
    letter = _LETTER.fullmatch(answer_text)
    if letter:
        return _only([index for index, name in enumerate(letters) if name == letter[1].upper()])

    with_text = re.fullmatch(r"\(?([A-Za-z])[).:]\s*(.+)", answer_text, re.DOTALL)
    # A letter beyond the choices may be part of the text, which is compared below.
    if with_text and with_text[1].upper() in letters:
        index = letters.index(with_text[1].upper())
        # Of a longer text than any choice, such as thousands of letters, each would be tried in its turn.
        may_be_choice = len(with_text[2]) <= max(map(len, texts)) + _MOST_LABEL
        return index if may_be_choice and choice_of(with_text[2], choices) == index else None

    bare_text = answer_text.casefold().strip(_MARKS)
    if not bare_text:
        return None  # an answer of punctuation alone names none
    return _only([index for index, text in enumerate(texts) if text.casefold().strip(_MARKS) == bare_text])


def _only(matches: Sequence[int]) -> int | None:
    # Two choices with equal texts cannot be distinguished.
    return matches[0] if len(matches) == 1 else None
