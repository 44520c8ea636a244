"""How colleagues' answers and one's own earlier one weigh against what the evidence says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.reader.find import Found
from actors.reader.parse import Opinion
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
    found: Sequence[Found], heard: Sequence[Opinion], conformity: float, persistence: float, choices: Sequence[str]
) -> dict[str, Option]:
    """Options by the key of their answer. A colleague adds conformity x weight x confidence to what it answered.

    Weights are those stated in the prompt; with choices, only a choice is an option.
    """
    options = {f.key: Option(f.text, evidence=f.value, chain=f.chain) for f in found}
    allowed = {normal_name(choice): choice for choice in choices}
    for opinion in heard:
        if opinion.answer is None:
            continue
        key = normal_name(opinion.answer)
        if not key or (allowed and key not in allowed):
            continue
        option = options.setdefault(key, Option(allowed.get(key, opinion.answer)))
        option.social += (
            persistence * opinion.confidence if opinion.own else conformity * opinion.weight * opinion.confidence
        )
        if option.speakers.count(opinion.speaker) == 0 and not opinion.own:
            option.speakers.append(opinion.speaker)
    return options
