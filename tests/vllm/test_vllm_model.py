"""A replica on a real vLLM engine."""

import asyncio
import dataclasses
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from actors.backends.model_settings import ModelSettings
from actors.backends.vllm_model import VllmModel
from actors.errors import ModelLost
from actors.messages import Abilities, Completion, Heard, Kind, Message, Modality, Question, Role, Source, Turn
from actors.processes import runs
from actors.prompting.prompt import build_request
from actors.settings import AgentSettings
from tests.support.waiting import until
from tests.vllm.conftest import CONTEXT_TOKENS
from tests.vllm.questions import picture, request, with_pictures

HANG_S = 2.0
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "grün 🂡"]}, "sure": {"type": "boolean"}},
    "required": ["colour", "sure"],
    "additionalProperties": False,
}

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="session")]


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


async def test_what_the_engine_can_do_is_known_after_its_start(model: VllmModel) -> None:
    assert await model.abilities() == Abilities(True, True, True, True, True, CONTEXT_TOKENS, 3)


async def test_a_reply_keeps_to_its_schema_without_blanks_and_tells_its_tokens(
    model: VllmModel, question: Question
) -> None:
    made = request(question, seed=3, schema=json.dumps(SCHEMA), likelihoods=True, max_tokens=100)
    reply = await model.complete(made)
    assert reply.stop == "stop"
    assert json.loads(reply.text)["colour"] in ("red", "grün 🂡")
    assert re.match(r'\{"colour":"(red|grün 🂡)", ?"sure":(true|false)\}$', reply.text)
    assert "".join(token for token, _ in reply.tokens) == reply.text
    assert all(likelihood <= 0 for _, likelihood in reply.tokens)
    # The schema leaves no choice in the fields' names.
    assert reply.tokens[0][1] == 0.0


async def test_likelihoods_come_without_a_schema_too_and_not_unasked(model: VllmModel, question: Question) -> None:
    told, untold = [await model.complete(request(question, likelihoods=likelihoods)) for likelihoods in (True, False)]
    assert told.text == untold.text
    assert "".join(token for token, _ in told.tokens) == told.text
    assert untold.tokens == ()


async def test_a_schema_that_the_engine_refuses_is_that_requests_error(model: VllmModel, question: Question) -> None:
    for schema in ('{"type": "nonsense"}', '{"type": "array", "uniqueItems": true}', "no JSON"):
        refused = await model.complete(request(question, schema=schema))
        assert (refused.stop, bool(refused.error)) == ("error", True)
    assert (await model.complete(request(question))).stop == "length"


async def test_a_repair_is_read_after_the_reply_that_was_rejected(model: VllmModel, question: Question) -> None:
    plain = await model.complete(request(question))
    repaired = await model.complete(request(question, rejected=plain.text, correction="Reply in three lines."))
    assert repaired.prompt_tokens > plain.prompt_tokens
    assert repaired.cached_tokens > 0.8 * plain.prompt_tokens


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
        build_request(turn, Role("", Modality.BOTH, "You doubt."), (), AgentSettings(temperature=0, max_tokens=4))
    )
    assert 0.6 < second.cached_tokens / second.prompt_tokens < 1


async def test_other_pixels_under_the_same_text_are_not_served_from_the_cache(
    model: VllmModel, question: Question
) -> None:
    red, blue = question.evidence[-2:]
    fresh = with_pictures(dataclasses.replace(question, text="What colour has the flag here?"), red)
    await model.complete(request(fresh))
    same = await model.complete(request(fresh))
    other = await model.complete(request(with_pictures(fresh, dataclasses.replace(red, image=blue.image))))
    assert other.cached_tokens < same.cached_tokens


async def test_a_prompt_and_reply_that_fill_the_context_fit_and_one_token_more_is_too_long(
    model: VllmModel, question: Question
) -> None:
    counted = (await model.complete(request(question, max_tokens=1))).prompt_tokens  # two pictures included
    room = CONTEXT_TOKENS - counted
    full = await model.complete(request(question, max_tokens=room))
    over = await model.complete(request(question, max_tokens=room + 1))
    assert full.stop in ("stop", "length")
    assert (over.stop, over.text, over.completion_tokens) == ("too_long", "", 0)
    assert (over.prompt_tokens, over.limit_tokens) == (counted, counted - 1)
    assert str(CONTEXT_TOKENS) in over.error


async def test_a_prompt_of_several_contexts_is_counted_in_full_and_the_engine_goes_on(
    model: VllmModel, question: Question
) -> None:
    asked = [request(question, own="quay " * contexts * CONTEXT_TOKENS) for contexts in (2, 4, 6)]
    long, longer, longest = [await model.complete(made) for made in asked]
    assert long.stop == longer.stop == longest.stop == "too_long"
    assert long.prompt_tokens > 2 * CONTEXT_TOKENS
    assert longest.prompt_tokens - longer.prompt_tokens == longer.prompt_tokens - long.prompt_tokens
    assert (await model.complete(request(question))).stop == "length"


async def test_a_reply_as_long_as_the_context_is_an_error_since_no_prompt_would_fit(
    model: VllmModel, question: Question
) -> None:
    completion = await model.complete(request(question, max_tokens=CONTEXT_TOKENS))
    assert completion.stop == "error"
    assert "no room" in completion.error


async def test_pictures_of_a_refused_request_reach_the_engine_with_the_next(
    model: VllmModel, question: Question, tmp_path: Path
) -> None:
    unseen = picture(tmp_path, "olive")
    made = request(with_pictures(question, unseen))
    assert (await model.complete(dataclasses.replace(made, own="quay " * CONTEXT_TOKENS))).stop == "too_long"
    assert (await model.complete(made)).stop == "length"


async def test_a_text_does_not_depend_on_what_was_cached_or_on_what_is_answered_beside_it(
    model: VllmModel, question: Question
) -> None:
    fresh = dataclasses.replace(question, text="Which of the harbours is the deepest, and how deep is it?")
    made = request(fresh, max_tokens=64)
    new = await model.complete(made)
    cached = await model.complete(made)
    others = [request(question, role, seed, max_tokens=50) for seed, role in enumerate(["Count.", "Doubt.", "Look."])]
    beside, *_ = await asyncio.gather(*map(model.complete, [made, *others]))
    assert new.cached_tokens < cached.cached_tokens
    assert new.text == cached.text == beside.text


async def test_pictures_beyond_what_the_engine_takes_are_told_in_words(model: VllmModel, question: Question) -> None:
    completion = await model.complete(request(question, images=question.evidence[-2:] * 2))
    assert (completion.stop, completion.error) == ("length", "")


async def test_a_broken_picture_is_an_error_that_names_it(model: VllmModel, question: Question, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not a picture")
    source = Source("flag7", "flag7", Kind.IMAGE, "flag", "", str(broken))
    completion = await model.complete(request(with_pictures(question, source)))
    assert completion.stop == "error"
    assert str(broken) in completion.error


async def test_a_cancelled_request_leaves_the_engine(model: VllmModel, question: Question) -> None:
    task = asyncio.create_task(model.complete(request(question, max_tokens=800)))
    await taken(model, task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model._engine.get_num_unfinished_requests() == 0


async def test_a_model_that_is_not_there_is_one_clear_line(settings: ModelSettings, tmp_path: Path) -> None:
    missing = dataclasses.replace(settings, name=str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="cannot load") as caught:
        await VllmModel(missing).start()
    assert "\n" not in str(caught.value)


async def test_a_request_cancelled_while_it_is_laid_out_costs_the_next_nothing(
    model: VllmModel, question: Question, tmp_path: Path
) -> None:
    made = request(with_pictures(question, picture(tmp_path, "teal")))
    task = asyncio.create_task(model.complete(made))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await model.complete(made)).stop == "length"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def strict(settings: ModelSettings, strict_model: Path) -> AsyncIterator[VllmModel]:
    """Another engine, which the last test that uses it ruins."""
    model = VllmModel(dataclasses.replace(settings, name=str(strict_model), hang_s=HANG_S))
    await model.start()
    yield model
    await model.close()


async def test_a_template_that_refuses_a_system_turn_beside_pictures_gets_its_text_in_the_user_turn(
    strict: VllmModel, question: Question
) -> None:
    text_only = with_pictures(question, *question.evidence[:-2])
    shown, told = [await strict.complete(request(asked, max_tokens=2)) for asked in (question, text_only)]
    assert (shown.stop, told.stop) == ("length", "length")
    assert shown.prompt_tokens > told.prompt_tokens


async def test_an_event_loop_that_stands_still_is_not_taken_for_a_hanging_engine(
    strict: VllmModel, question: Question
) -> None:
    task = asyncio.create_task(strict.complete(request(question, max_tokens=300)))
    await taken(strict, task)
    with stopped(strict):
        await asyncio.sleep(0.1)
        time.sleep(2 * HANG_S)
    assert (await task).stop in ("stop", "length")


async def test_a_hanging_engine_fails_all_requests_and_closing_leaves_no_process(
    strict: VllmModel, question: Question
) -> None:
    with stopped(strict):
        asked = [strict.complete(request(question, seed=seed)) for seed in range(3)]
        failed = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), timeout=60)
    assert [type(error) for error in failed] == [ModelLost] * 3
    assert "not answered" in str(failed[0])
    with pytest.raises(ModelLost, match="not answered"):
        await strict.complete(request(question))
    await asyncio.wait_for(strict.close(), timeout=60)
    assert not any(map(runs, strict._processes))


# The last one: it ends the engine of all others.
async def test_an_engine_that_dies_fails_all_requests_and_closing_leaves_no_process(
    model: VllmModel, question: Question
) -> None:
    task = asyncio.create_task(model.complete(request(question, max_tokens=800)))
    await taken(model, task)
    for process in model._processes:
        process.kill()
    with pytest.raises(ModelLost, match="died"):
        await asyncio.wait_for(task, timeout=60)
    with pytest.raises(ModelLost, match="died"):
        await model.complete(request(question))
    await asyncio.wait_for(model.close(), timeout=60)
    assert not any(map(runs, model._processes))


async def taken(model: VllmModel, task: asyncio.Task[Completion]) -> None:
    """Returns once the engine works on the request; a request that ends without it fails the test."""
    await until(lambda: task.done() or model._engine.get_num_unfinished_requests())
    assert not task.done(), task.result()


@contextmanager
def stopped(model: VllmModel) -> Iterator[None]:
    """The engine's processes stand still meanwhile, as they do when a device hangs."""
    for process in model._processes:
        process.suspend()
    yield
    for process in model._processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()
