"""An odd configuration is refused in one printable line before anything starts, or is one that a run can have."""

import re
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings

from actors.settings import BOUNDS
from experiments.config.config import Config
from tests.fuzz.configurations import COMMAND, outcome, presets

# By hand, `--hypothesis-profile=long`.
EXAMPLES = 16 if settings().max_examples <= 100 else settings().max_examples


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(COMMAND)
def test_an_odd_word_is_refused_in_one_line_or_harmless(words: list[str]) -> None:
    assert outcome(words) in ("accepted", "refused")


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 2)
@given(presets())
def test_a_broken_preset_is_refused_in_one_line_or_harmless(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "mine.yaml").write_bytes(content)
        assert outcome([f"experiment={path}"]) in ("accepted", "refused")


def _unbounded(group: Any, prefix: str) -> list[str]:
    hints, found = get_type_hints(group), []
    for f in fields(group):
        kind = hints[f.name]
        if is_dataclass(kind):
            found += _unbounded(kind, f"{prefix}{f.name}.")
        elif re.search(r"\b(int|float)\b", str(kind)) and not f.metadata.keys() & BOUNDS and "list" not in str(kind):
            found.append(prefix + f.name)
    return found


def test_every_number_of_a_configuration_has_its_bounds() -> None:
    assert _unbounded(Config, "") == []
