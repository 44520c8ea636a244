"""Edits each field of each kind of record and flips bits in each file that grows; counts what a run then accepts.

    python -m tests.fuzz.edits <bits to flip in each file>

An edit is accepted where a command ends well while the file has it. Commands are `resume=`, `report=` and `load_run`,
which reads every table. A digest that was forged as well (`forge`) shows what follows from other records.
"""

import hashlib
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from actors.errors import UserError
from experiments.api import load_run
from tests.fuzz.records import main, make

GROWING = "*.jsonl"
# Written whole at the end of a run, from other records.
WHOLE = ("agents.jsonl", "attribution.jsonl")
Change = Callable[[Path], None]


def growing(run: Path) -> list[Path]:
    """Lists the files of a run that grow, relative to its folder."""
    paths = [path.relative_to(run) for path in sorted(run.rglob(GROWING))]
    return [path for path in paths if path.name not in WHOLE and (run / path).stat().st_size]


def another(value: Any) -> Any:
    """Returns another value that a reader of JSON accepts in its place."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return 1 - value if value != 0.5 else 0.25
        case str():
            return f"{value}0"
        case [first, *_]:
            return [*value, first]
        case dict() if value:
            name = next(iter(value))
            return {**value, name: another(value[name])}
    return value


def edits(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields (field, content) with one field of one line changed, in it or in the first object of a list in it."""
    lines = content.splitlines(keepends=True)
    place = len(lines) // 2
    record = json.loads(lines[place])
    parts: list[tuple[str, dict[str, Any]]] = [("", record)]
    for name, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            parts.append((f"{name}.", value[0]))
        if isinstance(value, dict) and value and isinstance(next(iter(value.values())), dict):
            parts.append((f"{name}.", next(iter(value.values()))))
    for prefix, part in parts:
        for name, value in part.items():
            part[name] = another(value)
            line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
            part[name] = value
            if json.loads(line) != record:
                yield f"{prefix}{name}", b"".join([*lines[:place], line, *lines[place + 1 :]])


def flips(content: bytes, number: int) -> Iterator[tuple[str, bytes]]:
    """Yields (place, content) with one bit flipped."""
    chance = random.Random(len(content))
    for _ in range(number):
        place = chance.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        yield f"bit {place}", bytes(flipped)


def changes(run: Path, number: int) -> Iterator[tuple[Path, str, bytes]]:
    """Yields every edit and flip: the file, what is changed, and its content."""
    for path in growing(run):
        content = (run / path).read_bytes()
        for kind in (edits(content), flips(content, number)):
            for what, changed in kind:
                yield path, what, changed


def forge(path: Path) -> None:
    """Writes the digest that a file's content has."""
    entries = []
    hasher = hashlib.blake2b(digest_size=16)
    size = 0
    for line in path.read_bytes().splitlines(keepends=True):
        hasher.update(line)
        size += len(line)
        entries.append(f"{size} {hasher.hexdigest()}\n")
    path.with_name(f"{path.name}.digest").write_text("".join(entries))


def accepts(finished: Path, change: Change, path: Path, commands: tuple[str, ...]) -> list[str]:
    """Returns the commands that accept a change, with what went wrong where one neither ends well nor refuses it."""
    accepted = []
    for command in commands:
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(finished.parent, place, dirs_exist_ok=True)
            run = Path(place) / finished.name
            config = (run / "config.yaml").read_text()
            (run / "config.yaml").write_text(config.replace(str(finished.parent), place))
            change(run / path)
            changed = (run / path).read_bytes()
            code, said = outcome(command, run)
            if code not in (0, 2) or (code == 2 and said.count("\n") != 1):
                accepted.append(f"{command}: {said[-200:]}")
            elif code == 0 and (run / path).read_bytes() == changed:
                accepted.append(command)
    return accepted


def outcome(command: str, run: Path) -> tuple[int, str]:
    """Runs a command. Returns its exit code and what it says of an error."""
    try:
        if command != "load_run":
            return main(f"{command}={run}")
        for table in load_run(run).tables.values():
            table.to_arrow()
    except UserError as error:
        return 2, f"{error}\n"
    except Exception as error:
        return 1, f"{type(error).__name__}: {error}"
    return 0, ""


def count(number: int, commands: tuple[str, ...] = ("resume", "report", "load_run"), forged: bool = False) -> None:
    """Prints a line of JSON for each accepted change, and the counts by file."""
    tried: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        finished = make(Path(place))
        for path, what, content in changes(finished, number):

            def change(file: Path, content: bytes = content) -> None:
                file.write_bytes(content)
                if forged:
                    forge(file)

            is_flip = what.startswith("bit ")
            for command in commands:
                tried[f"{path} {'bits' if is_flip else 'fields'} {command}"] += 1
            for command in accepts(finished, change, path, commands):
                accepted[f"{path} {'bits' if is_flip else 'fields'} {command.partition(':')[0]}"] += 1
                print(json.dumps([str(path), what, command]), flush=True)
    print(json.dumps({name: [accepted[name], tried[name]] for name in tried}, indent=1))
    for command in commands:
        sums = [sum(counts[name] for name in counts if name.endswith(command)) for counts in (accepted, tried)]
        print(f"{command}: accepted {sums[0]} of {sums[1]}")


if __name__ == "__main__":
    count(int(sys.argv[1]), forged="forged" in sys.argv)
