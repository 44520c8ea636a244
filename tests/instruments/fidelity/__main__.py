"""Prints the table of steps as Markdown: `python -m tests.instruments.fidelity`."""

from tests.instruments.fidelity.table import compared, markdown

print(markdown(compared()), end="")
