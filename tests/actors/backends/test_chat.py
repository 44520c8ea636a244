"""How a request becomes a chat, for engines and endpoints alike."""

from dataclasses import replace
from typing import Any

from PIL import Image

from actors.backends.chat import chat, pictures_in_words
from actors.backends.vllm_model import turns
from actors.messages import Kind, Request, Source

TOWER = Source("3", "d3", Kind.IMAGE, "Eiffel\nTower", "an iron tower", "tower.png")
BRIDGE = Source("5", "d5", Kind.IMAGE, "Golden Gate", "a red bridge", "bridge.png")
REQUEST = Request("q", "p", "system", "shared", "own", images=(TOWER, BRIDGE))
FILES: list[dict[str, Any]] = [{"type": "file", "file": number} for number in (1, 2)]


def test_each_picture_comes_after_its_number_and_title() -> None:
    _, user = chat(REQUEST, FILES)
    assert user["content"] == [
        {"type": "text", "text": "[3] Eiffel Tower"},
        FILES[0],
        {"type": "text", "text": "[5] Golden Gate"},
        FILES[1],
        {"type": "text", "text": "shared\nown"},
    ]


def test_a_picture_without_a_file_is_described_under_its_number_and_title() -> None:
    _, user = chat(replace(REQUEST, images=(replace(TOWER, image=None), BRIDGE)), FILES[1:])
    described = "## What pictures without a file show\n[3] Eiffel Tower: an iron tower"
    assert [part.get("text") for part in user["content"]] == ["[5] Golden Gate", None, f"shared\n{described}\nown"]


def test_a_model_that_reads_no_pictures_gets_all_of_them_in_words() -> None:
    _, user = chat(pictures_in_words(REQUEST), [])
    assert "[3] Eiffel Tower: an iron tower\n[5] Golden Gate: a red bridge\nown" in user["content"]


def test_without_a_system_turn_its_text_opens_the_user_turn() -> None:
    (user,) = chat(REQUEST, FILES, system_turn=False)
    assert user["content"][:2] == [{"type": "text", "text": "system\n"}, {"type": "text", "text": "[3] Eiffel Tower"}]
    (text,) = chat(replace(REQUEST, images=()), [], system_turn=False)
    assert text["content"] == "system\nshared\nown"


def test_a_repair_goes_on_from_the_reply_that_was_rejected_as_it_was() -> None:
    repair = replace(REQUEST, images=(), rejected=" Paris,\nI think", correction="Give the three lines.")
    assert chat(repair, [])[1:] == [
        {"role": "user", "content": "shared\nown"},
        {"role": "assistant", "content": " Paris,\nI think"},
        {"role": "user", "content": "Give the three lines."},
    ]


def test_a_repair_of_a_reply_without_text_says_so() -> None:
    repair = replace(REQUEST, images=(), rejected=" \n", correction="Give the three lines.")
    assert chat(repair, [], system_turn=False)[1]["content"] == "(nothing)"


def test_vllm_gets_the_same_turns_with_its_own_pictures() -> None:
    pictures = [Image.new("RGB", (8, 8)) for _ in range(2)]
    parts = [{"type": "image_pil", "image_pil": picture} for picture in pictures]
    repair = replace(REQUEST, rejected="Paris", correction="Give the three lines.")
    assert turns(repair, pictures) == chat(repair, parts)
