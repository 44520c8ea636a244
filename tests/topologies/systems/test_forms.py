"""The forms that systems ask replies in are those on which the reader is tested."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest

from actors.messages import Field, Task, Value
from actors.prompting.form import AS_JSON, Form, as_json
from actors.prompting.reply import read
from experiments.conformance.observed_method import ObservedMethod
from experiments.conformance.sample_world import SampleWorld, sample_world
from experiments.scripted.replies import improvised, stubborn
from tests.actors.prompting.forms import FORMS
from tests.support.topologies import SYSTEMS
from tests.topologies.systems.test_systems import planned
from topologies import systems

Shape = tuple[object, ...]
REPLIES = (improvised(1), stubborn(0))


def shape(field: Field) -> Shape:
    """What the reader goes by: all of a field but what it asks for in words."""
    return field.kind, field.value, field.values, field.many, field.optional


async def asked(name: str, world: SampleWorld) -> set[tuple[Shape, ...]]:
    """The shapes of the forms of all tasks that a system sets on the sample, whatever its agents reply."""
    system = ObservedMethod(planned(name), world, {})
    discussions = [await system.observe(reply, item=item) for reply in REPLIES for item in world.items]
    tasks = [turn.task for seen in discussions for turn in seen.team.turns if turn.task is not None]
    return {tuple(map(shape, task.fields)) for task in tasks}


@pytest.mark.slow
async def test_every_form_that_a_system_asks_for_is_one_on_which_the_reader_is_tested(tmp_path: Path) -> None:
    world = sample_world(tmp_path)
    tested = {tuple(map(shape, fields)) for fields in FORMS.values()}
    assert {name: new for name in SYSTEMS if (new := await asked(name, world) - tested)} == {}


def fields_of(module: ModuleType) -> Iterator[Field]:
    """The fields that a module holds: alone, in forms, or in tasks."""
    for value in vars(module).values():
        held = value.fields if isinstance(value, Task) else value if isinstance(value, tuple) else (value,)
        yield from (field for field in held if isinstance(field, Field))


def fields_of_systems() -> Iterator[tuple[str, Field]]:
    """Every field of a system, with the name of its module."""
    for info in walk_packages(systems.__path__, f"{systems.__name__}."):
        yield from ((info.name, field) for field in fields_of(import_module(info.name)))


def test_every_field_of_a_system_is_one_on_which_the_reader_is_tested() -> None:
    tested = {shape(field) for fields in FORMS.values() for field in fields}
    new = {(name, shape(field)) for name, field in fields_of_systems()}
    assert {(name, held) for name, held in new if held not in tested} == set()


@pytest.mark.parametrize("written", ["as JSON", "in lines"])
def test_a_form_given_back_is_no_triple(written: str) -> None:
    fields = {field for _, field in fields_of_systems() if field.value is Value.TRIPLE}
    assert fields
    for field in fields:
        form = Form((field,))
        given = as_json(form).removeprefix(AS_JSON).replace(",...", "")
        if written == "in lines":
            given = "\n".join(f"{field.name}: {line}" for line in field.asks.split(", or "))
        assert read(form, given).values == ()
