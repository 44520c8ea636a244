"""Limits of a shell, below which Ray does not start, are named."""

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

NAMED = "from actors.processes import low_limits; print(low_limits())"


@pytest.mark.parametrize(("option", "limit"), [("-n", "64"), ("-v", "4000000")])
def test_a_low_limit_is_named(option: str, limit: str) -> None:
    shell = f'ulimit {option} {limit} && exec "$@"'
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", NAMED]
    named = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"`ulimit {option}` allows {int(limit):,} " in named
