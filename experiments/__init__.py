"""Runs and what becomes of them. The only place that knows labels."""

from agora_mm import hidden

if line := hidden():
    raise ImportError(line)
