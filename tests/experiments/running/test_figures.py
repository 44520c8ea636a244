"""A run's figures can be left out and drawn later, and nothing else of the run is another for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from run import main

pytestmark = pytest.mark.slow

WORDS = ["experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "methods=[single,full]", "data.limit=1"]


def test_figures_that_were_left_out_are_drawn_later(tmp_path: Path) -> None:
    assert main([*WORDS, "figures=false", f"output={tmp_path}"]) == 0
    [folder] = tmp_path.glob("*-mmqa_prune")
    metrics, report = (folder / "metrics.json").read_bytes(), (folder / "report.html").read_text()
    assert not (folder / "figures").exists()
    assert "<img" not in report
    assert main([f"resume={folder}", "figures=true"]) == 0
    drawn = {path.name for path in (folder / "figures").iterdir()}
    assert drawn == {f"utility-against-tokens.{suffix}" for suffix in ("pdf", "svg", "png")}
    assert (folder / "metrics.json").read_bytes() == metrics
    assert "<img" in (folder / "report.html").read_text()


def test_a_trial_draws_none_of_its_own_and_does_so_when_it_is_resumed(tmp_path: Path) -> None:
    assert main([*WORDS, "sweep.seeds=2", f"output={tmp_path}"]) == 0
    trial, _ = sorted(tmp_path.glob("*-mmqa_prune/trials/*"))
    metrics = (trial / "metrics.json").read_bytes()
    assert not (trial / "figures").exists()
    assert main([f"resume={trial}", f"cache={tmp_path / 'cache'}"]) == 0
    assert (trial / "figures" / "utility-against-tokens.svg").exists()
    assert (trial / "metrics.json").read_bytes() == metrics
