import copy
import pickle
from dataclasses import asdict, fields, replace

import pytest
from pydantic import BaseModel, ValidationError

from actors import wire
from actors.messages import Kind, Message, Question, Source, Status, TurnResult, Usage

MESSAGE = Message("1/critic", "critic", 1, content="It is [t1].", answer="Brix", fields=(("Answer", "Brix"),))
QUESTION = Question("q", "Who?", evidence=(Source("t1", "t", Kind.TABLE, "Ana", "Brix"),))


class Content(BaseModel, strict=True):
    question: Question


def test_a_value_is_a_dataclass_to_all_who_read_one():
    assert fields(MESSAGE)[0].name == "id"
    assert asdict(QUESTION)["evidence"] == (asdict(QUESTION.evidence[0]),)
    assert asdict(QUESTION.evidence[0])["kind"] is Kind.TABLE
    assert replace(MESSAGE, answer=None) == wire.replace(MESSAGE, answer=None)
    assert replace(MESSAGE, answer=None) != MESSAGE
    assert repr(Usage(calls=1)).startswith("Usage(calls=1, prompt_tokens=0")


def test_a_value_is_frozen_and_takes_no_other_field():
    with pytest.raises(AttributeError):
        MESSAGE.answer = "Tarn"
    with pytest.raises(TypeError):
        wire.replace(MESSAGE, opinion="Tarn")
    with pytest.raises(TypeError):
        Message("1/critic")


def test_copies_are_equal_and_have_the_same_hash():
    for value in (MESSAGE, QUESTION, TurnResult(MESSAGE)):
        for made in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), wire.replace(value)):
            assert made == value
            assert hash(made) == hash(value)
    assert wire.replace(MESSAGE, status=Status.FAILED) != MESSAGE
    # A default that a factory makes is another object each time.
    assert TurnResult(MESSAGE).usage is not TurnResult(MESSAGE).usage


def test_pydantic_reads_and_writes_a_value():
    content = Content(question=QUESTION)
    assert content.question is QUESTION
    assert content.model_dump()["question"] == asdict(QUESTION)
    assert Content.model_validate_json(content.model_dump_json()) == content
    assert "Source" in Content.model_json_schema()["$defs"]
    with pytest.raises(ValidationError, match=r"question\.text"):
        Content.model_validate_json('{"question": {"id": "q", "text": 3}}')
