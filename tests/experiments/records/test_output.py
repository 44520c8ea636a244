"""A run whose output nobody reads any more goes on to its end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.mark.slow
def test_a_run_piped_to_head_goes_on_without_it(tmp_path: Path) -> None:
    words = ["experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "figures=false", "methods=[single,full]"]
    command = [sys.executable, "run.py", *words, "data.limit=3", f"output={tmp_path}"]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    run.stdout.readline()
    run.stdout.close()
    _, errors = run.communicate(timeout=120)
    assert (run.returncode, errors) == (0, b"")
    [folder] = tmp_path.glob("*-mmqa_prune")
    assert json.loads((folder / "metrics.json").read_text())["questions"] == 3
