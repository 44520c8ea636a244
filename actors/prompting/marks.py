"""What models put around values, and in place of them: bullets, emphasis, placeholders, `none`, farewells."""

from __future__ import annotations

import html
import re

from actors.prompting.stated import undecorated

NOTHING = re.compile(
    r"[(\[]?\s?(?:none|null|nil|n/?a|nothing|empty|no|[-–—]+|not applicable|not needed|left out|omitted)?"
    r"(?:\s(?:needed|required|applicable|found|given|missing|relevant|at all|to add|of (?:them|these))){0,2}\s?[)\]]?",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(
    r"<[^<>]*\s[^<>]*\s[^<>]*>|<(?:the|an?|one) [^<>]+>|<(?:text|value|string|number|letter|choice|option|word|name)>"
    r"|[\[{(<](?:your|insert|explain|write|put|enter|fill in)\b[^\[\](){}<>]*[\]})>]"
    r"|\[0-1\]|your (?:answer|reasoning)|see (?:above|below|text|reasoning|explanation)\.?",
    re.IGNORECASE,
)
MARKS_ALONE = re.compile(r"[\s:;,]++")  # what is left where a model wrote the marks between values for a value
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#39|nbsp);")
BULLET = re.compile(
    r"\A\s*+(?:[-*+•·▪◦–]\s++|[Qq]?\(?\d{1,2}[.):]\s++|\(?[a-z][.)]\s++|\[\d{1,2}\]\s++|\[[ xX]\]\s++|>\s++)"
)
NONE_BECAUSE = re.compile(r"none\s?[,;:.(–—-].*", re.IGNORECASE)
# How models take their leave, or comment on what they said.
CHATTER = re.compile(
    r"\W{0,4}(?:note\b|notes?:|let me know|please (?:let|note)|i hope|hope (?:this|that)|feel free|"
    r"if you (?:need|want|have|would)|is there anything|would you like|(?:these|this|those|the above) "
    r"(?:triples?|lines?|answers?|keywords?|sub-questions?|reply|response|graph|format|form)\b|"
    r"that(?:'s| is) (?:all|it)\b|end of)",
    re.IGNORECASE,
)
# How a sentence begins that takes back what was said.
TAKES_BACK = re.compile(
    r"(?:^|[.!?;:]\s{1,3})\W{0,4}(?:(?:oh|no|but|oops),?\s)?(?:wait|hmm+|actually|oops|correction|on second thoughts?"
    r"|let me (?:re-?)?(?:check|think|consider|calculate|count|do)|i (?:forgot|made a mistake|was wrong))\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r".{0,120}[:：]\s*$")
_NUMBER_WORDS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", re.IGNORECASE)


def unwrapped(text: str) -> str:
    """Without a bullet, and without emphasis or quotation marks around the whole."""
    # `2. Bundesliga` and `[2] shows it` begin with a number that belongs to them.
    text = text if re.match(r"\[?\d", text) else BULLET.sub("", text, count=1)
    text = decoded(undecorated(text.strip())[0].strip())
    return text.strip("`").removesuffix("**").strip() if text.count("**") % 2 else text.strip("`").strip()


def in_digits(text: str) -> str:
    """The text with its small numbers in digits."""
    return _NUMBER_WORD.sub(lambda word: _NUMBER_WORDS[word[0].lower()], text)


def decoded(text: str) -> str:
    """Characters that are spelt as in HTML as they are."""
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def chatter(line: str) -> bool:
    """True for a line that speaks about the reply."""
    return bool(CHATTER.match(line) or _LEAD.fullmatch(line))
