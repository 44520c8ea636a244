"""One agent in place of a team: self-consistency at a team's tokens, and the best of the team by training."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.errors import UserError
from actors.messages import Status
from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.planning.topologies import known_of
from experiments.records.recorder import RunFolder
from experiments.records.records import encode_trace
from experiments.running.inputs import open_dataset
from experiments.running.recorded_speaker import RecordedSpeaker
from tests.experiments.running.test_attacked_run import SMALL, carry_out
from tests.experiments.running.test_twins import files, spent
from tests.support.words import joined
from topologies.baselines import best_single
from topologies.method import Known

WORDS = [
    *("methods=[single,full,self_consistency,m3prune,best_single]", "data.limit=6", "compare.twins=true"),
    *("attack=response", "attack.agents=[0]", "attack.clean=true"),
]


@pytest.fixture(scope="module")
def run(output: Path) -> RunFolder:
    return carry_out([*WORDS, "concurrency=5"], output)


@pytest.mark.slow
def test_self_consistency_is_the_twin_of_the_team_before_it(run: RunFolder) -> None:
    assert spent(run, "self_consistency") == pytest.approx(spent(run, "full"), rel=0.02)
    pairs = zip(run.traces("evaluate-self_consistency"), run.traces("evaluate-full-twin"), strict=True)
    for own, twin in pairs:
        assert len(own.turns) > 3
        assert (own.turns, own.answer) == (twin.turns, twin.answer)
    # Without the attack it spends what the team spends without it.
    assert spent(run, "self_consistency-clean") == pytest.approx(spent(run, "full-clean"), rel=0.02)
    assert "self_consistency-twin" not in {scored.method for scored in run.scores()}


@pytest.mark.slow
def test_the_best_single_agent_is_the_one_with_the_best_graded_answers_alone(run: RunFolder) -> None:
    plan = plan_of(load(joined(*SMALL, *WORDS)))
    dataset = open_dataset(plan, run.path.parent / "cache")
    items = {item.question.id: item for item in dataset.train()}
    alone: dict[str, dict[str, float]] = {}
    for stage in (1, 2):
        for trace in run.learned("m3prune").traces(f"train-{stage}"):
            first = [turn for turn in trace.turns if turn.id.startswith("1/") and turn.heard == ()]
            for turn in first:
                utility = dataset.score(items[trace.question], turn.answer).utility
                # Alone, an agent answers a question once and for all.
                assert alone.setdefault(turn.agent, {}).setdefault(trace.question, utility) == utility
    means = {agent: sum(scores.values()) / len(scores) for agent, scores in alone.items()}
    chosen = {trace.agents for name in ("", "-clean") for trace in run.traces(f"evaluate-best_single{name}")}
    [[best]] = chosen
    assert means[best] == max(means.values()) > min(means.values())
    assert best not in plan.attackers
    for trace in run.traces("evaluate-best_single"):
        assert [turn.id for turn in trace.turns] == [f"1/{best}"]
        assert trace.turns[0].heard == ()


@pytest.mark.slow
def test_one_discussion_at_a_time_after_a_kill_and_replayed_it_is_the_same(run: RunFolder, output: Path) -> None:
    before = files(run)
    assert files(carry_out(WORDS, output, speaker=RecordedSpeaker(run))) == before
    scores = run.path / "scores.jsonl"
    lines = scores.read_bytes().splitlines(keepends=True)
    [last] = [number for number, line in enumerate(lines) if b'"self_consistency"' in line][2:3]
    scores.write_bytes(b"".join(lines[: last + 1]))
    assert files(carry_out([*WORDS, "concurrency=1"], output, run)) == before


@pytest.mark.parametrize("methods", ["self_consistency", "single,self_consistency,full"])
def test_self_consistency_without_a_team_before_it_is_refused(methods: str) -> None:
    config = load(["experiment=mmqa_prune", f"methods=[{methods}]"])
    with pytest.raises(UserError, match="self_consistency"):
        plan_of(config)


def test_of_equal_agents_the_first_is_chosen_and_an_agent_without_a_grade_never() -> None:
    def chosen(graded: dict[str, float]) -> str:
        context = SimpleNamespace(method="best_single", agents=("a", "b", "c"), known=Known(graded=graded))
        return best_single(cast(Any, context)).agent

    assert chosen({"a": 0.2, "b": 0.6, "c": 0.6}) == "b"
    assert chosen({"b": 0.0}) == "b"


@pytest.mark.slow
def test_no_agent_is_chosen_where_every_turn_of_training_failed(run: RunFolder, tmp_path: Path) -> None:
    plan = plan_of(load(joined(*SMALL, *WORDS)))
    dataset = open_dataset(plan, run.path.parent / "cache")
    [method] = [method for method in plan.methods if method.graded]
    empty = RunFolder(tmp_path)
    with pytest.raises(UserError, match="best_single"):
        known_of(method, plan, dataset, empty, ended=False)
    trace = next(run.learned("m3prune").traces("train-1"))
    turns = tuple(replace(turn, status=Status.FAILED, answer=None) for turn in trace.turns)
    failed = empty.learned("m3prune").path / "traces" / "train-1.jsonl"
    failed.parent.mkdir(parents=True)
    failed.write_text(encode_trace(replace(trace, turns=turns)) + "\n")
    assert empty.learned("m3prune").failed("train-1")
    with pytest.raises(UserError, match="best_single"):
        known_of(method, plan, dataset, empty, ended=False)
