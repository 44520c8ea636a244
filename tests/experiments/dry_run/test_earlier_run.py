"""A dry run counts the calls of its run, nearly counts its tokens, and takes hours from an earlier run."""

from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.config.loading import load
from experiments.config.references import overrides_again
from experiments.dry_run.counting import count_run
from experiments.dry_run.counts import EarlierRun
from experiments.dry_run.counts_table import counts_table
from experiments.dry_run.simulated_speaker import simulated_reply
from experiments.jobs import plan_of
from experiments.records import usage
from experiments.records.recorder import RunFolder
from experiments.runner import open_folder, run

WORDS = ["experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "topology.text=[critic,scientist]"]
WORDS += ["figures=false", "topology.visual=[scientist]", "training.samples=4", "methods=[single,full,m3prune]"]
WORDS += ["data.limit=20", "pruning.steps=6"]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    config = load([*WORDS, f"output={tmp_path_factory.mktemp('runs')}"])
    folder = open_folder(config)
    run(plan_of(config), folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["costs.run"]])
def test_a_dry_run_has_the_calls_of_its_run_and_nearly_its_tokens(earlier: RunFolder, words: list[str]) -> None:
    plan = count_run(
        plan_of(load([*WORDS, f"output={earlier.path.parent}", *(f"{word}={earlier.path}" for word in words)]))
    )
    took = usage.total(earlier)
    assert plan.total.calls == took.calls + took.reused
    assert plan.total.computed == pytest.approx(took.calls, rel=0.08)
    assert plan.total.computed_prompt == pytest.approx(took.prompt_tokens, rel=0.08)
    assert plan.total.computed_completion == pytest.approx(took.completion_tokens, rel=0.08)
    if not words:
        assert plan.hours is None
        return
    assert plan.hours
    seconds = sum(phase.seconds for phase in usage.by_phase(earlier).values())
    assert plan.hours * 3600 == pytest.approx(seconds, rel=0.08)
    assert f"Hours as {earlier.name} took, scaled by tokens" in " ".join(counts_table(plan).notes)


def test_a_folder_without_calls_predicts_no_hours(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    with pytest.raises(UserError, match=r"costs\.run"):
        EarlierRun.read(str(tmp_path))
    with pytest.raises(UserError, match="nowhere"):
        EarlierRun.read(str(tmp_path / "nowhere"))


def test_an_earlier_run_that_a_received_folder_names_is_read_only_where_it_is_named_again(tmp_path: Path) -> None:
    assert overrides_again(load(["experiment=mmqa_prune"])) == []
    assert overrides_again(load(["experiment=mmqa_prune", "costs.run=/a"])) == ["costs.run=/a"]


def test_replies_have_the_measured_length_and_never_more_than_is_allowed() -> None:
    def words(text: str) -> int:
        return len(text.split())

    assert [simulated_reply(words, 200, wanted)[1] for wanted in (60.0, 90.0, 5000.0)] == [60, 90, 200]
    # Reasoning, answer and confidence are there in any case.
    assert simulated_reply(words, 200, 1.0)[1] == words("Reasoning: k Answer: the northern bridge Confidence: 0.85")
    assert simulated_reply(words, 200, 90.0)[0].startswith("{key} ")
