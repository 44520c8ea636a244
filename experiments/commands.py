"""Commands of `run.py` that run no experiment, each a word of the command line, such as `help=`.

They are looked for before a configuration is loaded. Each imports what it needs when it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any


def command(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Finds the command among the arguments; None where they are an experiment's settings."""
    if not arguments or arguments[0] in ("help", "--help", "-h"):
        return partial(show_help, "".join(arguments[1:2]), arguments[2:])
    if arguments[0] == "--version":
        return show_version
    for argument in arguments:
        word, sign, value = argument.partition("=")
        if sign and word in COMMANDS:
            return partial(call, word, value, [other for other in arguments if other is not argument])
    return None


def show_version() -> int:
    """Prints the version of this project."""
    from experiments.records.start import project_version

    print(f"agora-mm {project_version()}")
    return 0


def show_help(topic: str, others: Sequence[str]) -> int:
    """Prints a topic of the reference, or how the program is used."""
    from experiments.reference import reference, usage

    print(as_called(reference(topic) if topic else usage()))
    return 0


def call(word: str, *arguments: Any) -> int:
    """Calls the function of a command with its arguments; returns the exit code."""
    module, name = COMMANDS[word].split(":")
    code: int = getattr(import_module(f"experiments.{module}"), name)(*arguments)
    return code


def as_called(text: str) -> str:
    """A text of the program about itself, with `agora` in place of `python run.py` where it was called so."""
    return text.replace("python run.py", "agora") if Path(sys.argv[0]).stem == "agora" else text


# By word, a function of the value after it and of the other arguments, which raises UserError for bad input.
COMMANDS = {
    "help": "commands:show_help",
    "view": "view.app:serve",
    "export": "export.command:export",
    "table": "analysis.tables.of_runs:table_of",
    "explain": "attribution.explained_run:explain",
    "replay.from": "attribution.explained_run:continued",
}
