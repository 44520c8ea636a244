"""Outputs next to a run's records: W&B, figures, reports, tables, the completion cache.

A failure of theirs ends no run. It is in the run's log with its traceback, and the terminal names it at the end.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

# Names of the loggers whose warnings are about such an output.
LOGGERS = (__name__, "experiments.records.tracking", "actors.completions.completion_store")


@contextmanager
def beside(output: str, folder: Path, command: str = "report") -> Iterator[None]:
    """Logs the failure of a block that writes an output, with the command that makes it again."""
    try:
        yield
    # Whatever fails here, the records are whole.
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        remedy = f"make it again, once that is mended, with: python run.py {command}={folder}"
        log.warning("%s could not be made (%s); %s", output, reason, remedy, exc_info=True)


class Failures(logging.Handler):
    """Collects the failed outputs of this process, each once, in a line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if record.name in LOGGERS and line not in self.lines:
            self.lines.append(line)


@contextmanager
def failures() -> Iterator[Failures]:
    """Collects the failed outputs of a block."""
    handler = Failures()
    logging.getLogger().addHandler(handler)
    try:
        yield handler
    finally:
        logging.getLogger().removeHandler(handler)
