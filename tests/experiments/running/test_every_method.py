"""With the embedded reader no method has a failed turn, and none leaves a warning."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from run import main
from tests.support.sessions import run_folder
from topologies.catalogue import METHODS

pytestmark = pytest.mark.slow

NAMES = [method.name for method in METHODS]
FIRST_SYSTEM = NAMES.index("dytopo")


@pytest.mark.parametrize("names", [NAMES[:FIRST_SYSTEM], NAMES[FIRST_SYSTEM:]], ids=["teams", "systems"])
def test_no_method_has_a_failed_turn(names: Sequence[str], tmp_path: Path) -> None:
    words = ["experiment=mmqa_prune", f"methods=[{','.join(names)}]", "data.limit=2", "pruning.steps=2"]
    if "probes" in names:
        # 24 tables of eight questions, as many as it needs.
        words.append("defence.calibration=192")
    assert main([*words, "runtime=inline", "wandb.mode=disabled", "figures=false", f"output={tmp_path}"]) == 0
    folder = run_folder(tmp_path)
    rows = json.loads((folder / "metrics.json").read_text())["methods"]
    assert list(rows) == names
    assert all(row["calls"] > 0 for row in rows.values())
    assert {name: row["failed_turns"] for name, row in rows.items() if row["failed_turns"]} == {}
    assert " WARNING " not in (folder / "run.log").read_text()
