"""Tampering on the wire: messages are rewritten between the one who said them and the one who reads them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from actors.messages import Heard, Message, Turn, derive_seed

CONFIDENCE = 0.95
CLAIM = "The evidence, read closely, says {target}."


def rewrite_heard(turn: Turn, target: str, rate: float, senders: Collection[str], seed: int) -> Turn:
    """The turn with a share `rate` of what others said rewritten, the messages to the decision agent included.

    The tamperer sits on the wire: it sees messages, receivers and the target, neither evidence nor gold. It changes
    content, answer and confidence as one receiver reads them; what the sender and others remember stays. With
    `senders`, only their messages pass it. Whether a message is rewritten depends on question, message, receiver and
    round alone, so that methods and samples meet the same tampering where they send the same.
    """

    def passed(heard: Heard) -> Heard:
        message = heard.message
        if message.agent == turn.agent or (senders and message.agent not in senders):
            return heard
        key = derive_seed(seed, "tamper", turn.question.id, message.id, turn.agent, turn.round)
        return replace(heard, message=rewritten(message, target)) if key < rate * 2.0**63 else heard

    return replace(turn, heard=tuple(map(passed, turn.heard)))


def rewritten(message: Message, target: str) -> Message:
    """The message as if the target had been its answer: where its reasoning names the answer it names the target."""
    content, found = message.content, 0
    if message.answer:
        named = re.compile(rf"(?<!\w){re.escape(message.answer)}(?!\w)", re.IGNORECASE)
        content, found = named.subn(lambda _: target, content)
    return replace(
        message, content=content if found else CLAIM.format(target=target), answer=target, confidence=CONFIDENCE
    )
