"""Configuration: what wins over what, and what a typo is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.loading import experiments, load, save
from topologies.learning.settings import Estimator


def test_the_command_line_wins_over_the_experiment_and_that_over_the_defaults() -> None:
    assert Config().data.kind == "sample"
    assert load(["experiment=scienceqa_prune"]).data.kind == "scienceqa"
    assert load(["experiment=scienceqa_prune", "data.kind=mmqa"]).data.kind == "mmqa"


def test_a_group_alone_names_its_kind() -> None:
    config = load(["experiment=mmqa_prune", "data=scienceqa", "data.root=x", "model=vllm", "model.name=m"])
    assert (config.data.kind, config.data.root, config.model.kind, config.model.name) == ("scienceqa", "x", "vllm", "m")


def test_values_are_typed() -> None:
    config = load(["experiment=mmqa_prune", "topology.rounds=4", "pruning.rate=0.3", "learner.estimator=reinforce"])
    assert (config.topology.rounds, config.pruning.rate, config.learner.estimator) == (4, 0.3, Estimator.REINFORCE)
    assert load(["experiment=mmqa_prune", "data.limit=null", "methods=[full,m3prune]"]).methods == ["full", "m3prune"]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("topology.round=4", "Did you mean 'topology.rounds'"),
        ("rounds=4", "Did you mean 'topology.rounds'"),
        ("sede=1", "Did you mean 'seed'"),
        ("topology.rounds=many", "'many'"),
        ("model=raeder", "Did you mean 'reader'? Known: reader, vllm, openai, replay, none"),
        ("judge.kind=opnai", "judge: there is no 'opnai'. Did you mean 'openai'?"),
        ("model=nowhere.at_all:Model", "model=nowhere.at_all:Model: cannot be imported"),
        ("learner.estimator=magic", "RLOO"),
        ("retrieval.mode=fuzzy", "hybrid"),
        ("seed", "key=value"),
        ("data.limit=[", "cannot be read"),
        ("concurrency=0", "at least 1"),
        ("data.limit=0", "at least 1"),
        ("reader.error_rate=1.5", "from 0 to 1"),
        ("agents.temperature=nan", "at least 0"),
    ],
)
def test_a_wrong_word_gets_one_line_that_names_the_right_one(word: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        load(["experiment=mmqa_prune", word])
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_unknown_experiment_is_told_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match=r"Did you mean 'mmqa_prune'\? Known: .*scienceqa_prune"):
        load(["experiment=mmqa_prun"])


def test_every_experiment_loads_and_says_in_one_line_what_it_is() -> None:
    for name, description in experiments().items():
        assert load([f"experiment={name}"]).experiment == name
        assert 20 < len(description) < 120


def test_a_saved_configuration_reads_back_equal(tmp_path: Path) -> None:
    words = ["experiment=mmqa_prune", "seed=3", "learner.estimator=reinforce", "data.limit=null", "model.engine.a=1"]
    config = load(words)
    save(config, tmp_path / "config.yaml")
    resumed = load([f"resume={tmp_path}"])
    assert resumed.resume == str(tmp_path)
    resumed.resume = None
    assert resumed == config


def test_a_resumed_run_may_change_how_it_runs_but_not_what(tmp_path: Path) -> None:
    save(load(["experiment=mmqa_prune"]), tmp_path / "config.yaml")
    assert load([f"resume={tmp_path}", "concurrency=3", "ray.address=auto"]).concurrency == 3
    with pytest.raises(UserError, match="seed cannot change when a run is resumed"):
        load([f"resume={tmp_path}", "seed=3"])


def test_a_folder_that_is_no_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        load([f"resume={tmp_path}"])
    (tmp_path / "config.yaml").write_text("just words")
    with pytest.raises(UserError, match="saved configuration"):
        load([f"resume={tmp_path}"])
