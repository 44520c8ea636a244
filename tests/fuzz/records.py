"""Damages a finished run's folder or its index, and resumes or replays it."""

import contextlib
import io
import json
import logging
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import run
from actors.errors import visible
from experiments.analysis.figures import draw as figures
from tests.fuzz.loading import TooLong, bounded
from tests.fuzz.mutations import NUMBER, ODD, RAW_TEXTS, Draw, damage, pick, sparse, truncation
from tests.fuzz.received import OUTSIDE, Watch, configured, make_outside

MEMORY = 12 << 30  # of addresses: LanceDB's threads reserve many
WORDS = [
    *("experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "concurrency=4", "data.limit=2"),
    *("methods=[single,anomaly,m3prune]", "topology.text=[critic]", "topology.visual=[critic,scientist]"),
    *("pruning.steps=1", "training.samples=2", "defence.calibration=2", "judge=reader"),
]
# Written anew at the end of every run, from the records.
MADE = re.compile(
    r"metrics\.json|report\.html|figures/.*|run\.log|.*\.csv|learned/[^/]+/(topology\.(json|graphml)|team\.json)"
)


def main(*words: str, printed: io.StringIO | None = None) -> tuple[int, str]:
    """Runs a command without drawing figures; returns exit code and standard error, with output in `printed`."""
    drawn, figures.draw_run = figures.draw_run, lambda *_, **__: []  # type: ignore[assignment]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed or io.StringIO()), contextlib.redirect_stderr(said), bounded(MEMORY):
            return run.main(list(words)), said.getvalue()
    finally:
        figures.draw_run = drawn
        for handler in list(logging.root.handlers):
            if isinstance(handler, logging.FileHandler):
                logging.root.removeHandler(handler)
                handler.close()


def make(output: Path) -> Path:
    """Makes a finished run, its cache, and foreign files next to them."""
    code, said = main(*WORDS, f"output={output}")
    assert code == 0, said
    [folder] = [path for path in output.iterdir() if (path / "config.yaml").exists()]
    make_outside(output)
    return folder


def files_of(folder: Path) -> list[Path]:
    """The records of a run: all files that resuming reads."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if not MADE.fullmatch(path.relative_to(folder).as_posix())]


def whole_lines_cut(path: Path, draw: Draw) -> None:
    """Cuts off the last lines."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: draw(NUMBER) % max(1, len(lines))]))


def deleted(path: Path, draw: Draw) -> None:
    """Deletes the file."""
    path.unlink()


def twice(path: Path, draw: Draw) -> None:
    """Doubles, drops or moves a line."""
    lines = path.read_bytes().splitlines(keepends=True) or [b"\n"]
    place, other = draw(NUMBER) % len(lines), draw(NUMBER) % len(lines)
    match pick(("twice", "gone", "moved"), draw):
        case "twice":
            lines.insert(other, lines[place])
        case "gone":
            del lines[place]
        case _:
            lines.insert(other, lines.pop(place))
    path.write_bytes(b"".join(lines))


def edited(path: Path, draw: Draw) -> None:
    """Changes a value of a record."""
    lines = path.read_text(errors="replace").splitlines()
    place = draw(NUMBER) % max(1, len(lines))
    try:
        record = json.loads(lines[place])
    except (ValueError, IndexError):
        return damage(path, draw)
    holder, key = _inside(record, random.Random(draw(NUMBER)))
    if holder is None:
        lines[place] = draw(RAW_TEXTS)
    else:
        holder[key] = pick(["../../x", float("nan"), 9.0, -1, 2**70, draw(ODD)], draw)
        lines[place] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n", errors="surrogatepass")
    return None


def _inside(record: Any, chance: random.Random) -> tuple[Any, Any]:
    holder, key, value = None, None, record
    while isinstance(value, (dict, list)) and value and (holder is None or chance.random() < 0.7):
        holder = value
        key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value = holder[key]
    return holder, key


def linked(path: Path, draw: Draw) -> None:
    """Makes a file or its folder a link to a foreign one, or to itself."""
    path, root = _file_or_folder(path, draw)
    target = pick(["notes.txt", "scores.jsonl", "folder", "nothing", "."], draw)
    target = pick([root.parent / OUTSIDE / target, root.parent / OUTSIDE / target, path, path.parent], draw)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(target)


def of_another_kind(path: Path, draw: Draw) -> None:
    """Puts a folder or a pipe in a file's place, or a file in a folder's."""
    path, _ = _file_or_folder(path, draw)
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("no folder\n")
    else:
        path.unlink()
        pick([path.mkdir, lambda: os.mkfifo(path)], draw)()


def _file_or_folder(path: Path, draw: Draw) -> tuple[Path, Path]:
    """The file or the folder that it is in, and the run's or sweep's, which is never the one."""
    root = [folder for folder in path.parents if (folder / "config.yaml").is_file()][-1]
    return (path if path.parent == root else pick([path, path.parent], draw)), root


# After these, a run that ends well has the numbers that it had.
LOSSES: dict[str, Callable[[Path, Draw], None]] = {
    change.__name__: change for change in (truncation, whole_lines_cut, deleted)
}
CHANGES: dict[str, Callable[[Path, Draw], None]] = {
    change.__name__: change for change in (damage, twice, edited, sparse, linked, of_another_kind, configured)
}


def outcome(place: Path, folder: Path, *words: str) -> str:
    """`ended`, `refused`, or what went wrong."""
    watch = Watch(place, folder)
    ended, said = _ended(*words)
    return watch.done(said) or ended


def _ended(*words: str) -> tuple[str, str]:
    """The outcome, and standard error."""
    try:
        code, said = main(*words)
    except TooLong:
        return "no end", ""
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}", ""
    line = said.removesuffix("\n")
    if code == 2:
        is_line = line.startswith("error: ") and visible(line) == line and len(line) < 3_000
        return ("refused" if is_line else f"said {said!r}"), said
    return ("ended" if code == 0 else f"code {code}: {said[:300]}"), said


def resumed(finished: Path, change: Callable[[Path], None], folder: Path) -> tuple[str, bool]:
    """Resumes a damaged copy; returns the outcome, and whether its numbers are unchanged."""
    shutil.copytree(finished.parent, folder, dirs_exist_ok=True)
    copy = folder / finished.name
    config = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(config.replace(str(finished.parent), str(folder)))
    change(copy)
    (copy / "metrics.json").unlink(missing_ok=True)
    said = outcome(folder, copy, f"resume={copy}")
    metrics = copy / "metrics.json"
    same = metrics.exists() and metrics.read_bytes() == (finished / "metrics.json").read_bytes()
    return said, same


def replayed(finished: Path, change: Callable[[Path], None], folder: Path) -> str:
    """Replays a damaged copy; returns the outcome."""
    shutil.copytree(finished.parent, folder / "first", dirs_exist_ok=True)
    copy = folder / "first" / finished.name
    change(copy)
    words = [f"output={folder / 'runs'}", f"cache={folder / 'first' / 'cache'}", "model=replay", f"replay.run={copy}"]
    return outcome(folder, copy, *WORDS, *words)
