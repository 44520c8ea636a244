"""A guard with a few labels: its bound at the boundary, by exact sums, and what it is told."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import islice
from math import comb, fsum
from pathlib import Path
from typing import Any, cast

import pytest

from actors.messages import Message, Question, Status, Trace, Turn
from experiments.config.loading import load
from experiments.dry_run.power_notes import probe_note
from experiments.jobs import plan_of
from experiments.planning.topologies import known_of
from experiments.records.recorder import Recorder, RunFolder
from experiments.running.inputs import open_dataset, watched_items
from topologies.catalogue import OURS
from topologies.defences.probes import fewest_probes, most_right
from topologies.method import DefenceSettings, Known, MethodContext, SystemSettings

AGENTS = tuple(f"a{number}" for number in range(9))


def isolated(probes: Mapping[str, tuple[int, int]], **settings: Any) -> list[str]:
    """Agents that the guard isolates, which it is told these numbers of right answers and of answers."""
    nothing = cast(Any, None)
    defence = DefenceSettings(**settings)
    context = MethodContext("probes", AGENTS, 2, 0, nothing, SystemSettings(), defence, nothing, nothing)
    topology = OURS["probes"].make(replace(context, known=Known(probes=probes)))

    async def ask(turn: Turn) -> Message:
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round)

    trace = asyncio.run(topology.answer(Question("q", "Where?"), ask, 0))
    speakers = {turn.agent for turn in trace.turns}
    silenced = [agent for agent, weight in zip(AGENTS, trace.weights[-1], strict=True) if weight == 0]
    assert speakers.isdisjoint(silenced)
    return silenced


def chance(right: int, probes: int, accuracy: float) -> float:
    return comb(probes, right) * accuracy**right * (1 - accuracy) ** (probes - right)


@pytest.mark.parametrize("least", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("probes", [24, 40, 97])
def test_an_agent_of_the_least_accuracy_is_isolated_with_a_ninth_of_the_error_rate_at_most(
    probes: int, least: float
) -> None:
    isolating = []
    for right in range(probes + 1):
        # The others fare well, so that not all would be isolated.
        told = dict.fromkeys(AGENTS, (probes, probes)) | {"a3": (right, probes)}
        if isolated(told, least_accuracy=least):
            isolating.append(right)
    defence = DefenceSettings(least_accuracy=least)
    most = most_right(probes, len(AGENTS), defence)
    assert isolating == list(range(most + 1))
    assert bool(isolating) == (probes >= fewest_probes(len(AGENTS), defence))

    for accuracy in (least, least + 0.1):
        assert fsum(chance(right, probes, accuracy) for right in isolating) <= 0.05 / len(AGENTS)
    # With one right answer more it would be more than allowed: the bound is used up.
    allowed = fsum(chance(right, probes, least) for right in range(most + 2))
    assert allowed > 0.05 / len(AGENTS)


def test_a_liar_is_isolated_for_good_and_who_is_sometimes_right_is_not() -> None:
    told = dict.fromkeys(AGENTS, (20, 40)) | {"a5": (0, 40), "a6": (4, 40)}
    assert isolated(told) == ["a5"]
    # Without a single answer there is no evidence, and with all isolated there would be no discussion.
    assert isolated(told | {"a5": (0, 0)}) == []
    assert isolated(dict.fromkeys(AGENTS, (0, 40))) == []
    assert isolated({}) == []


WORDS = [
    *("experiment=mmqa_prune", "methods=[full,agreement,probes]", "defence.calibration=64"),
    *("defence.least_accuracy=0.5", "topology.text=[critic,scientist]", "topology.visual=[critic]", "data.limit=4"),
]


def test_probes_are_one_of_each_document_and_the_guard_is_told_numbers_alone(cache: Path, tmp_path: Path) -> None:
    plan = plan_of(load(WORDS))
    dataset = open_dataset(plan, cache)
    items = watched_items(dataset, plan)
    clusters = [item.cluster for item in items]
    assert len(clusters) == len(set(clusters)) == len({item.cluster for item in islice(dataset.train(), 64)})

    right, wrong, failing = plan.roles.agents
    traces = []
    for item in items:
        turns = [
            Message(f"1/{right}", right, 1, "", "no idea"),
            Message(f"1/{wrong}", wrong, 1, "", item.gold[0]),
            # The last answer counts, also of a reply that cannot be read; a failed turn does not.
            Message(f"2/{right}", right, 2, "", item.gold[0]),
            Message(f"2/{wrong}", wrong, 2, "", None, status=Status.UNPARSED),
            Message(f"2/{failing}", failing, 2, "", None, status=Status.FAILED),
        ]
        agents = tuple(plan.roles.agents)
        traces.append(Trace(item.question.id, "calibrate", 0, agents, tuple(turns), None, Status.OK, 0))
    run = RunFolder(tmp_path)
    with Recorder(run) as recorder:
        recorder.calibrated(traces)

    [agreement, probes] = plan.methods[1:]
    known = known_of(probes, plan, dataset, run, ended=False)
    assert known == Known(probes={right: (len(items), len(items)), wrong: (0, len(items)), failing: (0, 0)})
    # A defence without labels is told none of it.
    assert known_of(agreement, plan, dataset, run, ended=False) is None
    assert {"gold", "label", "answers"}.isdisjoint(field.name for field in fields(MethodContext))


def test_a_dry_run_says_whom_the_guard_finds() -> None:
    note = probe_note(DefenceSettings(), 40, 9)
    shares = [fsum(chance(right, 40, accuracy) for right in range(2)) for accuracy in (0.05, 0.1, 0.2)]
    assert "at most 1 right" in note
    assert all(f"{share:.1%}" in note for share in shares)
