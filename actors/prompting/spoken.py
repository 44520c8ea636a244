"""The part of a reply that is meant to be read: no thoughts, no marks of a chat template, no code fences.

Linear in the reply's length: repetitions in patterns are bounded or possessive.
"""

from __future__ import annotations

import json
import re

from actors.prompting.text import clean

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


def spoken(text: str, thought_is_asked: bool = False) -> str:
    """What is said, with line breaks as they are.

    Args:
        thought_is_asked: the form has a field of that name, so that a tag of that name is none of the model's own.
    """
    text = clean(text)
    if not _is_object(text):  # inside one, marks are quoted
        text = _said(text, thought_is_asked)
    if "<" in text:
        text = _EMPHASIS.sub("", _BREAK.sub("\n", text))
    text = _LATEX_EMPHASIS.sub(r"\1", text)
    return "\n".join(line for line in text.split("\n") if not _FENCE.fullmatch(line)).strip()


def _is_object(text: str) -> bool:
    """True for a text that is one JSON object and nothing else."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _said(text: str, thought_is_asked: bool) -> str:
    """The text without thoughts and without what comes before or after the model's own turn."""
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
            kept.clear()  # the template opened the block, so that all up to here was thought
        start = tag.end()
    # Where a block was never closed, the rest was thought and nothing was said.
    text = "".join(kept) + ("" if depth else text[start:])
    begun = _TURN_START.match(text.lstrip())
    text = text.lstrip()[begun.end() if begun else 0 :]
    ended = _TURN_END.search(text)
    # A mark before any text ends nothing: the reply comes after it.
    if ended and text[: ended.start()].strip():
        text = text[: ended.start()]
    return text
