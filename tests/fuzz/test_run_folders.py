"""A damaged run folder, or index, ends in the numbers that the run had or in one line that names what is damaged."""

import importlib
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import Draw, pick
from tests.fuzz.received import OUTSIDE, PLANTED, SECRET, VARIABLE, Watch, address, make_outside
from tests.fuzz.records import CHANGES, LOSSES, files_of, make, replayed, resumed

# By hand, `--hypothesis-profile=long`; each example is a whole run.
EXAMPLES = 1 if settings().max_examples <= 100 else settings().max_examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("finished"))


def to_a_record(change: Callable[[Path, Draw], None], draw: Draw) -> Callable[[Path], None]:
    return lambda run: change(pick(files_of(run), draw), draw)


def to_the_index(change: Callable[[Path, Draw], None], draw: Draw) -> Callable[[Path], None]:
    files = "indexes/**/*"
    return lambda run: change(pick([p for p in sorted((run.parent / "cache").glob(files)) if p.is_file()], draw), draw)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_run_that_lost_something_goes_on_to_the_same_numbers_or_says_what_is_lost(
    finished: Path, loss: str, data: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        said, same = resumed(finished, to_a_record(LOSSES[loss], data.draw), Path(folder))
    assert said in ("ended", "refused")
    assert same or said == "refused"


@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_run_with_changed_records_is_resumed_or_refused_in_one_line(finished: Path, change: str, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert resumed(finished, to_a_record(CHANGES[change], data.draw), Path(folder))[0] in ("ended", "refused")


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_damaged_run_is_replayed_or_refused_in_one_line(finished: Path, data: Any) -> None:
    change = pick([*LOSSES.values(), *CHANGES.values()], data.draw)
    with tempfile.TemporaryDirectory() as folder:
        assert replayed(finished, to_a_record(change, data.draw), Path(folder)) in ("ended", "refused")


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_damaged_index_is_named_or_makes_no_difference(finished: Path, data: Any) -> None:
    change = pick([*LOSSES.values(), CHANGES["damage"]], data.draw)

    def unfinished(run: Path) -> None:
        # Something is left to be retrieved.
        for records in (run / "scores.jsonl", *(run / "traces").glob("evaluate-*"), run / "judgements.jsonl"):
            records.unlink()
        to_the_index(change, data.draw)(run)

    with tempfile.TemporaryDirectory() as folder:
        assert resumed(finished, unfinished, Path(folder))[0] in ("ended", "refused")


def test_what_a_received_folder_did_is_noticed(tmp_path: Path) -> None:
    make_outside(tmp_path / "runs")
    (run := tmp_path / "runs" / "run").mkdir()
    done = Watch(tmp_path, run).done
    assert done("error: no") is None
    importlib.import_module(PLANTED)
    assert done("") == "code was imported"
    with socket.create_connection(("127.0.0.1", int(urlsplit(address()).port or 0))):
        assert done("") == "an address was asked"
    assert done(f"error: {os.environ[VARIABLE]}") == "the secret was said"
    (run / "notes.txt").write_text(f"key: {SECRET}")
    assert done("") == "the secret is in notes.txt"
    (run / "notes.txt").write_text("")
    (run.parent / OUTSIDE / "notes.txt").write_text("mine\n")
    assert str(done("")).startswith("written outside: [('outside/notes.txt', ")
