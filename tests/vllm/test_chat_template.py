"""What a model's chat template takes is found out from its renderer; needs vLLM, but no engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.backends.vllm_chat import system_turns
from tests.vllm.conftest import CONTEXT_TOKENS

pytestmark = pytest.mark.vllm


async def taken_by(folder: Path, chat_template: str | None) -> dict[bool, bool]:
    """By the renderer of a model with this template: the answers without pictures (False) and beside them (True)."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.renderers import renderer_from_config

    from tests.vllm.tiny_model import write_tiny_model

    model = str(write_tiny_model(folder / "model", chat_template=chat_template))
    arguments = AsyncEngineArgs(model=model, max_model_len=CONTEXT_TOKENS, dtype="float32")
    renderer = renderer_from_config(arguments.create_engine_config())
    try:
        return await system_turns(renderer)
    finally:
        renderer.shutdown()


async def test_a_template_with_system_turns_gets_one(tiny_model: Path, tmp_path: Path) -> None:
    from tests.vllm.tiny_model import CHAT_TEMPLATE

    assert await taken_by(tmp_path, CHAT_TEMPLATE) == {False: True, True: True}


async def test_a_template_that_refuses_a_system_turn_beside_pictures_gets_none_there(
    tiny_model: Path, tmp_path: Path
) -> None:
    from tests.vllm.tiny_model import NO_SYSTEM_BESIDE_PICTURES

    assert await taken_by(tmp_path, NO_SYSTEM_BESIDE_PICTURES) == {False: True, True: False}


async def test_a_template_that_leaves_out_system_turns_gets_none(tiny_model: Path, tmp_path: Path) -> None:
    from tests.vllm.tiny_model import CHAT_TEMPLATE

    silent = CHAT_TEMPLATE.replace("in messages -%}", "in messages if message.role != 'system' -%}")
    assert silent != CHAT_TEMPLATE
    assert await taken_by(tmp_path, silent) == {False: False, True: False}


async def test_a_model_without_a_template_cannot_chat(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="chat template"):
        await taken_by(tmp_path, None)
