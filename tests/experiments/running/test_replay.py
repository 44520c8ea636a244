"""A replay says what was recorded, to those who ask what was asked then, and tells everyone else what differs."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from actors.agents.role_agent import RoleAgent
from actors.agents.roles import DECISION, SINGLE, TEXTUAL, VISUAL
from actors.errors import UserError
from actors.messages import Kind, Message, Question, Source, Turn, Usage
from actors.reader.reader import Reader, ReaderSettings
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.datasets.item import Item, Score
from experiments.jobs import plan_of
from experiments.planning.plan import Plan
from experiments.records.recorder import LearningRecorder, Recorder, RunFolder
from experiments.running.recorded_speaker import RecordedSpeaker
from experiments.running.replayed_run import check_same, copy_learning, open_recorded, replayed_dataset
from experiments.running.speakers import Metered
from tests.support.fake_run import learning_step
from tests.support.words import joined
from topologies.baselines import Single, constant_wiring
from topologies.graphs import complete
from topologies.topology import Topology, Wired, ask_of

ROLES = (*TEXTUAL[:2], *VISUAL[:1])
AGENTS = [role.name for role in ROLES]
EVIDENCE = (
    Source("p1", "p1", Kind.TEXT, "Night Harbour", "Night Harbour is a film directed by Paul Venn."),
    Source("i1", "i1", Kind.IMAGE, "Night Harbour", "The poster shows three red boats.", "a.png"),
)
# An id may hold whatever a benchmark puts there.
IDS = ("plain", 'a/b/0","agents":[', "ünï/1")
QUESTIONS = [Question(id, "Who directed Night Harbour?", evidence=EVIDENCE) for id in IDS]
WIRING = constant_wiring(complete(len(AGENTS)), len(AGENTS), 2)
SAMPLED = (WIRING, replace(WIRING, spatial=WIRING.spatial[:0]))


def methods() -> list[Topology]:
    return [Single("closed_book", closed_book=True), Single("single"), Wired("full", AGENTS, WIRING)]


@pytest.fixture(scope="module")
def asked() -> list[Turn]:
    return []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, asked: list[Turn]) -> RunFolder:
    """Discussions of real agents with the embedded reader, recorded as a run records them."""
    run = RunFolder.create(tmp_path_factory.mktemp("runs"), "recorded")
    save(load(["experiment=mmqa_prune", "data.limit=3", "methods=[closed_book,single,full]"]), run.config)
    asyncio.run(record(run, asked))
    return run


async def record(run: RunFolder, asked: list[Turn]) -> None:
    reader = Reader(ReaderSettings())
    agents = {role.name: RoleAgent(role, reader) for role in (*ROLES, DECISION, SINGLE)}

    async def ask(turn: Turn) -> Message:
        asked.append(turn)
        message = (await agents[turn.agent].take(turn)).message
        return message

    with LearningRecorder(run.learned("m3prune")) as recorder:
        for sample, wiring in enumerate(SAMPLED):
            recorder.trained(1, await Wired("train.m3prune", AGENTS, wiring).answer(QUESTIONS[0], ask, 5, sample))
        recorder.learned(learning_step(1, 1, 1), {"theta": np.ones(2)})
    with Recorder(run) as recorder:
        for method in methods():
            for question in QUESTIONS:
                trace = await method.answer(question, ask, seed=5)
                recorder.evaluated(trace, Item(question, ("Paul Venn",)), Score(1.0, 1.0))


async def test_a_replay_gives_the_recorded_discussions_without_agents(folder: RunFolder) -> None:
    recorded = RecordedSpeaker(folder)
    for method in methods():
        told = list(folder.traces(f"evaluate-{method.method}"))
        assert [await method.answer(question, ask_of(recorded), seed=5) for question in QUESTIONS] == told
    samples = []
    for k, wiring in enumerate(SAMPLED):
        samples.append(await Wired("train.m3prune", AGENTS, wiring).answer(QUESTIONS[0], ask_of(recorded), 5, k))
    assert samples == list(folder.learned("m3prune").traces("train-1"))


async def test_a_replay_spends_nothing(folder: RunFolder, asked: list[Turn]) -> None:
    recorded = Metered(RecordedSpeaker(folder))
    for turn in asked:
        await recorded.take(turn)
    assert set(recorded.usage.values()) == {Usage()}


async def test_a_closed_discussion_is_let_go_and_can_be_replayed_again(folder: RunFolder, asked: list[Turn]) -> None:
    recorded = RecordedSpeaker(folder)
    first = await recorded.take(asked[0])
    recorded.close(asked[0].discussion)
    recorded.close("never/opened/0")
    assert not recorded._open
    assert await recorded.take(asked[0]) == first


def last(asked: list[Turn], method: str = "full") -> Turn:
    """A turn that heard colleagues: the last of a method's."""
    return [turn for turn in asked if turn.discussion.startswith(f"{method}/")][-1]


async def refusal(folder: RunFolder, turn: Turn) -> str:
    with pytest.raises(UserError) as refused:
        await RecordedSpeaker(folder).take(turn)
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_another_seed_is_refused(folder: RunFolder, asked: list[Turn]) -> None:
    turn = last(asked)
    said = await refusal(folder, replace(turn, seed=7))
    assert "turn 3/decision of question ünï/1 (method full, sample 0): its seed is 7" in said
    assert str(turn.seed) in said


async def test_other_messages_heard_are_refused(folder: RunFolder, asked: list[Turn]) -> None:
    turn = last(asked)
    said = await refusal(folder, replace(turn, heard=turn.heard[:1]))
    heard = sorted(heard.message.id for heard in turn.heard)
    assert f"it hears {turn.heard[0].message.id}," in said
    assert ", ".join(heard) in said
    assert "it hears nothing," in await refusal(folder, replace(turn, heard=()))


async def test_messages_heard_in_another_order_are_the_same(folder: RunFolder, asked: list[Turn]) -> None:
    turn = last(asked)
    reversed_turn = replace(turn, heard=turn.heard[::-1])
    assert await RecordedSpeaker(folder).take(reversed_turn) == await RecordedSpeaker(folder).take(turn)


async def test_other_evidence_is_refused(folder: RunFolder, asked: list[Turn]) -> None:
    turn = last(asked)
    fewer = replace(turn.question, evidence=EVIDENCE[:1])
    assert "evidence is p1," in await refusal(folder, replace(turn, question=fewer))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"discussion": "full/new/0"}, "3 discussions of full"),
        ({"discussion": "full/plain/1"}, "(method full, sample 1)"),
        ({"discussion": "m3prune/plain/0"}, "(method m3prune, sample 0)"),
        ({"agent": "visual_scientist"}, "visual_scientist "),
        ({"round": 9}, "turn 9/decision "),
    ],
)
async def test_a_turn_that_was_never_recorded_is_named(
    folder: RunFolder, asked: list[Turn], change: dict[str, str | int], said: str
) -> None:
    message = await refusal(folder, replace(last(asked), **change))  # type: ignore[arg-type]
    assert said in message
    assert "was never recorded" in message


@pytest.fixture
def copy(folder: RunFolder, tmp_path: Path) -> RunFolder:
    (tmp_path / "traces").mkdir()
    for path in (folder.path / "traces").iterdir():
        (tmp_path / "traces" / path.name).write_bytes(path.read_bytes())
    return RunFolder(tmp_path)


async def test_a_discussion_cut_off_by_a_kill_is_not_there(copy: RunFolder, asked: list[Turn]) -> None:
    path = copy.path / "traces" / "evaluate-full.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    assert "holds 2 discussions" in await refusal(copy, last(asked))


async def test_a_broken_line_is_named(copy: RunFolder, asked: list[Turn]) -> None:
    path = copy.path / "traces" / "evaluate-full.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(["nonsense\n", *lines]))
    assert "evaluate-full.jsonl, line 1: " in await refusal(copy, last(asked))
    told = json.loads(lines[-1])
    del told["turns"]
    path.write_text("".join([*lines[:-1], json.dumps(told, separators=(",", ":")) + "\n"]))
    assert "evaluate-full.jsonl: " in await refusal(copy, last(asked))


def config(*words: str) -> Config:
    return load(joined("experiment=mmqa_prune", "data.limit=3", "methods=[closed_book,single,full]", *words))


def planned(*words: str) -> Plan:
    return plan_of(config(*words))


@pytest.mark.parametrize(
    "word",
    """data.limit=2 methods=[full] judge=reader model=replay model.replicas=7 roles.text_critic.model.name=other
roles.text_critic.reader.error_rate=0 concurrency=1 agents.retries=0 wandb.mode=disabled figures=false runtime=inline
output=elsewhere completions.reuse=false""".split(),
)
def test_what_changes_no_turn_may_differ(word: str) -> None:
    check_same(config(word), config())


@pytest.mark.parametrize(
    "word",
    """seed=1 topology.rounds=3 topology.text=[critic] agents.temperature=0.1 agents.max_tokens=9
agents.budget_words=50 retrieval.texts=3 pruning.steps=2 learner.learning_rate=0.5 training.samples=3
ablation=no_inter data=tatqa roles.text_critic.agent=a.b:c""".split(),
)
def test_what_changes_turns_must_be_as_recorded(word: str) -> None:
    key = word.partition("=")[0]
    with pytest.raises(UserError, match=re.escape(key)) as refused:
        check_same(config(word), config())
    assert "\n" not in str(refused.value)


def test_all_differences_are_named_at_once() -> None:
    with pytest.raises(UserError, match=r"\bseed=0 \(not 1\), topology\.rounds=2 \(not 4\)"):
        check_same(config("seed=1", "topology.rounds=4"), config())


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("data.limit=4", r"data\.limit=4: only 3\b"),
        ("data.limit=null", r"data\.limit=null: only 3\b"),
        ("methods=[full,random]", "methods: random "),
    ],
)
def test_more_than_was_recorded_cannot_be_replayed(word: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_same(config(word), config())


def test_a_run_of_all_questions_can_be_replayed_with_any_number() -> None:
    check_same(config("data.limit=9"), config("data.limit=null"))
    check_same(config("data.limit=null"), config("data.limit=null"))


async def test_a_recorded_run_is_opened_by_its_folder(folder: RunFolder, asked: list[Turn], tmp_path: Path) -> None:
    recorded, then = open_recorded(planned("model=replay", f"replay.run={folder.path}"))
    assert then.model.kind == "reader"
    assert (await recorded.take(asked[0])).message.agent == asked[0].agent
    with pytest.raises(UserError, match="seed=0"):
        open_recorded(planned("model=replay", f"replay.run={folder.path}", "seed=1"))
    with pytest.raises(UserError, match="needs replay\\.run="):
        open_recorded(planned("model=replay"))
    with pytest.raises(UserError, match=re.escape(str(tmp_path))):
        open_recorded(planned("model=replay", f"replay.run={tmp_path}"))


def test_what_was_learned_is_taken_over(folder: RunFolder, tmp_path: Path) -> None:
    new = RunFolder.create(tmp_path, "replay")
    copy_learning(folder, new)
    taken, graph = new.learned("m3prune"), folder.learned("m3prune")
    with LearningRecorder(taken) as recorder:
        assert recorder.checkpoint is not None
        assert (recorder.checkpoint.stage, recorder.checkpoint.step) == (1, 1)
        assert list(taken.traces("train-1")) == list(graph.traces("train-1"))
        assert list(taken.learning()) == list(graph.learning())
    with Recorder(new) as evaluated:
        assert not evaluated.done("full")


def test_an_interrupted_takeover_starts_again(folder: RunFolder, tmp_path: Path) -> None:
    new = RunFolder.create(tmp_path, "replay")
    copy_learning(folder, new)
    taken = new.learned("m3prune")
    taken.topology.unlink()
    with LearningRecorder(taken) as recorder:
        assert recorder.checkpoint is None
    copy_learning(folder, new)
    assert list(taken.traces("train-1")) == list(folder.learned("m3prune").traces("train-1"))


def test_a_run_that_learned_nothing_leaves_nothing_to_take_over(copy: RunFolder, tmp_path: Path) -> None:
    new = RunFolder.create(tmp_path / "new", "replay")
    copy_learning(copy, new)
    assert not new.topology.exists()


def ids(items: Iterator[Item]) -> list[str]:
    return [item.question.id for item in items]


def test_fewer_questions_are_some_of_those_recorded(tmp_path: Path) -> None:
    then = config("data.limit=12", "pruning.steps=1")
    whole = replayed_dataset(plan_of(then), then, tmp_path)
    few = replayed_dataset(planned("data.limit=4", "pruning.steps=1"), then, tmp_path)
    more = replayed_dataset(planned("data.limit=8", "pruning.steps=1"), then, tmp_path)
    assert len(ids(few.evaluate())) == 4
    assert set(ids(few.evaluate())) < set(ids(more.evaluate())) < set(ids(whole.evaluate()))
    assert ids(few.train()) == ids(whole.train())
    assert few.metric == whole.metric
    item = next(few.evaluate())
    assert few.score(item, item.gold[0]) == whole.score(item, item.gold[0])
