"""Reads the text after `Answer:` or `Confidence:`, whatever a model wraps it in; the ambiguous states nothing.

Linear in the text's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from actors.prompting.text import one_line

_LONGEST_DECORATED = 1000  # characters; a longer answer is taken as it is
_TAIL = re.compile(r"[\s,;.|*_]*(?:\(\s*confidence:?\s([^()]{1,20})\)|\bconfidence[*_]{0,3}:(.{1,40}))$", re.IGNORECASE)
# `Answer: The final answer is: Paris` says so twice.
_AGAIN = re.compile(
    r"(?:(?:the|my)\s)?(?:(?:final|correct)\s)?(?:answer|confidence)(?:\sis)?\s?[:：]\s?", re.IGNORECASE
)
BOXED = re.compile(r"\\boxed\s?\{(?:[^{}\n]{0,300}+(?:\{[^{}\n]{0,300}+\})?){1,4}\}")
_LATEX = re.compile(r"\\(?:boxed|text|textbf|textit|mathbf|mathrm)\s?\{(.*)\}|\\\((.*)\\\)|\\\[(.*)\\\]")
_QUOTES = {
    '"': '"',
    "'": "'",
    "“": "”",
    "‘": "’",
    "«": "»",
    "「": "」",
    "<": ">",
    "`": "`",
    "*": "*",
    "_": "_",
    "$": "$",
}
# The texts that a model has before it, when it says that these do not tell.
_MATERIAL = (
    r"(?:(?:the|this|these|no|none of the) )?(?:given |provided |available |retrieved )?(?:texts?|evidence|passages?|"
    r"pictures?|images?|sources?|documents?|tables?|rows?|information|context|question|data)"
)
_UNKNOWN = re.compile(
    rf"{_MATERIAL} (?:(?:do|does) not|don't|doesn't) (?:say|state|mention|tell|specify|indicate|contain|provide"
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
_BESIDE = re.compile(r"[(\[]([^()\[\]]{1,300})(?:[)\]]|$)|\s[–—-]\s([^()\[\]]{1,300})")  # in brackets, or behind a dash
_OPTIONS = re.compile(r"(?:[a-z](?:, | or |, or )){1,8}[a-z]\s?[:：]\s?")  # the form's own list of letters, repeated
_YES_NO = frozenset(("yes", "no", "true", "false"))
_ARTICLE = re.compile(r"\A(?:an?|the)\s+")
# A part of a word or of a longer number (`v2`, `1.000,5`) is no number.
_NUMBER = re.compile(
    r"(?<![\w.,])([-+]?(?:\d{1,40}(?:\.\d{1,40}|,\d{1,2})?|\.\d{1,40})(?:e[-+]?\d{1,4})?)(?!\w|[.,]\d)"
    r"\s{0,4}(?:(%|percent\b)|(?:/|out of|of)\s{0,4}(\d{1,9}(?:\.\d{1,9})?))?",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s*(?:-|–|—|~|to|or|and)\s*")


def stated_answer(value: str, choices: Sequence[str] = ()) -> tuple[str | None, float | None]:
    """The answer, and the confidence where it is stated in the same breath (`Paris (confidence 0.80)`).

    The answer is "" where none is stated, and None where the value says that it is not known. With choices it is one
    of them, named by its text, its letter or both; a letter that is another choice's text, or a letter and a text that
    disagree, name none.
    """
    value = one_line(value)
    # As it is spelt, before case is passed over. Up to three characters it may be a letter, such as `(B)`.
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
    """True where the answer says that it is not known, or declines to say. `Unknown Pleasures` is an answer."""
    return not answer.strip(" ?") or bool(_UNKNOWN.fullmatch(_folded(answer).strip(" .!?*_`\"'()[]{}<>")))


def undecorated(value: str) -> tuple[str, float | None]:
    """A one-line value without what wraps the whole of it (emphasis, quotes, LaTeX, `Answer:` once more), and the
    confidence stated at its end, if any. Doing it twice changes nothing."""
    confidence = None
    before = None
    while value != before and len(value) <= _LONGEST_DECORATED:
        before = value
        boxes = BOXED.findall(value)
        # Several boxes are no single answer, so none of them is taken out.
        value = _unwrapped(boxes[0] if len(boxes) == 1 else value.strip())
        # Only near the end: the pattern begins with a repetition, which from every place would be quadratic.
        tail = _TAIL.search(value, max(0, len(value) - 80))
        if tail:
            value, confidence = value[: tail.start()], stated_confidence(tail[1] or tail[2])
        again = _AGAIN.match(value)
        if again:
            value = value[again.end() :]
    return value, confidence


def stated_confidence(value: str) -> float | None:
    """A number in [0, 1] as `0.8`, `80%`, `8/10` or `0,8`; None for anything else (words, ranges, 7, nan)."""
    value = value[:200].strip(" \t\n*_`\"'“”()[]{}~≈")
    numbers = list(_NUMBER.finditer(value))
    if not numbers:
        return None
    first = numbers[0]
    if len(numbers) > 1 and _RANGE.fullmatch(value, first.end(), numbers[1].start()):
        return None
    # A value that begins with a number means that one; elsewhere all numbers have to agree.
    stated = {_share(number) for number in (numbers[:1] if first.start() == 0 else numbers)}
    return stated.pop() if len(stated) == 1 else None


def _share(number: re.Match[str]) -> float | None:
    whole = float(number[3] or (100 if number[2] else 1))
    # A comma is a decimal one only after a leading 0 or before a per cent sign; `1,5` may be two numbers.
    if "," in number[1] and not number[2] and not number[1].startswith("0,"):
        return None
    share = float(number[1].replace(",", ".")) / whole if whole else -1.0
    return share + 0.0 if 0 <= share <= 1 else None  # + 0.0: -0.0 is 0


def _unwrapped(value: str) -> str:
    """One layer less, or the value as it is."""
    # A full stop after the closing mark, as in `"Paris".`
    if value[-1:] == "." and value[-2:-1] in {*_QUOTES.values(), "}", ")"}:
        inner = _unwrapped(value[:-1])
        return inner if inner != value[:-1] else value
    latex = _LATEX.fullmatch(value)
    if latex and latex[1] is not None:
        # `\text{a} and \text{b}` begins and ends like one layer, and is not.
        return latex[1] if _balanced(latex[1]) else value
    if latex:
        return latex[2] or latex[3] or ""
    if len(value) > 1 and _QUOTES.get(value[0]) == value[-1]:
        opening, closing = value[0], value[-1]
        if re.fullmatch(r"__[a-z][a-z0-9_]*__", value):
            return value  # a name of Python's, and not emphasis
        # As many marks as stand on both sides: `**Paris**` has two.
        wraps = min(len(value) - len(value.lstrip(opening)), len(value) - len(value.rstrip(closing)), len(value) // 2)
        inner = value[wraps : len(value) - wraps]
        # `"A" and "B"` begins and ends with a quotation mark, but none wraps it.
        if opening not in inner and closing not in inner:
            return inner
    return value


def _balanced(inner: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", inner):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _choice(value: str, choices: Sequence[str]) -> str:
    """The one choice that the value names, or ""."""
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
        if i < len(choices) and (not rest or _remarks_on(rest, texts[i]) or _speaks_of(rest, texts, i)):
            named.add(i)
            behind = _plain(rest)
    if len({one_line(choices[i]) for i in named}) != 1:
        return ""
    i = named.pop()
    return "" if _names_another(behind.removeprefix(texts[i]), texts, i) else choices[i]


def _named_by_text(plain: str, texts: Sequence[str]) -> set[int]:
    """The choices whose text a value is, or begins with; behind it only an aside may follow, as other words may say
    something else."""
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
    """True where what follows a letter is the choice's own text, in brackets or not, or a remark."""
    own = _plain(rest.lstrip(",:;–—- "))
    return (
        own == text
        or _plain(own.strip("()")) == text
        or bool(_named_by_text(own, [text]))
        or bool(_ASIDE.match(f" {rest}"))
    )


def _names_another(behind: str, texts: Sequence[str], i: int) -> bool:
    """True where a bracket, or what follows a dash, is the letter or the text of another choice: `(B) snow (C)`."""
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


def _speaks_of(rest: str, texts: Sequence[str], i: int) -> bool:
    """True for a sentence behind a letter that names its choice and no other."""
    spoken_of = [j for j, text in enumerate(texts) if text and re.search(rf"\b{re.escape(text)}\b", rest)]
    return len(rest.split()) > 2 and spoken_of == [i]


def _unaccented(text: str) -> str:
    return "".join(mark for mark in unicodedata.normalize("NFKD", text) if not unicodedata.combining(mark))


@lru_cache(maxsize=256)
def _texts(choices: tuple[str, ...]) -> list[str]:
    """The same for all replies to a question."""
    return [_plain(choice) for choice in choices]


def _plain(text: str) -> str:
    """A choice's text as it is compared: without case, decoration, closing punctuation, article and lead-in."""
    text = _folded(undecorated(one_line(text))[0])
    text = _LEAD_IN.sub("", text, count=1).strip(" .,;:!?\"'*_`✅✔☑️")
    return _ARTICLE.sub("", text, count=1)


def _folded(text: str) -> str:
    return one_line(unicodedata.normalize("NFKC", text)).casefold().replace("’", "'")
