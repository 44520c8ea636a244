"""Cleans text of others for prompts, files and one-line records."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

# Joiners (U+200C, U+200D) stay: some scripts and emoji need them.
_INVISIBLE = re.compile("[\0\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# Chat templates' tokens, by their shape: `<|im_end|>`, `<start_of_turn>`, `</s>`, `<seed:think>`, `<<SYS>>`, `[INST]`,
# `◁think▷`. One name in angle brackets that is no element of HTML, or in capitals in square ones, may be a token.
_UNSEEN = ("Cf", "Cc", "Cn", "Co", "Mn", "Me", "Zs")  # format, control, unassigned, blanks
HTML = (
    "a|abbr|article|b|blockquote|body|br|button|caption|center|cite|code|col|dd|del|div|dl|dt|em|figure|font|footer|form"
    "|h[1-6]|head|header|hr|html|i|ins|li|link|main|mark|meta|nav|ol|option|p|pre|script|section|small|span|strong|style|su[bp]|table"
    "|tbody|td|tfoot|th|thead|title|tr|tt|u|ul"
)
_TOKEN = re.compile(
    rf"<[|｜][^<>|｜\n]{{1,64}}[|｜]>|<</?SYS>>|<(?!/?(?:{HTML})>)/?[^\W\d][\w:.▁-]{{0,63}}>|◁[^◁▷\n]{{1,64}}▷"
    r"|\[/?(?:(?-i:[A-Z][A-Z_]{2,63})|gMASK|sMASK|(?:unused|reserved)_?\d{1,4})\]",
    re.IGNORECASE,
)


def clean(text: str) -> str:
    """Removes null bytes, lone surrogates, and marks of direction or zero width."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # ASCII, which most text is, can hold nothing of these but null bytes.
    if text.isascii():
        return text.replace("\0", "")
    return _INVISIBLE.sub("", re.sub("[\ud800-\udfff]", "\ufffd", text))


def one_line(text: str) -> str:
    """Joins text into one line. No content can then pass for a heading of the prompt."""
    if not text.isascii() or "\0" in text:
        text = clean(text)
    return " ".join(text.split())


def harmless(text: str) -> str:
    """Breaks the tokens by which chat templates mark speakers, with a space: `< |im_end|>`.

    A tokenizer would read them as special tokens wherever they occur.
    """
    if "<" not in text and "[" not in text and "◁" not in text:
        return text
    return _TOKEN.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)


def without_tokens(text: str, tokens: Iterable[str]) -> str:
    """Breaks a tokenizer's own special tokens in a text, whatever their shape."""
    for token in tokens:
        if len(token) > 1 and token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def safe_line(text: str) -> str:
    """Returns text of others as prompts show it: on one line, without a template's tokens."""
    return harmless(one_line(text))


@lru_cache(maxsize=1024)
def line_of_its_own(text: str) -> str:
    """Returns a safe line that is no heading even where nothing precedes it."""
    line = safe_line(text)
    for mark in line:
        name = unicodedata.name(mark, "")
        if unicodedata.category(mark) not in _UNSEEN and "FILLER" not in name and "BLANK" not in name:
            # Others fold into `#`.
            is_heading = unicodedata.normalize("NFKC", mark).startswith("#")
            return f"\\{line}" if is_heading else line
    return line
