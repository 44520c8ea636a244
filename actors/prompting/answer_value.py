"""Reads an answer, a text or one of the choices. Ambiguous ones state nothing."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from actors.messages import Field
from actors.prompting.form import ANSWER_FIELDS, FieldFault, Values, letters, quoted
from actors.prompting.plain_value import (
    OFFER,
    PLACEHOLDER,
    bare,
    is_blank,
    option_named,
    plain,
    says_nothing,
    split_support,
    unwrapped,
)
from actors.prompting.safe_text import one_line
from actors.prompting.words import pattern, words

_MOST_WORDS = 40  # of a statement that an answer is not known; a longer text is an answer
_LETTERS_OF_A_NAME = 3  # at least; shorter words are in every prompt
_WORDS_IN_PLACE = 3  # at most, of a statement in place of a text
_WORDS_IN_BRACKETS = 12  # at most, of such a statement
_WORDS_IN_A_ROW = 5  # by which a copy is known
# An offer of help, and a confidence.
_BEHIND = pattern(r"(?<=[.!?])\s+" + OFFER.pattern + r"|[\s,;.|]{0,4}\(\s?confidence:?\s[^()]{1,20}\)\Z")
_LEAD_IN = re.compile(
    r"\A(?:(?:(?:(?:the|my)\s)?(?:(?:correct|right|best|final)\s)?(?:answer|option|choice|letter)"
    r"(?:\sto\s(?:the|this|your)\squestion)?(?:\sis(?:\sthat\b)?\s?[:：]?|\s?[:：])(?:\s+|\Z))++"
    r"|(?:it is|it's|this is|that is)\s+)",
    re.IGNORECASE,
)
# A model's words besides an answer: another sentence, or a clause behind yes or no, a dash or a semicolon.
_MORE = re.compile(
    r"(?:[^\W\d_]{4}|\d{4}|\A(?i:yes|no))[\"'”*)]{0,3}[.!?]\s+(?!(?:One|Two|Three|Four|Five|Six|Seven|Eight|Nine|Ten)\b)"
    r"[A-Z][^.]{0,400}\s[a-z]|\A(?i:yes|no)\s?[,;:–—-]+\s*\w.*\b(?:[a-z]{4}|is\b)|\A(?i:yes|no)[.!?]+\s*(?i:yes|no)\b"
    r"|\b[A-Z]\.\s[A-Z]\w*\s[a-z]|\s[–—-]\s(?:[a-z]\S*|I)\s|;\s[a-z]\S*(?:\s\S+){2,}\Z|(?i:\bconfidence\W{0,4}\d)"
    # A text that begins or ends in the middle of a sentence, or has another answer in it.
    r"|\A[,;]\s|\w\s?[:：=]\Z|(?<!\S)(?:\S++\s){3}\S+,\Z|\s(?:is|are|was|the|an?|of|as|and|either|called|named)\Z"
    r"|(?i:\w\sanswer\s?[:：]|\bthe answer (?:to (?:the|this|your) question )?(?:is|was|lies|rests)\b)"
    # A sentence about the answer, in its place: `The answer rests on the opinions of others.`
    r"|\A(?:\w[.:]\s)?[Tt]he answer\b|\A(?i:the|either)\Z"
    # From one word to another, where one answer was asked for.
    r"|\A[^\W\d_][^\d+<>=→]*\s(?:->|=>|→)\s[^\W\d_][^\d+<>=→]*\Z"
)
# Numbers by which the prompt names its sources: `[1]`, `[1] and [3]`, `Picture [2]`.
_SOURCES_ALONE = pattern(
    r"(?:see\s)?(?:<remarks.source>\s)?\[\d{1,3}\](?:(?:\s?[,;&+]\s?|\s(?:and|or)\s|\s?)\[\d{1,3}\]){0,20}[.\s]*",
    re.IGNORECASE,
)
# The kinds of words in a statement about knowing, each named by its first letter.
_KINDS = ("negation", "evidence", "knowing", "weak", "declines", "unknown", "but", "speaker", "filler", "or", "request")
_KIND = pattern("|".join(f"(?P<{kind}><not_known.{kind}>)" for kind in _KINDS))
# A statement that an answer is not known: `unknown` at its end or about the evidence, or a negation with a word of the
# evidence, of knowing, or (at its end, or of the speaker) of seeing and saying. `The first does not, but the second one
# does` answers.
_NOT_KNOWN = re.compile(r"(?<!o)u\Z|(?=.*e).*u|(?!(?!.*s).*b)(?=.*n)(?:.*[ek]|.*w\Z|(?=.*s).*[wd])|\As+n\Z")
_DENIES = re.compile("[nr]", re.IGNORECASE)
_OTHER_SCRIPTS = re.compile("|".join(words("not_known", "scripts")))
_STATED_UNKNOWN = re.compile(
    r"n/?a|null|nil|no answer|tb[ad]|to be (?:announced|determined)|\?+|unknown\s?[,;.:–-].*",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"(?:yes|no)\s?[,.;:!?–—-]", re.IGNORECASE)  # before a clause about the evidence
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_OF_THE_WORLD = re.compile(r"\bnon-|\bevidence (?:of|that|for)\b|\bdata (?=cent|base|set)")  # and not of a prompt


@lru_cache(maxsize=1024)
def read_answer(field: Field, value: str, choices: tuple[str, ...]) -> Values | FieldFault | None:
    """Reads the value of an answer's field. () where it is not known or left out, None where it is empty.

    Cached: agents give the same answers to a question, in replies that differ.
    """
    text = bare(_LEAD_IN.sub("", unwrapped(_BEHIND.sub("", value)), count=1))
    answer = bare(split_support(text)[0])
    unknown = is_unknown(answer)
    signs = text.strip(" ?.,…*_`$\"'")  # which may be an answer, as may emoji
    is_sign = 0 < len(signs) < 3 or "So" in map(unicodedata.category, signs)
    # `<not stated in the text>` is a statement; a longer text in brackets takes the place of one.
    is_statement = unknown and len(_words_of(value)) <= _WORDS_IN_BRACKETS
    is_placeholder = PLACEHOLDER.fullmatch(value.strip(" `")) and not is_statement
    if is_placeholder or repeats_form(value) or (is_blank(text) and not is_sign) or plain(text) == plain(field.name):
        return None

    options = spellings(choices)
    choice = option_named(text, options)
    if len(text) > 3:
        choice = next((choice for choice in choices if one_line(choice) == text), choice)
    if choice is not None:
        return (choice,)

    # The form of an answer that may be left out offers `none`; `no` may be meant as an answer.
    if field.optional and says_nothing(text):
        return ()
    is_declined = unknown and not plain(text).startswith(tuple(f"{spelling} " for spelling in options))
    # `The answer rests on facts, not on opinions.` denies something else.
    if is_declined and (choices or _has_unknown(answer) or not _MORE.search(answer)):
        return ()
    if choices:
        return FieldFault(field, f"{quoted(value)} is not one of the choices {', '.join(letters(choices))}")
    if _SOURCES_ALONE.fullmatch(text):
        return FieldFault(field, f"{quoted(text)} names sources and no answer")
    if _MORE.search(answer) or (field.optional and answer == "false"):
        return FieldFault(field, f"{quoted(answer)} is not an answer alone")
    return (answer.rstrip(" ,;") or answer,)


def is_answer(text: str) -> bool:
    """True for a text that is read as an answer to a question without choices."""
    _, answer_field, _ = ANSWER_FIELDS
    values = read_answer(answer_field, text, ())
    return isinstance(values, tuple) and len(values) > 0


def repeats(answer: str, lines: Iterable[str]) -> bool:
    """True where an answer has several words in a row of one of the lines."""
    runs = _runs_of(answer)
    return bool(runs) and any(not runs.isdisjoint(_runs_of(line)) for line in lines)


def repeats_form(value: str) -> bool:
    """True where a value has several words in a row of the form's descriptions of an answer: `<the answer itself in as
    many words as possible, or unknown>`. Its `unknown` states nothing."""
    reasoning, answer, _ = ANSWER_FIELDS
    return repeats(value, (reasoning.asks, f"{answer.asks}, or unknown"))


@lru_cache(maxsize=4096)
def _runs_of(text: str) -> frozenset[str]:
    """Returns every few words in a row of a text. Cached: prompts share their lines."""
    text_words = _words_of(text.casefold())
    starts = range(len(text_words) - _WORDS_IN_A_ROW + 1)
    return frozenset(" ".join(text_words[start : start + _WORDS_IN_A_ROW]) for start in starts)


@lru_cache(maxsize=1024)
def spellings(choices: tuple[str, ...]) -> dict[str, str | None]:
    """Returns the choices by what names them: the text, the letter, or both. None for what names two."""
    choice_by_spelling: dict[str, str | None] = {}
    for letter, choice in zip(letters(choices), choices, strict=True):
        names = (letter, f"option {letter}", f"choice {letter}", choice, f"{letter} {choice}", f"{choice} {letter}")
        for spelling in map(plain, names):
            namesake = choice_by_spelling.setdefault(spelling, choice)
            if namesake is None or one_line(namesake) != one_line(choice):
                choice_by_spelling[spelling] = None
    return choice_by_spelling


def is_unknown(answer: str) -> bool:
    """True where the answer states that it is not known, or declines.

    A title (`Unknown Pleasures`, `No Information Society`) has other words, each with a capital, and is an answer.
    """
    text = unicodedata.normalize("NFKC", answer).replace("’", "'").strip(" .!*_`\"'()[]{}<>")
    if _STATED_UNKNOWN.fullmatch(text):
        return True
    if _YES_OR_NO.match(text):
        return False
    if not text.isascii() and len(text) < 10 * _MOST_WORDS and _OTHER_SCRIPTS.search(text.casefold()):
        return True

    kinds = _kinds_of(_words_of(_OF_THE_WORLD.sub("", text[: 20 * _MOST_WORDS])))
    return len(kinds) <= _MOST_WORDS and not _is_title(kinds) and _NOT_KNOWN.search(kinds.casefold()) is not None


def _has_unknown(answer: str) -> bool:
    return "u" in _kinds_of(_words_of(answer)).casefold()


def is_unfounded(answer: str, grounds: str) -> bool:
    """True where an answer denies or requests something (`no comment`, `Which club do you mean?`), and has no word of
    the grounds in its prompt."""
    if answer.endswith("?"):
        return plain(answer) not in plain(grounds)
    answer_words = _words_of(_OF_THE_WORLD.sub("", answer[: 20 * _MOST_WORDS]))
    kinds = _kinds_of(answer_words)
    if len(kinds) < 2 or not _DENIES.search(kinds) or _is_title(kinds):
        return False
    names: set[str] = set()
    for word, kind in zip(answer_words, kinds.casefold(), strict=True):
        if kind in "xfsbo" and len(word) >= _LETTERS_OF_A_NAME:
            names.add(word.casefold())
    return names.isdisjoint(_words_of(grounds.casefold()))


def _words_of(text: str) -> list[str]:
    """Returns the words of a text, without accents."""
    letters_and_accents = unicodedata.normalize("NFKD", text)
    without_accents = "".join(mark for mark in letters_and_accents if not unicodedata.combining(mark))
    return _WORD.findall(without_accents)


def _kinds_of(text_words: Sequence[str]) -> str:
    return "".join(map(_kind_of, text_words))


def _is_title(kinds: str) -> bool:
    return "X" in kinds and kinds.isupper()


@lru_cache(maxsize=4096)
def _kind_of(word: str) -> str:
    """Returns the letter of a word's kind, a capital for words with one and for short words; `x` for a name."""
    letter = "x"
    kind = _KIND.fullmatch(word.casefold())
    if kind and kind.lastgroup:
        letter = kind.lastgroup[0]
    if len(word) <= 3:
        return letter.replace("x", "f").upper()
    return letter.upper() if word[0].isupper() else letter


def is_unstated(text: str) -> bool:
    """True for a few words in place of a free text: `Unknown`, `Not described`. `No source` is a text, about the
    evidence."""
    text_words = re.findall(r"\w+", text.casefold())
    if len(text_words) > _WORDS_IN_PLACE or not is_unknown(text):
        return False
    return "e" not in _kinds_of(text_words).casefold()
