"""Lays out a request so that a prefix cache serves most of it.

Order: instruction, pictures, question, evidence (the same for all agents of one modality on one question), then the
discussion in one canonical order (the same for all agents that heard the same messages), and only then what is the
agent's own: role, memory, and how much weight each message carries. Role-first prompts share almost nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from actors.messages import Heard, Kind, Message, Modality, Question, Request, Source, Turn
from actors.settings import AgentSettings

QUESTION = "## Question"
CHOICES = "## Choices"
EVIDENCE = "## Evidence"
PICTURES = "## Pictures"
DISCUSSION = "## Discussion"
ROLE = "## Role"
MEMORY = "## Your earlier turn"
WEIGHTS = "## Weights"

INSTRUCTION = """You are one of several specialists who answer a question together. Use the evidence and the \
pictures below, and judge what your colleagues said on its merits. Reply in exactly three lines:
Reasoning: one or two sentences that name the evidence you used
Answer: the shortest phrase that answers the question, the text of one choice where choices are given, or `unknown`
Confidence: a number from 0 to 1"""


def one_line(text: str) -> str:
    """Evidence and messages take one line each, so that no content can pass for a section heading."""
    return " ".join(text.split())


def evidence_for(question: Question, modality: Modality) -> tuple[Source, ...]:
    """The sources that an agent of this modality may read, best first."""
    return tuple(source for source in question.evidence if modality.reads(source.kind))


def shared_part(question: Question, evidence: Sequence[Source]) -> str:
    """Question, choices, passages and rows, and the pictures' names, as every agent of a modality sees them."""
    lines = [QUESTION, one_line(question.text)]
    if question.choices:
        lines.append(CHOICES)
        lines += [f"({chr(ord('A') + i)}) {one_line(choice)}" for i, choice in enumerate(question.choices)]
    texts = [source for source in evidence if source.kind is not Kind.IMAGE]
    pictures = [source for source in evidence if source.kind is Kind.IMAGE]
    if texts:
        lines.append(EVIDENCE)
        lines += [f"[{source.id}] {one_line(source.title)}: {one_line(source.text)}" for source in texts]
    if pictures:
        lines.append(PICTURES)
        lines += [f"[{source.id}] {one_line(source.title)}" for source in pictures]
    return "\n".join(lines)


def own_part(role: str, recalled: Sequence[Message], heard: Sequence[Heard], budget_words: int | None = None) -> str:
    """The discussion in canonical order (round, then agent), then role, memory and the receiver's weights.

    Reading in proportion to weight (Eqs. 5 and 9) is the model's to do, except for `budget_words`, which are shared
    out among the messages' reasoning by weight.
    """
    lines: list[str] = []
    in_order = sorted(heard, key=lambda h: (h.message.round, h.message.agent))
    if in_order:
        lines.append(DISCUSSION)
        total = sum(h.weight for h in in_order)
        for h in in_order:
            words = None if budget_words is None else round(budget_words * h.weight / total)
            lines.append(f"[{h.message.agent}, round {h.message.round}] {said(h.message, words)}")
    lines += [ROLE, one_line(role)]
    if recalled:
        lines.append(MEMORY)
        lines += [f"[round {message.round}] {said(message)}" for message in recalled]
    if in_order:
        lines.append(WEIGHTS)
        lines += [f"[{h.message.agent}, round {h.message.round}] {h.weight:.3f}" for h in in_order]
    return "\n".join(lines)


def said(message: Message, words: int | None = None) -> str:
    """A message as others read it, its reasoning cut after so many words."""
    answer = message.answer if message.answer is not None else "unknown"
    confidence = "" if message.confidence is None else f" (confidence {message.confidence:.2f})"
    content = one_line(message.content) if words is None else " ".join(message.content.split()[:words])
    return f"{content} Answer: {one_line(answer)}{confidence}"


def build_request(
    turn: Turn,
    modality: Modality,
    role: str,
    recalled: Sequence[Message] = (),
    settings: AgentSettings | None = None,
) -> Request:
    """The request for one turn. Two turns of agents of one modality on one question have the same `prefix`."""
    settings = settings or AgentSettings()
    shared, images, prefix = _prefix(turn.question, modality)
    return Request(
        id=turn.id,
        prefix=prefix,
        system=INSTRUCTION,
        shared=shared,
        own=own_part(role, recalled, turn.heard, settings.budget_words),
        images=images,
        seed=turn.seed,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
    )


@lru_cache(maxsize=512)
def _prefix(question: Question, modality: Modality) -> tuple[str, tuple[Source, ...], str]:
    """The shared part, its pictures and their digest: worked out once for all samples and rounds of a question."""
    evidence = evidence_for(question, modality)
    images = tuple(source for source in evidence if source.kind is Kind.IMAGE)
    shared = shared_part(question, evidence)
    digest = hashlib.blake2b(shared.encode(), digest_size=8)
    for picture in images:
        digest.update(f"{picture.id}\x1f{picture.image}".encode())
    return shared, images, digest.hexdigest()
