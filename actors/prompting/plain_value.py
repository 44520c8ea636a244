"""Takes decoration off a value, splits it from what it rests on, and compares it.

Linear in the text's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from actors.prompting.words import pattern

_LONGEST = 1000  # characters; longer values are taken as they are
_DECORATION = ('""', "''", "“”", "‘’", "«»", "「」", "``", "**", "$$", "<>")  # left and right
_LAYERS = [rf"[{marks[0]}]+([^{marks}]+)[{marks[1]}]+\.?" for marks in _DECORATION]
_WRAPPED = re.compile("|".join([*_LAYERS, r"<\w{1,20}>([^<>]+)</\w{1,20}>"]))
_LATEX = re.compile(r"\\(?:boxed|text(?:bf|it|rm)?|math(?:bf|rm|it))\s?\{([^{}\n]{0,300}+)\}")
# `2. Bundesliga`, `[2] shows it` and `- 3` begin with a number that belongs to them.
_NUMBER_OF_TEXT = re.compile(r"(?:\[|[-−–+]\s?\.?)?\d")
BULLET = re.compile(
    r"\A\s*+(?:[-*+•▪◦–]\s++(?!\|)|[Qq]?\(?\d{1,2}[.):]\s++|\(?[a-z][.)]\s++|\[\d{1,2}\]\s++|\[[ xX]\]\s++|>\s++)"
)
# A sentence ends after a word of three letters or more, a number or a bracket (`Dr. No` goes on), where one begins.
SENTENCE_ENDS = re.compile(
    r"(?:(?<=[^\W\d_]{3})|(?<=[\d)\]\"'”’%]))[.!?][\"'”’)\]]*+(?=\s+[^\W\d_a-z]|\s+[\[\"'“‘(\d])"
)
# Lines that are no part of the value above them: `---`, notes and offers of help.
ENDS_A_VALUE = pattern(r"[\s|:+=_*~-]{3,}\Z|\W{0,4}(?:confidence\W{0,4}[:：]|<remarks.chatter>\b)")
OFFER = pattern(r"\W{0,4}<remarks.offer>\b.*")
THE_ANSWER_IS = pattern(
    r"(?:^|(?<=[\s,;(]))(?:(?:the|my|our)\s(?:final\s|correct\s|right\s|best\s|most likely\s)?"
    r"(?:answer|choice|option|pick)\s(?:to (?:the|this|your) question\s)?(?:is|would be)\s?[:：]?"
    r"|<names.Answer>\s<names.is>\s?[:：]?"
    r"|(?:I|we)(?:'d|'ll|\swould|\swill)?\s(?:choose|pick|select|say|go with)"
    r"(?=\s(?:option\s|choice\s)?\(?(?-i:[A-Z])\b))\s+(?=[^\n])",
    re.IGNORECASE | re.MULTILINE,
)
# The other way round: `Bergen is the answer`.
_IS_THE_ANSWER = re.compile(
    r"([^\s.,;:][^.,;:]{0,80}?)\s(?:is|would be)\sthe\s(?:final\s|correct\s|right\s|best\s)?"
    r"(?:answer|choice|option)\b.*",
    re.IGNORECASE,
)
_ASIDE = pattern(r"[\s*_#>•-]{0,8}(?:confidence|<remarks.support>)\b[^:：\n]{0,12}[:：]")
_REASON = r"<remarks.reason>\b(?! (?:far|if|long|much|opposed|soon|well)\b)\s[^!?;\n]*"
_REASON_WITHOUT_COMMA = pattern(r"(?<=\w)\.?\s(?=" + _REASON + r"\Z)")
# Support of a value, at its end: sources in brackets, or a clause with a reason.
_SUPPORT = pattern(
    r"(?:(?<! of)\s*\[(?:(?:[^\W\d_]{1,12}[.:]? ?){1,2}\d?)?\d{1,2}(?:\s?[,;–-]\s?\d{1,2})*\][,–-]?"
    r"|\s[{<][^\W\d_]{1,12}[.:]? ?\d{1,3}[}>]"
    r"|(?<=[^\W\d_]{4})\s?[⁰¹²³⁴⁵⁶⁷⁸⁹†‡]"
    r"|\s*\((?:<remarks.source>\W{0,2}\d|(?!from \d)<remarks.origin>\b)[^()]*\)"
    # Corners of a box in a picture.
    r"|\s*(?:\(\d{1,4},\s?\d{1,4}\),?\s?\(\d{1,4},\s?\d{1,4}\)|\[\d{1,4}(?:,\s?\d{1,4}){3}\])"
    r"|(?:,|\s[–—|-])\s(?!from |see |per )<remarks.origin>\b[^()!?;\n]*"
    r"|(?<=\w{3})\s<remarks.origin>\s(?:the )?<remarks.source>\W{0,2}\d{1,3}\b"
    r"|(?:,|(?<=\w{3})\.|\s[–—-])\s" + _REASON + r")[\s.*_`]*\Z"
)
_ELEMENT = re.compile(r"[a-z_]\w*\[\d+\]")  # of a list in a program
_NOTHING = re.compile(
    r"[(\[]?(?:(?:none|null|nil|n/?a|nothing|empty|no|[-–—]+|\[\]|not applicable|not needed|left out|omitted)?"
    r"(?:\s(?:needed|required|applicable|found|given|missing|relevant|at all|to add|of (?:them|these))){0,2}"
    r"|none\s?[,;:.(–—-].*)[)\]]?",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(
    r"<[^<>]*\s[^<>]*\s[^<>]*[>}]+|<(?:the|an?|one) [^<>]+>?|<(?-i:[A-Z]{3,})>"
    r"|[<\[](?:text|value|string|number|letter|choice|option|word|name)[>\]]"
    r"|[\[{(<](?:your|insert|explain|write|put|enter|fill in)\b[^\[\](){}<>]*[\]})>]"
    r"|\[0-1\]|your (?:answer|reasoning)|see (?:above|below|text|reasoning|explanation)\.?",
    re.IGNORECASE,
)
# A part of a word or of a longer number (`v2`, `1.000,5`) is no number.
_NUMBER = re.compile(
    r"(?<![\w.,])([-+]?(?:\d{1,40}(?:\.\d{1,40}|,\d{1,2})?|\.\d{1,40})(?:e[-+]?\d{1,4})?)(?!\w|[.,]\d)"
    r"\s{0,4}(?:(%|percent\b)|(?:/|out of|of)\s{0,4}(\d{1,9}(?:\.\d{1,9})?))?",
    re.IGNORECASE,
)
_POWERS = str.maketrans({power: f"^{i}" for i, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_BEFORE_INDEX = re.compile("(?<=\\d)(?=[₀-₉])")
_PLUS = re.compile(r"\A\+\s?(?=\.?\d)")
_MINUS = re.compile(r"\A[−–-]\s?(?=\.?\d)")
_BEFORE_POINT = re.compile(r"(?:(?<=\A-)|\A)(?=\.\d)")
# Marks, and articles, that make no difference between two values.
_NO_DIFFERENCE = re.compile(
    r"[()\[\]\"“”*`_✅✔☑️]|[.,:;!](?=\s|\Z|[)\]])|(?<=\s)[–—-](?=\s)|(?<!\w)'|'(?!\w)|(?<!\w)(?:an|the)(?=\s)"
)


def is_blank(text: str) -> bool:
    """True for a text without a letter or a digit."""
    return not any(map(str.isalnum, text))


def bare(value: str) -> str:
    """Removes emphasis, quotation marks, code marks and LaTeX around the whole of a value. Twice changes nothing."""
    if len(value) > _LONGEST:
        return value
    while value.count("\\boxed") <= 1 and _LATEX.search(value):  # several boxes are no single value
        value = _LATEX.sub(r"\1", value)
    value = value.strip()
    while wrapped := _WRAPPED.fullmatch(value):
        value = wrapped[wrapped.lastindex or 0].strip()
    return value


def unwrapped(text: str) -> str:
    """Removes a bullet, and decoration around the whole."""
    if not _NUMBER_OF_TEXT.match(text):
        text = BULLET.sub("", text, count=1)
    return html.unescape(bare(text))


def split_support(value: str) -> tuple[str, str]:
    """Splits a value from what it rests on: sources, and a clause with a reason. All is value where else none is."""
    end = len(value)
    if _ELEMENT.fullmatch(value):
        end = 0
    while 0 < end <= _LONGEST:
        support = _SUPPORT.search(value, 0, end)
        if support is None:
            break
        end = support.start()
    if not value[:end].strip(" *_`."):
        end = len(value)
    return value[:end].rstrip(), value[end:]


def answer_last(line: str) -> str:
    """Returns a line with `the answer is Bergen` in place of `Bergen is the answer`."""
    return _IS_THE_ANSWER.sub(r"the answer is \1", line)


def takes_nothing_back(lines: Sequence[str], is_restated: Callable[[str], bool]) -> bool:
    """True where the lines behind a value cannot change it. They are marks, offers, reasons, or the value again.

    Of an explanation, only what it calls the answer counts.
    """
    in_explanation = False
    for line in dict.fromkeys(lines):
        if is_blank(line):
            continue
        in_explanation = in_explanation or _ASIDE.match(line) is not None
        is_aside = in_explanation or OFFER.match(line) or split_support(f"word, {line}")[0].rstrip(",") == "word"
        if (not is_aside or THE_ANSWER_IS.search(line)) and not is_restated(line):
            return False
    return True


def is_nothing(text: str) -> bool:
    """True for `none` in some words, perhaps with a remark, and for marks alone."""
    return _NOTHING.fullmatch(text.strip(" .!*_`\"':;,")) is not None


def says_nothing(text: str) -> bool:
    """True as `is_nothing`, except for `no`, which may be an answer."""
    return is_nothing(text) and plain(text) != "no"


def option_named(value: str, spellings: Mapping[str, str | None]) -> str | None:
    """Returns the option that a value names, with nothing behind it but what it rests on.

    spellings: options by their plain spelling; None for a spelling of several.
    """
    core, _ = split_support(_REASON_WITHOUT_COMMA.sub(", ", bare(value)))
    return spellings.get(plain(core)) or spellings.get(plain(core.removeprefix("a ")))


def plain(text: str) -> str:
    """Returns a text as it is compared: without case, brackets, quotation marks, emphasis, articles and punctuation.

    A sign or a point stays with its number: `- 3` is `-3`, `.5` is `0.5`, `10²` is `10^2`.
    """
    text = _BEFORE_INDEX.sub("_", text.translate(_POWERS))
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").strip(' *`"')
    text = _MINUS.sub("-", _PLUS.sub("", text))
    text = _BEFORE_POINT.sub("0", text)
    return " ".join(_NO_DIFFERENCE.sub(" ", text).split())


def stated_share(value: str) -> float | None:
    """Reads a number in [0, 1] written as `0.8`, `80%`, `8/10` or `0,8`. None for others (words, ranges, 7, nan)."""
    text = unicodedata.normalize("NFKC", value[:200].translate(_POWERS)).strip(" \t\n*_`\"'“”()[]{}~≈")
    text, _ = split_support(text)
    # All numbers have to agree, and no digit is of none.
    if re.search(r"\d", _NUMBER.sub("", text)):
        return None
    shares: set[float] = set()
    for digits, percent, most in _NUMBER.findall(text):
        best = 100.0 if percent else float(most or 1)
        # A comma is a decimal one only after a leading 0 or before a per cent sign; `1,5` may be two numbers.
        may_be_two = "," in digits and not percent and not digits.startswith("0,")
        if may_be_two or not best:
            return None
        shares.add(float(digits.replace(",", ".")) / best)
    share = shares.pop() if len(shares) == 1 else -1.0
    return share + 0.0 if 0 <= share <= 1 else None  # + 0.0: -0.0 is 0
