"""A damaged sweep is resumed, with its tables and its report, or refused in one line; nothing outside is written."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.sweeps import DAMAGES, make, resumed

# By hand, `--hypothesis-profile=long`; each example is a sweep.
EXAMPLES = 1 if settings().max_examples <= 100 else settings().max_examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("finished"))


def test_a_sweep_that_nothing_has_happened_to_ends_as_it_did(finished: Path, tmp_path: Path) -> None:
    assert resumed(finished, lambda folder: None, tmp_path) == "ended"


@pytest.mark.parametrize("damage", DAMAGES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_damaged_sweep_goes_on_or_is_refused_in_one_line(finished: Path, damage: str, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        said = resumed(finished, lambda copy: DAMAGES[damage](copy, data.draw), Path(folder))
    assert said in ("ended", "refused", "trials failed")
