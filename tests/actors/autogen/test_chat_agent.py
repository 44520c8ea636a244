"""Our roles in AutoGen teams: alone, among colleagues, saved and loaded."""

import json
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MultiModalMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, Image
from PIL import Image as Pillow

from actors.agents.role_agent import RoleAgent
from actors.agents.roles import TEXTUAL, VISUAL
from actors.autogen.agent import QuestionMessage, RoleChatAgent, message_of, text_message
from actors.autogen.client import ModelClient
from actors.backends.model_choice import ModelChoice
from actors.errors import MemoryLost
from actors.messages import Completion, Heard, Kind, Message, Question, Source, Status, Turn, derive_seed
from actors.settings import AgentSettings
from tests.support.models import Scripted

REPLY = "Reasoning: [t1] says so.\nAnswer: Tarn Hollow\nConfidence: 0.75"
SOURCE = Source("t1", "t1", Kind.TEXT, "Ana Brix", "She was born in Tarn Hollow.")
QUESTION = Question("q1", "Where was Ana Brix born?", evidence=(SOURCE,))
ASKED = QuestionMessage.of(QUESTION)
ROLE = TEXTUAL[0]


def from_colleague(name: str, answer: str, round: int = 1, status: Status = Status.OK) -> TextMessage:
    return text_message(Message(f"{round}/{name}", name, round, f"I think {answer}.", answer, 0.5, status), name)


async def test_it_says_what_the_simulator_s_agent_says_to_the_same_turn() -> None:
    theirs, ours = Scripted(REPLY), Scripted(REPLY)
    agent = RoleChatAgent(ROLE, ModelClient(theirs), weights={"a": 0.75, "b": 0.25}, seed=5)
    response = await agent.on_messages(
        [ASKED, from_colleague("a", "Salt Quay"), from_colleague("b", "Orm"), from_colleague("c", "Reed")],
        CancellationToken(),
    )
    heard = tuple(
        Heard(Message(f"1/{name}", name, 1, f"I think {answer}.", answer, 0.5), weight)
        for name, answer, weight in (("a", "Salt Quay", 0.75), ("b", "Orm", 0.25))
    )
    turn = Turn("d", QUESTION, ROLE.name, 1, derive_seed(5, "q1", 1, ROLE.name), heard)
    message = (await RoleAgent(ROLE, ours).take(turn)).message
    assert message_of(response.chat_message) == message
    assert [r.own for r in theirs.requests] == [r.own for r in ours.requests]
    assert response.chat_message.metadata["answer"] == "Tarn Hollow"


async def test_plain_text_is_a_question_without_evidence_and_pictures_are_evidence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = Scripted(REPLY)
    await RoleChatAgent(ROLE, ModelClient(model)).run(task="Where was Ana Brix born?")
    assert model.requests[0].shared == "## Question\nWhere was Ana Brix born?"
    pixels = Pillow.new("RGB", (2, 2))
    task = MultiModalMessage(content=["What is it?", Image(pixels)], source="user")
    await RoleChatAgent(VISUAL[0], ModelClient(model)).run(task=task)
    assert len(model.requests[1].images) == 1


async def test_a_new_question_starts_anew_and_the_same_question_goes_on() -> None:
    model = Scripted(REPLY)
    agent = RoleChatAgent(ROLE, ModelClient(model))
    await agent.run(task=ASKED)
    await agent.on_messages([from_colleague("a", "Salt Quay")], CancellationToken())
    assert "[text_critic, round 1] [t1] says so. Answer: Tarn Hollow" in model.requests[1].own
    assert "I think Salt Quay." in model.requests[1].own
    await agent.run(task=ASKED)
    assert model.requests[2] == model.requests[0]


async def test_a_failed_turn_is_said_to_have_failed_and_heard_by_nobody() -> None:
    result = await RoleChatAgent(ROLE, ModelClient(Scripted(Completion("", "", stop="error", error="ill")))).run(
        task=ASKED
    )
    assert result.messages[-1].to_text() == "(failed: ill)"
    model = Scripted(REPLY)
    agent = RoleChatAgent(TEXTUAL[1], ModelClient(model))
    failed = from_colleague("a", "Salt Quay", status=Status.FAILED)
    await agent.on_messages([ASKED, failed], CancellationToken())
    assert "Salt Quay" not in model.requests[0].own


async def test_it_remembers_what_the_role_said_under_its_earlier_names() -> None:
    model = Scripted(REPLY)
    agent = RoleChatAgent(ROLE, ModelClient(model), "critic_2", round=2, weights={}, earlier=["critic_1"])
    with pytest.raises(MemoryLost):
        await agent.on_messages([ASKED], CancellationToken())
    before = Message("1/text_critic", "text_critic", 1, "I looked.", "Salt Quay")
    await agent.on_messages([ASKED, text_message(before, "critic_1")], CancellationToken())
    assert "[text_critic, round 1] I looked. Answer: Salt Quay" in model.requests[0].own


async def test_our_roles_and_an_assistant_make_a_team() -> None:
    model = Scripted(REPLY)
    client = ModelClient(model)
    assistant = AssistantAgent("helper", client, system_message="Help.")
    team = RoundRobinGroupChat([RoleChatAgent(ROLE, client), assistant, RoleChatAgent(VISUAL[0], client)], max_turns=4)
    result = await team.run(task=ASKED)
    assert [message.source for message in result.messages] == ["user", ROLE.name, "helper", VISUAL[0].name, ROLE.name]
    assert "She was born in Tarn Hollow." in model.requests[1].shared, (
        "an assistant reads the question with its evidence"
    )
    assert "[helper, round 1] [t1] says so. Answer: Tarn Hollow (confidence 0.75)" in model.requests[2].own


async def test_it_is_loaded_as_it_was_dumped_and_its_state_as_it_was_saved() -> None:
    choice = ModelChoice()
    agent = RoleChatAgent(
        ROLE,
        ModelClient(choice.model(), choice=choice),
        "x",
        1,
        {"a": 0.1 + 0.2},
        (),
        9,
        AgentSettings(temperature=0.3),
    )
    dumped = agent.dump_component().model_dump_json()
    loaded = RoleChatAgent.load_component(json.loads(dumped))
    assert loaded.dump_component().model_dump_json() == dumped
    await agent.run(task=ASKED)
    await loaded.load_state(json.loads(json.dumps(await agent.save_state())))
    colleague = from_colleague("a", "Salt Quay")
    said = [await one.on_messages([colleague], CancellationToken()) for one in (agent, loaded)]
    assert message_of(said[0].chat_message) == message_of(said[1].chat_message)
