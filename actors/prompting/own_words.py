"""Takes a model's own words out of its reply: no thoughts, no tokens of a chat template, no markup, no citations.

Linear in the text's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

import re
from collections.abc import Callable

from actors.prompting.safe_text import HTML, clean
from actors.prompting.words import pattern

# A tag or a token of a template: `<think>`, `<|begin_of_box|>`, `[THINK]`, `◁think▷`.
_MARK = re.compile(
    r"<(?P<special>[|｜]?)(?P<tag>/?[^\W\d][\w:.▁-]{0,40})[|｜]?>|\[(?P<block>/?[A-Z][A-Z_]{2,24})\]"
    r"|◁(?P<moon>/?\w{1,24})▷"
)
_PLACE = re.compile(r"begin|start|open|end|close|(?<![a-z])of(?![a-z])|[^a-z]")  # of a mark's name
_THOUGHT = pattern("<tags.thought>")
_REPLY = pattern("<tags.reply>")
_TURN = pattern("\\bs\\b|<tags.turn>")
_HTML = pattern(HTML)
_CHANNEL = re.compile(r"<\|channel\|>final[^<\n]{0,20}(?:<\|constrain\|>[^<\n]{0,20})?<\|message\|>|assistantfinal")
# A channel's name without its marks, which a decoder left out.
_SILENT = re.compile(r"\s*(?:assistant)?(?:analysis|commentary|thought|thinking|reasoning)(?![*_]{0,3}\s?[:：])")
_REASONING = re.compile(r"Reasoning: .*\n(?!Reasoning: )")

# In place of marks. Null bytes were removed from the text before.
_THOUGHT_BEGINS = "\0<"
_THOUGHT_ENDS = "\0>"
_TURN_ENDS = "\0"
_CUT_THOUGHT = "…"
_THOUGHT_SIGN = re.compile("(\0[<>])")
_NEXT_PROMPT = re.compile(r"^## Question$", re.MULTILINE)  # which a model goes on to write itself

_CITATION = re.compile(
    r"\s?\(?【\d[^【】\n]{0,60}】\)?|\s?\[\^[^\]\n]{1,20}\]|\s?\^\[\d{1,2}\]\^|</?co\b[^<>\n]{0,40}>|<sup>\W?\d{1,3}\W?</sup>"
)
_LINK = re.compile(r"\[(?!\d+\])([^\[\]\n]{1,200})\](?:\((?:https?:|www\.|[/#])[^()\s]{0,500}\)|\[\d{1,3}\])")
_LINE_BREAK = re.compile(r"<br\s?/?>|</?(?:p|div|li|ul|ol)>")
_EMPHASIS = re.compile(r"</?(?:b|i|em|strong|u|code|cite)>")  # in small letters: `<B>` is a choice
_FENCE = re.compile(r"\s*+(?:`{3,}+|~{3,}+)\s*+\w{0,20}+\s*+")


def own_words(text: str, is_field: Callable[[str], object]) -> str:
    """Returns the model's own words. `is_field` is true for the name of a field, whose tag marks no thought.

    Reasoning on the first line, and an object, may quote marks.
    """
    text = clean(text).strip()
    reasoning = _REASONING.match(text)
    if reasoning:
        return reasoning[0] + own_words(text[reasoning.end() :], is_field)

    if not (text.startswith("{") and text.endswith("}")):
        text = _without_thoughts(text, is_field)
    text = _LINK.sub(r"\1", _CITATION.sub("", text))
    text = _EMPHASIS.sub("", _LINE_BREAK.sub("\n", text))
    return "\n".join(line for line in text.split("\n") if not _FENCE.fullmatch(line)).strip()


def _without_thoughts(text: str, is_field: Callable[[str], object]) -> str:
    """Removes thoughts, and what comes before or after the model's own turn.

    Behind a thought that is never closed nothing is the model's reply, and before the end of one that was never opened
    neither. An ellipsis stands for the former.
    """
    channel_end = max((channel.end() for channel in _CHANNEL.finditer(text)), default=0)
    text = text[channel_end:].rstrip()
    if _SILENT.match(text):
        return ""

    text = _MARK.sub(lambda mark: _instead_of(mark, is_field), text)
    depth = 0
    spoken = ""
    for piece in _THOUGHT_SIGN.split(text):
        if piece == _THOUGHT_BEGINS:
            depth += 1
        elif piece == _THOUGHT_ENDS:
            if not depth:
                spoken = ""  # a template opened the thought
            depth = max(0, depth - 1)
        elif not depth:
            spoken += piece

    if depth and spoken.strip():
        # Text before a thought that is left open may have a field, and is no answer by itself.
        spoken += f"\n{_CUT_THOUGHT}"

    # A token before any text ends nothing: the reply follows it.
    for turn in spoken.split(_TURN_ENDS):
        if turn.strip() not in ("", "assistant", "model"):
            return _NEXT_PROMPT.split(turn, maxsplit=1)[0]
    return ""


def _instead_of(mark: re.Match[str], is_field: Callable[[str], object]) -> str:
    """Returns the replacement of a mark: a sign where a thought or a turn begins or ends, nothing, or itself.

    A tag of any name that begins a line and is not the last word begins a thought.
    """
    label = (mark["tag"] or mark["block"] or mark["moon"]).lower()
    name = _PLACE.sub("", label)
    is_tag = mark["tag"] and not mark["special"]
    if is_tag and (_HTML.fullmatch(name) or (name != "thinking" and is_field(name))):
        return mark[0]
    begins_line = mark.string[mark.start() - 1 : mark.start()] in ("", "\n")
    may_begin_thought = begins_line and mark.end() < len(mark.string)
    if not _THOUGHT.search(name):
        if _REPLY.search(name):
            return ""
        is_token = mark["special"] and (not name or not may_begin_thought or _TURN.search(name))
        if is_token or _TURN.fullmatch(name):
            return _TURN_ENDS
        if not may_begin_thought:
            return mark[0]
    # MedGemma puts its thoughts between `<unused94>` and `<unused95>`.
    if re.search(r"/|end|close|unused95", label):
        return _THOUGHT_ENDS
    return _THOUGHT_BEGINS
