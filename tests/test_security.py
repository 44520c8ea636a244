"""SECURITY.md promises nothing without a test: those that it names are there."""

import re

from tests.support.paths import ROOT


def test_the_tests_that_security_names_are_there() -> None:
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
