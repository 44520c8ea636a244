"""Commands of `run.py` that run no experiment, each a word of the command line, such as `help=`.

They are looked for before a configuration is loaded. Each imports what it needs when it is called.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from actors.errors import UserError


def command(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Finds the command among the arguments. None where they are an experiment's settings."""
    if not arguments or arguments[0] in ("help", "--help", "-h"):
        return partial(show_help, "".join(arguments[1:2]), arguments[2:])
    if arguments[0] == "--version":
        return show_version
    for argument in arguments:
        word, sign, value = argument.partition("=")
        if sign and word in COMMANDS:
            options = [option for option in arguments if option is not argument]
            return partial(call, word, value, options)
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
    """Calls the function of a command with its arguments. Returns the exit code."""
    try:
        code: int = resolve_name(f"experiments.{COMMANDS[word]}")(*arguments)
    except ModuleNotFoundError:
        from experiments.config.references import check_installed

        check_installed()
        raise
    return code


def keep_overview(folder: Path) -> None:
    """Keeps a finished run's row of the viewer's list in its folder. A failure of that is in the run's log."""
    from experiments.records import sinks
    from experiments.view.overview import save_overview

    with sinks.beside("the overview", folder):
        save_overview(folder)


def lock(file: str, options: Sequence[str]) -> int:
    """Writes the plan of a run that is to come, for `compare.plan`. Raises UserError where that is impossible."""
    from experiments.config.loading import load
    from experiments.jobs import plan_of
    from experiments.planning.lock import plan_lock
    from experiments.records.run_files import write_atomically
    from experiments.running.inputs import open_cache, open_dataset

    config = load(list(options))
    dataset = open_dataset(plan_of(config), open_cache(config.cache_folder))
    plan = json.dumps(plan_lock(config, dataset), indent=1)
    try:
        write_atomically(Path(file), f"{plan}\n".encode())
    except OSError as error:
        raise UserError(f"lock={file} cannot be written ({error.strerror}); name a file in another folder") from error
    print(f"plan: {file}; run it with compare.plan={file} and the same settings")
    return 0


def as_called(text: str) -> str:
    """Names the program in a text as it was called: `agora` or `python run.py`."""
    return text.replace("python run.py", "agora") if Path(sys.argv[0]).stem == "agora" else text


# By word, a function of the value after it and of the other arguments, which raises UserError for bad input.
COMMANDS = {
    "help": "commands:show_help",
    "ask": "asked_question:ask",
    "view": "view.app:serve",
    "export": "export.command:export",
    "table": "analysis.tables.of_runs:table_of",
    "explain": "attribution.explained_run:explain",
    "report": "concluded_again:report",
    "track": "concluded_again:track",
    "replay.from": "attribution.continued_discussion:continued",
    "lock": "commands:lock",
}
