"""An earlier run whose usage predicts the hours of another one: `costs.run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actors.errors import UserError
from actors.messages import Usage
from experiments.records import usage
from experiments.records.recorder import RunFolder


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """Time and usage of a run, without its judge. `reply_tokens` are a reply's mean tokens by role, "" of all roles."""

    name: str
    seconds: float
    used: Usage
    reply_tokens: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds_per_token(self) -> float:
        """Wall-clock seconds for each token that agents needed, those that a cache answered included."""
        used = self.used
        return self.seconds / (used.prompt_tokens + used.completion_tokens + used.reused_tokens)

    @property
    def note(self) -> str:
        """The caches that its hours include, as a sentence."""
        reused = self.used.reused / (self.used.calls + self.used.reused)
        cached = self.used.cached_tokens / self.used.prompt_tokens
        return (
            "scaled by tokens, at its concurrency, with its share of calls answered from the completion cache "
            f"({reused:.0%}) and of prompt tokens from a prefix cache ({cached:.0%})."
        )


def read_earlier_run(path: str) -> EarlierRun:
    """Reads the usage of a run folder. Raises UserError where it has recorded none."""
    folder = RunFolder.open(Path(path))
    seconds, whole, replies = 0.0, Usage(), dict[str, Usage]()
    for name, phase in usage.by_phase(folder).items():
        if name == "judging":
            continue
        seconds, whole = seconds + phase.seconds, whole + phase.total
        for role, used in phase.agents.items():
            for key in ("", role):
                replies[key] = replies.get(key, Usage()) + used
    if not seconds or not whole.prompt_tokens:
        raise UserError(f"costs.run={path} has recorded no calls of a model; give a run that computed its answers")
    lengths = {role: used.completion_tokens / used.calls for role, used in replies.items() if used.calls}
    return EarlierRun(folder.name, seconds, whole, lengths)
