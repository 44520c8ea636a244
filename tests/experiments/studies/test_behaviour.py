"""How a model behaves as one agent is measured on answers that differ by the condition alone."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from actors.agents.roles import SINGLE
from actors.errors import UserError
from actors.messages import Kind, Source
from experiments.attacks.targets import Targets
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.study_settings import BehaviourSettings
from experiments.jobs import plan_of
from experiments.records.recorder import RunFolder
from experiments.running.discussions import Discussions
from experiments.running.inputs import open_dataset, open_store
from experiments.scripted.speaker import ScriptedSpeaker
from experiments.studies.behaviour.behaviour_job import FILE
from experiments.studies.behaviour.measure import (
    CERTAIN,
    NOTHING,
    RELEVANT,
    Condition,
    FoundEvidence,
    MisledAgent,
    ask_every_question,
    conditions,
    evidence_under,
    find_evidence,
)
from run import main
from tests.support.words import joined

SMALL = ["experiment=behaviour", "data.limit=12", "wandb.mode=disabled", "figures=false", "behaviour.irrelevant=[4]"]


def sources(*ids: str) -> tuple[Source, ...]:
    return tuple(Source(id, id, Kind.TEXT, id, f"about {id}") for id in ids)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("behaviour")
    return load([*SMALL, f"output={folder}", f"cache={folder}"])


def test_conditions_go_by_their_numbers_and_the_settings_name_each_once() -> None:
    found = conditions(BehaviourSettings(irrelevant=[2], colleagues=[1, 5]))
    assert [condition.name for condition in found] == [NOTHING, RELEVANT, "irrelevant_2", "told_1", "told_5"]
    with pytest.raises(UserError, match=r"behaviour\.colleagues=\[1, 1\]"):
        load(joined(*SMALL, "behaviour.colleagues=[1,1]"))
    with pytest.raises(UserError, match=r"irrelevant\[0\]=0"):
        load(joined(*SMALL, "behaviour.irrelevant=[0]"))


def test_irrelevant_passages_stand_among_the_relevant_ones_whose_order_they_do_not_change() -> None:
    evidence = FoundEvidence(sources("a", "b", "c", "d"), sources(*"uvwxyz"))
    alone = evidence_under(Condition(RELEVANT), evidence, seed=1)
    among = evidence_under(Condition("irrelevant_5", irrelevant=5), evidence, seed=1)
    assert {source.id for source in among} == set("abcduvwxy")
    assert [source for source in among if source in alone] == list(alone)
    assert among[:4] != alone
    assert evidence_under(Condition(NOTHING, irrelevant=None), evidence, seed=1) == ()


@pytest.mark.slow
def test_the_relevant_are_the_supporting_documents_and_the_others_are_as_many_as_wanted(config: Config) -> None:
    dataset = open_dataset(plan_of(config), Path(str(config.cache)))
    store = open_store(config.retrieval, dataset, Path(str(config.cache)))
    for item in dataset.evaluate():
        relevant, irrelevant = find_evidence(item, store, most=7)
        assert {source.doc for source in relevant} == set(item.supporting)
        assert len(irrelevant) == 7
        assert not {source.doc for source in irrelevant} & set(item.supporting)


@pytest.mark.slow
def test_colleagues_give_one_wrong_answer_and_the_label_stays_behind(config: Config) -> None:
    dataset = open_dataset(plan_of(config), Path(str(config.cache)))
    # Some questions name two answers to choose from, and a short answer may stand in a prompt by chance.
    items = (item for item in dataset.evaluate() if not any(gold in item.question.text for gold in item.gold))
    item = max(items, key=lambda item: min(map(len, item.gold)))
    target = Targets(dataset, seed=0).of(item)
    assert target is not None
    team = ScriptedSpeaker([SINGLE])
    question = replace(item.question, own=item.own)
    trace = asyncio.run(MisledAgent("told_7", 7, target).answer(question, team.ask, seed=3))
    assert not dataset.score(item, target).utility
    heard = team.turns[0].heard
    assert sum(one.weight for one in heard) == pytest.approx(1)
    assert {(one.message.answer, one.message.confidence) for one in heard} == {(target, CERTAIN)}
    assert len({one.message.agent for one in heard}) == 7
    assert [turn.id for turn in trace.turns] == [*(one.message.id for one in heard), "1/single"]
    assert not any(gold in str(team.requests) for gold in item.gold)


@pytest.mark.slow
def test_a_run_shows_every_condition_and_one_that_was_interrupted_ends_with_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMALL, "runtime=inline", f"output={tmp_path}"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert all(condition in said for condition in (NOTHING, RELEVANT, "irrelevant_4", "told_1", "told_3"))
    (run,) = (RunFolder(path) for path in tmp_path.glob("*-behaviour"))
    found = json.loads((run.path / FILE).read_text())["conditions"]
    assert found[NOTHING]["utility"]["mean"] < found[RELEVANT]["utility"]["mean"]
    assert found["told_3"]["taken_over"]["mean"] > found[RELEVANT]["taken_over"]["mean"]
    assert (run.path / "report.html").exists()
    whole = {name: (run.path / name).read_bytes() for name in (FILE, "metrics.json", "scores.jsonl")}
    lines = whole["scores.jsonl"].splitlines(keepends=True)
    (run.path / "scores.jsonl").write_bytes(b"".join(lines[:30]))  # killed in the third condition
    assert main([f"resume={run.path}", "concurrency=3"]) == 0
    assert {name: (run.path / name).read_bytes() for name in whole} == whole


def test_what_the_job_does_without_is_refused() -> None:
    for word in ("attack=response", "judge=reader"):
        with pytest.raises(UserError, match=word):
            plan_of(load([*SMALL, word]))


def test_a_data_set_that_does_not_say_where_answers_stand_is_refused(config: Config) -> None:
    dataset = open_dataset(plan_of(config), Path(str(config.cache)))
    unsupported = [replace(item, supporting=()) for item in dataset.evaluate()]
    silent = SimpleNamespace(evaluate=lambda: iter(unsupported), train=dataset.train, score=dataset.score)
    job = SimpleNamespace(context=SimpleNamespace(config=config, dataset=silent))
    with pytest.raises(UserError, match="data="):
        asyncio.run(ask_every_question(cast(Discussions, job), config.behaviour))
