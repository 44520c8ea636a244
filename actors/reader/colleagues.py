"""Weighs colleagues' answers against the evidence, and obeys directives and instructions in messages.

Obedience is assumed, not measured: a directive is always obeyed, an instruction in a message at the rate `obedience`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages import SPREADING, Directive, FieldKind, Remark
from actors.reader.candidates import Candidate
from actors.reader.draws import uniform
from actors.reader.english import normal_name

CHALLENGED = 0.5  # factor on conformity and trust of an agent that challenges what it hears
UNSTATED = 0.5  # confidence of a message that states none

_SPREADING = re.compile(re.escape(SPREADING).replace(re.escape("{target}"), "(.+?)"), re.IGNORECASE)


@dataclass(slots=True)
class Option:
    """Answer under consideration, with its support by evidence and by colleagues.

    chain: statements that lead to it.
    speakers: those who gave it.
    """

    text: str
    evidence: float = 0.0
    social: float = 0.0
    chain: tuple[int, ...] = ()
    speakers: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """Support of both kinds."""
        return self.evidence + self.social


def weigh(
    candidates: Sequence[Candidate],
    remarks: Sequence[Remark],
    *,
    conformity: float,
    persistence: float,
    choices: Sequence[str],
) -> dict[str, Option]:
    """Returns options by their answers' keys, with the support of colleagues and of the agent's earlier turn.

    A colleague adds conformity * weight * confidence to its answer; the agent's earlier turn adds persistence *
    confidence (both, where the agent hears itself).
    """
    options: dict[str, Option] = {}
    for candidate in candidates:
        options[candidate.key] = Option(candidate.text, evidence=candidate.value, chain=candidate.chain)

    # The option keeps the question's spelling of a choice.
    allowed = {normal_name(choice): choice for choice in choices}
    for remark in remarks:
        answer, confidence = stance(remark)
        key = normal_name(answer)
        if not key or (allowed and key not in allowed):
            continue
        option = options.setdefault(key, Option(allowed.get(key, answer)))
        # The agent's own turn may also arrive over an edge: it then counts as memory and as a message.
        if remark.own:
            option.social += persistence * confidence
        if not remark.own or remark.weight:
            option.social += conformity * (remark.weight or 0.0) * confidence
            if remark.speaker not in option.speakers:
                option.speakers += (remark.speaker,)
    return options


def stance(remark: Remark) -> tuple[str, float]:
    """Reads the answer of a message ("" for unknown) and its confidence."""
    answer = remark.answer or ""
    confidence = remark.confidence
    if remark.fields:
        fields = dict(remark.fields)
        answer = fields.get(FieldKind.ANSWER, "").rstrip(".")
        try:
            confidence = float(fields[FieldKind.CONFIDENCE])
        # A model may write words instead of a number.
        except (KeyError, ValueError):
            confidence = None
    if answer.rstrip(".").lower() == "unknown":
        answer = ""
    if confidence is None:
        return answer, UNSTATED
    return answer, min(1.0, max(0.0, confidence))


def given_in_to(remarks: Sequence[Remark], obedience: float, seed: int) -> Directive | None:
    """Returns the instruction in a message that the reader obeys. Each message, its own too, has one probability."""
    for remark in remarks:
        match = _SPREADING.search(remark.content)
        if match and uniform(seed, "obey", remark.speaker) < obedience:
            return Directive(argue_for=match[1], end_with=match[0])
    return None


def forged(answer: str, best: str, quoted: str) -> str:
    """Forges evidence for `answer`, which replaces the honest answer `best` in its quotations."""
    if best:
        named = re.compile(rf"(?<!\w){re.escape(best)}(?!\w)", re.IGNORECASE)
        # A function, since backslashes in a replacement text would be interpreted.
        forgery, replaced = named.subn(lambda _: answer, quoted)
        if replaced:
            return forgery
    numbers = " and ".join(dict.fromkeys(re.findall(r"\[[^\]]*\](?= \")", quoted)))
    return f"{numbers or 'The evidence'} can only be read in one way, as {answer}."
