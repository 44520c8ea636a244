"""How a request becomes a chat; needs no engine."""

import dataclasses

import pytest

from actors.backends.model_settings import ModelSettings
from actors.backends.vllm_model import VllmModel, open_pictures, turns
from actors.messages import Question
from tests.vllm.questions import request, with_pictures


def test_pictures_come_before_the_shared_text_and_the_own_text_last(question: Question) -> None:
    made = request(question)
    system, user = turns(made, open_pictures(made))
    assert system == {"role": "system", "content": made.system}
    assert [part["type"] for part in user["content"]] == ["text", "image_pil", "text", "image_pil", "text"]
    assert user["content"][-1]["text"] == f"{made.shared}\n{made.own}"


def test_without_a_system_turn_its_text_opens_the_user_turn(question: Question) -> None:
    made = request(question)
    (user,) = turns(made, open_pictures(made), system_turn=False)
    kinds = [part["type"] for part in user["content"]]
    assert kinds == ["text", "text", "image_pil", "text", "image_pil", "text"]
    assert user["content"][0]["text"] == f"{made.system}\n"


def test_without_a_system_turn_a_text_without_pictures_stays_one_text(question: Question) -> None:
    made = request(question)
    (user,) = turns(made, [], system_turn=False)
    assert user["content"].startswith(f"{made.system}\n{made.shared}\n")


def test_two_agents_differ_only_after_all_that_they_share(question: Question) -> None:
    texts = [turns(request(question, role), [])[1]["content"] for role in ("You count.", "You doubt.")]
    assert all(text.startswith(f"{request(question).shared}\n") for text in texts)


def test_a_picture_without_a_file_is_told_by_its_caption_before_the_own_text(question: Question) -> None:
    red, blue = question.evidence[-2:]
    made = request(with_pictures(question, red, dataclasses.replace(blue, image=None)))
    shown = open_pictures(made)
    text = turns(made, shown)[1]["content"][-1]["text"]
    assert len(shown) == 1
    assert made.shared < text
    assert text.index(made.shared) < text.index(": a plain blue flag") < text.index(made.own)


async def test_asking_a_model_that_was_not_started_is_a_mistake_of_the_caller(question: Question) -> None:
    with pytest.raises(RuntimeError, match="before start"):
        await VllmModel(ModelSettings(name="any")).complete(request(question))
