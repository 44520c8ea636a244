"""Damages to a sweep's folder, and what resuming it, which makes its tables and its report again, comes to.

Trials run in this process, one after another, in place of Ray Tune's; all else is as in a sweep.
"""

import contextlib
import fcntl
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ray import cloudpickle

from actors.errors import visible
from actors.runtime.inline import Inline
from experiments.analysis.figures import draw
from experiments.records.trials import RESULTS, TRIALS
from experiments.running import runtime_start
from experiments.sweeps import sweep, tuning
from tests.fuzz import records
from tests.fuzz.loading import TooLong
from tests.fuzz.mutations import Draw, pick
from tests.fuzz.received import OUTSIDE, Watch, make_outside

WORDS = [
    *("experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "concurrency=4", "data.limit=2"),
    *("methods=[single,m3prune]", "topology.text=[critic]", "topology.visual=[critic]", "sweep.parallel=1"),
    *("figures=false", "pruning.steps=1", "training.samples=2", "sweep.axes.agents.temperature=[0.1,0.7]"),
]
ODD_NAMES = ["x", "0002-x", "..x", "a\nb", "a\x1b[2J", "é" * 100, "-rf", "0000-seed=0"]


class InTurn:
    """In place of Ray Tune's tuner: runs the trials of its parameter space in this process, one after another."""

    def __init__(self, trainable: Any, *, param_space: Any, run_config: Any, **_: Any) -> None:
        self._trainable = trainable
        self._names = param_space["trial"]["grid_search"]
        [self._ends] = run_config.callbacks

    def fit(self) -> None:
        kind, given = self._trainable
        for name in self._names:
            # As processes get it.
            shared = cloudpickle.loads(cloudpickle.dumps(given["shared"]))
            process = kind.__new__(kind)
            process.setup({"trial": name}, **{**given, "shared": shared})
            try:
                while not (result := process.step())["done"]:
                    pass
            finally:
                process.cleanup()
            trial = SimpleNamespace(config={"trial": name}, last_result=result)
            self._ends.on_trial_complete(0, [], trial)


@contextlib.contextmanager
def _inline(config: Any, progress: Any, trials: bool) -> Iterator[Inline]:
    with Inline() as runtime:
        yield runtime


def main(*words: str) -> tuple[int, str, str]:
    """The exit code, and what was said on standard error and on standard output."""
    said = io.StringIO()
    tune = mock.Mock(
        Tuner=InTurn,
        with_parameters=lambda kind, **given: (kind, given),
        with_resources=lambda trainable, resources: trainable,
        grid_search=lambda values: {"grid_search": values},
        RunConfig=lambda **given: SimpleNamespace(**given),
    )
    with (
        mock.patch.object(tuning, "tune", tune),
        mock.patch.object(runtime_start, "runtime_started", _inline),
        mock.patch.object(draw, "draw_sweep", return_value=[]),
        mock.patch.object(sweep, "OUTLIVE_S", 0.2),
    ):
        code, error = records.main(*words, printed=said)
    return code, error, said.getvalue()


def make(output: Path) -> Path:
    """Makes a finished sweep of two trials, its cache, and foreign files next to them."""
    code, error, _ = main(*WORDS, f"output={output}")
    assert code == 0, error
    make_outside(output)
    [folder] = [path for path in output.iterdir() if (path / "config.yaml").exists() and path.name != OUTSIDE]
    return folder


def resumed(finished: Path, change: Callable[[Path], None], folder: Path) -> str:
    """Resumes a damaged copy: `ended`, `refused`, `trials failed`, or what went wrong."""
    shutil.copytree(finished.parent, folder, dirs_exist_ok=True, symlinks=True)
    copy = folder / finished.name
    for config in (copy / "config.yaml", *copy.glob(f"{TRIALS}/*/config.yaml")):
        config.write_text(config.read_text().replace(str(finished.parent), str(folder)))
    watch = Watch(folder, copy)
    # What a change opens stays open until the sweep has ended.
    change(copy)
    try:
        code, error, said = main(f"resume={copy}")
    except TooLong:
        return "no end"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if hostile := watch.done(error + said):
        return hostile
    line = error.removesuffix("\n")
    if visible(line) != line or len(line) > 3_000 or not all(visible(each) == each for each in said.split("\n")):
        return f"said {error[:200]!r}"
    if code == 0 and not error:
        return "ended"
    if code == 1 and not error and "failed: " in said:
        return "trials failed"
    return "refused" if code == 2 and line.startswith("error: ") else f"code {code}: {line[:300]}"


def _place(folder: Path, draw: Draw) -> Path:
    """A file of the sweep; one in three is its own list of results or configuration."""
    own = [folder / RESULTS, folder / "config.yaml"]
    return Path(pick([path for path in own if path.is_file()] or own, draw)) if _one_in(3, draw) else _any(folder, draw)


def _any(folder: Path, draw: Draw) -> Path:
    return Path(pick([path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()], draw))


def _one_in(number: int, draw: Draw) -> bool:
    return bool(pick(range(number), draw) == 0)


def _trials(folder: Path) -> list[Path]:
    return sorted((folder / TRIALS).iterdir())


def renamed(folder: Path, draw: Draw) -> None:
    """Renames a trial, or swaps two."""
    one, other = _trials(folder)
    if _one_in(2, draw):
        target = one.with_name(pick(ODD_NAMES, draw))
        if not target.exists():
            one.rename(target)
    else:
        one.rename(folder / "for a moment")
        other.rename(one)
        (folder / "for a moment").rename(other)


def lost(folder: Path, draw: Draw) -> None:
    """Deletes a trial's folder, all of them, or the list of results; leaves Tune's folder of a killed sweep."""
    path = pick([*_trials(folder), folder / TRIALS, folder / RESULTS], draw)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / "tune").mkdir(exist_ok=True)
    (folder / "tune" / pick(["experiment_state.json", "tuner.pkl", "a\nb"], draw)).write_bytes(b"\x80\x04cos\nsystem\n")


def added(folder: Path, draw: Draw) -> None:
    """Adds something that no sweep makes."""
    place = pick([folder, folder / TRIALS, *_trials(folder), folder / "tune"], draw)
    place.mkdir(exist_ok=True)
    path = place / pick([*ODD_NAMES, "tune", "sweep.json.tmp", ".lock"], draw)
    if not path.exists():
        path.mkdir() if _one_in(2, draw) else path.write_bytes(b"\x00\xff")


def results(folder: Path, draw: Draw) -> None:
    """Puts other trials, folders or values into the list of results."""
    lines = (folder / RESULTS).read_text()
    name = pick(_trials(folder), draw).name
    other = pick(["../../outside", "/etc", "", ".", "..", "x\\u001b[2J", name[:-1], f"{name}/../{name}"], draw)
    changes = [
        (f'"name":"{name}"', f'"name":"{other}"'),
        ('"seed":0', f'"seed":{pick([-1, 1, 2**70, "null", "1e400"], draw)}'),
        ('"values":{', f'"values":{{"{other}":{pick(["[]", "{}", "null", "NaN", "9"], draw)},'),
        ('"utility":', f'"utility":{pick(["NaN", "9.0", "[]", "null"], draw)},"x":'),
        ('"metrics":{', pick(['"metrics":{"methods":{},', '"metrics":{"methods":5,', '"metrics":{"model":[],'], draw)),
        ('"stopped":0', f'"stopped":{pick([1, -1, 2**70], draw)}'),
        ('"methods":{', f'"methods":{{"{other}":{{"utility":0.5}},'),
    ]
    (folder / RESULTS).write_text(lines.replace(*pick(changes, draw)))


def of_a_file(change: Callable[[Path, Draw], None]) -> Callable[[Path, Draw], None]:
    return lambda folder, draw: change(_place(folder, draw), draw)


class Held:
    """Locks a file as another process would."""

    def __init__(self) -> None:
        self._files: list[Any] = []

    def __call__(self, folder: Path, draw: Draw) -> None:
        path = pick([folder / RESULTS, *(trial / "scores.jsonl" for trial in _trials(folder))], draw)
        # Of the example before.
        for file in self._files:
            file.close()
        self._files = [path.open("ab")]
        fcntl.flock(self._files[0], fcntl.LOCK_EX)
        if path.name != RESULTS:
            # That trial has to be done again.
            (folder / RESULTS).unlink()


DAMAGES: dict[str, Callable[[Path, Draw], None]] = {
    **{name: of_a_file(change) for name, change in (records.LOSSES | records.CHANGES).items()},
    **{change.__name__: change for change in (renamed, lost, added, results)},
    "held": Held(),
}
