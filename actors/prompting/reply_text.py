"""Removes thoughts, template tokens, fences, emphasis and quotation marks from replies.

Linear in the text's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

from __future__ import annotations

import html
import json
import re

from actors.prompting.safe_text import clean

_THINKING = "think|thinking|scratchpad|reflection"
_THOUGHT = {
    named: re.compile(rf"[<◁](/?)(?:{_THINKING}{'' if named else '|thought'})[>▷]", re.IGNORECASE)
    for named in (False, True)
}
_TURN_START = re.compile(
    r"(?:assistant|model)\s?:\s|<\|im_start\|>\s?assistant\b|<\|start_header_id\|>\s?assistant\s?<\|end_header_id\|>"
)
_TURN_END = re.compile(
    r"<\|(?:im_end|im_start|eot_id|end_of_text|endoftext|return|end)\|>|</s>|<end_of_turn>|^## Question$", re.MULTILINE
)
_CHANNEL = "<|channel|>final<|message|>"  # of models that think in one channel and answer in another
_BREAK = re.compile(r"<br\s?/?>|</?(?:p|div|li|ul|ol)>", re.IGNORECASE)
# A letter in angle brackets at the end of its line is a choice's, and begins no emphasis.
_EMPHASIS = re.compile(r"(?!(?-i:<[BIU]>)[^\S\n]{0,8}$)</?(?:b|i|em|strong|u|code)>", re.IGNORECASE | re.MULTILINE)
_LATEX_EMPHASIS = re.compile(r"\\{1,2}text(?:bf|it)\{([^{}\n]{1,40})\}")
_FENCE = re.compile(r"\s*+(?:`{3,}+|~{3,}+)\s*+\w{0,20}+\s*+")
# A sentence ends after a word of three letters or more, a number or a bracket (`Dr. No` goes on), where one begins.
_SENTENCE_ENDS = re.compile(
    r"(?:(?<=[^\W\d_]{3})|(?<=[\d)\]\"'”’%]))[.!?][\"'”’)\]]*+(?=\s+[^\W\d_a-z]|\s+[\[\"'“‘(\d])"
)
_RULE = re.compile(r"\s*+[-=_*~]{3,}+\s*+")
BULLET = re.compile(
    r"\A\s*+(?:[-*+•·▪◦–]\s++|[Qq]?\(?\d{1,2}[.):]\s++|\(?[a-z][.)]\s++|\[\d{1,2}\]\s++|\[[ xX]\]\s++|>\s++)"
)
NOTHING = re.compile(
    r"[(\[]?\s?(?:none|null|nil|n/?a|nothing|empty|no|[-–—]+|not applicable|not needed|left out|omitted)?"
    r"(?:\s(?:needed|required|applicable|found|given|missing|relevant|at all|to add|of (?:them|these))){0,2}\s?[)\]]?",
    re.IGNORECASE,
)
NONE_BECAUSE = re.compile(r"none\s?[,;:.(–—-].*", re.IGNORECASE)
PLACEHOLDER = re.compile(
    r"<[^<>]*\s[^<>]*\s[^<>]*>|<(?:the|an?|one) [^<>]+>|<(?:text|value|string|number|letter|choice|option|word|name)>"
    r"|[\[{(<](?:your|insert|explain|write|put|enter|fill in)\b[^\[\](){}<>]*[\]})>]"
    r"|\[0-1\]|your (?:answer|reasoning)|see (?:above|below|text|reasoning|explanation)\.?",
    re.IGNORECASE,
)
MARKS_ALONE = re.compile(r"[\s:;,]++")  # the rest of a value that was separators only
# A line such as `Note: ...`, which is no part of the value above it.
OTHER_LABEL = re.compile(r"(?:\W|_){0,8}+[A-Z]\w{0,20}(?: \w{1,20})?[*_]{0,3}[:：](?:\s|$)")
# Lines that comment on the reply or offer help.
CHATTER = re.compile(
    r"\W{0,4}(?:note\b|notes?:|let me know|please (?:let|note)|i hope|hope (?:this|that)|feel free|"
    r"if you (?:need|want|have|would)|is there anything|would you like|(?:these|this|those|the above) "
    r"(?:triples?|lines?|answers?|keywords?|sub-questions?|reply|response|graph|format|form)\b|"
    r"that(?:'s| is) (?:all|it)\b|end of)",
    re.IGNORECASE,
)
# Beginnings of sentences that take back what came before.
TAKES_BACK = re.compile(
    r"(?:^|[.!?;:]\s{1,3})\W{0,4}(?:(?:oh|no|but|oops),?\s)?(?:wait|hmm+|actually|oops|correction|on second thoughts?"
    r"|let me (?:re-?)?(?:check|think|consider|calculate|count|do)|i (?:forgot|made a mistake|was wrong))\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r".{0,120}[:：]\s*$")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#39|nbsp);")
_NUMBER_WORDS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", re.IGNORECASE)

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
_LONGEST_DECORATED = 1000  # characters; longer values are taken as they are
_TAIL = re.compile(r"[\s,;.|*_]*(?:\(\s*confidence:?\s([^()]{1,20})\)|\bconfidence[*_]{0,3}:(.{1,40}))$", re.IGNORECASE)
# `Answer: The final answer is: Paris` has its label twice.
_AGAIN = re.compile(
    r"(?:(?:the|my)\s)?(?:(?:final|correct)\s)?(?:answer|confidence)(?:\sis)?\s?[:：]\s?", re.IGNORECASE
)
# A part of a word or of a longer number (`v2`, `1.000,5`) is no number.
_NUMBER = re.compile(
    r"(?<![\w.,])([-+]?(?:\d{1,40}(?:\.\d{1,40}|,\d{1,2})?|\.\d{1,40})(?:e[-+]?\d{1,4})?)(?!\w|[.,]\d)"
    r"\s{0,4}(?:(%|percent\b)|(?:/|out of|of)\s{0,4}(\d{1,9}(?:\.\d{1,9})?))?",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s*(?:-|–|—|~|to|or|and)\s*")


def spoken(text: str, thought_is_asked: bool = False) -> str:
    """Returns the model's own words: no thoughts, no tokens of a chat template, no code fences, no emphasis in HTML.

    Args:
        thought_is_asked: the form has a field of that name, so that a tag of that name marks no hidden thought.
    """
    text = clean(text)
    if not _is_object(text):  # tokens inside one are quoted
        text = _own_turn(text, thought_is_asked)
    if "<" in text:
        text = _EMPHASIS.sub("", _BREAK.sub("\n", text))
    text = _LATEX_EMPHASIS.sub(r"\1", text)
    return "\n".join(line for line in text.split("\n") if not _FENCE.fullmatch(line)).strip()


def _is_object(text: str) -> bool:
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _own_turn(text: str, thought_is_asked: bool) -> str:
    """Removes thoughts, and what comes before or after the model's own turn."""
    text = text.rpartition(_CHANNEL)[2]
    kept: list[str] = []
    depth, start = 0, 0
    for tag in _THOUGHT[thought_is_asked].finditer(text):
        if not depth:
            kept.append(text[start : tag.start()])
        if not tag[1]:
            depth += 1
        elif depth:
            depth -= 1
        else:
            kept.clear()  # the template opened the block, so all text up to here is a thought
        start = tag.end()
    # After a block that was never closed, nothing is the model's reply.
    text = "".join(kept) + ("" if depth else text[start:])
    begun = _TURN_START.match(text.lstrip())
    text = text.lstrip()[begun.end() if begun else 0 :]
    ended = _TURN_END.search(text)
    # A token before any text ends nothing: the reply follows it.
    return text[: ended.start()] if ended and text[: ended.start()].strip() else text


def whole_sentences(text: str) -> str:
    """Returns the text up to its last sentence end that another sentence follows; empty where there is none."""
    ends = [end.end() for end in _SENTENCE_ENDS.finditer(text)]
    return text[: ends[-1]] if ends else ""


def chatter(line: str) -> bool:
    """True for a line that comments on the reply."""
    return bool(CHATTER.match(line) or _LEAD.fullmatch(line))


def is_rule(line: str) -> bool:
    """True for a line that separates: `---`."""
    return bool(_RULE.fullmatch(line))


def in_digits(text: str) -> str:
    """Writes small numbers in digits."""
    return _NUMBER_WORD.sub(lambda word: _NUMBER_WORDS[word[0].lower()], text)


def decoded(text: str) -> str:
    """Replaces HTML entities by their characters."""
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def unwrapped(text: str) -> str:
    """Removes a bullet, and emphasis or quotation marks around the whole."""
    # `2. Bundesliga` and `[2] shows it` begin with a number that belongs to them.
    text = text if re.match(r"\[?\d", text) else BULLET.sub("", text, count=1)
    text = decoded(undecorated(text.strip())[0].strip())
    return text.strip("`").removesuffix("**").strip() if text.count("**") % 2 else text.strip("`").strip()


def undecorated(value: str) -> tuple[str, float | None]:
    """Removes what wraps the whole of a one-line value (emphasis, quotes, LaTeX, its label once more), and splits off a
    confidence at its end. Doing it twice changes nothing."""
    confidence = None
    before = None
    while value != before and len(value) <= _LONGEST_DECORATED:
        before = value
        boxes = BOXED.findall(value)
        # Several boxes are no single answer, so none of them is taken out.
        value = _without_one_layer(boxes[0] if len(boxes) == 1 else value.strip())
        # Only near the end: the pattern begins with a repetition, which from every place would be quadratic.
        tail = _TAIL.search(value, max(0, len(value) - 80))
        if tail:
            value, confidence = value[: tail.start()], stated_confidence(tail[1] or tail[2])
        again = _AGAIN.match(value)
        if again:
            value = value[again.end() :]
    return value, confidence


def _without_one_layer(value: str) -> str:
    # A full stop after the closing mark, as in `"Paris".`
    if value[-1:] == "." and value[-2:-1] in {*_QUOTES.values(), "}", ")"}:
        inner = _without_one_layer(value[:-1])
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
        # As many marks as both sides have: `**Paris**` has two.
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


def stated_confidence(value: str) -> float | None:
    """Reads a number in [0, 1] written as `0.8`, `80%`, `8/10` or `0,8`; None for others (words, ranges, 7, nan)."""
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
