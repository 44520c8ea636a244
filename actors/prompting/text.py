"""Text as prompts show it and replies are read: cleaned, or on one line."""

from __future__ import annotations

import re
from unicodedata import normalize

# Joiners (U+200C, U+200D) stay: some scripts and emoji are spelt with them.
_INVISIBLE = re.compile("[\0\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# ChatML, Llama 3, Phi and others write tokens as `<|...|>`, DeepSeek with a bar of full width; Llama 2 and Mistral as
# `[INST]`, `<<SYS>>` and `</s>`, Gemma as `<start_of_turn>`; pictures stand at tokens such as `<image>` and `[IMG]`.
_TOKEN = re.compile(
    r"<[|｜][^<>|｜\n]{1,64}[|｜]>"
    r"|</?(?:s|bos|eos|pad|unk|mask|image|img|video|audio|box|ref|quad|image_soft_token|fake_token_around_image"
    r"|think|tool_call|tool_response|tools|end_of_utterance|row_\d+_col_\d+|global-img)>"
    r"|</?(?:start|end|begin)_of_(?:turn|image|audio|video|text)>"
    r"|<</?SYS>>"
    r"|\[/?(?:INST|IMG|IMG_BREAK|IMG_END|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|PREFIX"
    r"|MIDDLE|SUFFIX|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|BOS|EOS)\]",
    re.IGNORECASE,
)
# After a word of three letters or more, a number or a bracket: `Dr. No` and `St. Ives` go on. The next one begins.
_SENTENCE_ENDS = re.compile(
    r"(?:(?<=[^\W\d_]{3})|(?<=[\d)\]\"'”’%]))[.!?][\"'”’)\]]*+(?=\s+[^\W\d_a-z]|\s+[\[\"'“‘(\d])"
)
_OPENING = re.compile(r"[<\[]")


def clean(text: str) -> str:
    """Text that can be stored and shown: no null bytes, no marks of direction or zero width, no lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # The quick way for most text: nothing but null bytes can be wrong with ASCII.
    if text.isascii():
        return text.replace("\0", "")
    return _INVISIBLE.sub("", _SURROGATE.sub("\ufffd", text))


def harmless(text: str) -> str:
    """Text of others without the tokens by which chat templates tell who speaks: a space makes plain text of each, such
    as `< |im_end|>`. A tokenizer would take them for its own wherever they stand."""
    return _TOKEN.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text) if _OPENING.search(text) else text


def safe_line(text: str) -> str:
    """Text of others as prompts show it: on one line, and without a template's tokens."""
    return harmless(one_line(text))


def line_of_its_own(text: str) -> str:
    """The same for a line that nothing precedes: it is no heading all the same."""
    line = safe_line(text)
    # Of other widths, too: models take them for the same.
    return f"\\{line}" if normalize("NFKC", line[:1]) == "#" else line


def one_line(text: str) -> str:
    """Evidence and messages take one line each, so that no content can pass for a section heading."""
    return " ".join((text if text.isascii() and "\0" not in text else clean(text)).split())


def whole_sentences(text: str) -> str:
    """The text up to the end of the last sentence after which another one begins; empty where there is none."""
    ends = [end.end() for end in _SENTENCE_ENDS.finditer(text)]
    return text[: ends[-1]] if ends else ""
