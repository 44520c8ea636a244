"""Turns a model's reply into reasoning, answer and confidence, or says that it cannot. No guess is ever made."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIELD = re.compile(r"^\W*(reasoning|answer|confidence)[*_ \t]*:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reply:
    """`answer` is None when the agent says that it does not know; `confidence` when it states none in [0, 1]."""

    content: str
    answer: str | None
    confidence: float | None


def parse_reply(text: str) -> Reply | None:
    """Read the three-line form that `prompt.INSTRUCTION` asks for; None when there is no `Answer:` line.

    Of several `Answer:` lines the last counts: models restate the form before they fill it in.
    """
    fields = {match[1].lower(): match[2].strip(" \t*`\"'") for match in _FIELD.finditer(text)}
    if not fields.get("answer"):
        return None
    first = _FIELD.search(text)
    content = fields.get("reasoning") or (text[: first.start()].strip() if first else "")
    answer = None if fields["answer"].rstrip(".").lower() == "unknown" else fields["answer"]
    return Reply(content=content, answer=answer, confidence=_confidence(fields.get("confidence", "")))


def _confidence(text: str) -> float | None:
    try:
        value = float(text.rstrip(".%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
