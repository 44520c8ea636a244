"""Long sources in parts that a model can take apart in one turn, as GraphRAG and LightRAG cut documents into chunks."""

from __future__ import annotations

import re

PART_WORDS = 600  # about 800 tokens; GraphRAG measured that of longer chunks less is found

# After a full stop and what closes behind it, before what may begin a sentence.
_END = re.compile(r"(?<=[.!?])[\"”'’)\]]*\s+(?=[\"“‘(\[]?[A-Z0-9À-ÖØ-Þ])")
_ABBREVIATED = re.compile(r"\b[A-Z][a-z]{0,2}\.$")  # an initial, or a title such as `Dr.`


def parts_of(text: str, most_words: int) -> list[str]:
    """A text in parts of so many words at most, each ending with a sentence; as it is where it is short enough.

    A single sentence that is longer, such as a page of a scan without full stops, is cut between words.
    """
    if len(text.split()) <= most_words:
        return [text]
    parts: list[list[str]] = []
    for sentence in _sentences(text):
        words = sentence.split()
        for piece in (words[start : start + most_words] for start in range(0, len(words), most_words)):
            if parts and len(parts[-1]) + len(piece) <= most_words:
                parts[-1] += piece
            else:
                parts.append(piece)
    return [" ".join(part) for part in parts]


def _sentences(text: str) -> list[str]:
    """With all their marks, so that the parts of a text together are the text."""
    ends = [end.end() for end in _END.finditer(text) if not _ABBREVIATED.search(text[: end.start()][-8:])]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
