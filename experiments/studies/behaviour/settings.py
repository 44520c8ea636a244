"""What `job: behaviour` tries; plain dataclasses, so that OmegaConf can read them."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.errors import UserError


@dataclass
class BehaviourSettings:
    """`job: behaviour`: what one agent makes of irrelevant evidence and of colleagues who are wrong."""

    irrelevant: list[int] = field(default_factory=lambda: [4, 16])
    """How many passages and rows that look relevant, and are not, stand among the relevant ones."""
    colleagues: list[int] = field(default_factory=lambda: [1, 3])
    """How many colleagues give the same wrong answer."""

    def check_values(self, key: str) -> None:
        """Raises UserError for numbers that name no condition, or the same one twice."""
        for name in ("irrelevant", "colleagues"):
            numbers = getattr(self, name)
            if any(number < 1 for number in numbers) or len(set(numbers)) < len(numbers):
                raise UserError(f"{key}.{name}={numbers}: expected different numbers, each 1 or more")
