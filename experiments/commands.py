"""Commands of `run.py` that run no experiment, each a word of the command line, such as `help=`.

They are looked for before a configuration is loaded. Each imports what it needs when it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# Takes the value after the word and the other arguments. Returns the exit code; raises UserError for bad input.
Command = Callable[[str, Sequence[str]], int]


def command(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Finds the command among the arguments; None where they are an experiment's settings."""
    if not arguments or arguments[0] in ("help", "--help", "-h"):
        return partial(show_help, "".join(arguments[1:2]), arguments[2:])
    if arguments[0] == "--version":
        return show_version
    for argument in arguments:
        word, sign, value = argument.partition("=")
        if sign and word in COMMANDS:
            return partial(COMMANDS[word], value, [other for other in arguments if other is not argument])
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


def view(folder: str, options: Sequence[str]) -> int:
    """Shows a folder of runs in a browser of this machine."""
    from experiments.view.app import serve

    return serve(folder, options)


def export(source: str, options: Sequence[str]) -> int:
    """Writes a run folder, or the generated sample, in a format of another tool."""
    from experiments.export.command import export

    return export(source, options)


def table(folders: str, options: Sequence[str]) -> int:
    """Prints one table of runs and sweeps as LaTeX, Markdown or CSV."""
    from experiments.analysis.tables.of_runs import table_of

    return table_of(folders, options)


def explain(folder: str, options: Sequence[str], ended: Any = None) -> int:
    """Finds the turns that made the answers of a run what they are; `ended`: the settings of one that just ended."""
    from experiments.attribution.explained_run import explain_run
    from experiments.config.loading import named_again

    others = None if ended else [word for word in options if not word.startswith("explain.")]
    explain_run(Path(folder), ended or named_again(options).explain, others)
    return 0


def as_called(text: str) -> str:
    """A text of the program about itself, with `agora` in place of `python run.py` where it was called so."""
    return text.replace("python run.py", "agora") if Path(sys.argv[0]).stem == "agora" else text


COMMANDS: dict[str, Command] = {"help": show_help, "view": view, "export": export, "table": table, "explain": explain}
