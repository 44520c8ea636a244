"""Whole runs through the command line, on real Ray: the same numbers at any concurrency and after a kill."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.config.loading import load
from experiments.config.saved import save
from experiments.jobs import plan_of
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import LearningRecorder, RunFolder
from run import main
from tests.support.paths import ROOT
from tests.support.sessions import assert_same_records, begin, folder_of, terminate, wait_for
from topologies.learning.learned_topology import make_learner

pytestmark = pytest.mark.ray

SMALL = ["experiment=mmqa_prune", "data.limit=6", "pruning.steps=3", "training.samples=3"]
SMALL += ["topology.text=[critic,scientist]", "topology.visual=[critic]", "wandb.mode=disabled", "figures=false"]


def words(output: Path, *more: str) -> list[str]:
    return [*SMALL, f"output={output}", *more]


@pytest.fixture(scope="module")
def finished(output: Path) -> Path:
    """A run at concurrency 32, in a process of its own as a user starts it."""
    own = words(output, "concurrency=32")
    command = [sys.executable, "-X", "importtime", "run.py", *own]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    imported = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "ray" in imported
    assert "torch" not in imported, "the learner's process alone needs it, and it takes seconds to import"
    assert "m3prune" in done.stdout
    assert "say nothing about a language model's accuracy" in " ".join(done.stdout.split())
    return folder_of(done.stdout)


def test_the_run_folder_holds_all_that_it_should(finished: Path) -> None:
    metrics = json.loads((finished / "metrics.json").read_text())
    assert metrics.keys() == {"experiment", "model", "dataset", "metric", "questions", "methods", "paired", "parts"}
    assert list(metrics["methods"]) == ["closed_book", "single", "full", "random", "m3prune", "effects"]
    columns = "utility ci95 strict_em strict_em_ci95 f1 prompt_tokens completion_tokens calls edges failed_turns"
    columns += " turns read_at_once read_after_repair repairs repair_tokens repair_share"
    learned = {graph.name for graph in RunFolder(finished).all_learned()}
    for name, row in metrics["methods"].items():
        source = ["doubts", "surrogate", "confirmed"] if name == "effects" else []
        assert row.keys() == {*columns.split(), *(["training_tokens", "monitor", *source] if name in learned else [])}
    for graph in RunFolder(finished).all_learned():
        turns = [turn for stage in (1, 2) for trace in graph.traces(f"train-{stage}") for turn in trace.turns]
        tokens = sum(turn.prompt_tokens + turn.completion_tokens for turn in turns)
        assert metrics["methods"][graph.name]["training_tokens"] == tokens
    assert metrics["methods"]["full"]["calls"] == 7
    assert metrics["methods"]["single"]["calls"] == 1
    names = {path.name for path in finished.iterdir()}
    assert names >= {"config.yaml", "traces", "scores.jsonl", "learned"}
    assert names >= {"metrics.json", "report.html", "run.log"}
    assert [graph.name for graph in RunFolder(finished).all_learned()] == ["effects", "m3prune"]
    for graph in RunFolder(finished).all_learned():
        learned = {"traces", "learning.jsonl", "topology.safetensors", "topology.graphml", "topology.json"}
        assert {path.name for path in graph.path.iterdir()} >= learned


def test_every_discussion_is_traced_with_every_turn(finished: Path) -> None:
    graph = RunFolder(finished).learned("m3prune")
    for stage in (1, 2):
        traces = list(graph.traces(f"train-{stage}"))
        assert len(traces) == 3 * 3
        assert all(len(trace.turns) == 7 for trace in traces)
    assert any(
        (sender < 2) != (receiver < 2) for trace in graph.traces("train-2") for _, sender, receiver in trace.spatial
    )


def test_training_and_evaluation_questions_never_overlap(finished: Path) -> None:
    run = RunFolder(finished)
    evaluated = {trace.question for trace in run.traces("evaluate-m3prune")}
    for graph in run.all_learned():
        stages = [{trace.question for trace in graph.traces(f"train-{stage}")} for stage in (1, 2)]
        assert not stages[0] & stages[1]
        assert not evaluated & (stages[0] | stages[1])


def test_no_gold_answer_reaches_a_prompt_or_a_trace_as_such(finished: Path) -> None:
    for path in finished.glob("**/traces/*.jsonl"):
        assert '"gold"' not in path.read_text()


def test_a_run_killed_before_its_first_step_ends_with_the_same_bytes_one_at_a_time(
    finished: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.create(output, "mmqa_prune")
    config = load(words(output, f"cache={output}/cache"))
    save(config, run.config)
    method = next(iter(plan_of(config).learners))
    graph, whole = run.learned(method), RunFolder(finished).learned(method)
    learner = make_learner(plan_of(config).learners[method])
    with LearningRecorder(graph) as recorder:
        recorder.learned(next(whole.learning()), learner.state())
    assert main([f"resume={run.path}", "concurrency=1", "runtime=inline"]) == 0
    capsys.readouterr()
    assert_same_records(finished, run.path)


def test_a_run_terminated_while_it_learns_and_killed_while_it_evaluates_ends_with_the_same_bytes(
    finished: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = f"*-mmqa_prune/learned/*/{LEARNING}"
    before = set(output.glob(pattern))
    process = begin(*words(output))
    second = wait_for(
        process, output, pattern, lambda path: path not in before and '"stage":2,"step":1' in path.read_text()
    )
    printed, folder = terminate(process), second.parents[2]
    assert printed.startswith("ended by SIGTERM; go on with: ")
    assert printed.endswith(f" run.py resume={folder}\n")
    process = begin(f"resume={folder}", "runtime=inline")
    wait_for(process, folder, "scores.jsonl", lambda path: '"method":"full"' in path.read_text())
    process.kill()
    process.communicate()
    assert not (folder / "metrics.json").exists()
    assert main([f"resume={folder}", "runtime=inline"]) == 0
    assert folder_of(capsys.readouterr().out) == folder
    assert_same_records(finished, folder)
