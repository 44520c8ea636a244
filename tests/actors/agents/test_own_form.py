"""Roles with a form of their own: what they are asked, what their messages hold, and what colleagues hear of it."""

from dataclasses import replace

from actors.agents.role_agent import RoleAgent
from actors.messages import (
    Field,
    FieldKind,
    Heard,
    Kind,
    Message,
    Modality,
    Question,
    Role,
    Source,
    Status,
    Task,
    Turn,
    Value,
)
from actors.models import Model
from actors.prompting.prompt import NO_ANSWER
from actors.reader.reader import Reader, ReaderSettings
from tests.support.models import Scripted

FAULT = Field(FieldKind.SUMMARY, "one thing that is wrong", many=True, optional=True, label="Fault")
STANDS = Field(FieldKind.SUMMARY, "what stands", label="What stands")
FACT = Field(FieldKind.TRIPLE, "what is stated", many=True, value=Value.TRIPLE, label="Fact")
ANSWER = Field(FieldKind.ANSWER, "the answer", value=Value.ANSWER)
SURE = Field(FieldKind.CONFIDENCE, "how sure", optional=True, value=Value.SHARE)
CRITIC = Role("text_critic", Modality.TEXT, "You are the critic.", form=(FAULT, STANDS, ANSWER, SURE))
EXPERT = Role("text_knowledge_expert", Modality.TEXT, "You know facts.", form=(FACT, STANDS))
PLAIN = Role("text_scientist", Modality.TEXT, "You are a scientist.")
PASSAGE = Source("a", "d", Kind.TEXT, "Ana Brix", "Ana Brix was born in Benford.")
QUESTION = Question("q", "Where was Ana Brix born?", evidence=(PASSAGE,))


async def said(role: Role, model: Model, heard: tuple[Message, ...] = (), question: Question = QUESTION) -> Message:
    turn = Turn("d", question, role.name, 1, 3, heard=tuple(Heard(message, 0.5) for message in heard))
    return (await RoleAgent(role, model).take(turn)).message


async def test_the_answer_in_a_role_s_own_form_is_its_answer() -> None:
    model = Scripted("Fault: no source\nFault: wrong year\nWhat stands: the birth\nAnswer: Benford\nConfidence: 0.7")
    message = await said(CRITIC, model)
    assert (message.status, message.answer, message.confidence) == (Status.OK, "Benford", 0.7)
    assert message.values("Fault") == ("no source", "wrong year")
    assert "Fault: <one thing that is wrong; one such line for each, or none>" in model.requests[0].own
    assert "Answer the question." in model.requests[0].own


async def test_a_form_without_an_answer_gives_none_and_that_is_no_failure() -> None:
    model = Scripted("Fact: Ana Brix | born in | Benford\nWhat stands: she was born there")
    message = await said(EXPERT, model)
    assert (message.status, message.answer, message.calls) == (Status.OK, None, 1)
    assert NO_ANSWER in model.requests[0].own
    assert "Answer" not in model.requests[0].own.partition("## Form")[2]


async def test_what_is_required_and_missing_is_asked_for_again() -> None:
    model = Scripted("Fact: Ana Brix | born in | Benford", "What stands: she was born there")
    message = await said(EXPERT, model)
    assert message.values("What stands") == ("she was born there",)
    assert message.calls == 2


async def test_colleagues_hear_every_field() -> None:
    first = await said(EXPERT, Scripted("Fact: Ana Brix | born in | Benford\nWhat stands: she was born there"))
    model = Scripted("Reasoning: so it is.\nAnswer: Benford\nConfidence: 0.9")
    await said(PLAIN, model, heard=(first,))
    assert "Fact: Ana Brix | born in | Benford; What stands: she was born there" in model.requests[0].own


async def test_a_task_keeps_the_form_that_it_brings() -> None:
    model = Scripted("Summary: all of it")
    turn = Turn("d", QUESTION, CRITIC.name, 1, 3, task=Task("Sum up.", (Field(FieldKind.SUMMARY, "the whole"),)))
    message = (await RoleAgent(CRITIC, model).take(turn)).message
    assert message.fields == (("Summary", "all of it"),)
    assert message.answer is None


async def test_the_embedded_reader_learns_from_what_a_colleague_s_fields_state() -> None:
    reader = Reader(ReaderSettings(skill=1))
    expert = await said(EXPERT, reader)
    unread = replace(QUESTION, evidence=())
    assert (await said(PLAIN, reader, question=unread)).answer is None
    assert (await said(PLAIN, reader, heard=(expert,), question=unread)).answer == "Benford"
