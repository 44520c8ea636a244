"""A wiring as an AutoGen team: it says, turn by turn and in another process, what the simulator's agents say."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent
from autogen_agentchat.teams import GraphFlow
from autogen_core.models import ChatCompletionClient

from actors.agents.role_agent import RoleAgent
from actors.agents.roles import DECISION, ROLES, TEXTUAL, VISUAL
from actors.autogen.agent import QuestionContent, QuestionMessage, message_of
from actors.autogen.hosted import HostedAgent
from actors.backends.model_choice import ModelChoice
from actors.backends.model_settings import ModelSettings
from actors.messages import Message, Question, Role, Source, Trace, Turn
from actors.reader.reader import Reader, ReaderSettings
from actors.settings import AgentSettings
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.setting_groups import RoleSettings
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.jobs import plan_of
from experiments.planning.run_models import find_models
from experiments.running.autogen_team import export_team, write_team
from tests.support.paths import ROOT
from topologies.topology import Wired
from topologies.wiring import Bools, Edges, Wiring

AGENTS = tuple(role.name for role in (*TEXTUAL[:3], *VISUAL[:2]))
SEED = 11


def wiring(seed: int = 0, rounds: int = 3, isolated: int = 2) -> Wiring:
    """Random, with one agent that hears nobody and is heard by nobody but the decision agent."""
    rng, n = np.random.default_rng(seed), len(AGENTS)
    spatial = np.triu(rng.random((rounds, n, n)) < 0.5, 1)
    temporal = rng.random((rounds, n, n)) < 0.3
    temporal[0] = False
    temporal[:, range(n), range(n)] = False
    for edges in spatial, temporal:
        edges[:, isolated] = edges[:, :, isolated] = False
    decision, p = rng.random(n) < 0.7, Edges(rng.random((n, n)), rng.random((n, n)))
    return Wiring.of_matrices(spatial, temporal, decision, p)


def without(walk: Wiring, speaks: Bools) -> Wiring:
    """The wiring less the edges of agents in rounds in which they take no part; everybody is read."""
    (spatial, p), (temporal, q) = (
        (edges[kept], weights[kept])
        for edges, weights, earlier in ((walk.spatial, walk.spatial_p, 0), (walk.temporal, walk.temporal_p, 1))
        if weights is not None
        for kept in [speaks[edges[:, 0] - earlier, edges[:, 1]] & speaks[edges[:, 0], edges[:, 2]]]
    )
    return Wiring(walk.rounds, spatial, temporal, np.ones(walk.agents, bool), p, q, speaks=speaks)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> list[Question]:
    folder = tmp_path_factory.mktemp("data") / "sample"
    write_sample(folder, seed=3, train=0, dev=4)
    data = Mmqa.at(folder)
    by_doc: dict[str, list[Source]] = {}
    for source in data.corpus():
        by_doc.setdefault(source.doc, []).append(source)
    found = []
    for item in data.evaluate():
        docs = dict.fromkeys((*item.supporting, *item.pool[:4]))
        found.append(replace(item.question, evidence=tuple(source for doc in docs for source in by_doc[doc])))
    return found


async def simulated(
    walk: Wiring,
    question: Question,
    roles: dict[str, Role] = ROLES,
    settings: AgentSettings | None = None,
    readers: Mapping[str, Reader] = MappingProxyType({}),
    agents: Sequence[str] = AGENTS,
) -> Trace:
    reader = Reader(ReaderSettings())
    holders = {
        name: HostedAgent(roles[name], reader, settings)
        if roles[name].agent
        else RoleAgent(roles[name], readers.get(name, reader), settings)
        for name in (*agents, DECISION.name)
    }

    async def ask(turn: Turn) -> Message:
        return (await holders[turn.agent].take(turn)).message

    return await Wired("m3prune", agents, walk).answer(question, ask, SEED)


def written(folder: Path, agents: Sequence[str], roles: Mapping[str, Role], config: Config) -> Path | None:
    models = find_models(config, dict.fromkeys(role.played for role in roles.values()))
    return write_team(folder, wiring(), agents, roles, config.seed, models, config.agents)


async def said_by(team: GraphFlow, task: QuestionMessage | str) -> dict[str, Message]:
    async with asyncio.timeout(60):
        result = await team.run(task=task)
    found = {}
    for message in result.messages:
        full = message_of(message)  # type: ignore[arg-type]
        if full is not None:
            found[full.id] = full
    assert message_of(result.messages[-1]) == found[f"4/{DECISION.name}"]  # type: ignore[arg-type]
    return found


def loaded(walk: Wiring, roles: dict[str, Role] = ROLES, settings: AgentSettings | None = None) -> GraphFlow:
    team = export_team(walk, AGENTS, roles, SEED, ModelChoice(), settings)
    return GraphFlow.load_component(json.loads(json.dumps(team.dump_component().model_dump(mode="json"))))


@pytest.mark.parametrize("seed", [0, 1])
async def test_every_turn_of_the_team_is_the_simulator_s(questions: list[Question], seed: int) -> None:
    walk, settings = wiring(seed), AgentSettings(temperature=0.2, budget_words=30)
    team = loaded(walk, settings=settings)
    for question in questions:  # one after another through one team
        trace = await simulated(walk, question, settings=settings)
        assert await said_by(team, QuestionMessage.of(question)) == {turn.id: turn for turn in trace.turns}


async def test_an_agent_that_is_out_of_a_round_has_no_turn_in_it_and_remembers_those_that_it_took(
    questions: list[Question],
) -> None:
    walk, speaks = wiring(), np.ones((3, len(AGENTS)), dtype=bool)
    speaks[0, 1] = speaks[1, 0] = False
    walk = without(walk, speaks)
    trace = await simulated(walk, questions[0])
    assert f"1/{AGENTS[1]}" not in (said := {turn.id: turn for turn in trace.turns})
    assert await said_by(loaded(walk), QuestionMessage.of(questions[0])) == said


async def test_a_role_with_a_model_of_its_own_takes_it_along(questions: list[Question], tmp_path: Path) -> None:
    silent = ReaderSettings(threshold=9)
    held = AGENTS[0]
    config = Config(seed=SEED, roles={held: RoleSettings(reader=asdict(silent))})
    path = written(tmp_path, AGENTS, ROLES, config)
    assert path is not None
    said = await said_by(GraphFlow.load_component(json.loads(path.read_text())), QuestionMessage.of(questions[0]))
    trace = await simulated(wiring(), questions[0], readers={held: Reader(silent)})
    assert said == {turn.id: turn for turn in trace.turns}
    assert trace != await simulated(wiring(), questions[0])


async def test_instances_of_a_role_are_told_apart_and_other_roles_say_nothing_of_them(
    questions: list[Question], tmp_path: Path
) -> None:
    first, *others = AGENTS
    agents = (f"{first}_1", *others)
    roles = {**ROLES, agents[0]: replace(ROLES[first], name=agents[0], of=first)}
    config = Config(seed=SEED, roles={first: RoleSettings(reader=asdict(ReaderSettings(threshold=9)))})
    path = written(tmp_path, agents, roles, config)
    assert path is not None
    told = json.loads(path.read_text())
    said_of = [each["config"]["role"].get("of", "nothing") for each in told["config"]["participants"]]
    assert set(said_of) == {first, "nothing"}
    assert said_of.count(first) == 3
    readers = {agents[0]: Reader(ReaderSettings(threshold=9))}
    trace = await simulated(wiring(), questions[0], roles, readers=readers, agents=agents)
    said = await said_by(GraphFlow.load_component(told), QuestionMessage.of(questions[0]))
    assert said == {turn.id: turn for turn in trace.turns}


async def test_a_role_with_a_form_of_its_own_takes_it_along(questions: list[Question]) -> None:
    told = {role.name: role for role in plan_of(load(["experiment=mmqa_prune", "roles.file=paper"])).roles.team}
    roles = {**ROLES, **{name: told[name] for name in AGENTS}}
    trace = await simulated(wiring(), questions[0], roles)
    assert any(turn.values("What stands") for turn in trace.turns)
    said = await said_by(loaded(wiring(), roles), QuestionMessage.of(questions[0]))
    assert said == {turn.id: turn for turn in trace.turns}


async def test_nobody_speaks_in_the_team_to_whom_nobody_listens(questions: list[Question]) -> None:
    walk = replace(wiring(), decision=np.array([True, False, False, False, False]))
    team = loaded(walk)
    trace = await simulated(walk, questions[0])
    assert len(trace.turns) < len(AGENTS) * 3 + 1
    assert await said_by(team, QuestionMessage.of(questions[0])) == {turn.id: turn for turn in trace.turns}


async def test_a_plain_text_is_a_question_without_evidence() -> None:
    text = "Where was Ana Brix born?"
    trace = await simulated(wiring(), Question(text, text))
    assert await said_by(loaded(wiring()), text) == {turn.id: turn for turn in trace.turns}


def test_the_file_runs_by_itself_in_another_process(questions: list[Question], tmp_path: Path) -> None:
    config = Config(seed=SEED)
    path = written(tmp_path, AGENTS, ROLES, config)
    assert path == tmp_path / "team.json"
    (tmp_path / "question.json").write_text(QuestionContent(question=questions[0]).model_dump_json())
    program = """
import asyncio, json, sys
from autogen_agentchat.teams import GraphFlow
from actors.autogen.agent import QuestionContent, QuestionMessage
team = GraphFlow.load_component(json.load(open("team.json")))
task = QuestionContent.model_validate_json(open("question.json").read())
result = asyncio.run(team.run(task=QuestionMessage.of(task.question)))
print(json.dumps([m.metadata["message"] for m in result.messages if m.source != "user"]))
assert not {"ray", "torch"} & sys.modules.keys()
"""
    root = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    trace = asyncio.run(simulated(wiring(), questions[0], settings=config.agents))
    said = {message["id"]: message for message in map(json.loads, json.loads(done.stdout))}
    assert said == {turn.id: json.loads(json.dumps(asdict(turn))) for turn in trace.turns}


def assistant(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return AssistantAgent(role.name, client, system_message="Think of places.")


async def test_a_role_that_an_autogen_agent_holds_is_exported_with_it(questions: list[Question]) -> None:
    held = {**ROLES, AGENTS[0]: replace(ROLES[AGENTS[0]], agent=f"{__name__}:assistant")}
    trace = await simulated(wiring(), questions[0], held)
    said = await said_by(loaded(wiring(), held), QuestionMessage.of(questions[0]))
    assert said == {turn.id: turn for turn in trace.turns}


def test_an_agent_that_autogen_cannot_name_is_refused() -> None:
    with pytest.raises(ValueError, match="'text critic'"):
        export_team(wiring(), ("text critic", *AGENTS[1:]), {**ROLES, "text critic": TEXTUAL[0]}, SEED, ModelChoice())


def test_the_model_in_the_file_is_the_run_s_and_never_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_KEY", "secret-1234")
    endpoint = ModelSettings(kind="openai", name="m", base_url="http://h:1/v1", key_env="MY_KEY", extra={"top_p": 0.9})
    path = written(tmp_path, AGENTS, ROLES, Config(model=endpoint))
    assert path is not None
    assert "secret-1234" not in path.read_text()
    assert "MY_KEY" in path.read_text()
    assert plan_of(Config(reader=ReaderSettings(threshold=0.3))).models.main.choice() == ModelChoice(
        kind="reader", settings=asdict(ReaderSettings(threshold=0.3))
    )
    served = plan_of(Config(model=ModelSettings(kind="vllm", name="org/vl"))).models.main.choice()
    assert served is not None
    assert served.settings == {"base_url": "http://localhost:8000/v1", "name": "org/vl"}
    assert plan_of(Config(model=ModelSettings(kind="replay"))).models.main.choice() is None
