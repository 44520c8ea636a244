"""Weighs colleagues' answers and the agent's own earlier one against the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.messages import FieldKind, Remark
from actors.reader.find import Candidate
from actors.reader.text import normal_name


@dataclass(slots=True)
class Option:
    """An answer under consideration: what speaks for it in the evidence, and who said it."""

    text: str
    evidence: float = 0.0
    social: float = 0.0
    chain: tuple[int, ...] = ()
    speakers: list[str] = field(default_factory=list)

    @property
    def value(self) -> float:
        return self.evidence + self.social


def weigh(
    ranking: Sequence[Candidate],
    remarks: Sequence[Remark],
    conformity: float,
    persistence: float,
    choices: Sequence[str],
) -> dict[str, Option]:
    """Options by the key of their answer. A colleague adds conformity x weight x confidence to what it answered, the
    agent's own earlier turn persistence x confidence (both, where it hears itself).

    Weights are those stated in the prompt; with choices, only a choice is an option.
    """
    options = {f.key: Option(f.text, evidence=f.value, chain=f.chain) for f in ranking}
    # A message may spell a choice in another way: the option keeps the spelling of the question.
    allowed = {normal_name(choice): choice for choice in choices}
    for remark in remarks:
        answer, confidence = _stance(remark)
        key = normal_name(answer)
        if not key or (allowed and key not in allowed):
            continue
        option = options.setdefault(key, Option(allowed.get(key, answer)))
        # Its own turn may also be heard over an edge, and then counts both as memory and as a message.
        if remark.own:
            option.social += persistence * confidence
        if not remark.own or remark.weight:
            option.social += conformity * (remark.weight or 0.0) * confidence
            if remark.speaker not in option.speakers:
                option.speakers.append(remark.speaker)
    return options


def answers_of(remarks: Sequence[Remark]) -> tuple[tuple[str, str], ...]:
    """(agent, answer) of all that others said, "" for unknown."""
    return tuple((r.speaker.partition(",")[0], _stance(r)[0]) for r in remarks if not r.own)


def _stance(remark: Remark) -> tuple[str, float]:
    """The answer of a message, "" for unknown, and its confidence, one half where none is stated."""
    answer, confidence = remark.answer or "", remark.confidence
    if remark.fields:
        fields = dict(remark.fields)
        answer = fields.get(FieldKind.ANSWER, "").rstrip(".")
        try:
            confidence = float(fields[FieldKind.CONFIDENCE])
        # A model may write words where a number was asked for.
        except (KeyError, ValueError):
            confidence = None
    known = answer.rstrip(".").lower() != "unknown"
    return answer if known else "", 0.5 if confidence is None else min(1.0, max(0.0, confidence))
