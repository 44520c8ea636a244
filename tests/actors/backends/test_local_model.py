"""A model that `transformers` runs in this process: what it is asked, what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

pytest.importorskip("transformers")

from actors.backends.local_model import LocalModel, LocalSettings
from actors.errors import ModelLost
from actors.messages import Completion, Kind, Request, Source
from tests.actors.backends.tiny_llama import (
    CHAT_TEMPLATE,
    CONTEXT,
    NO_SYSTEM_TURN,
    SILENT_SYSTEM_TURN,
    write_tiny_llama,
)

REQUEST = Request("q/1", "p", "You are one of a team.", "A question?", "Answer it.", temperature=1.0, max_tokens=24)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"answer": {"enum": ["yes", "no"]}, "confidence": {"enum": [0, 1]}},
        "required": ["answer", "confidence"],
        "additionalProperties": False,
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny") / "llama")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(folder: Path) -> AsyncIterator[LocalModel]:
    model = await started(folder)
    yield model
    await model.close()


async def started(folder: Path, **settings: object) -> LocalModel:
    model = LocalModel(LocalSettings(str(folder), cpus=1, **settings))  # type: ignore[arg-type]
    await model.start()
    return model


async def fresh_answer(folder: Path, request: Request) -> Completion:
    """By a model that was asked nothing before."""
    model = await started(folder)
    try:
        return await model.complete(request)
    finally:
        await model.close()


def prompt(model: LocalModel, request: Request) -> str:
    """The text that the model reads."""
    from actors.backends.local_engine import tokens_of

    engine = model._loaded()
    text: str = engine.tokenizer.decode(tokens_of(engine.tokenizer, request, engine.system_turn))
    return text


async def test_a_seed_gives_one_reply_and_another_seed_another(model: LocalModel) -> None:
    first, again, other = [await model.complete(replace(REQUEST, seed=seed)) for seed in (1, 1, 2)]
    assert first == again
    assert first.text != other.text


async def test_at_temperature_zero_the_seed_does_not_matter(model: LocalModel) -> None:
    greedy = replace(REQUEST, temperature=0.0)
    assert await model.complete(greedy) == await model.complete(replace(greedy, seed=7))


async def test_a_reply_is_the_same_whatever_was_asked_before_and_beside_it(folder: Path, model: LocalModel) -> None:
    """The long prompts share several chunks, which are read once."""
    shared = replace(REQUEST, shared="the passages of a question " * 80, likelihoods=True)
    requests = [replace(shared, id=f"q/{n}", own=f"specialist {n}", seed=n) for n in range(4)]
    together = await asyncio.gather(*map(model.complete, [*requests, REQUEST, *requests]))
    assert together[:4] == [
        replace(later, cached_tokens=first.cached_tokens)
        for first, later in zip(together[:4], together[5:], strict=True)
    ]
    assert together[3].cached_tokens >= 256
    alone = await fresh_answer(folder, requests[3])
    assert alone.cached_tokens == 0
    assert replace(together[3], cached_tokens=0) == alone


async def test_tokens_are_counted_and_a_reply_that_is_cut_says_so(model: LocalModel) -> None:
    answer = await model.complete(replace(REQUEST, max_tokens=5, seed=1))
    assert (answer.stop, answer.completion_tokens) == ("length", 5)
    assert answer.prompt_tokens == len(model._loaded().tokenizer(prompt(model, REQUEST))["input_ids"])


async def test_likelihoods_are_of_the_tokens_that_make_up_the_text(model: LocalModel) -> None:
    """Of random bytes, most of which are no whole character."""
    answer = await model.complete(replace(REQUEST, likelihoods=True, max_tokens=200, seed=3))
    assert "".join(text for text, _ in answer.tokens) == answer.text
    assert all(logprob <= 0 for _, logprob in answer.tokens)
    assert (await model.complete(replace(REQUEST, max_tokens=200, seed=3))).tokens == ()


async def test_a_likelihood_is_that_of_the_model_when_it_reads_the_whole_text(model: LocalModel) -> None:
    import torch

    from actors.backends.local_engine import tokens_of

    request = replace(REQUEST, likelihoods=True, max_tokens=1, temperature=0.0, shared="a passage " * 150)
    answer = await model.complete(request)
    engine = model._loaded()
    read = torch.tensor([tokens_of(engine.tokenizer, request, engine.system_turn)])
    with torch.inference_mode():
        logprobs = torch.log_softmax(engine.decoder._model(read).logits[0, -1].float(), dim=-1)
    assert answer.tokens[0][1] == pytest.approx(float(logprobs.max()), abs=1e-3)


async def test_a_reply_keeps_to_its_schema_and_then_ends(model: LocalModel) -> None:
    pytest.importorskip("xgrammar")
    requests = [replace(REQUEST, id=str(seed), seed=seed, schema=SCHEMA, max_tokens=60) for seed in range(3)]
    answers = await asyncio.gather(*map(model.complete, requests))
    assert {answer.stop for answer in answers} == {"stop"}
    replies = [json.loads(answer.text) for answer in answers]
    assert {reply["answer"] for reply in replies} <= {"yes", "no"}
    assert {reply["confidence"] for reply in replies} <= {0, 1}


async def test_a_schema_that_is_none_is_refused_with_a_reason(model: LocalModel) -> None:
    pytest.importorskip("xgrammar")
    answer = await model.complete(replace(REQUEST, schema='{"type": "nothing"}'))
    assert answer.stop == "error"
    assert answer.error.startswith("xgrammar cannot compile the JSON schema")
    assert (await model.complete(REQUEST)).stop != "error"


async def test_a_prompt_that_does_not_fit_is_not_answered(model: LocalModel) -> None:
    answer = await model.complete(replace(REQUEST, shared="word " * CONTEXT))
    assert (answer.stop, answer.limit_tokens) == ("too_long", CONTEXT - REQUEST.max_tokens)
    assert answer.prompt_tokens > CONTEXT
    answer = await model.complete(replace(REQUEST, max_tokens=CONTEXT))
    assert answer.stop == "error"
    assert answer.error == f"{CONTEXT} tokens of reply leave no room in a context of {CONTEXT}"


async def test_a_smaller_context_can_be_asked_for(folder: Path) -> None:
    model = await started(folder, max_model_len=64)
    assert (await model.abilities()).context_tokens == 64
    assert (await model.complete(replace(REQUEST, shared="word " * 64))).limit_tokens == 64 - REQUEST.max_tokens
    await model.close()


async def test_a_cancelled_call_ends_after_the_step_in_hand_and_one_that_waits_never_begins(model: LocalModel) -> None:
    pytest.importorskip("xgrammar")
    long = replace(REQUEST, schema=json.dumps({"type": "string", "minLength": 5000}), max_tokens=CONTEXT - 200)
    steps = []
    hook = model._loaded().decoder._model.register_forward_hook(lambda *_: steps.append(1))
    calls = [asyncio.create_task(model.complete(replace(long, id=str(number)))) for number in range(3)]
    while len(steps) < 3:
        await asyncio.sleep(0.01)
    for call in calls:
        call.cancel()
    assert (await model.complete(replace(REQUEST, max_tokens=1))).completion_tokens == 1
    hook.remove()
    assert len(steps) < long.max_tokens
    assert all(call.cancelled() for call in calls)


async def test_pictures_are_described_in_words(model: LocalModel) -> None:
    picture = Source("3", "d", Kind.IMAGE, "Tower", "An iron tower in Paris.", image="/nowhere/tower.png")
    request = replace(REQUEST, images=(picture,))
    assert "An iron tower in Paris." in prompt(model, request)
    assert (await model.complete(request)).stop != "error"


async def test_it_says_what_it_can_do(model: LocalModel) -> None:
    able = await model.abilities()
    assert (able.pictures, able.likelihoods, able.system_turn, able.seeds) == (False, True, True, True)
    assert able.context_tokens == CONTEXT


@pytest.mark.parametrize("template", [NO_SYSTEM_TURN, SILENT_SYSTEM_TURN])
async def test_without_a_system_turn_its_text_begins_the_user_turn(tmp_path: Path, template: str) -> None:
    assert template != CHAT_TEMPLATE
    model = await started(write_tiny_llama(tmp_path / "m", template))
    assert (await model.abilities()).system_turn is False
    assert prompt(model, REQUEST).startswith(f"<|im_start|>user\n{REQUEST.system}")
    await model.close()


async def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^transformers cannot run .* no chat template; choose a model that was"):
        await started(write_tiny_llama(tmp_path / "m", None))


async def test_a_folder_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder '.*missing' on "):
        await started(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"^transformers cannot run [^\n]*$"):
        await started(tmp_path)


async def test_a_missing_library_is_named_with_its_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r"no transformers here .*: pip install '\.\[transformers\]'"):
        await started(folder)


async def test_without_xgrammar_it_keeps_to_no_schema(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    model = await started(folder)
    assert (await model.abilities()).schema is False
    assert (await model.complete(REQUEST)).stop != "error"
    assert "pip install '.[transformers]'" in (await model.complete(replace(REQUEST, schema=SCHEMA))).error
    await model.close()


async def test_a_closed_model_is_lost_and_closing_twice_does_no_harm(folder: Path) -> None:
    model = await started(folder)
    waiting = asyncio.create_task(model.complete(replace(REQUEST, max_tokens=CONTEXT - 200)))
    await asyncio.sleep(0.05)
    await model.close()
    await model.close()
    with pytest.raises(ModelLost, match="closed"):
        await waiting
    with pytest.raises(ModelLost, match="closed"):
        await model.complete(REQUEST)


async def test_weights_are_computed_in_the_type_that_was_asked_for(folder: Path) -> None:
    for dtype in ("float32", "bfloat16"):
        model = await started(folder, dtype=dtype)
        assert str(model._loaded().decoder._model.dtype) == f"torch.{dtype}"
        await model.close()


def test_a_cpu_computes_in_bfloat16_only_where_weights_and_instructions_are(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from transformers import LlamaConfig

    from actors.backends.local_engine import auto_dtype

    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    wide, narrow, half = (LlamaConfig(dtype=dtype) for dtype in ("float32", "bfloat16", "float16"))
    for able in (True, False):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: {"avx512_bf16": able})
        assert auto_dtype(cpu, wide) is torch.float32
        assert auto_dtype(cpu, half) is torch.float32
        assert auto_dtype(cpu, narrow) is (torch.bfloat16 if able else torch.float32)
        assert auto_dtype(gpu, narrow) is torch.bfloat16
