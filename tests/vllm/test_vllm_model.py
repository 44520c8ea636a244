"""A replica on a real vLLM engine."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
from pathlib import Path

import pytest

from actors.messages import Heard, Kind, Message, Modality, Question, Source, Turn
from actors.models import ModelError
from actors.prompt import build_request
from actors.settings import AgentSettings
from actors.vllm_model import VllmModel, VllmSettings
from tests.vllm.conftest import CONTEXT_TOKENS
from tests.vllm.questions import request, with_pictures

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]


async def test_the_same_seed_gives_the_same_text_and_another_seed_another(model: VllmModel, question: Question) -> None:
    first, again, other = [await model.complete(request(question, seed=seed)) for seed in (1, 1, 2)]
    assert first.text == again.text
    assert first.text != other.text


async def test_requests_answered_together_keep_their_own_seeds(model: VllmModel, question: Question) -> None:
    alone = [(await model.complete(request(question, seed=seed))).text for seed in range(4)]
    together = await asyncio.gather(*(model.complete(request(question, seed=seed)) for seed in range(4)))
    assert [completion.text for completion in together] == alone


async def test_usage_and_stop_reason_are_the_engines(model: VllmModel, question: Question) -> None:
    completion = await model.complete(request(question))
    assert completion.stop == "length"
    assert completion.completion_tokens == 12
    assert completion.error == ""
    assert 500 < completion.prompt_tokens < CONTEXT_TOKENS


async def test_what_a_picture_shows_reaches_the_model(model: VllmModel, question: Question) -> None:
    red, blue = question.evidence[-2:]
    swapped = dataclasses.replace(red, image=blue.image)  # same name and title, other pixels
    seen = [
        await model.complete(request(with_pictures(question, picture), max_tokens=64)) for picture in (red, swapped)
    ]
    assert seen[0].prompt_tokens == seen[1].prompt_tokens
    assert seen[0].text != seen[1].text


async def test_a_picture_costs_tokens_and_its_caption_stands_in_where_the_file_is_missing(
    model: VllmModel, question: Question
) -> None:
    red = question.evidence[-2]
    shown = await model.complete(request(with_pictures(question, red)))
    told = await model.complete(request(with_pictures(question, dataclasses.replace(red, image=None))))
    assert told.stop != "error"
    assert told.prompt_tokens != shown.prompt_tokens


async def test_the_part_that_agents_share_is_served_from_the_prefix_cache(model: VllmModel, question: Question) -> None:
    fresh = dataclasses.replace(question, text="Which harbour was dug first, and how many quays has it?")
    heard = (Heard(Message("m", "rows", 1, "Harbour 0 is first.", "Harbour 0", 0.5), 1.0),)
    await model.complete(request(fresh))
    turn = Turn("q1/0", fresh, "critic", 2, 9, heard)
    second = await model.complete(
        build_request(turn, Modality.BOTH, "You doubt.", (), AgentSettings(temperature=0, max_tokens=4))
    )
    assert 0.8 < second.cached_tokens / second.prompt_tokens < 1


async def test_other_pixels_under_the_same_text_are_not_served_from_the_cache(
    model: VllmModel, question: Question
) -> None:
    red, blue = question.evidence[-2:]
    fresh = with_pictures(dataclasses.replace(question, text="What colour has the flag here?"), red)
    await model.complete(request(fresh))
    same = await model.complete(request(fresh))
    other = await model.complete(request(with_pictures(fresh, dataclasses.replace(red, image=blue.image))))
    assert other.cached_tokens < same.cached_tokens


async def test_a_prompt_longer_than_the_context_is_an_error_and_the_engine_goes_on(
    model: VllmModel, question: Question
) -> None:
    long = await model.complete(request(question, own="quay " * 4 * CONTEXT_TOKENS))
    assert (long.stop, long.text, long.completion_tokens) == ("error", "", 0)
    assert str(CONTEXT_TOKENS) in long.error
    assert "\n" not in long.error
    assert (await model.complete(request(question))).stop == "length"


async def test_more_pictures_than_the_engine_takes_is_an_error(model: VllmModel, question: Question) -> None:
    completion = await model.complete(request(question, images=question.evidence[-2:] * 2))
    assert completion.stop == "error"
    assert "image" in completion.error


async def test_a_broken_picture_is_an_error_that_names_it(model: VllmModel, question: Question, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not a picture")
    source = Source("flag7", "flag7", Kind.IMAGE, "flag", "", str(broken))
    completion = await model.complete(request(with_pictures(question, source)))
    assert completion.stop == "error"
    assert "'flag7'" in completion.error


async def test_a_cancelled_request_leaves_the_engine(model: VllmModel, question: Question) -> None:
    task = asyncio.create_task(model.complete(request(question, max_tokens=1000)))
    while not model._engine.get_num_unfinished_requests():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model._engine.get_num_unfinished_requests() == 0


async def test_an_unknown_engine_argument_names_the_one_that_was_meant(settings: VllmSettings) -> None:
    wrong = dataclasses.replace(settings, engine={"max_num_seq": 8})
    with pytest.raises(ValueError, match="'max_num_seq', did you mean 'max_num_seqs'"):
        await VllmModel(wrong).start()


async def test_a_model_that_is_not_there_is_one_clear_line(settings: VllmSettings, tmp_path: Path) -> None:
    missing = dataclasses.replace(settings, name=str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="cannot load") as caught:
        await VllmModel(missing).start()
    assert "\n" not in str(caught.value)


async def test_an_engine_that_dies_is_a_model_error_and_closing_leaves_no_process(
    settings: VllmSettings, question: Question
) -> None:
    others = set(multiprocessing.active_children())
    model = VllmModel(settings)
    await model.start()
    for process in set(multiprocessing.active_children()) - others:
        process.kill()
    with pytest.raises(ModelError, match=r"engine died|EngineDeadError"):
        await asyncio.wait_for(model.complete(request(question)), timeout=60)
    await model.close()
    assert set(multiprocessing.active_children()) <= others
