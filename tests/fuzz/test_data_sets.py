"""A broken data set either loads or gets one printable line that names it, in bounded time and memory."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.layouts import LAYOUTS
from tests.fuzz.loading import outcome
from tests.fuzz.mutations import MUTATIONS, Draw, pick

# By hand, `--hypothesis-profile=long`; in the suite a few of each.
EXAMPLES = min(settings().max_examples, 2) if settings().max_examples <= 100 else settings().max_examples


def broken(kind: str, mutation: str, draw: Draw, folder: Path) -> str:
    """The outcome of loading a data set of which one file was changed."""
    root, cache = folder / "data", folder / "cache"
    LAYOUTS[kind](root)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    MUTATIONS[mutation](pick(files, draw), draw)
    return outcome(kind, root, cache)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout_loads_as_it_is(kind: str, tmp_path: Path) -> None:
    LAYOUTS[kind](tmp_path / "data")
    assert outcome(kind, tmp_path / "data", tmp_path / "cache") == "loaded"


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("kind", LAYOUTS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_broken_data_set_is_refused_in_one_line_or_loads(kind: str, mutation: str, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert broken(kind, mutation, data.draw, Path(folder)) in ("loaded", "refused")
