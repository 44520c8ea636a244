"""A finished run whose records were edited, or damaged in a bit, is not believed."""

from pathlib import Path

import pytest

from tests.fuzz.edits import Change, accepts, changes, forge
from tests.fuzz.records import make

COMMANDS = ("resume", "report", "load_run")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("finished"))


def written(content: bytes) -> Change:
    def change(path: Path) -> None:
        path.write_bytes(content)

    return change


def test_an_edited_field_and_a_flipped_bit_of_each_file_are_refused_by_every_command(finished: Path) -> None:
    first = {(path, what.startswith("bit ")): (what, content) for path, what, content in changes(finished, 1)}
    assert len(first) > 20
    for (path, _), (what, content) in first.items():
        assert accepts(finished, written(content), path, COMMANDS) == [], (path, what)


def test_a_score_with_a_forged_digest_is_refused_by_its_trace(finished: Path) -> None:
    tried = 0
    for path, what, content in changes(finished, 0):
        if path.name == "scores.jsonl":

            def change(file: Path, content: bytes = content) -> None:
                file.write_bytes(content)
                forge(file)

            assert accepts(finished, change, path, ("resume",)) == [], what
            tried += 1
    assert tried > 10
