"""Run an experiment: `python run.py experiment=mmqa_prune seed=1`. Without arguments it lists the experiments."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from actors.errors import UserError
from actors.signals import Ending

if TYPE_CHECKING:
    from experiments.config.config import Config
    from experiments.records.recorder import RunFolder

USAGE = """usage: python run.py experiment=<name or preset.yaml> [key=value ...]
       python run.py resume=<run folder>
       python run.py help=keys|methods|data|attacks|models

experiments:"""

ending = Ending()


def main(words: list[str]) -> int:
    """The exit code: 0 when done, 1 when trials or the run failed, 2 for bad input (one line says what), 130 when
    interrupted, and 128 + the signal's number after SIGTERM (143) and SIGHUP (129)."""
    try:
        if not words:
            return _list()
        return _run(words)
    except UserError as error:
        _say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return _stopped()
    # Before the run has a folder, a full disk or memory is all that may go wrong beside the user's input.
    except (OSError, MemoryError) as error:
        _say(f"error: {type(error).__name__}: {error}")
        return 1


def _list() -> int:
    from experiments.config.loading import experiments

    print(USAGE)
    for name, description in experiments().items():
        print(f"  {name:<18} {description}")
    return 0


def _run(words: list[str]) -> int:
    if words[0].startswith("help="):
        from experiments.reference import reference

        print(reference(words[0].removeprefix("help=")))
        return 0
    # Imported here: the list of experiments needs none of it.
    from experiments.config.loading import load
    from experiments.runner import open_folder
    from experiments.sweeps.trials import is_sweep

    config = load(words)
    if config.dry_run:
        if is_sweep(config):
            from experiments.estimate.sweep import dry_run_sweep

            dry_run_sweep(config)
        else:
            from experiments.estimate.dry_run import dry_run

            dry_run(config)
        return 0
    folder = open_folder(config)
    # Into the run's folder: the terminal is for progress and results.
    logging.basicConfig(
        filename=folder.log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # A log that cannot be written, on a full disk, must not fill the terminal either.
    logging.raiseExceptions = False
    # Their INFO lines would bury the run's own.
    for library in ("wandb", "fontTools"):
        logging.getLogger(library).setLevel(logging.WARNING)
    return _do(config, folder)


def _do(config: Config, folder: RunFolder) -> int:
    """Runs an experiment or a sweep in its folder. Whatever ends it early is said in one line, with how to resume."""
    from actors.runtime.remote import reason
    from experiments.runner import run
    from experiments.sweeps.trials import is_sweep

    resume = f"; go on with: python run.py resume={folder.path}"
    ending.line = f"ended at once{resume}\n"
    started = time.monotonic()
    # A sweep goes on after trials that failed, and says so; a single run ends well or raises.
    complete = True
    try:
        if is_sweep(config):
            from experiments.sweeps.sweep import run_sweep

            complete = run_sweep(config, folder)
        else:
            run(config, folder)
    # A cancelled main task is what is left of Ctrl-C where another task failed at the same time.
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _stopped(resume)
    except (Exception, BaseExceptionGroup) as error:
        # Who sends a signal to all processes of a run ends Ray as well, and its errors say only that.
        if ending.number:
            logging.exception("after signal %d", ending.number)
            return _stopped(resume)
        if isinstance(error, UserError):
            raise
        logging.exception("the run failed")
        _say(f"error: {reason(error)}; the traceback is in {folder.log}{resume}")
        return 1
    print(f"took {time.monotonic() - started:.1f} s")
    print(f"run: {folder.path}")
    return 0 if complete else 1


def _stopped(resume: str = "") -> int:
    """Says what has ended the process, and returns the exit code that tells so."""
    # After Ctrl-C the terminal's line begins with `^C`.
    _say(f"ended by {signal.Signals(ending.number).name}{resume}" if ending.number else f"\ninterrupted{resume}")
    return 128 + (ending.number or signal.SIGINT)


def _say(line: str) -> None:
    # After SIGHUP there may be no terminal any more.
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    ending.install()
    sys.exit(main(sys.argv[1:]))
