"""AutoGen agents that hold a role: what they are asked, what becomes of their words, factories that cannot work."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import ChatAgent, Response
from autogen_agentchat.messages import BaseChatMessage, MultiModalMessage, TextMessage
from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, RequestUsage
from autogen_core.tools import FunctionTool
from PIL import Image

from actors.agents.role_agent import RoleAgent
from actors.agents.roles import TEXTUAL, VISUAL
from actors.autogen.conversation import SourceImage
from actors.autogen.hosted import HostedAgent, load_factory
from actors.errors import MemoryLost, UserError
from actors.messages import (
    Completion,
    Field,
    FieldKind,
    Heard,
    Kind,
    Message,
    Question,
    Request,
    Role,
    Source,
    Status,
    Task,
    Turn,
    Usage,
)
from actors.reader.reader import Reader
from tests.support.models import Scripted

REPLY = "Reasoning: [t1] says so.\nAnswer: Tarn Hollow\nConfidence: 0.75"
SOURCES = (
    Source("t1", "t1", Kind.TEXT, "Ana Brix", "She was born in Tarn Hollow."),
    Source("t2", "t2", Kind.TEXT, "Lake Orm", "It is deep."),
    Source("i1", "i1", Kind.IMAGE, "A poster", "Two boats.", "poster.png"),
)
QUESTION = Question("q1", "Where was Ana Brix born?", evidence=SOURCES)
TURN = Turn("d1", QUESTION, "text_critic", 1, seed=7)


class Own(BaseChatAgent):
    """A user's agent, without our model: says what it is told to."""

    says: Sequence[str] = (REPLY,)

    def __init__(self, name: str) -> None:
        super().__init__(name, "a user's agent")
        self.heard: list[BaseChatMessage] = []

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        self.heard += messages
        MADE.append(self)
        text = self.says[min(len(self.heard), len(self.says)) - 1]
        if text == "raise":
            raise LookupError("no such\nbook")
        return Response(chat_message=TextMessage(content=text, source=self.name, models_usage=RequestUsage(20, 5)))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        pass


class Sloppy(Own):
    says = ("Tarn Hollow, I think", REPLY)


class Stubborn(Own):
    says = ("Tarn Hollow, I think",)


class Broken(Own):
    says = ("raise",)


class Stuck(Own):
    async def close(self) -> None:
        raise LookupError("no such door")


MADE: list[Own] = []


def own(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return Own(role.name)


def sloppy(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return Sloppy(role.name)


def stubborn(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return Stubborn(role.name)


def broken(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return Broken(role.name)


def stuck(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return Stuck(role.name)


def assistant(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return AssistantAgent(role.name, client, system_message="Think of birthplaces.")


def look_up(query: str) -> str:
    return "Ana Brix: Ana Brix was born in Salt Quay."


CALL = 'Call: {"tool": "look_up", "arguments": {"query": "Ana Brix"}}'
LOOK_UP = FunctionTool(look_up, description="Finds where people were born.")


def with_tool(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return AssistantAgent(role.name, client, tools=[LOOK_UP], max_tool_iterations=3)


def summarising(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return AssistantAgent(role.name, client, tools=[LOOK_UP])


async def asynchronous(role: Role, client: ChatCompletionClient) -> ChatAgent:
    return own(role, client)


def of_one(role: Role) -> ChatAgent:
    return Own(role.name)


NOT_A_FUNCTION = 3
ASKED: list[list[dict[str, object]]] = []


async def speaks(messages: list[dict[str, object]]) -> tuple[str, int, int]:
    """Answers at the second request alone."""
    ASKED.append(messages)
    return (REPLY if len(messages) > 2 else "Tarn Hollow, I think"), 20, 5


async def silent(messages: list[dict[str, object]]) -> None:
    return None


def no_agent(role: Role, client: ChatCompletionClient) -> object:
    return object()


def framework(role: Role, client: ChatCompletionClient) -> object:
    from agent_framework import Agent, BaseChatClient, ChatResponse, Message

    class Client(BaseChatClient):  # type: ignore[type-arg]
        async def _inner_get_response(self, *, messages: Sequence[Message], **options: object) -> ChatResponse:
            ASKED.append([{"role": one.role, "content": one.to_dict()["contents"]} for one in messages])
            text = REPLY if len(messages) > 2 else "Tarn Hollow, I think"
            usage = {"input_token_count": 20, "output_token_count": 5}
            return ChatResponse(messages=[Message("assistant", [text])], usage_details=usage)

    return Agent(Client(), instructions=role.instruction, name=role.name)


def hosted(factory: str, model: Scripted | Reader | None = None, role: Role = TEXTUAL[0]) -> HostedAgent:
    return HostedAgent(replace(role, agent=f"{__name__}:{factory}"), model or Scripted(REPLY))


async def test_an_assistant_is_asked_what_the_role_would_ask_its_model_with_the_same_prefix() -> None:
    theirs, ours = Scripted(REPLY), Scripted(REPLY)
    result = await hosted("assistant", theirs).take(TURN)
    message, usage = result.message, result.usage
    expected = (await RoleAgent(TEXTUAL[0], ours).take(TURN)).message
    [asked], [usual] = theirs.requests, ours.requests
    assert (asked.prefix, asked.system, asked.shared) == (usual.prefix, usual.system, usual.shared)
    assert asked.own.startswith(usual.own)
    assert "Think of birthplaces." in asked.own
    assert message == expected
    assert usage == Usage(1, 10, 8, 3)


async def test_a_visual_role_s_agent_sees_the_pictures() -> None:
    model = Scripted(REPLY)
    await hosted("assistant", model, VISUAL[0]).take(TURN)
    assert [(image.id, image.image) for image in model.requests[0].images] == [("3", "poster.png")]
    MADE.clear()
    await hosted("own", model, VISUAL[0]).take(TURN)
    [heard] = MADE[0].heard
    assert isinstance(heard, MultiModalMessage)
    assert isinstance(heard.content[1], SourceImage)


async def test_an_agent_with_a_tool_answers_from_what_the_tool_returns() -> None:
    model = Scripted(CALL, REPLY)
    result = await hosted("with_tool", model).take(TURN)
    message, usage = result.message, result.usage
    assert (message.answer, message.status, message.calls, usage.calls) == ("Tarn Hollow", Status.OK, 2, 2)
    assert message.repair_tokens == 0
    assert "[look_up] Ana Brix: Ana Brix was born in Salt Quay." in model.requests[1].own


async def test_an_agent_that_ends_with_its_tool_s_result_is_asked_for_the_form() -> None:
    message = (await hosted("summarising", Scripted(CALL, REPLY)).take(TURN)).message
    assert (message.answer, message.calls) == ("Tarn Hollow", 2)
    assert 0 < message.repair_tokens < message.prompt_tokens + message.completion_tokens


async def test_a_user_s_own_agent_needs_no_model_of_ours_and_its_reported_tokens_count() -> None:
    model = Scripted(REPLY)
    result = await hosted("own", model).take(TURN)
    message, usage = result.message, result.usage
    assert message.answer == "Tarn Hollow"
    assert model.requests == []
    assert (message.calls, message.prompt_tokens, usage) == (1, 20, Usage(1, 20, 0, 5))


async def test_a_reply_that_cannot_be_read_gets_one_repair_and_is_unparsed_after_that() -> None:
    MADE.clear()
    message = (await hosted("sloppy").take(TURN)).message
    assert (message.answer, message.calls, message.repair_tokens) == ("Tarn Hollow", 2, 25)
    assert "could not be read" in MADE[0].heard[1].to_model_text()
    message = (await hosted("stubborn").take(TURN)).message
    assert (message.status, message.answer, message.calls, message.repair_tokens) == (Status.UNPARSED, None, 2, 25)
    assert message.content == "Tarn Hollow, I think"
    assert "Answer" in message.error


async def test_an_agent_that_was_set_a_task_is_asked_again_for_the_task_s_form() -> None:
    MADE.clear()
    task = Task("Say whether that suffices.", (Field(FieldKind.ENOUGH, "whether it does", ("yes", "no")),))
    await hosted("sloppy").take(replace(TURN, task=task))
    again = MADE[0].heard[1].to_model_text()
    assert again.endswith("Enough: <whether it does: yes or no>")
    assert "Answer:" not in again


async def test_what_a_user_s_agent_raises_is_why_the_turn_failed() -> None:
    message = (await hosted("broken").take(TURN)).message
    assert (message.status, message.error) == (Status.FAILED, "LookupError: no such book")


@pytest.mark.parametrize("agent", ["speaks", "framework"])
async def test_an_async_function_and_an_agent_of_agent_framework_hold_a_role(agent: str, tmp_path: Path) -> None:
    if agent == "framework":
        pytest.importorskip("agent_framework")
    ASKED.clear()
    Image.new("RGB", (2, 2)).save(tmp_path / "poster.png")
    sources = (*SOURCES[:2], replace(SOURCES[2], image=str(tmp_path / "poster.png")))
    turn = replace(TURN, question=replace(QUESTION, evidence=sources), agent=VISUAL[0].name)
    result = await hosted(agent, role=VISUAL[0]).take(turn)
    message, usage = result.message, result.usage
    assert (message.answer, message.status, message.calls, message.repair_tokens) == ("Tarn Hollow", Status.OK, 2, 25)
    assert (message.prompt_tokens, usage) == (40, Usage(2, 40, 0, 10))
    first, second = ASKED
    assert [one["role"] for one in first] == ["system", "user"][-len(first) :]
    assert "image" in str(first[-1]["content"])
    assert [one["role"] for one in second][-2:] == ["assistant", "user"]


@pytest.mark.parametrize("agent", ["silent", "no_agent"])
async def test_what_is_no_text_and_no_agent_is_a_failed_turn(agent: str) -> None:
    message = (await hosted(agent).take(TURN)).message
    assert message.status is Status.FAILED
    assert message.error.startswith("TypeError")


async def test_a_repair_that_does_not_fit_is_asked_of_a_new_agent_with_less_evidence() -> None:
    class Small(Scripted):
        async def complete(self, request: Request) -> Completion:
            done = await super().complete(request)
            if len(self.requests) == 2:
                return Completion(request.id, "", 900, stop="too_long", limit_tokens=890)
            return done

    model = Small("Tarn Hollow, I think", REPLY)
    result = await hosted("assistant", model).take(TURN)
    message, usage = result.message, result.usage
    assert (message.answer, message.status, message.cut) == ("Tarn Hollow", Status.OK, ("t2",))
    assert (message.calls, message.repair_tokens, usage.calls) == (2, 13, 2)
    assert "Lake Orm" not in model.requests[2].shared
    assert "Tarn Hollow, I think" in model.requests[2].own


async def test_an_agent_that_cannot_be_closed_has_answered(caplog: pytest.LogCaptureFixture) -> None:
    message = (await hosted("stuck").take(TURN)).message
    assert (message.answer, message.status) == ("Tarn Hollow", Status.OK)
    assert "text_critic" in caplog.text


async def test_it_recalls_its_own_turns_and_hears_its_colleagues() -> None:
    model = Scripted(REPLY)
    agent = hosted("assistant", model)
    heard = Heard(Message("1/b", "b", 1, "I saw Salt Quay.", "Salt Quay"), 1.0)
    await agent.take(TURN)
    message = (await agent.take(replace(TURN, round=2, recall=1, heard=(heard,)))).message
    assert "[text_critic, round 1] [t1] says so. Answer: Tarn Hollow" in model.requests[1].own
    assert "I saw Salt Quay." in model.requests[1].own
    assert message.heard == ("1/b",)
    with pytest.raises(MemoryLost):
        await hosted("assistant", model).take(replace(TURN, round=2, recall=1))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "expected package.module:function"),
        ("tests.actors.autogen.test_hosted", r"agent=tests\.actors\.autogen\.test_hosted: "),
        ("no_such_package.agents:make", "'no_such_package'"),
        ("tests.no_such_module:make", r"'tests\.no_such_module'"),
        (".relative:make", r"agent=\.relative:make: "),
        ("tests.actors.autogen.test_hosted:no_such", "'no_such'"),
        ("tests.actors.autogen.test_hosted:NOT_A_FUNCTION", "NOT_A_FUNCTION"),
        ("tests.actors.autogen.test_hosted:asynchronous", r"asynchronous\(messages\)"),
        (
            "tests.actors.autogen.test_hosted:of_one",
            r"of_one\(role, client\).*arguments",
        ),
    ],
)
def test_a_factory_that_cannot_work_is_refused_in_one_line(spec: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        load_factory(spec, "roles.text_critic.agent")
    assert "\n" not in str(raised.value)


def test_a_module_that_fails_to_import_says_how(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(str(tmp_path), "half_written.py").write_text("import nothing_like_it\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=r"make: .*ModuleNotFoundError: .*nothing_like_it"):
        load_factory("half_written:make", "roles.text_critic.agent")
