"""What a user can choose about the runtime and the agents; plain dataclasses that import nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RaySettings:
    """How Ray is used. Without an address a local Ray is started, and ended with the run."""

    address: str | None = None
    """`auto` or `host:port` of a running cluster."""
    start_timeout_s: float = 120.0
    """How long to wait for all actors to come up."""


@dataclass
class AgentSettings:
    """What all agents share."""

    retries: int = 2
    """How often a failed model call is repeated before the turn is recorded as failed."""
    temperature: float = 0.7
    """Sampling temperature; every turn has its own seed."""
    max_tokens: int = 512
    """Longest reply, in tokens."""
    budget_words: int | None = None
    """Words of its colleagues' reasoning that an agent reads in a turn, split in proportion to the edges' weights
    (null: all of it). What they answered is always read."""


@dataclass
class CompletionSettings:
    """Completions that were had once are not computed again: kept in memory, and on disk for every later run."""

    reuse: bool = True
    """False: every request is computed, always."""
    disk_gb: float = 4.0
    """Most that is kept on disk; what was used longest ago goes first."""
    memory_mb: float = 64.0
    """Most that each agent keeps in memory."""
