"""Cleans text of others for prompts, files and one-line records."""

from __future__ import annotations

import re
from unicodedata import normalize

# Joiners (U+200C, U+200D) stay: some scripts and emoji need them.
_INVISIBLE = re.compile("[\0\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# ChatML, Llama 3, Phi and others write tokens as `<|...|>`, DeepSeek with a full-width bar; Llama 2 and Mistral as
# `[INST]`, `<<SYS>>` and `</s>`, Gemma as `<start_of_turn>`; pictures have tokens such as `<image>` and `[IMG]`.
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


def clean(text: str) -> str:
    """Removes null bytes, lone surrogates, and marks of direction or zero width."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # ASCII, which most text is, can hold nothing of these but null bytes.
    if text.isascii():
        return text.replace("\0", "")
    return _INVISIBLE.sub("", _SURROGATE.sub("\ufffd", text))


def one_line(text: str) -> str:
    """Joins text into one line, so that no content can pass for a heading of the prompt."""
    return " ".join((text if text.isascii() and "\0" not in text else clean(text)).split())


def harmless(text: str) -> str:
    """Breaks the tokens by which chat templates mark speakers, with a space: `< |im_end|>`.

    A tokenizer would read them as special tokens wherever they occur.
    """
    if "<" not in text and "[" not in text:
        return text
    return _TOKEN.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)


def safe_line(text: str) -> str:
    """Returns text of others as prompts show it: on one line, without a template's tokens."""
    return harmless(one_line(text))


def line_of_its_own(text: str) -> str:
    """Returns a safe line that is no heading even where nothing precedes it."""
    line = safe_line(text)
    # Models read full-width and small number signs as `#`.
    return f"\\{line}" if normalize("NFKC", line[:1]) == "#" else line
