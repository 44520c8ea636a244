"""One agent: what it asks its model, what it makes of the reply, what it remembers."""

import subprocess
import sys
from dataclasses import replace

import pytest

from actors.agents.role_agent import RoleAgent
from actors.agents.roles import DECISION, DUMMY_SENTENCE, TEXTUAL, VISUAL
from actors.errors import MemoryLost, ModelError, ModelLost
from actors.messages import Completion, Heard, Kind, Modality, Question, Request, Role, Source, Status, Turn, Usage
from actors.settings import AgentSettings
from tests.support.models import Scripted
from tests.support.paths import ROOT

REPLY = "Reasoning: [t1] says so.\nAnswer: Tarn Hollow\nConfidence: 0.75"
SOURCES = (
    Source("t1", "t1", Kind.TEXT, "Ana Brix", "She was born in Tarn Hollow."),
    Source("i1", "i1", Kind.IMAGE, "A poster", "Two boats.", "poster.png"),
)
QUESTION = Question("q1", "Where was Ana Brix born?", evidence=SOURCES)


def turn(number: int = 1, recall: int = 0, heard: tuple[Heard, ...] = (), agent: str = "text_critic") -> Turn:
    return Turn("d1", QUESTION, agent, number, seed=7, heard=heard, recall=recall)


async def test_a_reply_becomes_a_message_with_its_cost() -> None:
    result = await RoleAgent(TEXTUAL[0], Scripted(REPLY)).take(turn())
    message, usage = result.message, result.usage
    assert (message.answer, message.confidence, message.content) == ("Tarn Hollow", 0.75, "[t1] says so.")
    assert (message.calls, message.prompt_tokens, message.completion_tokens) == (1, 10, 3)
    assert usage == Usage(calls=1, prompt_tokens=10, cached_tokens=8, completion_tokens=3)


async def test_a_call_that_fails_is_retried_with_the_same_request_and_leaves_no_mark_on_the_message() -> None:
    model = Scripted(ModelError("replica died"), ModelLost("engine died"), REPLY)
    result = await RoleAgent(TEXTUAL[0], model).take(turn())
    message, usage = result.message, result.usage
    assert model.requests[0] == model.requests[1] == model.requests[2]
    undisturbed = await RoleAgent(TEXTUAL[0], Scripted(REPLY)).take(turn())
    assert message == undisturbed.message
    assert undisturbed.usage == Usage(calls=1, prompt_tokens=10, cached_tokens=8, completion_tokens=3)
    assert usage == Usage(calls=3, prompt_tokens=10, cached_tokens=8, completion_tokens=3)


async def test_after_the_last_retry_the_turn_has_failed_and_says_why() -> None:
    agent = RoleAgent(TEXTUAL[0], Scripted(ModelError("no\nroute")), AgentSettings(retries=1))
    result = await agent.take(turn())
    message, usage = result.message, result.usage
    assert (message.status, message.error, message.answer, message.calls) == (Status.FAILED, "no route", None, 0)
    assert usage == Usage(calls=2)


async def test_what_a_model_cannot_answer_is_not_asked_again() -> None:
    model = Scripted(Completion("", "", 10, stop="error", error="picture 'i1' cannot be read"))
    result = await RoleAgent(TEXTUAL[0], model).take(turn())
    message, usage = result.message, result.usage
    assert (message.status, message.error, message.calls) == (Status.FAILED, "picture 'i1' cannot be read", 1)
    assert (len(model.requests), usage.calls) == (1, 1)


async def test_a_reply_that_does_not_parse_gets_one_repair() -> None:
    model = Scripted("It is Tarn Hollow, I think", REPLY)
    result = await RoleAgent(TEXTUAL[0], model).take(turn())
    message, usage = result.message, result.usage
    first, second = model.requests
    assert (second.rejected, second.own, second.shared) == ("It is Tarn Hollow, I think", first.own, first.shared)
    assert "the Answer (it is missing)" in second.correction
    assert (message.status, message.answer, message.content) == (Status.OK, "Tarn Hollow", "[t1] says so.")
    assert (message.calls, message.prompt_tokens, message.completion_tokens) == (2, 20, 6)
    assert usage == Usage(calls=2, prompt_tokens=20, cached_tokens=16, completion_tokens=6)


async def test_what_could_not_be_read_is_not_heard_by_others_once_it_is_repaired() -> None:
    message = (await RoleAgent(TEXTUAL[0], Scripted("It is Tarn\nHollow", "Answer: Tarn Hollow")).take(turn())).message
    assert (message.content, message.answer) == ("", "Tarn Hollow")


async def test_a_second_reply_that_does_not_parse_is_unparsed_and_no_guess_is_made() -> None:
    model = Scripted("Tarn Hollow, I\0 think\ud800", "I think Tarn Hollow, or not")
    message = (await RoleAgent(TEXTUAL[0], model).take(turn())).message
    assert (message.status, message.answer, message.calls) == (Status.UNPARSED, None, 2)
    assert message.content == "Tarn Hollow, I think\ufffd"
    assert len(model.requests) == 2


async def test_an_answer_that_was_cut_off_is_repaired() -> None:
    model = Scripted(Completion("", "Reasoning: r\nAnswer: Tarn Hol", 10, 3, stop="length"), REPLY)
    message = (await RoleAgent(TEXTUAL[0], model).take(turn())).message
    assert (message.answer, message.calls) == ("Tarn Hollow", 2)


async def test_a_turn_whose_repair_failed_keeps_what_was_said_and_what_it_took() -> None:
    agent = RoleAgent(TEXTUAL[0], Scripted(UNREADABLE, ModelError("no route")), AgentSettings(retries=1))
    result = await agent.take(turn())
    message, usage = result.message, result.usage
    assert (message.status, message.error, message.content) == (Status.FAILED, "no route", UNREADABLE)
    assert (message.calls, message.prompt_tokens, usage.calls) == (1, 10, 3)


async def test_a_reused_completion_costs_the_turn_the_same_and_spends_nothing() -> None:
    model = Scripted(Completion("", REPLY, 10, 3, reused=True))
    result = await RoleAgent(TEXTUAL[0], model).take(turn())
    message, usage = result.message, result.usage
    assert (message.calls, message.prompt_tokens) == (1, 10)
    assert usage == Usage(reused=1, reused_tokens=13)


async def test_with_choices_a_letter_is_its_text_and_what_names_none_is_repaired() -> None:
    question = Question("q1", "Where?", ("Salt Quay", "Tarn Hollow"))
    model = Scripted("Answer: Elsewhere", "Answer: (B)")
    message = (await RoleAgent(TEXTUAL[0], model).take(replace(turn(), question=question))).message
    assert (message.answer, message.calls) == ("Tarn Hollow", 2)


UNREADABLE = "It may be one or the other: there is no telling, I think."


def words(request: Request) -> int:
    """All that a model reads of a request, in words."""
    parts = request.system, request.shared, request.own, request.rejected, request.correction
    return len(" ".join(parts).split())


class Narrow:
    """A model whose tokens are words (a picture is 50) and whose context is small; it notes what it refused."""

    def __init__(self, limit: int, reply: str = REPLY, tells: bool = True) -> None:
        self._limit, self._reply, self._tells = limit, reply, tells
        self.served: list[Request] = []
        self.refused: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        tokens = words(request) + 50 * len(request.images)
        if tokens <= self._limit:
            self.served.append(request)
            return Completion(request.id, self._reply, tokens, 3)
        self.refused.append(request)
        size = (tokens, self._limit) if self._tells else (0, 0)
        return Completion(request.id, "", size[0], stop="too_long", limit_tokens=size[1])


def long_turn() -> Turn:
    texts = tuple(Source(f"t{i}", f"t{i}", Kind.TEXT, f"Title {i}", "word " * 20) for i in range(10))
    pictures = tuple(Source(f"i{i}", f"i{i}", Kind.IMAGE, f"Picture {i}", "", f"{i}.png") for i in range(3))
    return Turn("d1", Question("q1", "Where?", evidence=(*texts, *pictures)), "decision", 1, seed=7)


CUT_IN_ORDER = ("t9", "t8", "t7", "t6", "t5", "t4", "t3", "t2", "i2", "t1", "i1", "t0", "i0")


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("limit", [500, 450, 400, 300, 200, 130])
async def test_evidence_is_left_out_until_the_prompt_fits_and_the_message_says_what(limit: int, tells: bool) -> None:
    model = Narrow(limit, tells=tells)
    result = await RoleAgent(DECISION, model).take(long_turn())
    message, usage = result.message, result.usage
    assert message.status is Status.OK
    assert message.cut == CUT_IN_ORDER[: len(message.cut)]
    assert (message.calls, usage.calls, usage.prompt_tokens) == (1, 1, message.prompt_tokens)
    assert len({request.id for request in (*model.served, *model.refused)}) == len(model.refused) + 1
    (served,) = model.served
    assert not [i for i in message.cut if f"[{i}]" in served.shared]
    if tells:
        whole = message.prompt_tokens + max(50, 20 + 4)
        assert whole + 60 > limit, "not much more is cut than has to be"
    assert result == await RoleAgent(DECISION, Narrow(limit, tells=tells)).take(long_turn())


async def test_an_agent_is_shown_what_it_reads_and_all_of_that_can_be_cut() -> None:
    for role in (TEXTUAL[0], VISUAL[0]):
        model = Narrow(10_000)
        for reads in (None, Modality.BOTH):
            await RoleAgent(replace(role, reads=reads), model).take(long_turn())
        own, everything = model.served
        assert ("[1] Title 0" in own.shared, bool(own.images)) == (role in TEXTUAL, role in VISUAL)
        assert "[1] Title 0" in everything.shared
        assert everything.images
        message = (await RoleAgent(replace(role, reads=Modality.BOTH), Narrow(20)).take(long_turn())).message
        assert message.cut == CUT_IN_ORDER


async def test_a_prompt_that_cannot_be_cut_to_fit_fails_and_says_what_to_do() -> None:
    result = await RoleAgent(DECISION, Narrow(20)).take(long_turn())
    message, usage = result.message, result.usage
    assert (message.status, message.calls, message.prompt_tokens, usage) == (Status.FAILED, 0, 0, Usage())
    assert message.cut == CUT_IN_ORDER
    for remedy in ("agents.budget_words", "agents.max_tokens", "topology.rounds", "model.max_model_len", "20 at most"):
        assert remedy in message.error
    assert "\n" not in message.error


async def test_a_repair_that_does_not_fit_cuts_further() -> None:
    first = Narrow(10_000, reply=UNREADABLE)
    await RoleAgent(DECISION, first).take(long_turn())
    whole, repair = (words(request) + 150 for request in first.served)
    assert whole < repair
    message = (await RoleAgent(DECISION, Narrow(repair - 1, reply=UNREADABLE)).take(long_turn())).message
    assert (message.status, message.calls, message.cut) == (Status.UNPARSED, 2, ("t9",))


async def test_a_programming_error_of_a_model_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        await RoleAgent(TEXTUAL[0], Scripted(ZeroDivisionError())).take(turn())


async def test_an_agent_recalls_its_own_earlier_turn_in_the_same_discussion_only() -> None:
    model = Scripted(REPLY)
    agent = RoleAgent(TEXTUAL[0], model)
    await agent.take(turn(1))
    await agent.take(turn(2, recall=1))
    assert "[text_critic, round 1] [t1] says so. Answer: Tarn Hollow" in model.requests[1].own
    agent.memory.forget(["d1"])
    assert len(agent.memory) == 0


async def test_an_agent_that_lost_its_memory_says_so() -> None:
    with pytest.raises(MemoryLost, match=r"text_critic: 0 .*\b1\b"):
        await RoleAgent(TEXTUAL[0], Scripted(REPLY)).take(turn(2, recall=1))


async def test_a_dummy_says_one_sentence_and_calls_no_model() -> None:
    model = Scripted(REPLY)
    role = Role("text_critic", Modality.TEXT, "", dummy=True)
    result = await RoleAgent(role, model).take(turn())
    message, usage = result.message, result.usage
    assert (message.content, message.answer, message.calls, model.requests) == (DUMMY_SENTENCE, None, 0, [])
    assert usage == Usage()


def test_an_agents_process_needs_no_autogen() -> None:
    code = "import sys, actors.agents.role_agent; sys.exit(any(name.startswith('autogen') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
