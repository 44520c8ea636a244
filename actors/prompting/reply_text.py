"""Removes thoughts, template tokens, fences, emphasis and quotation marks from replies.

Linear in the text's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate

from actors.prompting.safe_text import clean

# A model family's mark: `<think>`, `<seed:think>`, `<|begin_of_box|>`, `[THINK]`, `◁think▷`, `<｜end▁of▁sentence｜>`.
_MARK = re.compile(
    r"<(?P<bar>[|｜]?)(?P<tag>/?[^\W\d][\w:.▁-]{0,40})[|｜]?>|\[(?P<block>/?[A-Z][A-Z_]{2,24})\]|◁(?P<moon>/?\w{1,24})▷"
)
# Of a mark's name: its place, and its kind.
_PLACE = re.compile(r"begin|start|open|end|close|(?<![a-z])of(?![a-z])|[^a-z]")
_THOUGHT = re.compile(r"think|thought|reason|analy[sz]|reflect|scratch|monolog|deliberat|rationale|unused")
_REPLY = re.compile(r"answer|box|solution|respon|reply|output|final|result|conclu|json|xml|form")
_TURN = re.compile(r"s|bos|eos|turn|inst|utterance")
_CHANNEL = re.compile(r"<\|channel\|>final[^<\n]{0,20}(?:<\|constrain\|>[^<\n]{0,20})?<\|message\|>|assistantfinal")
# A channel's name without its marks, which a decoder left out.
_SILENT = re.compile(r"\s*(?:assistant)?(?:analysis|commentary|thought|thinking|reasoning)(?![*_]{0,3}\s?[:：])")
# Citations and links, in the marks of chat systems and of Markdown.
_CITATION = re.compile(
    r"\s?\(?【\d[^【】\n]{0,60}】\)?|\s?\[\^[^\]\n]{1,20}\]|\s?\^\[\d{1,2}\]\^|</?co\b[^<>\n]{0,40}>|<sup>\W?\d{1,3}\W?</sup>"
)
_LINK = re.compile(r"\[(?!\d+\])([^\[\]\n]{1,200})\](?:\((?:https?:|www\.|[/#])[^()\s]{0,500}\)|\[\d{1,3}\])")
_BY = (
    r"(?:from |see |sources?:? |as (?:stated|given|shown|seen|mentioned|described|per)\b|based on |"
    r"according to |stated in |per |mentioned in |shown in )"
)
_CITED = re.compile(
    r"(?:(?<=\w{4})|(?<=[\s\])*\"”.]))"
    r"\[(?:(?:sources?|texts?|pictures?|passages?):? )?\d{1,2}(?:\s?[,;–-]\s?\d{1,2})*\]"
    rf"|\({_BY}[^()]*\)|(?<=[^\W\d_]{{4}})[⁰¹²³⁴⁵⁶⁷⁸⁹†‡]",
    re.IGNORECASE,
)
_REASON = r"(?:because|since|as(?! (?:far|if|long|much|opposed|soon|well)\b))\b(?:[^.!?;\n]|\.(?=\S))*+"
_WITH_REASON = re.compile(rf"(?:(?<=\w),|\s[–—-])\s(?:{_REASON}|(?!from |see |per ){_BY}[^!?;\n]*)", re.IGNORECASE)
_ENDS_A_VALUE = re.compile(
    rf"[\s.,;:!…)\]}}>\"'”’*_`✅✔☑️]*+(?:[–—-]\s)?(?P<reason>{_REASON})?[\s.!)\]\"'”’*_`]*+",
    re.IGNORECASE,
)
# A letter in angle brackets at the end of its line is a choice's, and begins no emphasis.
_EMPHASIS = re.compile(r"(?!(?-i:<[BIU]>)[^\S\n]{0,8}$)</?(?:b|i|em|strong|u|code)>", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"\s*+(?:`{3,}+|~{3,}+)\s*+\w{0,20}+\s*+")
# A sentence ends after a word of three letters or more, a number or a bracket (`Dr. No` goes on), where one begins.
SENTENCE_ENDS = re.compile(
    r"(?:(?<=[^\W\d_]{3})|(?<=[\d)\]\"'”’%]))[.!?][\"'”’)\]]*+(?=\s+[^\W\d_a-z]|\s+[\[\"'“‘(\d])"
)
BULLET = re.compile(
    r"\A\s*+(?:[-*+•·▪◦–]\s++|[Qq]?\(?\d{1,2}[.):]\s++|\(?[a-z][.)]\s++|\[\d{1,2}\]\s++|\[[ xX]\]\s++|>\s++)"
)
NOTHING = re.compile(
    r"[(\[]?\s?(?:none|null|nil|n/?a|nothing|empty|no|[-–—]+|not applicable|not needed|left out|omitted)?"
    r"(?:\s(?:needed|required|applicable|found|given|missing|relevant|at all|to add|of (?:them|these))){0,2}\s?[)\]]?",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(
    r"<[^<>]*\s[^<>]*\s[^<>]*>|<(?:the|an?|one) [^<>]+>"
    r"|[<\[](?:text|value|string|number|letter|choice|option|word|name)[>\]]"
    r"|[\[{(<](?:your|insert|explain|write|put|enter|fill in)\b[^\[\](){}<>]*[\]})>]"
    r"|\[0-1\]|your (?:answer|reasoning)|see (?:above|below|text|reasoning|explanation)\.?",
    re.IGNORECASE,
)
# A line such as `Note: ...`, which is no part of the value above it.
OTHER_LABEL = re.compile(r"(?:\W|_){0,8}+[A-Z]\w{0,20}(?: \w{1,20})?[*_]{0,3}[:：](?:\s|$)")
# Lines that comment on the reply; of those, offers of help take nothing back.
OFFER = re.compile(
    r"\W{0,4}(?:let me know|i hope|hope (?:this|that)|feel free|if you (?:need|want|have|would)"
    r"|(?:is there )?anything else|would you like)\b",
    re.IGNORECASE,
)
_SHARE_LINE = re.compile(r"\W{0,8}confidence[^:：\n]{0,12}[:：](.*)", re.IGNORECASE)
_REASON_LABEL = re.compile(
    r"\W{0,8}(?:reason(?:ing|s)?|rationale|explanation|justification|sources?|evidence|references?)[*_]{0,3}\s?[:：]",
    re.IGNORECASE,
)
CHATTER = re.compile(
    r"\W{0,4}(?:note\b|notes?:|let me know|please (?:let|note)|i hope|hope (?:this|that)|feel free|"
    r"if you (?:need|want|have|would)|is there anything|would you like|(?:these|this|those|the above) "
    r"(?:triples?|lines?|answers?|keywords?|sub-questions?|reply|response|graph|format|form)\b|"
    r"that(?:'s| is) (?:all|it)\b|end of)",
    re.IGNORECASE,
)

BOXED = re.compile(r"\\boxed\s?\{(?:[^{}\n]{0,300}+(?:\{[^{}\n]{0,300}+\})?){1,4}\}")
_LATEX = re.compile(r"\\(?:boxed|text|textbf|textit|mathbf|mathrm)\s?\{(.*)\}")
_QUOTES = dict(zip("\"'“‘«「<`*_$", "\"'”’»」>`*_$", strict=True))
POWERS = str.maketrans({power: f"^{i}" for i, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_STAND_IN = "word"  # in place of a value, whose end decides about marks behind it
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


def spoken(text: str, is_field: Callable[[str], object]) -> str:
    """Returns the model's own words, without thoughts, template tokens, fences and HTML's emphasis.

    `is_field` is true for the name of a field of the form, whose tag marks no hidden thought.
    """
    text = clean(text)
    try:
        is_object = text.strip().startswith("{") and isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:  # tokens inside one are quoted
        text = _own_turn(text, is_field)
    if "<" in text:
        text = _EMPHASIS.sub("", re.sub(r"<br\s?/?>|</?(?:p|div|li|ul|ol)>", "\n", text, flags=re.IGNORECASE))
    text = _LINK.sub(r"\1", _CITATION.sub("", text))
    return "\n".join(line for line in text.split("\n") if not _FENCE.fullmatch(line)).strip()


def _own_turn(text: str, is_field: Callable[[str], object]) -> str:
    """Removes thoughts, and what comes before or after the model's own turn.

    After a thought that was never closed nothing is the model's reply; before the end of one that was never opened
    neither.
    """
    text = text[max((final.end() for final in _CHANNEL.finditer(text)), default=0) :]
    if _SILENT.match(text):
        return ""
    kept: list[str] = []
    depth = start = 0
    spoke = False
    for mark in _MARK.finditer(text):
        written = (mark["tag"] or mark["block"] or mark["moon"]).lower()
        name = _PLACE.sub("", written)
        if mark["tag"] and not mark["bar"] and name != "thinking" and is_field(name):
            continue
        kind = "thought" if _THOUGHT.search(name) else "reply" if _REPLY.search(name) else ""
        kind = kind or ("turn" if mark["bar"] or _TURN.fullmatch(name) else "")
        if not kind:
            continue
        # MedGemma puts its thoughts between `<unused94>` and `<unused95>`.
        if kind == "thought" and re.search(r"/|end|close|unused95", written):
            if not depth:
                kept.clear()  # the template opened the block, so all text up to here is a thought
                spoke = False
            depth, start = max(0, depth - 1), mark.end()
            continue
        if not depth:
            piece = text[start : mark.start()]
            piece = "" if kind == "turn" and piece.strip() in ("assistant", "model") else piece
            kept.append(piece)
            spoke = spoke or bool(piece.strip())
        depth, start = depth + (kind == "thought"), mark.end()
        if kind == "turn" and spoke and not depth:
            start = len(text)  # a token before any text ends nothing: the reply follows it
            break
    text = "".join(kept) + ("" if depth else text[start:])
    ended = re.search(r"^## Question$", text, re.MULTILINE)
    return text[: ended.start()] if ended and text[: ended.start()].strip() else text


def whole_sentences(text: str) -> str:
    """Returns the text up to its last sentence end that another sentence follows. Empty where there is none."""
    ends = [end.end() for end in SENTENCE_ENDS.finditer(text)]
    return text[: ends[-1]] if ends else ""


def uncited(value: str) -> str:
    """Removes what a value rests on from its end: sources, and a clause with a reason."""
    if len(value) > _LONGEST_DECORATED:
        return value
    reason = _WITH_REASON.search(value)
    end = reason.start() if reason and not value[reason.end() :].strip(" .*_`") else len(value)
    for cited in reversed(list(_CITED.finditer(value, 0, end))):
        if value[cited.end() : end].strip(" ."):
            break
        end = cited.start()
    before = value[:end].strip(" *_`.")
    if not before or (
        value[end : end + 1] == "[" and value[end - 1] != " " and re.fullmatch(r"[a-z_]\w*|\[\d+\]", before)
    ):
        return value  # nothing is cited, or an element of a list is
    return value if end == len(value) else value[:end].rstrip()


def ends_a_value(rest: str, others: Sequence[str] = ()) -> bool:
    """True where the text behind a value cannot change it.

    It is nothing, punctuation, sources, or one clause with a reason that names no other value.
    """
    end = _ENDS_A_VALUE.fullmatch(uncited(f"{_STAND_IN}{rest}").removeprefix(_STAND_IN))
    if end is None:
        return False
    reason = end["reason"] or ""
    named = any(re.search(rf"(?<!\w){re.escape(other)}(?!\w)", reason, re.IGNORECASE) for other in others)
    return not (named or re.search(r"(?<!\w)(?:[b-h](?!\w)|a\W*$)", reason, re.IGNORECASE))


def may_follow(lines: Sequence[str], restates: Callable[[str], bool]) -> bool:
    """True where the lines behind a value cannot change it. They are marks, offers, reasons, or the value again."""
    for line in lines:
        if _REASON_LABEL.match(line):
            return True
        ends = not any(map(str.isalnum, line)) or ends_a_value(line) or _FENCE.fullmatch(line)
        if not (ends or _SHARE_LINE.fullmatch(line) or OFFER.match(line) or restates(line)):
            return False
    return True


def unwrapped(text: str) -> str:
    """Removes a bullet, and emphasis or quotation marks around the whole."""
    # `2. Bundesliga` and `[2] shows it` begin with a number that belongs to them.
    text = text if re.match(r"\[?\d", text) else BULLET.sub("", text, count=1)
    return html.unescape(undecorated(text.strip())[0].strip())


def undecorated(value: str) -> tuple[str, float | None]:
    """Unwraps a one-line value and splits off a confidence at its end. Doing it twice changes nothing.

    Wrappings are emphasis, quotes, LaTeX and the value's label once more.
    """
    confidence = None
    before = None
    while value != before and len(value) <= _LONGEST_DECORATED:
        before = value
        boxes = list(BOXED.finditer(value))
        # Several boxes are no single answer, so none of them is taken out. The text behind one may take it back.
        if len(boxes) == 1:
            behind = value[boxes[0].end() :].lstrip("$").removeprefix("\\)")
            value = f"{_without_one_layer(boxes[0][0])}{behind}"
        value = _without_one_layer(value.strip())
        # Only near the end: the pattern begins with a repetition, which from every place would be quadratic.
        tail = _TAIL.search(value, max(0, len(value) - 80))
        if tail:
            value, confidence = value[: tail.start()], stated_confidence(tail[1] or tail[2])
        again = _AGAIN.match(value)
        if again:
            value = value[again.end() :]
    return value, confidence


def _without_one_layer(value: str) -> str:
    if value[-1:] == "." and value[-2:-1] in {*_QUOTES.values(), "}", ")"}:
        inner = _without_one_layer(value[:-1])
        return inner if inner != value[:-1] else value
    latex = _LATEX.fullmatch(value)
    if latex:
        # `\text{a} and \text{b}` begins and ends like one layer, and is not.
        depths = [0, *accumulate({"{": 1, "}": -1}.get(mark, 0) for mark in latex[1])]
        return latex[1] if min(depths) == depths[-1] == 0 else value
    if len(value) > 1 and _QUOTES.get(value[0]) == value[-1]:
        opening, closing = value[0], value[-1]
        if re.fullmatch(r"__[a-z][a-z0-9_]*__", value):
            return value  # a name of Python's, and not emphasis
        wraps = min(len(value) - len(value.lstrip(opening)), len(value) - len(value.rstrip(closing)), len(value) // 2)
        inner = value[wraps : len(value) - wraps]
        # `"A" and "B"` begins and ends with a quotation mark, but none wraps it.
        if opening not in inner and closing not in inner:
            return inner
    return value


def stated_confidence(value: str) -> float | None:
    """Reads a number in [0, 1] written as `0.8`, `80%`, `8/10` or `0,8`. None for others (words, ranges, 7, nan)."""
    value = unicodedata.normalize("NFKC", value[:200].translate(POWERS))
    value = uncited(value.strip(" \t\n*_`\"'“”()[]{}~≈"))
    numbers = list(_NUMBER.finditer(value))
    # All numbers have to agree, and no digit is of none.
    if not numbers or re.search(r"\d", _NUMBER.sub("", value)):
        return None
    stated = set()
    for written, percent, most in (number.groups() for number in numbers):
        whole = float(most or (100 if percent else 1))
        # A comma is a decimal one only after a leading 0 or before a per cent sign; `1,5` may be two numbers.
        is_one = "," not in written or percent or written.startswith("0,")
        stated.add(float(written.replace(",", ".")) / whole if whole and is_one else -1.0)
    share = stated.pop()
    return share + 0.0 if not stated and 0 <= share <= 1 else None  # + 0.0: -0.0 is 0
