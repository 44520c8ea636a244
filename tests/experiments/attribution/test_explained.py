"""Interventions serve what they can from the record, and name the turns that made an answer what it is."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar, cast

import pytest
from playwright.sync_api import expect

from actors.messages import Lookup, Message, Question, Status, Trace
from experiments.attribution import explained_run
from experiments.attribution.explain import Explanation
from experiments.attribution.intervention import Replay, agents_of
from experiments.attribution.opened_run import OpenedRun
from experiments.attribution.recorded_discussions import RecordedDiscussions
from experiments.config.setting_groups import ExplainSettings
from experiments.datasets.item import Dataset, Score
from experiments.records.attribution import (
    ATTRIBUTION,
    BY_DECISION,
    JOINED,
    NOT_THE_ATTACK,
    THE_ATTACK,
    UNKNOWN,
    Effect,
    Explained,
    explained,
)
from experiments.records.recorder import RunFolder
from run import main
from tests.support.browser import browser, find
from topologies.topology import DECISION_AGENT

T = TypeVar("T")
SMALL = ["wandb.mode=disabled", "figures=false", "runtime=inline"]
SENDERS = ("text_critic", "text_logic_expert", "visual_critic", "visual_scientist")
MARKUP = "<img src=x onerror='window.obeyed=1'>"


def ran(output: Path, *words: str, questions: int = 6) -> RunFolder:
    assert main(["experiment=full", *SMALL, f"data.limit={questions}", *words, f"output={output}"]) == 0
    [folder] = output.glob("2*")
    return RunFolder.open(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two attackers, and the same questions without them; explained at the run's end."""
    attack = ["attack=collude", "attack.number=2", "attack.clean=true", "compare.margin=0.2"]
    return ran(tmp_path_factory.mktemp("runs"), *attack, "explain.answers=3", "explain.search=groups")


def replayed(run: RunFolder, line: int, work: Callable[[Replay, Trace], Awaitable[T]], clean: bool = True) -> T:
    """Does work with the replay of a line of `full`, and its trace without the attack."""

    async def held() -> T:
        opened = OpenedRun(run)
        discussions = RecordedDiscussions(opened)
        async with agents_of(opened) as agents:
            attacked, honest = [await discussions.open(group, line) for group in ("full", "full-clean")]
            replay = Replay(attacked, agents)
            for discussion in (attacked, honest) if clean else (attacked,):
                replay.add(await discussion.heard())
            return await work(replay, honest.trace)

    return asyncio.run(held())


def test_without_an_intervention_the_record_answers_every_turn(run: RunFolder) -> None:
    async def work(replay: Replay, clean: Trace) -> None:
        assert await replay.hold() == replay.discussion.trace
        assert not replay.asked

    for line in (1, 2):
        replayed(run, line, work)


@pytest.mark.parametrize("known", [True, False])
def test_with_all_attackers_honest_the_discussion_is_the_one_without_the_attack(run: RunFolder, known: bool) -> None:
    async def work(replay: Replay, clean: Trace) -> int:
        attacked = replay.discussion.trace.attacked
        assert len(attacked) == 2
        turns = [turn.id for turn in replay.discussion.trace.turns if turn.agent in attacked]
        assert (await replay.hold(turns)).turns == clean.turns
        return len(replay.asked)

    # Where the evaluation without the attack is known, nothing is asked.
    assert (replayed(run, 1, work, clean=known) == 0) == known


def test_only_turns_downstream_are_asked_again(run: RunFolder) -> None:
    async def work(replay: Replay, clean: Trace) -> None:
        trace = replay.discussion.trace
        last = [turn for turn in trace.turns if turn.round == 2][-1]
        changed = await replay.hold([last.id], "silence")
        assert [turn.agent for turn in replay.asked] == ["decision"]
        assert last.id not in changed.turns[-1].heard
        before = len(replay.asked)
        # The same again, and one message that is not heard, which the decision without it has seen already.
        assert await replay.hold([last.id], "silence") == changed
        assert (await replay.hold(unheard=(trace.turns[-1].id, last.id))).answer == changed.answer
        assert len(replay.asked) == before

    replayed(run, 1, work)


def test_a_run_explains_answers_at_its_end_and_a_command_explains_all(run: RunFolder, tmp_path: Path) -> None:
    found = list(explained(run))
    assert 0 < len(found) <= 3
    assert all(each.utility < 1 and each.by == "counterpart" for each in found)
    copy = RunFolder.open(Path(shutil.copytree(run.path.parent, tmp_path / "runs")) / run.name)
    exhaustive = [f"explain={copy.path}", "explain.search=single", "explain.budget=100"]
    assert main(exhaustive) == 0
    every = list(explained(copy))
    assert len(every) == sum(scored.method == "full" and scored.utility < 1 for scored in copy.scores())
    for each in every:
        traces = {trace.question: trace for trace in copy.traces("evaluate-full")}
        attacked = traces[each.question].attacked
        kinds = [effect.kind for effect in each.effects]
        assert (kinds.count("attack"), kinds.count("turn"), kinds.count("agent")) == (1, 4, 2)
        assert each.finished
        assert set(each.culprits) <= set(attacked)
        speakers = {turn.agent for turn in traces[each.question].turns}
        assert set(each.suspicion) == speakers == set(each.suspects)  # too few to calibrate
        changed = {effect.of for effect in each.effects if effect.changed}
        assert each.turn in {"", *changed}
        assert not (each.agent and each.group)
        assert set(each.group) in (set(), set(attacked))
        assert bool(each.agent or each.group) == bool(changed - {f"3/{DECISION_AGENT}", ""})
        assert each.cause
        assert each.recorded > 0
        assert (each.asked > 0) == (each.tokens > 0)
    # The quick search agrees wherever it finds something.
    by_question = {each.question: each for each in every}
    for each in found:
        assert not each.turn or each.turn in {effect.of for effect in by_question[each.question].effects}
    written = (copy.path / ATTRIBUTION).read_bytes()
    assert main(exhaustive) == 0
    assert (copy.path / ATTRIBUTION).read_bytes() == written


@pytest.mark.slow
def test_right_answers_by_other_samples_of_all_turns(run: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder.open(Path(shutil.copytree(run.path.parent, tmp_path / "runs")) / run.name)
    words = ["explain.which=right", "explain.by=sample", "explain.search=single"]
    words += ["explain.answers=1", "explain.method=full-clean", "explain.budget=100"]
    assert main([f"explain={copy.path}", *words]) == 0
    [each] = explained(copy)
    assert each.utility == 1
    assert each.method == "full-clean"
    turns = [effect.of for effect in each.effects if effect.kind == "turn"]
    assert len(turns) == 19, "another sample of the decision agent's turn is tried as well"


@pytest.mark.slow
def test_a_search_keeps_to_its_budget_and_says_where_it_ended(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = RunFolder.open(Path(shutil.copytree(run.path.parent, tmp_path / "runs")) / run.name)
    words = [f"explain={copy.path}", "explain.by=silence", "explain.search=single"]
    spent = []
    for budget in (0.2, 1.0, 100.0):
        assert main([*words, f"explain.budget={budget}"]) == 0
        every = list(explained(copy))
        unfinished = [each for each in every if not each.finished]
        assert f"ended the search in {len(unfinished)} answers" in capsys.readouterr().out
        assert bool(unfinished) == (budget < 100)
        assert {each.cause for each in unfinished if not each.effects} <= {UNKNOWN, BY_DECISION}
        spent.append(sum(each.tokens for each in every))
        assert spent[-1] <= budget * sum(each.recorded for each in every)
    assert 0 <= spent[0] < spent[1] < spent[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "causes"),
    [
        (["attack=response", "attack.agents=[decision]"], {DECISION_AGENT}),
        (["attack=drop", f"attack.agents=[{','.join(SENDERS)}]", "attack.share=1"], set(SENDERS)),
        (["attack=delay", "attack.share=1"], set()),
        (["attack=poison"], {THE_ATTACK}),
    ],
    ids=["decision", "drop", "delay", "poison"],
)
def test_what_the_honest_team_answers_decides_whether_an_attack_is_a_cause(
    attack: list[str], causes: set[str], tmp_path: Path
) -> None:
    words = ["attack.clean=true", "explain.answers=12", "explain.budget=100"]
    run = ran(tmp_path, *attack, *words, questions=12)
    answers = {}
    for method in ("full", "full-clean"):
        for trace in run.traces(f"evaluate-{method}"):
            answers[method, trace.question] = (trace.answer or "").casefold()
    every = list(explained(run))
    assert every
    for each in every:
        is_caused = answers["full", each.question] != answers["full-clean", each.question]
        assert is_caused == (each.cause not in {NOT_THE_ATTACK, BY_DECISION})
        if is_caused and causes:
            assert set(each.cause.split(JOINED)) <= causes
    # Delayed messages need not matter in so few discussions.
    assert not causes or any(set(each.cause.split(JOINED)) <= causes for each in every)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["explain.budget=0"], "explain.budget"),
        (["explain.method=half"], "explain.method"),
        (["explain.search=shapley"], "explain.search"),
        (["explain.by=magic"], "explain.by"),
        (["explain.calibration=nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line(
    run: RunFolder, words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"explain={run.path}", *words]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_models_elsewhere_have_to_be_named_again(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(run.path, tmp_path / "received"))
    config = (folder / "config.yaml").read_text()
    assert "kind: reader" in config
    changed = config.replace("kind: reader", "kind: openai", 1).replace(
        "base_url: null", "base_url: http://nobody.test/v1"
    )
    (folder / "config.yaml").write_text(changed)
    assert main([f"explain={folder}"]) == 2
    assert "model.base_url" in capsys.readouterr().err


@pytest.mark.slow
def test_sweeps_and_replays_explain_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment=full", "explain.answers=1", "sweep.seeds=2"]) == 2
    assert "explain.answers" in capsys.readouterr().err


@pytest.mark.slow
def test_a_discussion_goes_on_from_a_turn(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    trace = next(run.traces("evaluate-full"))
    words = [f"replay.run={run.path}"]
    [second] = [turn.id for turn in trace.turns if turn.agent == "text_scientist" and turn.round == 2]

    def now(*more: str) -> dict[str, list[str]]:
        assert main([*words, *more]) == 0
        lines = capsys.readouterr().out.splitlines()[1:]
        return {line.split()[0]: line.split()[1:] for line in lines if "/" in line.partition(" ")[0]}

    # The recorded answer again changes nothing, another one stands as it is given.
    assert not now(f"replay.from=full:1:{second}")
    changed = now(f"replay.from=full:1:{second}", "replay.answer=Atlantis")
    assert changed[second][-1] == "Atlantis"
    assert all(int(id[0]) >= 2 for id in changed)
    # Another model for this and all later turns: those before are the recorded ones.
    later = [turn.id for turn in trace.turns][[turn.id for turn in trace.turns].index(second) :]
    changed = now(f"replay.from=full:1:{second}", "reader.threshold=9")
    assert set(changed) <= set(later)
    assert changed[second][-1] == "None"


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["full:1:9/nobody", "full", "full:0:1/text_critic", "none:1:1/text_critic", "full:x:1"]
)
def test_a_place_that_is_not_recorded_is_named(run: RunFolder, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"replay.from={place}", f"replay.run={run.path}"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Traceback" not in error


@pytest.mark.slow
def test_a_damaged_record_is_named(run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Path(shutil.copytree(run.path, tmp_path / "other"))
    (other / ATTRIBUTION).write_text('{"method": 3}\n')
    assert main([f"explain={run.path}", f"explain.calibration={other}"]) == 2
    assert ATTRIBUTION in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_is_written_again_with_its_runs_margin(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, object] = {}
    monkeypatch.setattr(explained_run, "write_run_report", lambda *_, **named: written.update(named))
    assert main([f"explain={run.path}", "explain.answers=1"]) == 0
    assert written["margin"] == 0.2


@pytest.mark.slow
def test_damaged_metrics_are_named_before_anything_is_asked(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    (copy / "metrics.json").write_text('{"methods": ')
    before = (copy / ATTRIBUTION).read_bytes()
    assert main([f"explain={copy}"]) == 2
    assert "metrics.json" in capsys.readouterr().err
    assert (copy / ATTRIBUTION).read_bytes() == before


@pytest.mark.ray
@pytest.mark.skipif(find() is None, reason="no Chromium or Chrome on this machine")
def test_the_report_marks_the_turn_and_shows_what_the_answer_would_have_been(run: RunFolder, tmp_path: Path) -> None:
    from experiments.analysis.reports import write_run_report

    copy = RunFolder.open(Path(shutil.copytree(run.path, tmp_path / "run")))
    trace = next(copy.traces("evaluate-full"))
    of = trace.turns[3].id
    [first, *_] = explained(copy)
    effects = (
        Effect("turn", of, MARKUP, 1.0, True),
        Effect("edge", f"{of} -> {trace.turns[-1].id}", "elsewhere", 0.0, True),
    )
    named = replace(first, question=trace.question, agent=trace.turns[3].agent, turn=of, effects=effects)
    named = replace(named, suspects=(MARKUP,))
    (copy.path / ATTRIBUTION).write_text(f"{named.encode()}\n")
    metrics = json.loads(copy.metrics.read_bytes())
    report = write_run_report(copy, metrics, "full", [])
    with browser() as one:
        page = one.open(report, f"#full/{trace.question}")
        decisive = page.locator(".turn", has=page.get_by_text("decisive", exact=True))
        expect(decisive).to_have_count(1)
        expect(decisive).to_contain_text(MARKUP)
        expect(page.get_by_text("elsewhere")).to_have_count(1)
        expect(page.get_by_text("Attribution")).to_have_count(1)
        assert page.locator("img").count() == 0
        assert not one.complaints


class Planted:
    """A replay whose answer changes where certain agents are honest together; `Explanation` asks nothing else of it."""

    def __init__(self, culprits: set[str], decision_heard: Sequence[str] = ("Oslo",)) -> None:
        agents = tuple("abcde")
        turns = [Message(f"1/{agent}", agent, 1, answer="Oslo") for agent in agents]
        turns[: len(decision_heard)] = [
            replace(turn, answer=answer) for turn, answer in zip(turns, decision_heard, strict=False)
        ]
        decision = Message(
            f"2/{DECISION_AGENT}", DECISION_AGENT, 2, answer="Oslo", heard=tuple(turn.id for turn in turns)
        )
        trace = Trace(
            "q", "full", 0, agents, (*turns, decision), answer="Oslo", status=Status.OK, seed=0, attacked=agents
        )
        self.discussion = SimpleNamespace(trace=trace, question=Question("q", "Where?"), item=None)
        self.asked: list[Message] = []
        self.tries = 0
        self._culprits = culprits

    async def most_tokens(self, turns: Collection[str], by: str, unheard: tuple[str, str]) -> int:
        return 1

    async def hold(self, turns: Collection[str], by: str, unheard: tuple[str, str]) -> Trace:
        self.tries += 1
        honest = {turn.rpartition("/")[2] for turn in turns}
        is_changed = bool(self._culprits) and self._culprits <= honest
        return replace(self.discussion.trace, answer="Bergen" if is_changed else "Oslo")


@pytest.mark.parametrize(
    ("culprits", "heard", "agent", "group", "cause"),
    [
        ({"c"}, ["Oslo"], "c", (), "c"),
        ({"b", "d"}, ["Oslo"], "", ("b", "d"), "b + d"),
        ({"a", "c", "e"}, ["Oslo"], "", ("a", "c", "e"), "a + c + e"),
        (set(), ["Oslo"], "", (), NOT_THE_ATTACK),
        (set(), ["Bergen", "Bergen", "Bergen"], "", (), BY_DECISION),
    ],
    ids=["one agent", "two", "three", "none", "the decision agent"],
)
async def test_the_smallest_set_is_found_of(
    culprits: set[str], heard: list[str], agent: str, group: tuple[str, ...], cause: str
) -> None:
    dataset = SimpleNamespace(score=lambda item, answer: Score(float(answer == "Bergen"), 0.0))
    for search in ("single", "groups"):
        planted = Planted(culprits, heard)
        explanation = Explanation(cast(Replay, planted), cast(Dataset, dataset), "counterpart")
        explained_answer = await explanation.explain(ExplainSettings(search=search), seed=0, budget=2)
        assert explained_answer.agent == agent
        assert sorted(explained_answer.group) == sorted(group)
        assert sorted(explained_answer.cause) == sorted(cause)
        assert explained_answer.finished
        assert Explained.decode(explained_answer.encode()) == explained_answer
        # The whole attack is tried first; where it changes nothing, nothing else is tried.
        assert planted.tries > 1 or not culprits


async def test_without_tokens_nothing_is_tried_and_nothing_is_concluded() -> None:
    dataset = SimpleNamespace(score=lambda item, answer: Score(0.0, 0.0))
    explanation = Explanation(cast(Replay, Planted({"c"})), cast(Dataset, dataset), "counterpart")
    explained_answer = await explanation.explain(ExplainSettings(), seed=0, budget=0.5)
    assert (explained_answer.finished, explained_answer.cause) == (False, UNKNOWN)


@pytest.mark.parametrize(("searched_corpus", "cause"), [(object(), UNKNOWN), (None, NOT_THE_ATTACK)])
async def test_a_system_that_searches_an_attacked_corpus_has_no_honest_discussion(
    searched_corpus: object, cause: str
) -> None:
    dataset = SimpleNamespace(score=lambda item, answer: Score(0.0, 0.0))
    planted = Planted(set())
    lookups = (Lookup("texts", "Where?", ()),)
    planted.discussion.trace = replace(planted.discussion.trace, attack="corpus", attacked=(), lookups=lookups)
    planted.discussion.attack = SimpleNamespace(evidence=searched_corpus)
    explanation = Explanation(cast(Replay, planted), cast(Dataset, dataset), "counterpart")
    assert (await explanation.explain(ExplainSettings(), seed=0, budget=2)).cause == cause
