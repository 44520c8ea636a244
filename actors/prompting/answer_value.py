"""Reads an answer, a text or one of the question's choices, whatever a model wraps it in; ambiguous ones state nothing.

Linear in the text's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from actors.messages import Field
from actors.prompting.form import FieldFault, Values, letters, quoted
from actors.prompting.reply_text import BULLET, NOTHING, OTHER_LABEL, PLACEHOLDER, decoded, undecorated, unwrapped
from actors.prompting.safe_text import one_line

_FEW_WORDS = 8
_UNDECIDED = re.compile(r"\bor wait\b|\bhmm\b|\bwait,", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"(?:</?\w{2,20}>\s*)+$")
# Brackets of the form that a model left around its value, and no tag.
_IN_ANGLES = re.compile(r"<(?:\d+|[A-Z](?:[^\W\d_]*[a-z])?|yes|no)>")
_ABBREVIATED = frozenset(
    "prof capt dept corp univ messrs inst assn supt bros msgr lieut cmdr comm mass penn conn sept".split()
)
# `No. Ten` may be a number.
_SENTENCE = re.compile(
    r"(?P<first>.{0,60}?\b(?P<last>[^\W\d_]{4,}|\d{4}|\A(?:[Yy]es|[Nn]o))[\"'”*]{0,3})\.\s"
    r"(?!(?:One|Two|Three|Four|Five|Six|Seven|Eight|Nine|Ten)\b)(?=[A-Z][^.]*\s[a-z])"
)
_BY = (
    r"(?:from |see |sources?:? |as (?:stated|given|shown|seen|mentioned|described|per)\b|based on |"
    r"according to |stated in |per |because |since |mentioned in |shown in )"
)
_CITED = re.compile(
    rf"(?:(?:\s+|(?<=[\]*\"”]))(?:\[(?:(?:source|text|picture) )?\d{{1,2}}(?:\s?[,;]\s?\d{{1,2}})*\]|\({_BY}[^()]*\))"
    rf"|(?:(?<=\w),|\s[–—-])\s(?!from |see |per |since ){_BY}.*)\s*\.?$",
    re.IGNORECASE,
)
_EVIDENCE = (
    r"(?:(?:the|this|these|no|none of the) )?(?:given |provided |available |retrieved )?(?:texts?|evidence|passages?|"
    r"pictures?|images?|sources?|documents?|tables?|rows?|information|context|question|data)"
)
_UNKNOWN = re.compile(
    rf"{_EVIDENCE} (?:(?:do|does) not|don't|doesn't) (?:say|state|mention|tell|specify|indicate|contain|provide"
    r"|show|give|include|name|reveal|answer)\b.*|未知|不知道|无法确定|unbekannt|desconocid[oa]|inconnu|неизвестно"
    r"|(?:(?:(?:the|this|that|such|any) )?(?:answer|information|data|details?) (?:(?:is|are|was) )?"
    r"|(?:it|this|that)(?:'s| is| remains)? "
    r"|(?:there (?:is|was) |there's )(?=(?:no|not enough|insufficient) (?:\w+ )?information))?(?:"
    r"unknown|unclear|undetermined|indeterminate|unanswerable|n/a|null|no answer"
    r"|not (?:known|sure|available|applicable|determinable)"
    r"|not (?:explicitly )?(?:stated|specified|given|mentioned|provided|shown)"
    r"|(?:can ?not|can't|could not) be (?:determined|answered|known|inferred|found)"
    r"|(?:insufficient|not enough|no) (?:(?:such|relevant|specific) )?(?:information|evidence|context|data)"
    r"|(?:(?:i|we) )?(?:do not|don't|can ?not|can't|could not) (?:know|tell|say|determine|answer|help|assist|find)"
    r"|(?:(?:i am|i'm) )?(?:unable|not able) to (?:know|tell|say|determine|answer|help|assist|find)"
    r"|(?:i am|i'm) (?:sorry|not sure)"
    r")(?:[,;:.(–-]\s?.*|[\s,;:.(–-]++(?:from|in|based|with|given|by|to|as|because|since|due|but|the|this|that|it|there|here|which|who"
    r"|what|where|when|available|provided|about|regarding|for|if|is|i)\b.*)?"
)
_LEAD_IN = re.compile(
    r"\A(?:(?:the )?(?:(?:correct|right|best|final) )?(?:answer|option|choice)(?: is)?:?|letter|it is|it's|this is|"
    r"that is)\s+"
)
_LABEL = re.compile(r"[(\[]?(?P<letter>[a-z])(?:[)\]]\s?[.:,–—-]?|\s?[.:,]|\s[–—-]\s|\s(?=\()|$)\s?(?P<rest>.*)")
_ASIDE = re.compile(
    r"\s?\(|\.\s|[,;:]?\s(?:[–—-]\s)?(?:because|since|as|see|based on|according to|not|which|from)\b|\s[–—-]\s"
)
_BESIDE = re.compile(r"[(\[]([^()\[\]]{1,300})(?:[)\]]|$)|\s[–—-]\s([^()\[\]]{1,300})")  # in brackets, or after a dash
_OPTIONS = re.compile(r"(?:[a-z](?:, | or |, or )){1,8}[a-z]\s?[:：]\s?")  # the form's own list of letters, repeated
_YES_NO = frozenset(("yes", "no", "true", "false"))
_ARTICLE = re.compile(r"\A(?:an?|the)\s+")


def read_answer(field: Field, value: str, choices: Sequence[str]) -> Values | FieldFault | None:
    """Reads the value of a field that holds an answer; () where it is not known or left out, None where it is empty."""
    plain = unwrapped(value)
    placeholder = PLACEHOLDER.fullmatch(value) and not is_unknown(value)
    if placeholder or plain.lower() == field.name.lower() or not _has_content(value):
        return None
    # The form of an answer that may be left out offers `none`; `no` may be meant as an answer.
    left_out = field.optional and NOTHING.fullmatch(plain.strip(" .")) and plain.strip(" .").casefold() != "no"
    if left_out and not choices:
        return ()
    if _UNDECIDED.search(value):
        return FieldFault(field, f"{quoted(value)} is not one answer")
    stated, _ = stated_answer(value, choices)
    if stated == "":
        if not one_line(value).strip(" .…-–—_*"):
            return None
        if left_out:
            return ()
        return FieldFault(field, f"{quoted(value)} is not one of the choices {', '.join(letters(choices))}")
    if stated is None:
        return ()
    if choices:
        return (stated,)
    if not _has_content(stated):
        return None
    # `Answer: Answer: - red` has its bullet after the second label.
    stated = stated if stated[:1].isdigit() else BULLET.sub("", stated, count=1)
    first = _SENTENCE.match(stated)
    if first and first["last"].lower() not in _ABBREVIATED and len(first["first"].split()) <= _FEW_WORDS:
        # A few words, without the sentences that explain them.
        stated = undecorated(first["first"])[0]
    return None if stated.lower() == field.name.lower() or not _has_content(stated) else (stated,)


def _has_content(value: str) -> bool:
    """False for a row of marks; a sign or two may be an answer."""
    return any(map(str.isalnum, value)) or 0 < len(value.strip(" ?.…*_`\"'")) < 3


def answer_text(lines: Sequence[str], closed: bool = False) -> str:
    """Returns an answer on one line, without the sources that it cites.

    It is the first line with content, the lines of a list, or all lines down to the next field (`closed`) unless one of
    these is a sentence.
    """
    value = one_line(_answer_lines(lines, closed))
    value = re.sub(r"(?<=\d)\\text\{\s*([^{}]{1,40})\}", r" \1", value)
    if value.count("**") == 1:
        # `**Answer: Yes** - because ...`: the emphasis that began before the label ends with the value.
        value = value.partition("**")[0] or value.partition("**")[2]
    in_angles = _IN_ANGLES.fullmatch(value.strip(" .")) or is_unknown(value)
    value = decoded(value if in_angles else _CLOSING_TAG.sub("", value))
    while (cited := _CITED.sub("", value)) != value and cited.strip(" *_`."):
        value = cited
    return value


def _answer_lines(lines: Sequence[str], closed: bool) -> str:
    first = next((i for i, line in enumerate(lines) if any(map(str.isalnum, line))), 0)
    value, rest = lines[first].strip(), list(lines[first + 1 :])
    if first and OTHER_LABEL.match(value):
        return ""
    if BULLET.match(value):
        items = [value]
        for line in rest:
            if not BULLET.match(line):
                break
            items.append(line)
        # A single `1. ...` may be how the answer is written; only several make a list.
        if len(items) > 1 or not value[0].isdigit():
            return ", ".join(BULLET.sub("", item, count=1).strip() for item in items)
    while rest and not any(map(str.isalnum, rest[-1])):
        rest.pop()
    if closed and all(line.strip() and line.strip()[-1] not in ".!?" and not OTHER_LABEL.match(line) for line in rest):
        return " ".join([value, *map(str.strip, rest)])
    return value


def stated_answer(value: str, choices: Sequence[str] = ()) -> tuple[str | None, float | None]:
    """Returns the answer, and the confidence where it has one (`Paris (confidence 0.80)`).

    The answer is "" where none is stated, and None where the value states that it is not known. With choices it is one
    of them, named by text, letter or both. A letter that is another choice's text, or a letter and a text that
    disagree, name none.
    """
    value = one_line(value)
    # Exact spelling first, since later comparisons ignore case. Up to three characters it may be a letter: `(B)`.
    if len(value) > 3:
        for choice in choices:
            if value == one_line(choice):
                return choice, None
    value, confidence = undecorated(value)
    if not value.strip(" .…-–—_*"):
        return "", confidence
    chosen = _choice(value, choices) if choices else value
    # Not with a choice that was named: `unknown` may be one of the choices.
    if (not choices or not chosen) and is_unknown(value):
        return None, confidence
    return chosen, confidence


def is_unknown(answer: str) -> bool:
    """True where the answer states that it is not known, or declines. `Unknown Pleasures` is an answer."""
    return not answer.strip(" ?") or bool(_UNKNOWN.fullmatch(_folded(answer).strip(" .!?*_`\"'()[]{}<>")))


def _choice(value: str, choices: Sequence[str]) -> str:
    """Returns the one choice that the value names, or ""."""
    texts = _texts(tuple(choices))
    value = value.rstrip(" ✅✔☑️").rstrip("*") if value[-1:] in "✅✔☑️" else value
    folded = _OPTIONS.sub("", _LEAD_IN.sub("", _folded(value), count=1), count=1)
    named = _named_by_text(_plain(folded), texts)
    if not named:
        # Accents may be left out where that confuses no two choices.
        named = _named_by_text(_unaccented(_plain(folded)), [_unaccented(text) for text in texts])
    behind = _plain(folded)
    label = _LABEL.fullmatch(folded)
    if label:
        i = ord(label["letter"]) - ord("a")
        rest = label["rest"]
        # A sentence after a letter may name the letter's choice and no other.
        spoken_of = [j for j, text in enumerate(texts) if text and re.search(rf"\b{re.escape(text)}\b", rest)]
        in_sentence = len(rest.split()) > 2 and spoken_of == [i]
        if i < len(choices) and (not rest or in_sentence or _remarks_on(rest, texts[i])):
            named.add(i)
            behind = _plain(rest)
    if len({one_line(choices[i]) for i in named}) != 1:
        return ""
    i = named.pop()
    return "" if _names_another(behind.removeprefix(texts[i]), texts, i) else choices[i]


def _named_by_text(plain: str, texts: Sequence[str]) -> set[int]:
    """Finds the choices whose text a value is, or begins with before an aside; other words may state something else."""
    named = {i for i, text in enumerate(texts) if text and plain == text}
    if named:
        return named
    begun = {i for i, text in enumerate(texts) if text and plain.startswith(text) and _ASIDE.match(plain, len(text))}
    # `yes, both are` and `no: neither is` cannot be read in another way.
    return begun or {
        i
        for i, text in enumerate(texts)
        if text in _YES_NO and re.match(rf"{text}[,:;]\s(?!{'|'.join(_YES_NO)})", plain)
    }


def _remarks_on(rest: str, text: str) -> bool:
    """True where a letter is followed by its choice's own text, in brackets or not, or by a remark."""
    own = _plain(rest.lstrip(",:;–—- "))
    return (
        own == text
        or _plain(own.strip("()")) == text
        or bool(_named_by_text(own, [text]))
        or bool(_ASIDE.match(f" {rest}"))
    )


def _names_another(behind: str, texts: Sequence[str], i: int) -> bool:
    """True where a bracket, or the text after a dash, is the letter or text of another choice: `(B) snow (C)`."""
    for match in _BESIDE.finditer(behind):
        beside = _plain(match[1] or match[2])
        label = _LABEL.fullmatch(beside)
        letter = ord(label["letter"]) - ord("a") if label else -1
        if beside == texts[i] or letter == i:
            continue
        if label and letter < len(texts) and (not label["rest"] or _plain(label["rest"]) == texts[letter]):
            return True
        begun = {j for j, text in enumerate(texts) if text and re.match(rf"{re.escape(text)}\s?[,;:/]", beside)}
        if any(texts[j] != texts[i] for j in begun | _named_by_text(beside, texts)):
            return True
    return False


def _unaccented(text: str) -> str:
    return "".join(mark for mark in unicodedata.normalize("NFKD", text) if not unicodedata.combining(mark))


@lru_cache(maxsize=256)
def _texts(choices: tuple[str, ...]) -> list[str]:
    return [_plain(choice) for choice in choices]


def _plain(text: str) -> str:
    """A choice's text as it is compared: without case, decoration, closing punctuation, article and lead-in."""
    text = _folded(undecorated(one_line(text))[0])
    text = _LEAD_IN.sub("", text, count=1).strip(" .,;:!?\"'*_`✅✔☑️")
    return _ARTICLE.sub("", text, count=1)


def _folded(text: str) -> str:
    return one_line(unicodedata.normalize("NFKC", text)).casefold().replace("’", "'")
