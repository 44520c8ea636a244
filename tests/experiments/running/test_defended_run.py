"""A defence that learns from earlier discussions: the same at any concurrency, after a kill, replayed and inspected."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments.analysis.defended import defence_table, detection
from experiments.inspection.turns import inspect
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.records import decode_trace, encode_trace
from run import main

WORDS = [
    *("experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "figures=false"),
    *("methods=[full,credit,e_process]", "data.limit=9", "attack=response", "attack.agents=[3]", "attack.clean=true"),
    *("defence.block=2", "defence.tolerance=0.001", "topology.text=[critic,scientist]"),
    "topology.visual=[critic,data_analyst]",
]
EVALUATIONS = ("full", "credit", "e_process", "full-clean", "credit-clean", "e_process-clean")


def carry_out(words: list[str], output: Path) -> RunFolder:
    before = set(output.glob("2*"))
    assert main([*words, f"output={output}"]) == 0
    [folder] = set(output.glob("2*")) - before
    return RunFolder.open(folder)


@pytest.fixture(scope="module")
def run(output: Path) -> RunFolder:
    return carry_out(WORDS, output)


def traces(folder: RunFolder) -> dict[str, bytes]:
    return {name: b"".join(jsonl.lines(folder.path / f"traces/evaluate-{name}.jsonl")) for name in EVALUATIONS}


@pytest.mark.slow
def test_the_attacker_is_isolated_after_the_first_blocks_and_nobody_in_the_clean_evaluation(run: RunFolder) -> None:
    attacked = [trace.weights[-1][3] for trace in run.traces("evaluate-e_process")]
    assert attacked[:2] == [1.0, 1.0]
    assert attacked[-1] == 0.0
    assert sorted(attacked, reverse=True) == attacked, "an alarm is for good"
    for trace in run.traces("evaluate-e_process"):
        assert [weight for place, weight in enumerate(trace.weights[-1]) if place != 3] == [1.0] * 3
        heard = {id for turn in trace.turns if turn.agent != trace.agents[3] for id in turn.heard}
        assert (f"1/{trace.agents[3]}" in heard) == (trace.weights[-1][3] > 0)
    for trace in run.traces("evaluate-e_process-clean"):
        assert trace.weights == ((1.0,) * 4,) * 2
    assert not any(trace.suspicion or trace.weights for trace in run.traces("evaluate-full"))


@pytest.mark.slow
def test_measures_of_a_defence_are_in_metrics_and_in_the_report(run: RunFolder) -> None:
    metrics = json.loads(run.metrics.read_text())
    row = metrics["methods"]["e_process"]
    found = [trace.weights[0][3] == 0 for trace in run.traces("evaluate-e_process")]
    assert row["tpr"] == row["tpr_round_1"] == pytest.approx(np.mean(found), abs=1e-6)
    assert row["fpr"] == row["honest_silenced"] == row["utility_lost"] == 0
    assert row["auroc"] > 0.5
    assert row["delay"] == 1
    assert "tpr" not in metrics["methods"]["full"]
    assert "tpr" not in metrics["methods"]["credit-clean"]
    assert [row[0] for row in defence_table(metrics).rows] == ["credit", "e_process", "credit-clean", "e_process-clean"]
    assert "honest silenced" in run.report.read_text()


@pytest.mark.slow
def test_concurrency_a_kill_and_a_replay_change_nothing(run: RunFolder, output: Path) -> None:
    expected = traces(run)
    assert traces(carry_out([*WORDS, "concurrency=1"], output)) == expected
    assert traces(carry_out([*WORDS, "model=replay", f"replay.run={run.path}"], output)) == expected
    cut = RunFolder(output / "cut")
    shutil.copytree(run.path, cut.path)
    scores = (cut.path / "scores.jsonl").read_bytes().splitlines(keepends=True)
    # In the middle of the third block of the last method before the clean evaluations.
    (cut.path / "scores.jsonl").write_bytes(b"".join(scores[: 9 + 9 + 5]))
    for name in EVALUATIONS[3:]:
        (cut.path / f"traces/evaluate-{name}.jsonl").unlink()
    assert main([f"resume={cut.path}"]) == 0
    assert traces(cut) == expected


@pytest.mark.slow
@pytest.mark.parametrize("group", ["e_process", "credit", "e_process-clean"])
def test_a_turn_of_a_later_block_shows_its_prompt(run: RunFolder, group: str) -> None:
    details = inspect(run, group, 9, "2/visual_critic")
    assert "note" not in details
    assert details["calls"]


@pytest.mark.slow
def test_a_trace_whose_scores_are_not_of_its_agents_is_refused(run: RunFolder) -> None:
    [trace, *_] = run.traces("evaluate-credit")
    line = encode_trace(trace)
    assert decode_trace(line) == trace
    for key in ("suspicion", "weights"):
        fields = json.loads(line)
        fields[key] = [row[1:] for row in fields[key]]
        with pytest.raises(ValueError, match="suspicion"):
            decode_trace(json.dumps(fields))


def test_detection_is_what_its_names_say() -> None:
    weights = np.array([[[1.0, 0.4, 1.0, 0.6], [0.0, 0.0, 1.0, 1.0]]])
    scores = np.array([[[0.5, 0.9, 0.5, 0.1], [0.9, 0.8, 0.1, 0.2]]])
    found = detection(weights, scores, np.array([[True, False, False, False]]))
    assert found["tpr"].tolist() == [[0, 1]]
    assert found["fpr"].ravel() == pytest.approx([1 / 3, 1 / 3])
    assert found["detection_f1"].ravel() == pytest.approx([0, 2 / 3])
    assert found["auroc"].ravel() == pytest.approx([(0 + 0.5 + 1) / 3, 1])
    assert found["delay"][0, 0] == 2
    assert np.isnan(found["delay"][0, 1:]).all()
    assert found["honest_silenced"].tolist() == [[1]]
    none = detection(weights, scores, np.zeros((1, 4), dtype=bool))
    assert np.isnan([none["tpr"], none["detection_f1"], none["auroc"]]).all()
    assert none["fpr"].ravel() == pytest.approx([0.25, 0.5])


def test_a_tolerance_beyond_the_bet_is_refused(output: Path) -> None:
    assert main(["experiment=defences", "defence.tolerance=0.5", f"output={output}", "runtime=inline"]) == 2
    assert main(["experiment=mmqa_prune", "methods=[full]", "defence.block=2", f"output={output}"]) == 2


PROBED = [
    *("experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "figures=false", "methods=[full,probes]"),
    *("data.limit=6", "attack=response", "attack.agents=[3]", "attack.clean=true", "defence.calibration=80"),
    *("topology.text=[critic,scientist]", "topology.visual=[critic,data_analyst]", "defence.least_accuracy=0.4"),
]


@pytest.mark.slow
def test_a_liar_that_fails_probes_is_isolated_from_the_first_question_on_also_after_a_kill(output: Path) -> None:
    run = carry_out(PROBED, output)
    # Ten documents of eight questions.
    assert run.count("calibrate") == 10
    names = ("full", "probes", "full-clean", "probes-clean")
    expected = {name: list(run.traces(f"evaluate-{name}")) for name in names}
    for trace in (*expected["probes"], *expected["probes-clean"]):
        assert trace.weights[0][3] == 0
        assert trace.agents[3] not in {turn.agent for turn in trace.turns}

    (run.path / "scores.jsonl").write_bytes(b"")
    for name in names:
        (run.path / f"traces/evaluate-{name}.jsonl").unlink()
    assert main([f"resume={run.path}"]) == 0
    assert {name: list(run.traces(f"evaluate-{name}")) for name in names} == expected


@pytest.mark.parametrize(
    "word", ["defence.calibration=40", "defence.least_accuracy=0", "defence.least_accuracy=1", "defence.dropped=1"]
)
def test_probes_that_isolate_nobody_and_settings_without_effect_are_refused(
    word: str, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment=mmqa_prune", "methods=[full,probes]", "runtime=inline", f"output={output}"]
    assert main([*words, word]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert word.partition("=")[0] in error
