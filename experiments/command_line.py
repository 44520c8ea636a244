"""Runs a command line: prints an answer, or runs an experiment or a sweep."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.errors import ClusterError, UserError, visible
from actors.processes import begin_program
from actors.runtime import head
from actors.signals import Ending, Unbroken
from experiments.commands import as_called, call, command, keep_overview

if TYPE_CHECKING:
    from experiments.config.config import Config

ending = Ending()
outcome: dict[str, str] = {}  # `folder` of the run, and the line of its `error`, for `script`


def main(arguments: list[str]) -> int:
    """Returns the exit code.

    0: done. 1: trials or the run failed. 2: bad input, with one line on the mistake. 130: interrupted. 128 + the
    signal's number: ended by SIGTERM (143) or SIGHUP (129).
    """
    outcome.clear()
    try:
        run_command = command(arguments)
        if run_command is not None:
            return run_command()
        # Imported where they are needed: a refused argument does not wait for the rest.
        from experiments.config.loading import load_overrides
        from experiments.config.references import check_installed, check_machine

        config, overrides = load_overrides(arguments)
        check_installed()
        if not config.dry_run:
            check_machine(config)
        if config.uses_ray and not _is_finished(config):
            # It starts, or the cluster is tried, while everything below is imported and checked.
            head.begin(config.ray.address)
        from experiments.runner import prepare

        work = prepare(config, overrides)
        return 0 if work is None else _in_folder(config, work, arguments)
    except (UserError, ClusterError) as error:
        return _failed(str(error), 2)
    except KeyboardInterrupt:
        return _stopped()
    except BrokenPipeError:  # of the program that was to read the output, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    # Before the run has a folder, only a full disk or memory can go wrong apart from the user's input.
    except (OSError, MemoryError) as error:
        return _failed(f"{type(error).__name__}: {error}", 1)
    finally:
        head.give_up()


def _is_finished(config: Config) -> bool:
    """True for a resumed run that has its result, and may have nothing left to ask."""
    return config.resume is not None and os.path.isfile(Path(config.resume, config.result_file))


def _in_folder(config: Config, work: Callable[[Any], bool], arguments: list[str]) -> int:
    """Runs an experiment or a sweep in its folder. What ends it early is printed in one line, with how to resume."""
    from experiments.config.references import resumption
    from experiments.records import sinks
    from experiments.records.run_files import discard, disk_failure
    from experiments.runner import open_folder

    # They go with the run where it is refused.
    new_folders: list[Path] = []
    for path in (config.cache_folder, Path(config.output)):
        new_folders += [parent for parent in (path, *path.parents) if not parent.exists()]
    folder = open_folder(config, arguments)
    outcome["folder"] = str(folder.path)
    folder.keep_log()
    # A log that cannot be written, on a full disk, must not fill the terminal either.
    logging.raiseExceptions = False
    sys.stdout = Unbroken(sys.stdout)
    resume = visible(f"; go on with: {resumption(config, folder.path)}")
    ending.line = f"ended at once{resume}\n"
    started = time.monotonic()
    try:
        # The end of the W&B run, which may fail as well, is part of the work.
        with sinks.failures() as failures:
            complete = work(folder)
            if complete and config.explain.answers:
                call("explain", str(folder.path), (), config.explain)
            keep_overview(folder.path)
    # Ctrl-C leaves a cancelled main task where another task failed at the same time.
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _stopped(resume)
    except (Exception, BaseExceptionGroup) as error:
        # A signal to all processes of a run ends Ray as well, and its errors tell only that.
        if ending.number:
            logging.exception("after signal %d", ending.number)
            return _stopped(resume)
        failure = disk_failure(error, folder.path)
        if failure:
            logging.exception("the disk failed")
            raise UserError(f"{failure}{resume}") from error
        if isinstance(error, UserError):
            if not config.resume:
                discard(folder.path, new_folders)
            raise
        logging.exception("the run failed")
        # It imports Ray, which a finished run does without.
        from actors.runtime.remote import reason

        return _failed(f"{reason(error)}; the traceback is in {folder.log}{resume}", 1)
    for line in failures.lines:
        print(visible(as_called(line)))
    print(f"took {time.monotonic() - started:.1f} s")
    print(f"run: {visible(str(folder.path))}")
    return 0 if complete else 1


def _stopped(resume: str = "") -> int:
    """Prints what has ended the process, and returns its exit code."""
    ending.settle()
    if not ending.number:
        _say("")  # after Ctrl-C the terminal's line begins with `^C`
        _say(f"interrupted{resume}")
        return 128 + signal.SIGINT
    _say(f"ended by {signal.Signals(ending.number).name}{resume}")
    return 128 + ending.number


def _failed(error: str, code: int) -> int:
    outcome["error"] = visible(as_called(error))
    _say(f"error: {outcome['error']}")
    return code


def _say(line: str) -> None:
    # After SIGHUP there may be no terminal any more.
    with suppress(OSError):
        print(visible(line), file=sys.stderr, flush=True)


def script(report: int | None = None) -> None:
    """Runs the command line of this process, and ends the process.

    report: a file descriptor that gets `outcome` as JSON at the end.
    """
    # From the first import on: these make hardly any garbage either.
    begin_program()
    ending.install()
    try:
        code = main(sys.argv[1:])
    finally:
        ending.settle()
    if report is not None:
        os.write(report, json.dumps(outcome).encode())
    # Python's end would look through all that is left for garbage, which takes more than a second.
    gc.freeze()
    sys.exit(code)
