"""Two graphs that are learned from one graph's discussions, in this process: cheaper, resumable, and told honestly."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.errors import UserError
from actors.messages import Status, Turn, TurnResult
from experiments.analysis.run_table import run_table
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.evidence.evidence import Evidence
from experiments.jobs import plan_of
from experiments.records.recorder import LEARNING, LearningRecorder, RunFolder
from experiments.records.records import LearningStep
from experiments.records.tracking import Tracker
from experiments.records.usage import by_phase
from experiments.running.inputs import open_dataset, open_store
from experiments.running.recorded_speaker import RecordedSpeaker
from experiments.running.replayed_run import copy_learning
from experiments.sweeps.trial_run import run_trial
from experiments.sweeps.trial_steps import Report
from tests.experiments.running.test_attacked_run import SMALL, Team, carry_out
from tests.support.words import joined

BOTH = [
    "methods=[full,m3prune,effects]",
    "training.share=true",
    "topology.text=[critic,scientist]",
    "topology.visual=[critic]",
]


def records(folder: RunFolder, *methods: str) -> dict[str, bytes]:
    """All that is written down of what these methods learned, and of how all answered, but for prompts and times."""
    files = [
        path
        for method in methods
        for path in folder.learned(method).path.rglob("*.jsonl")
        if path.parent.name not in ("timings", "turns")
    ]
    files += [folder.learned(method).path / "edge_scores.json" for method in methods]
    files += [*folder.path.glob("traces/*"), folder.metrics]
    return {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def shared(output: Path) -> RunFolder:
    return carry_out(BOTH, output)


@pytest.fixture(scope="module")
def apart(output: Path) -> RunFolder:
    return carry_out([*BOTH, "training.share=false"], output)


def test_effects_holds_discussions_to_confirm_its_cut_alone_and_those_of_m3prune_are_as_they_were(
    shared: RunFolder, apart: RunFolder
) -> None:
    donor = [f"learned/m3prune/{name}" for name in (LEARNING, "traces/train-1.jsonl", "traces/train-2.jsonl")]
    one, other = records(shared, "m3prune"), records(apart, "m3prune")
    assert [one[name] for name in donor] == [other[name] for name in donor]
    shared_traces, apart_traces = (run.learned("effects").path / "traces" for run in (shared, apart))
    assert [path.stem for path in shared_traces.glob("*.jsonl")] == ["train-2"]
    assert len(list(shared.learned("effects").traces("train-2"))) == 2
    assert len(list(apart_traces.glob("*.jsonl"))) == 2
    phases = [phase for phase in by_phase(shared) if phase.startswith("learning")]
    assert phases == ["learning m3prune, stage 1", "learning m3prune, stage 2", "learning effects, stage 2"]
    steps = [(step.stage, step.step) for step in shared.learned("effects").learning()]
    assert steps == [(stage, step) for stage in (1, 2) for step in range(3)]


def test_tokens_of_training_count_once_and_the_table_says_where(shared: RunFolder, apart: RunFolder) -> None:
    rows, own = (json.loads(folder.metrics.read_text())["methods"] for folder in (shared, apart))
    assert rows["effects"]["learned_from"] == "m3prune"
    assert rows["m3prune"]["training_tokens"] == own["m3prune"]["training_tokens"] > 0
    assert own["effects"]["training_tokens"] > rows["effects"]["training_tokens"] > 0
    assert not any("learned_from" in row for row in (rows["m3prune"], *own.values()))
    told = "effects was learned from the discussions of m3prune, whose tokens are counted there, once."
    assert told in run_table(json.loads(shared.metrics.read_text())).notes
    assert told not in run_table(json.loads(apart.metrics.read_text())).notes


def test_a_record_says_whose_discussions_it_learned_from_only_where_they_were_not_its_own(
    shared: RunFolder, apart: RunFolder
) -> None:
    *learned, confirmed = shared.learned("effects").learning()
    assert {step.source for step in learned} == {"m3prune"}
    assert not confirmed.source
    assert confirmed.confirmed
    assert {step.source for step in apart.learned("effects").learning()} == {""}
    for folder, method in ((apart, "effects"), (shared, "m3prune")):
        assert b'"source"' not in (folder.learned(method).path / LEARNING).read_bytes()


class Killed(Exception):
    """The process ends here."""


# Of each step effects is recorded first and then m3prune, and a stage has three records: after 3 effects alone has
# taken its first step, after 7 it alone has begun the second stage, after 11 it alone is left, to confirm its cut.
@pytest.mark.parametrize(
    "writes", [3, 7, pytest.param(1, marks=pytest.mark.slow), pytest.param(11, marks=pytest.mark.slow)]
)
def test_a_run_killed_between_the_records_of_a_step_goes_on_and_ends_the_same(
    shared: RunFolder, output: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    written, learned = 0, LearningRecorder.learned
    folders: list[RunFolder] = []

    def counted(self: LearningRecorder, step: LearningStep, state: Mapping[str, np.ndarray]) -> None:
        nonlocal written
        learned(self, step, state)
        folders.append(RunFolder(self.run.path.parent.parent))
        written += 1
        if written == writes:
            raise Killed

    monkeypatch.setattr(LearningRecorder, "learned", counted)
    with pytest.raises((Killed, ExceptionGroup)):
        carry_out(BOTH, output)
    monkeypatch.undo()
    folder = carry_out(BOTH, output, folders[0])
    assert records(folder, "m3prune", "effects") == records(shared, "m3prune", "effects")


def test_it_is_replayed_from_the_discussions_or_with_what_was_learned(shared: RunFolder, output: Path) -> None:
    again = carry_out(BOTH, output, speaker=RecordedSpeaker(shared))
    assert records(again, "m3prune", "effects") == records(shared, "m3prune", "effects")
    # Of the two effects alone: what it learned is taken over, with whose discussions it was.
    fewer = RunFolder.create(output, "fewer")
    copy_learning(shared, fewer)
    carry_out(["methods=[full,effects]"], output, fewer, speaker=RecordedSpeaker(shared))
    assert json.loads(fewer.metrics.read_text())["methods"]["effects"]["learned_from"] == "m3prune"


def test_effects_that_lacks_steps_or_has_learned_from_its_own_is_told_what_to_do(
    shared: RunFolder, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = carry_out(BOTH, output)
    lost.learned("effects").topology.unlink()
    with pytest.raises(ExceptionGroup) as raised:
        carry_out(BOTH, output, lost)
    told = r"effects cannot go on .* of m3prune: .*; delete .*/effects/topology.* and .*"
    assert raised.group_contains(UserError, match=told)
    begun = RunFolder.create(output, "begun")
    original = LearningRecorder.learned

    def first_step(self: LearningRecorder, step: LearningStep, state: Mapping[str, np.ndarray]) -> None:
        original(self, step, state)
        if step.step == 1:
            raise Killed

    monkeypatch.setattr(LearningRecorder, "learned", first_step)
    with pytest.raises((Killed, ExceptionGroup)):
        carry_out(["methods=[full,effects]"], output, begun)
    monkeypatch.undo()
    with pytest.raises(ExceptionGroup) as raised:
        carry_out(BOTH, output, begun)
    assert raised.group_contains(UserError, match="^effects ")


class Parting(Team):
    async def part(self) -> None:
        pass


class Broken(Parting):
    """A team that fails in one method."""

    async def take(self, turn: Turn) -> TurnResult:
        result = await super().take(turn)
        if turn.discussion.startswith("full/"):
            return TurnResult(replace(result.message, status=Status.FAILED, error="down"))
        return result


async def reported(output: Path, folder: RunFolder, config: Config, team: type[Parting], most: int) -> list[Report]:
    """The reports of a trial, which is stopped after so many."""
    dataset = open_dataset(plan_of(config), output / "cache")
    evidence = Evidence(open_store(config.retrieval, dataset, output / "cache"), config.retrieval)
    opened: Any = SimpleNamespace(
        shared=SimpleNamespace(agents=SimpleNamespace(speaker=lambda id: team(config))),
        judge=None,
        data=SimpleNamespace(of=lambda plan: (dataset, evidence)),
    )
    reports: list[Report] = []
    trial = run_trial(folder.path, opened, each_step=True)
    async for report in trial:
        reports.append(report)
        if len(reports) == most:
            break
    await trial.aclose()  # type: ignore[attr-defined]
    return reports


def test_a_trial_in_which_a_method_failed_is_no_result_until_it_is_asked_again(output: Path) -> None:
    config = load(joined(*SMALL, "methods=[single,full]", f"output={output}"))
    folder = RunFolder.create(output, "broken")
    save(config, folder.config)
    [report] = asyncio.run(reported(output, folder, config, Broken, 99))
    assert report.failed.startswith("method full: ")
    assert not report.finished
    [report] = asyncio.run(reported(output, folder, config, Parting, 99))
    assert report.finished


@pytest.mark.parametrize("stopped_after", [0, 3])
def test_a_trial_counts_each_step_once_also_when_it_is_resumed(output: Path, stopped_after: int) -> None:
    config = load(joined(*SMALL, *BOTH, f"output={output}"))
    folder = RunFolder.create(output, "trial")
    save(config, folder.config)
    first = asyncio.run(reported(output, folder, config, Parting, stopped_after)) if stopped_after else []
    reports = asyncio.run(reported(output, folder, config, Parting, 99))
    assert [report.steps for report in (*first, *reports)] == [1, 2, 3, 4, 4]
    assert reports[-1].finished
    utilities = [step.terms["utility"] for step in folder.learned("m3prune").learning() if step.terms]
    assert reports[-1].utility == pytest.approx(sum(utilities) / 4)


def test_each_has_its_curve(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[Mapping[str, Any]] = []
    monkeypatch.setattr(Tracker, "log", lambda self, step: logged.append(step))
    carry_out(BOTH, output)
    spent, own = ([step[key] for step in logged if key in step] for key in ("m3prune/tokens", "effects/tokens"))
    assert len(spent) == len(own) == 4
    assert min(spent) > 0
    # The last step confirms its cut.
    assert [tokens > 0 for tokens in own] == [False, False, False, True]
