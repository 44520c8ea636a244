"""Records how a run was started, a line for each start: version, command, time and commit (`starts.jsonl`)."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments.records import jsonl
from experiments.records.records import Count, Record

STARTS = "starts.jsonl"
ROOT = Path(__file__).parents[2]  # of the checkout, where it runs from one
COMMAND = "agora"  # of the installed package
GIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Start(Record):
    """One start of a run, by which process on which machine. time: in ISO 8601 with its zone. commit: of a checkout."""

    version: str
    command: str
    time: str
    commit: str | None
    pid: Count = 0
    host: str = ""

    def check(self) -> None:
        datetime.fromisoformat(self.time)


@cache
def project_version() -> str:
    """Returns the version of agora-mm: of the checkout that runs, else of the installed package."""
    project = ROOT / "pyproject.toml"
    if project.is_file():
        import tomllib  # a checkout alone needs it

        return str(tomllib.loads(project.read_text())["project"]["version"])
    with suppress(PackageNotFoundError):
        return version("agora-mm")
    return "unknown"


def program() -> str:
    """Names the program as this process was started, such as `python run.py`, ready for a shell."""
    if Path(sys.argv[0]).stem == COMMAND:
        return shlex.quote(sys.argv[0])
    if not (ROOT / "run.py").is_file():  # installed, and called from Python
        return COMMAND
    own, arguments = sys.orig_argv, sys.argv[1:]
    is_run = Path(sys.argv[0]).stem == "run" and own[len(own) - len(arguments) :] == arguments
    words = own[: len(own) - len(arguments)] if is_run else []
    # A script of the user's own takes no arguments of ours.
    return shlex.join(words or ["python", "run.py" if Path.cwd() == ROOT else str(ROOT / "run.py")])


def write_start(folder: Path, arguments: Sequence[str]) -> None:
    """Adds this start to a run folder's starts. Raises OSError where it cannot be written."""
    command, now = f"{program()} {shlex.join(arguments)}", datetime.now().astimezone().isoformat(timespec="seconds")
    commit = None  # of an installed package, which may lie in the checkout of something else
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        git = ["git", "-C", str(ROOT), "rev-parse", "--show-toplevel", "HEAD"]
        done = subprocess.run(git, capture_output=True, text=True, check=True, timeout=GIT_S)
        top, head = done.stdout.splitlines()
        commit = head if Path(top) == ROOT else None
    with (folder / STARTS).open("a") as file:
        start = Start(project_version(), command, now, commit, os.getpid(), socket.gethostname())
        file.write(f"{start.encode()}\n")


def facts(folder: Path) -> dict[str, str]:
    """Returns start, duration, version and command of a run folder for its report. Empty without records.

    Keep them out of every file that must be the same in two runs. Raises UserError where starts.jsonl is damaged.
    """
    starts = list(jsonl.records(folder / STARTS, Start.decode, jsonl.DAMAGED))
    if not starts:
        return {}
    first, last = starts[0], starts[-1]
    began = datetime.fromisoformat(last.time)
    again = f", resumed {last.time}" if len(starts) > 1 else ""
    return {
        "Started": first.time + again,
        "Took": str(timedelta(seconds=round((datetime.now(began.tzinfo) - began).total_seconds()))),
        "Version": last.version + (f", commit {last.commit[:12]}" if last.commit else ""),
        "Command": first.command,
    }
