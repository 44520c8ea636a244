"""A plan that is written before a run, and what a run says that differs from it."""

import json
from pathlib import Path

import pytest

from experiments.config.loading import load
from run import main

WORDS = ("runtime=inline", "figures=false", "wandb.mode=disabled", "data.limit=6")


@pytest.mark.slow
def test_a_run_is_held_against_the_plan_that_was_written_before(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("methods: [closed_book, single]\n")
    words = (f"experiment={tmp_path / 'two.yaml'}", f"output={tmp_path}", *WORDS)
    plan = tmp_path / "plan.lock"
    assert main([f"lock={plan}", *words, "compare.question=Does evidence help?"]) == 0
    assert json.loads(plan.read_text())["settings"]["compare.question"] == "Does evidence help?"
    found = []
    for further in (["compare.question=Does evidence help?"], ["compare.margin=0.1", "seed=1"]):
        assert main([*words, *further, f"compare.plan={plan}"]) == 0
        newest = max(tmp_path.glob("*-two*/metrics.json"), key=lambda path: path.stat().st_mtime_ns)
        found.append(json.loads(newest.read_text())["plan"])
    assert found[0]["differs"] == []
    named = [line.partition("=")[0] for line in found[1]["differs"]]
    assert named[:3] == ["compare.margin", "compare.question", "seed"]
    assert len(named) == 4, "another seed draws other questions"
    assert found[0]["sha256"] == found[1]["sha256"]


def test_a_plan_names_files_as_its_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web.jsonl").touch()
    words = ("experiment=hm_rag_web", "retrieval.web=recorded", "retrieval.web_file=web.jsonl", "data.limit=4")
    assert main(["lock=plan.lock", *words]) == 0
    assert main(["lock=nowhere/plan.lock", *words]) == 2
    settings = json.loads(Path("plan.lock").read_text())["settings"]
    assert settings["retrieval.web_file"] == str(tmp_path / "web.jsonl")
    config = load([*words, "compare.plan=plan.lock", "explain.calibration=runs/first"])
    # Both are read at the end of a run, which may have been resumed from another working directory.
    assert config.compare.plan == str(tmp_path / "plan.lock")
    assert config.explain.calibration == str(tmp_path / "runs" / "first")


@pytest.mark.parametrize("content", [None, "[]", "{}", '{"settings": [], "questions": ""}', "\x00"])
def test_a_file_that_is_no_plan_is_refused(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.lock"
    if content is not None:
        plan.write_text(content)
    assert main(["experiment=mmqa_prune", f"compare.plan={plan}", f"output={tmp_path / 'runs'}", WORDS[0]]) == 2
    assert "compare.plan" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
