"""Help for one key or experiment, and what a first wrong command is told before anything starts."""

import importlib.util

import pytest

from experiments.config.loading import load
from experiments.config.references import OF_RUNS, check_machine
from run import main


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            ["help=topology.rounds"],
            ["topology.rounds=2", "Rounds of a discussion", "at most 100", "job=prune|redundancy|game"],
        ),
        (["help", "topology.rounds"], ["topology.rounds=2"]),
        (["help=topology"], ["The agents and how they discuss", "topology.text=", "topology.inference="]),
        (["help=mmqa_prune"], ["M3Prune on MultimodalQA", "data.kind=sample"]),
        (["help=hm_rag"], ["graph and web agents", "methods=["]),
        (["help=judge.name"], ["model.name=", "model=vllm|openai"]),
        (["help=roles.text_critic.model.name"], ["model.name="]),
        (["help=roles.text_critic.instances"], ["roles.<role>.instances=null", "at most 10,000"]),
        (["help=model.engine.revision"], ["model.engine={}"]),
        (["help=planted.seeds"], ["planted.seeds=5", "job=planted"]),
        (["help=data"], ["github.com/allenai/multimodalqa", "data.limit=100"]),
        ([], ["two_attackers", "help=experiments", "help=topology.rounds"]),
    ],
)
def test_help_explains_a_key_a_group_or_an_experiment(
    words: list[str], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(part in said for part in shown), said


def test_help_for_a_key_shows_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help=topology.rounds"]) == 0
    assert "topology.text" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["help=topology.round"], "topology.rounds"),
        (["help=model.api_key"], "model.key_env"),
        (["help=mmqa_prun"], "mmqa_prune"),
        (["mmqa_prune"], "experiment=mmqa_prune"),
        (["methods=full", "m3prune"], "methods=[full,m3prune]"),
        (["--experiment=mmqa_prune"], "'experiment'"),
        (["exprement=mmqa_prune"], "'experiment'"),
        (["resume="], "resume=<run folder>"),
        (["experiment", "=", "x"], "experiment=<value>"),
        (["experiment=mmqa_prune", "model.api_key=x"], "model.key_env"),
        (["experiment=mmqa_prune", "model=ollama"], "model=openai model.base_url="),
        (["experiment=mmqa_prune", "model=gpt-4o"], "model=openai model.base_url="),
        (["experiment=mmqa_prune", "judge=gpt-4o"], "judge=openai judge.base_url="),
    ],
)
def test_a_first_wrong_command_is_told_the_right_one(
    words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert nearest in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "key", "extra"),
    [
        (["model=vllm", "model.name=x"], "model.kind", "vllm"),
        (["judge=vllm", "judge.name=x"], "judge.kind", "vllm"),
        (["roles.single.model=vllm"], "roles.single.model.kind", "vllm"),
        (["sweep.axes.model.kind=[reader,vllm]"], "sweep.axes.model.kind", "vllm"),
        (["retrieval.encoder=clip-x"], "retrieval.encoder", "encoders"),
        (["retrieval.picture_encoder=late:x"], "retrieval.picture_encoder", "encoders"),
    ],
)
def test_a_missing_library_is_noticed_before_anything_starts(
    words: list[str], key: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("actors.runtime.head.begin", lambda address: pytest.fail("Ray started"))
    found = importlib.util.find_spec
    # What every run needs is there.
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found(name) if name in OF_RUNS else None)
    assert main(["experiment=mmqa_prune", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {key}: ")
    assert error.endswith(f"pip install '.[{extra}]'\n")


@pytest.mark.parametrize(
    "word", ["ray.address=a:6379", "model.kind=openai", "retrieval.encoder=mine:Letters", "retrieval.encoder=lexical"]
)
def test_what_this_machine_need_not_have_is_not_asked_for(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    kind = ["model=vllm"] if "ray" in word else []
    check_machine(load(["experiment=mmqa_prune", *kind, word]))
