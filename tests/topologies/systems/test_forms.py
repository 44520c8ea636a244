"""The forms that systems ask replies in are those on which the reader is tested, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.messages import Field
from experiments.config.loading import load
from experiments.conformance.methods import MethodInWorld
from experiments.conformance.scripted import SYSTEMS, improvised, stubborn
from experiments.conformance.world import World, sample_world
from tests.actors.prompting.forms import FORMS
from tests.topologies.systems.test_systems import experiment_of

pytestmark = pytest.mark.slow

REPLIES = (improvised(1), improvised(2), improvised(3), stubborn(0), stubborn(-1))


def shape(fields: tuple[Field, ...]) -> tuple[tuple[object, ...], ...]:
    """What the reader goes by: all of a form but what its fields ask for in words."""
    return tuple((field.kind, field.value, field.values, field.many, field.optional) for field in fields)


async def asked(name: str, world: World) -> set[tuple[tuple[object, ...], ...]]:
    """The shapes of all tasks that a system sets on the sample, whatever its agents reply."""
    system = MethodInWorld(SYSTEMS[name], load([f"experiment={experiment_of(name)}"]), world)
    discussions = [await system.observe(reply, item=item) for reply in REPLIES for item in world.items]
    return {shape(turn.task.fields) for seen in discussions for turn in seen.team.turns if turn.task is not None}


async def test_every_form_that_a_system_asks_for_is_tested_and_every_form_that_is_tested_is_asked_for(
    tmp_path: Path,
) -> None:
    world = sample_world(tmp_path)
    tested = {shape(fields): form for form, fields in FORMS.items()}
    seen = {name: await asked(name, world) for name in SYSTEMS}
    assert {name: shapes - tested.keys() for name, shapes in seen.items() if shapes - tested.keys()} == {}
    unasked = tested.keys() - set[tuple[tuple[object, ...], ...]]().union(*seen.values())
    assert [tested[form] for form in unasked] == ["answer"]
