"""Run an experiment: `python run.py experiment=mmqa_prune seed=1`. Without arguments it lists the experiments."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.errors import UserError
from actors.memory import collect_rarely
from actors.runtime import head
from actors.signals import Ending
from actors.visible import visible

if TYPE_CHECKING:
    from experiments.config.config import Config
    from experiments.config.loading import Said
    from experiments.records.recorder import RunFolder

USAGE = """usage: python run.py experiment=<name or preset.yaml> [key=value ...]
       python run.py resume=<run folder>
       python run.py help=experiments|keys|methods|data|attacks|models

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
    except BrokenPipeError:  # of what was to read the help, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    # Before the run has a folder, a full disk or memory is all that may go wrong beside the user's input.
    except (OSError, MemoryError) as error:
        _say(f"error: {type(error).__name__}: {error}")
        return 1
    finally:
        head.give_up()


def _list() -> int:
    from experiments.config.loading import experiments

    print(USAGE)
    for name, description in experiments().items():
        print(f"  {name:<18} {description}")
    return 0


def _run(words: list[str]) -> int:
    if words[0] in ("help", "--help", "-h"):
        return _list()
    if asked := next((word for word in words if word.startswith("help=")), ""):
        from experiments.reference import reference

        print(reference(asked.removeprefix("help=")))
        return 0
    # Imported where they are needed: neither the list of experiments nor a word that is refused waits for the rest.
    from experiments.config.loading import load, said

    config, chosen = load(words), said(words)
    from experiments.config.config import is_sweep, starts_ray

    if starts_ray(config):
        # It comes up while all that follows is imported and checked.
        head.begin()
    elif config.ray.address:
        head.leave_token_to_user()
    from experiments.running.unused import check_used

    # A sweep looks for it in its trials.
    if chosen and not is_sweep(config):
        check_used(chosen, config)
    if config.dry_run:
        if is_sweep(config):
            from experiments.dry_run.dry_sweep import dry_run_sweep

            dry_run_sweep(config, chosen)
        else:
            from experiments.dry_run.dry_run import dry_run

            dry_run(config)
        return 0
    from experiments.records.run_files import missing
    from experiments.runner import open_folder

    output = Path(config.output).absolute()
    made = [*missing(Path(config.cache or output / "cache").absolute()), *missing(output)]
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
    return _do(config, folder, chosen, made)


def _do(config: Config, folder: RunFolder, chosen: Said | None, made: list[Path]) -> int:
    """Runs an experiment or a sweep in its folder. Whatever ends it early is said in one line, with how to resume.

    made: the folders around it that were not there before, which go with it where the run is refused.
    """
    from actors.runtime.remote import reason
    from experiments.config.config import is_sweep
    from experiments.config.references import resumption
    from experiments.records.run_files import discard, disk_failure
    from experiments.runner import run

    resume = visible(f"; go on with: python run.py {resumption(config, folder.path)}")
    ending.line = f"ended at once{resume}\n"
    started = time.monotonic()
    # A sweep goes on after trials that failed, and says so; a single run ends well or raises.
    complete = True
    try:
        if is_sweep(config):
            from experiments.sweeps.sweep import run_sweep

            complete = run_sweep(config, folder, chosen)
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
        if failure := disk_failure(error, folder.path):
            logging.exception("the disk failed")
            raise UserError(f"{failure}{resume}") from error
        if isinstance(error, UserError):
            if not config.resume:
                discard(folder.path, made)
            raise
        logging.exception("the run failed")
        _say(f"error: {reason(error)}; the traceback is in {folder.log}{resume}")
        return 1
    print(f"took {time.monotonic() - started:.1f} s")
    print(f"run: {visible(str(folder.path))}")
    return 0 if complete else 1


def _stopped(resume: str = "") -> int:
    """Says what has ended the process, and returns the exit code that tells so."""
    ending.settle()
    if not ending.number:
        _say("")  # after Ctrl-C the terminal's line begins with `^C`
    _say(f"ended by {signal.Signals(ending.number).name}{resume}" if ending.number else f"interrupted{resume}")
    return 128 + (ending.number or signal.SIGINT)


def _say(line: str) -> None:
    # After SIGHUP there may be no terminal any more.
    with suppress(OSError):
        print(visible(line), file=sys.stderr, flush=True)


if __name__ == "__main__":
    # From the first import on: these make hardly any garbage either.
    collect_rarely()
    ending.install()
    try:
        code = main(sys.argv[1:])
    finally:
        ending.settle()
    # Python's end would look through all that is left for garbage, which takes more than a second.
    gc.freeze()
    sys.exit(code)
