"""Counts what is tried and what fails, by class.

python -m tests.fuzz data 40              forty of each mutation and layout of a data set
python -m tests.fuzz configurations 400   words and presets, up to the start of a run
python -m tests.fuzz replies 400          an endpoint's replies
python -m tests.fuzz runs 40              forty of each damage to a finished run, resumed and replayed
python -m tests.fuzz sweeps 40            forty of each damage to a sweep's folder, resumed
python -m tests.fuzz runs 10m             other ones each time, for ten minutes
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.configurations import COMMAND, outcome, presets
from tests.fuzz.layouts import LAYOUTS
from tests.fuzz.mutations import MUTATIONS, pick
from tests.fuzz.records import CHANGES, LOSSES, files_of, make, replayed, resumed
from tests.fuzz.test_data_sets import broken
from tests.fuzz.test_replies import REPLY, test_any_reply_becomes_a_sane_outcome

FINE = ("loaded", "accepted", "ended", "refused", "trials failed")
# One try: what came of it, with the folder that it had.
Try = Callable[[Any, Path], str]


def of_data(folder: Path) -> Iterator[tuple[str, list[Try]]]:
    for mutation in MUTATIONS:
        yield mutation, [partial(_loaded, kind, mutation) for kind in LAYOUTS]


def of_configurations(folder: Path) -> Iterator[tuple[str, list[Try]]]:
    yield "words", [lambda data, folder: outcome(data.draw(COMMAND))]
    yield "presets", [_preset]


def of_replies(folder: Path) -> Iterator[tuple[str, list[Try]]]:
    yield "replies", [_replied]


def of_runs(folder: Path) -> Iterator[tuple[str, list[Try]]]:
    finished = make(folder)
    for name, change in (LOSSES | CHANGES).items():
        yield f"{name}, resumed", [partial(_resumed, finished, name, change)]
        yield f"{name}, replayed", [partial(_replayed, finished, change)]


def _loaded(kind: str, mutation: str, data: Any, folder: Path) -> str:
    found = broken(kind, mutation, data.draw, folder)
    return found if found in FINE else f"{kind}: {found}"


def _preset(data: Any, folder: Path) -> str:
    (path := folder / "mine.yaml").write_bytes(data.draw(presets()))
    return outcome([f"experiment={path}"])


def _replied(data: Any, folder: Path) -> str:
    try:
        test_any_reply_becomes_a_sane_outcome.hypothesis.inner_test(data.draw(REPLY))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "ended"


def _resumed(finished: Path, name: str, change: Any, data: Any, folder: Path) -> str:
    said, same = resumed(finished, lambda run: change(pick(files_of(run), data.draw), data.draw), folder)
    return "other numbers" if said == "ended" and name in LOSSES and not same else said


def _replayed(finished: Path, change: Any, data: Any, folder: Path) -> str:
    return replayed(finished, lambda run: change(pick(files_of(run), data.draw), data.draw), folder)


def of_sweeps(folder: Path) -> Iterator[tuple[str, list[Try]]]:
    from tests.fuzz import sweeps  # imports Ray Tune

    finished = sweeps.make(folder)
    for name, change in sweeps.DAMAGES.items():
        yield name, [partial(_sweep, finished, change, sweeps.resumed)]


def _sweep(finished: Path, change: Any, resume: Any, data: Any, folder: Path) -> str:
    return str(resume(finished, lambda copy: change(copy, data.draw), folder))


CLASSES = {
    "data": of_data,
    "configurations": of_configurations,
    "replies": of_replies,
    "runs": of_runs,
    "sweeps": of_sweeps,
}
AT_ONCE = 2  # tries of each kind in one round of a timed run


def main(what: str, amount: str) -> None:
    """`amount` is a number of tries of each kind, always the same ones; or minutes, such as `10m`."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = CLASSES[what](Path(folder))
        if amount.endswith("m"):
            _timed(list(kinds), 60 * float(amount.removesuffix("m")))
        else:
            for name, tries in kinds:
                _show(name, sum((_tried(one, int(amount), None) for one in tries), Counter()))


def _timed(kinds: list[tuple[str, list[Try]]], taken_s: float) -> None:
    """Tries all kinds in turn for so many seconds."""
    until, outcomes = time.monotonic() + taken_s, {name: Counter[str]() for name, _ in kinds}
    turns = [(name, one) for name, tries in kinds for one in tries]
    try:
        for name, one in itertools.cycle(turns):
            if time.monotonic() > until:
                break
            outcomes[name].update(_tried(one, AT_ONCE, random.randrange(2**32)))
    finally:
        for name, counted in outcomes.items():
            _show(name, counted)


def _tried(one: Try, examples: int, number: int | None) -> Counter[str]:
    once = settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=number is None,
        suppress_health_check=list(HealthCheck),
    )
    outcomes: Counter[str] = Counter()
    test = once(given(data=st.data())(_counted(one, outcomes)))
    (test if number is None else seed(number)(test))()
    return outcomes


def _show(name: str, outcomes: Counter[str]) -> None:
    fine = [f"{outcomes.pop(end)} {end}" for end in FINE if end in outcomes]
    print(f"{name}: {', '.join([*fine, f'{sum(outcomes.values())} failed'])}", flush=True)
    for found, number in outcomes.most_common(12):
        print(f"    {number:4} {found!a}", flush=True)


def _counted(one: Try, outcomes: Counter[str]) -> Any:
    def tried(data: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outcomes[one(data, Path(folder)).replace(folder, "")[:110]] += 1

    return tried


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
