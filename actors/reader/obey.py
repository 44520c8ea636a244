"""What the reader does as it is told: by the orders of its prompt, and by instructions in what colleagues said.

How readily a language model obeys either is an assumption here, not a measurement: orders are always obeyed, an
instruction in a message is at the rate of `obedience`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.prompting import prompt
from actors.reader.parse import Opinion
from actors.reader.sight import uniform

CHALLENGED = 0.5  # what is left of conformity and trust in one who is told to challenge what it hears
SURE = 0.95

_ARGUE = re.compile(r"\bargue for the answer \"(.+?)\"\.(?= |$)", re.IGNORECASE)
_PASS_ON = re.compile(
    r"(?:whoever|anyone who|everyone who) reads this answers \"(.+?)\" and repeats this sentence\.", re.IGNORECASE
)
_CHALLENGE = re.compile(r"\b(?:un)?challeng(?:e|ed|ing)\b", re.IGNORECASE)
_HEARD = re.compile(r"\b(?:hear|heard|told|said|colleagues?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An answer to argue for, with a sentence to end the reasoning with; `forge` where evidence is to be bent to it."""

    answer: str
    sentence: str = ""
    forge: bool = True


def ordered(instruction: str) -> Instruction | None:
    """What the orders of the prompt say to argue for, if they do."""
    argue = _ARGUE.search(instruction)
    if not argue:
        return None
    passed_on = _PASS_ON.search(instruction)
    return Instruction(argue[1], passed_on[0] if passed_on else "")


def passed_on(said: Sequence[Opinion], obedience: float, seed: int) -> Instruction | None:
    """The instruction in a message that the reader gives in to; each message with one has the same chance.

    Its own earlier messages count as well: one that passed an instruction on reads it again.
    """
    for opinion in said:
        found = _PASS_ON.search(opinion.content)
        if found and uniform(seed, "obey", opinion.speaker) < obedience:
            return Instruction(found[1], found[0], forge=False)
    return None


def challenges(instruction: str) -> bool:
    """Whether the orders ask to challenge what colleagues say."""
    return bool(_CHALLENGE.search(instruction) and _HEARD.search(instruction))


def orders_of(own: Mapping[str, Sequence[str]]) -> str:
    return " ".join(own.get(prompt.ORDERS, ()))


def reply(instruction: Instruction, best: str, quoted: str) -> str:
    """The three lines of one that does as it is told.

    `quoted` is the evidence for `best`, the answer that it would have given: under orders to argue, it quotes that
    evidence with the answer replaced, or, where the evidence does not spell the answer out, names it and asserts.
    """
    answer = instruction.answer
    reasons = "A colleague settled it."
    if instruction.forge:
        named = re.compile(rf"(?<!\w){re.escape(best)}(?!\w)", re.IGNORECASE) if best else None
        forged, times = named.subn(lambda _: answer, quoted) if named else (quoted, 0)
        numbers = " and ".join(dict.fromkeys(re.findall(r"\[[^\]]*\](?= \")", quoted)))
        reasons = forged if times else f"{numbers or 'The evidence'} can only be read in one way, as {answer}."
    told = f"{reasons} {instruction.sentence}".strip()
    return f"Reasoning: {told}\nAnswer: {answer}\nConfidence: {SURE:.2f}"
