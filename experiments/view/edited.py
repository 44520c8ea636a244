"""Goes on from a recorded turn whose reply was edited in a browser, as a process of the program (`replay.from=`)."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from actors.errors import UserError
from actors.received import received
from experiments.records.recorder import RunFolder

HERE = str(Path(__file__).resolve().parents[2])
PROGRAM = f"import sys; sys.path.insert(0, {HERE!r}); from agora_mm import script; script()"
MOST_BYTES = 2**16  # of an edit; an argument of a program may have twice as many


@dataclass(frozen=True, slots=True)
class Edit:
    """Reply that replaces a recorded turn's. `changes` are its answer and its message, where they differ."""

    place: str
    changes: dict[str, str]

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Raises UserError for anything but a browser's edit."""
        with received("the edited reply", "expected group, line, turn, and an answer or a message"):
            values = json.loads(content)
            changes = {}
            for name in ("answer", "message"):
                if name in values:
                    changes[name] = str(values[name])
            place = f"{values['group']}:{int(values['line'])}:{values['turn']}"
            if "\0" in f"{place}{changes}":
                raise ValueError("it has a zero byte")
        return cls(place, changes)

    def go_on(self, run: RunFolder, overrides: Sequence[str]) -> Any:
        """Holds the rest of the discussion again, and returns its trace. Nothing is written into the run's folder.

        overrides: name again what the run names outside of its folder. Raises UserError as the program does.
        """
        with TemporaryDirectory() as folder:
            trace_file = Path(folder) / "trace.json"
            # Nothing is imported from the folder that the viewer was started in.
            command = [sys.executable, "-P", "-c", PROGRAM, f"replay.from={self.place}", f"replay.run={run.path}"]
            command += [f"replay.{name}={value}" for name, value in self.changes.items()]
            command += [f"replay.trace={trace_file}", *overrides]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
            if done.returncode:
                lines = done.stderr.strip().splitlines() or [f"the program ended with exit code {done.returncode}"]
                raise UserError(lines[-1].removeprefix("error: "))
            return json.loads(trace_file.read_bytes())
