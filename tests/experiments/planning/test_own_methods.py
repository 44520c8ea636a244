"""Methods that other packages bring: named by where they lie or by an entry point, and run like ours."""

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from actors import lookup
from actors.agents.roles import ROLES
from actors.errors import UserError
from actors.messages import Question, Status, Turn
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.saved import read, save
from experiments.dry_run.counting import count_run
from experiments.jobs import plan_of
from experiments.planning.topologies import compared_pairs, make_topology
from experiments.running.recorded_speaker import RecordedSpeaker
from experiments.scripted.replies import answered
from experiments.scripted.speaker import ScriptedSpeaker
from tests.experiments.running.test_attacked_run import carry_out
from topologies.catalogue import METHODS, find_methods
from topologies.method import Method
from topologies.topology import Topology

TEAM = ("text_critic", "visual_scientist")
QUESTION = Question("q1", "Which tower is the taller one?")
PACKAGE = '''
from actors.messages import Modality, Role
from topologies.method import Method
from topologies.baselines import wired
from topologies.graphs import chain
from topologies.systems.session import Session

UMPIRE = Role("umpire", Modality.BOTH, "You are the umpire and decide.")


class OneAfterAnother:
    """The team speaks in turn, and an umpire decides. Whatever comes second is no description."""

    roles = (UMPIRE,)

    def __init__(self, context):
        self.method = context.method
        self._agents = context.agents
        self._library = context.library

    async def answer(self, question, ask, seed, sample=0):
        session = Session(self.method, question, ask, self._library, seed, sample)
        heard = []
        for agent in self._agents:
            heard.append(await session.ask(agent, heard=heard))
        return session.trace(await session.ask("umpire", heard=heard))


class Lookup(OneAfterAnother):
    """Looks things up first."""

    name = "look-up"
    asks_team = False
    needs_library = True
    needs_calibration = True


def reversed_chain(context):
    """A chain from the last agent to the first"""
    return wired(context, lambda agents: type(chain(agents))(*(pairs[:, ::-1] for pairs in chain(agents))))


ALSO = Method("also", "another one", wired, needs_graph=True)
FULL = Method("full", "not ours", wired)
UNSAFE = Method("../up", "cannot be a file", wired)
TRAIN = Method("train", "a phase's name", wired)
NUMBER = 3


class Misnamed(OneAfterAnother):
    """Goes by another name."""

    def __init__(self, context):
        super().__init__(context)
        self.method = "somebody"
'''


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "ways.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("theirs", "theirs.ways"):
        sys.modules.pop(name, None)


def named(*names: str) -> tuple[Method, ...]:
    return find_methods(Config(methods=list(names)).methods)


def made(method: Method) -> Topology:
    return make_topology(method, Config(), TEAM, {}, None)  # type: ignore[arg-type]


def test_ours_are_found_by_name_in_the_order_of_the_configuration() -> None:
    assert [method.name for method in named("star", "single", "hm_rag")] == ["star", "single", "hm_rag"]
    assert named("star")[0] in METHODS


def test_a_class_says_itself_what_a_method_of_it_needs() -> None:
    one, other = named("theirs.ways:OneAfterAnother", "theirs.ways:Lookup")
    assert (one.name, one.description) == ("one_after_another", "The team speaks in turn, and an umpire decides.")
    assert [role.name for role in one.roles] == ["umpire"]
    assert (one.asks_team, one.needs_graph, one.needs_calibration, one.needs_library) == (True, False, False, False)
    assert (other.name, other.description) == ("look-up", "Looks things up first.")
    assert (other.asks_team, other.needs_graph, other.needs_calibration, other.needs_library) == (
        False,
        False,
        True,
        True,
    )


async def test_a_class_answers_questions_with_the_team_and_its_own_role() -> None:
    [method] = named("theirs.ways:OneAfterAnother")
    roles = {role.name: role for role in (*(ROLES[agent] for agent in TEAM), *method.roles)}
    team = ScriptedSpeaker(roles.values(), lambda turn: answered(f"by {turn.agent}", 0.5))
    trace = await made(method).answer(QUESTION, team.ask, 7)
    assert (trace.method, trace.answer, trace.status) == ("one_after_another", "by umpire", Status.OK)
    assert [turn.agent for turn in trace.turns] == [*TEAM, "umpire"]
    assert trace.turns[-1].heard == ("1/text_critic", "2/visual_scientist")


async def test_a_function_or_a_method_of_somebody_else_answers_too() -> None:
    def reply(turn: Turn) -> str:
        return answered(f"by {turn.agent}", 0.5)

    for method, first in zip(named("theirs.ways:reversed_chain", "theirs.ways:ALSO"), TEAM[::-1], strict=True):
        team = ScriptedSpeaker(ROLES.values(), reply)
        trace = await made(method).answer(QUESTION, team.ask, 7)
        assert (trace.method, trace.answer) == (method.name, "by decision")
        assert team.turns[0].agent == first
    assert named("theirs.ways:reversed_chain")[0].description == "A chain from the last agent to the first"


def test_a_run_of_it_learns_nothing_is_scored_under_its_name_and_is_replayed(tmp_path: Path) -> None:
    words = ["methods=[single,theirs.ways:OneAfterAnother]", "topology.text=[critic]", "data.limit=2"]
    folder = carry_out(words, tmp_path)
    rows = json.loads(folder.metrics.read_text())["methods"]
    assert list(rows) == ["single", "one_after_another"]
    traces = list(folder.traces("evaluate-one_after_another"))
    assert [trace.turns[-1].agent for trace in traces] == ["umpire", "umpire"]
    replayed = carry_out(words, tmp_path, speaker=RecordedSpeaker(folder))
    assert list(replayed.traces("evaluate-one_after_another")) == traces


def test_an_entry_point_names_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("umpired", "theirs.ways:OneAfterAnother", "agora_mm.methods")
    monkeypatch.setattr(lookup, "entry_points", lambda group: [entry] if group == entry.group else [])
    assert [method.name for method in named("umpired", "full")] == ["one_after_another", "full"]


def test_its_role_is_launched_beside_the_team_and_without_a_team_can_be_compromised() -> None:
    config = load(["experiment=mmqa_prune", "methods=[theirs.ways:OneAfterAnother]"])
    assert [role.name for role in plan_of(config).roles.launched][-3:] == ["decision", "single", "umpire"]
    alone = load(["experiment=mmqa_prune", "methods=[theirs.ways:Lookup]"])
    assert plan_of(alone).roles.attackable == ("single", "umpire")


def test_it_is_planned_without_a_model_and_compared_by_its_name(tmp_path: Path) -> None:
    words = ["experiment=mmqa_prune", "methods=[single,theirs.ways:OneAfterAnother]", "data.limit=3"]
    config = load([*words, f"output={tmp_path}"])
    assert compared_pairs(find_methods(config.methods)) == (("one_after_another", "single"),)
    single, theirs = count_run(plan_of(config)).phases
    assert (single.name, single.turns, single.exact) == ("evaluating single", 3, True)
    assert (theirs.name, theirs.turns, theirs.exact) == ("evaluating one_after_another", 30, False)


def test_the_configuration_keeps_names_as_written(tmp_path: Path) -> None:
    written = ["single", "theirs.ways:OneAfterAnother"]
    save(Config(methods=written), tmp_path / "config.yaml")
    assert read(tmp_path / "config.yaml").methods == written


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("full", "theirs.ways:FULL"), "methods="),
        (("single", "single"), "each once"),
        ((), "at least one"),
        (("fulll",), "'full'"),
        (("theirs.ways:Nothing",), "theirs.ways:Nothing"),
        (("theirs.ways:NUMBER",), "theirs.ways:NUMBER"),
        (("theirs.ways:UNSAFE",), "cannot name a file"),
        (("theirs.ways:TRAIN",), "cannot name a file"),
    ],
)
def test_what_cannot_be_a_run_s_methods_is_refused_in_one_line(names: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UserError, match=reason) as error:
        named(*names)
    assert "\n" not in str(error.value)


def test_a_topology_that_goes_by_another_name_than_its_method_is_refused() -> None:
    [method] = named("theirs.ways:Misnamed")
    with pytest.raises(UserError, match=r"\bmisnamed .*'somebody'"):
        made(method)
