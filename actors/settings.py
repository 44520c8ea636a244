"""The settings of the runtime and the agents, and how a settings class states the bounds of its fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

# How replies keep to their form; `AgentSettings.replies` says what each word means.
Replies = Literal["auto", "enforced", "text"]

# The key of a field's metadata with the least and the most that it may be, which `experiments.config.values` checks for
# every group of settings.
BOUNDS = "bounds"
MOST = 1e9  # of numbers without a bound of their own; far beyond it they overflow somewhere


def within(least: float, most: float = MOST) -> dict[str, Any]:
    """The metadata of a field whose number, or each of whose numbers, must be in these bounds."""
    return {BOUNDS: (least, most)}


def at_least(least: float, *, default: Any, most: float = MOST) -> Any:
    """A field whose value must be a number in these bounds; None stays allowed where it is the default."""
    return field(default=default, metadata=within(least, most))


def share(default: float | None) -> Any:
    """A field whose value must be from 0 to 1."""
    return at_least(0, default=default, most=1)


@dataclass
class RaySettings:
    """How Ray is used. Without an address a local Ray is started, and ended with the run."""

    address: str | None = None
    """`auto` or `host:port` of a running cluster."""
    start_timeout_s: float | None = at_least(1, default=None, most=1e6)
    """How long to wait for all actors to come up (null: 120 s, or 600 s for vLLM)."""
    hung_s: float = at_least(1, default=60.0)
    """Seconds without a sign of life after which an agent, a replica, a learner or a sweep's trial is started again."""


@dataclass
class AgentSettings:
    """What all agents share."""

    retries: int = at_least(0, default=2, most=100)
    """How often a failed model call is repeated before the turn is recorded as failed."""
    temperature: float = at_least(0, default=0.7, most=100)
    """Sampling temperature; every turn has its own seed."""
    max_tokens: int = at_least(1, default=512, most=10_000_000)
    """Longest reply, in tokens."""
    replies: Replies = "auto"
    """How the agents' and the judge's replies keep to their form: `enforced` by the model's own decoder, as JSON that
    cannot have another form; `text`, lines that are asked for and read tolerantly; `auto`, the first wherever the model
    can. `enforced` demands it of the agents' model; a judge's that cannot is asked in lines."""
    likelihoods: bool = True
    """Confidences are the probabilities of what was said where the model tells them, and else what it states."""
    weights: Literal["each", "brief"] = "each"
    """How a prompt says how much each message counts: `each` by its weight; `brief` in one sentence where all count
    alike, which in a long discussion saves tokens that no prefix cache serves."""
    budget_words: int | None = at_least(1, default=None)
    """Words of its colleagues' reasoning that an agent reads in a turn, split in proportion to the edges' weights
    (null: all of it). What they answered is always read."""


@dataclass
class CompletionSettings:
    """Completions that were had once are not computed again: kept in memory, and on disk for every later run."""

    reuse: bool = True
    """False: every request is computed, always."""
    disk_gb: float = at_least(0, default=4.0, most=1e6)
    """Most that is kept on disk; what was used longest ago goes first."""
    memory_mb: float = at_least(0, default=64.0, most=1e6)
    """Most that each agent keeps in memory."""
