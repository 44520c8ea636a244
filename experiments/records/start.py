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
    script = Path(sys.argv[0])
    if script.stem == COMMAND:
        return shlex.quote(sys.argv[0])
    if not (ROOT / "run.py").is_file():  # installed, and called from Python
        return COMMAND
    arguments = sys.argv[1:]
    program_length = len(sys.orig_argv) - len(arguments)
    # A script of the user's own takes no arguments of ours.
    if script.stem == "run" and sys.orig_argv[program_length:] == arguments:
        return shlex.join(sys.orig_argv[:program_length])
    program = "run.py" if Path.cwd() == ROOT else str(ROOT / "run.py")
    return shlex.join(["python", program])


def write_start(folder: Path, arguments: Sequence[str]) -> None:
    """Adds this start to a run folder's starts. Raises UserError where it cannot be written."""
    start = Start(
        version=project_version(),
        command=f"{program()} {shlex.join(arguments)}",
        time=datetime.now().astimezone().isoformat(timespec="seconds"),
        commit=_commit(),
        pid=os.getpid(),
        host=socket.gethostname(),
    )
    jsonl.append_to(folder / STARTS, start.encode())


def _commit() -> str | None:
    """Finds the commit of the checkout. None for an installed package, which may lie in another checkout."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = ["git", "-C", str(ROOT), "rev-parse", "--show-toplevel", "HEAD"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_S)
        top, head = answer.stdout.splitlines()
        if Path(top) == ROOT:
            return head
    return None


def facts(folder: Path) -> dict[str, str]:
    """Returns start, duration, version and command of a run folder for its report. Empty without records.

    Keep them out of every file that must be the same in two runs. Raises UserError where starts.jsonl is damaged.
    """
    starts = list(Start.read(folder / STARTS))
    if not starts:
        return {}

    latest = starts[-1]
    began = datetime.fromisoformat(latest.time)
    duration = timedelta(seconds=round((datetime.now(began.tzinfo) - began).total_seconds()))
    resumed = f", resumed {latest.time}" if len(starts) > 1 else ""
    commit = f", commit {latest.commit[:12]}" if latest.commit else ""
    return {
        "Started": starts[0].time + resumed,
        "Took": str(duration),
        "Version": latest.version + commit,
        "Command": starts[0].command,
    }
