"""Prints the table of steps as Markdown: `python -m tests.fidelity`."""

from __future__ import annotations

from tests.fidelity.table import compared, markdown

print(markdown(compared()), end="")
