"""The settings of the runtime and the agents, and how a settings class states the bounds of its fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

# How replies keep to their form; `AgentSettings.replies` says what each word means.
Replies = Literal["auto", "enforced", "text"]

# Keys of a field's metadata, which `experiments.config.loading` checks for every group of settings.
AT_LEAST, SHARE = "at least", "share"


def at_least(least: float, *, default: Any) -> Any:
    """A field whose value must be finite and at least this; None stays allowed where it is the default."""
    return field(default=default, metadata={AT_LEAST: least})


def share(default: float) -> Any:
    """A field whose value must be from 0 to 1."""
    return field(default=default, metadata={SHARE: True})


@dataclass
class RaySettings:
    """How Ray is used. Without an address a local Ray is started, and ended with the run."""

    address: str | None = None
    """`auto` or `host:port` of a running cluster."""
    start_timeout_s: float | None = at_least(1, default=None)
    """How long to wait for all actors to come up (null: 120 s, or 600 s for vLLM)."""


@dataclass
class AgentSettings:
    """What all agents share."""

    retries: int = at_least(0, default=2)
    """How often a failed model call is repeated before the turn is recorded as failed."""
    temperature: float = at_least(0, default=0.7)
    """Sampling temperature; every turn has its own seed."""
    max_tokens: int = at_least(1, default=512)
    """Longest reply, in tokens."""
    replies: Replies = "auto"
    """How the agents' and the judge's replies keep to their form: `enforced` by the model's own decoder, as JSON that
    cannot have another form; `text`, lines that are asked for and read tolerantly; `auto`, the first wherever the model
    can. `enforced` demands it of the agents' model; a judge's that cannot is asked in lines."""
    likelihoods: bool = True
    """Confidences are the probabilities of what was said where the model tells them, and else what it states."""
    budget_words: int | None = at_least(1, default=None)
    """Words of its colleagues' reasoning that an agent reads in a turn, split in proportion to the edges' weights
    (null: all of it). What they answered is always read."""


@dataclass
class CompletionSettings:
    """Completions that were had once are not computed again: kept in memory, and on disk for every later run."""

    reuse: bool = True
    """False: every request is computed, always."""
    disk_gb: float = at_least(0, default=4.0)
    """Most that is kept on disk; what was used longest ago goes first."""
    memory_mb: float = at_least(0, default=64.0)
    """Most that each agent keeps in memory."""
