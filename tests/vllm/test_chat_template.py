"""What a model's chat template takes is found out from its renderer; needs vLLM, but no engine."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.backends.vllm_model import Template, find_template
from tests.vllm.conftest import CONTEXT_TOKENS

pytestmark = pytest.mark.vllm


async def taken_by(folder: Path, chat_template: str | None) -> Mapping[bool, bool]:
    """Whether a model with this template takes a system turn, without pictures (False) and with pictures (True)."""
    return (await found(folder, chat_template)).system_turn


async def found(folder: Path, chat_template: str | None) -> Template:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.renderers import renderer_from_config

    from tests.vllm.tiny_model import write_tiny_model

    model = str(write_tiny_model(folder / "model", chat_template=chat_template))
    arguments = AsyncEngineArgs(model=model, max_model_len=CONTEXT_TOKENS, dtype="float32")
    renderer = renderer_from_config(arguments.create_engine_config())
    try:
        return await find_template(renderer)
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


DATED = """{%- if date_string is not defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif -%}
Today: {{ date_string }}
{%- for message in messages -%}{{ message.role }}: {{ message.content }}
{% endfor -%}"""
LISTS = """{%- for message in messages -%}{{ message.role }}:
{%- set parts = message['content'] -%}
{%- for part in parts -%}{%- if part.type == 'text' -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{%- endfor -%}"""


# As templates of models are: with a date where the engine gives none, and with marks around each turn.
DATED_OR_NOT = """{%- if strftime_now is defined -%}{%- set day = strftime_now("%d %b %Y") -%}
{%- else -%}{%- set day = "26 Jul 2024" -%}{%- endif -%}Today: {{ day }}
{%- for message in messages -%}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}<|im_start|>assistant"""
MARKED_LISTS = """{%- for message in messages -%}<|im_start|>{{ message.role }}
{%- for part in message.content -%}{%- if part.type == "text" -%}{{ part.text }}{%- endif -%}{%- endfor -%}<|im_end|>
{% endfor -%}<|im_start|>assistant"""


@pytest.mark.parametrize("text", [DATED, DATED_OR_NOT])
async def test_a_template_with_todays_date_gets_a_fixed_one(text: str, tiny_model: Path, tmp_path: Path) -> None:
    assert (await found(tmp_path, text)).dated


@pytest.mark.parametrize("text", [LISTS, MARKED_LISTS])
async def test_a_template_that_takes_lists_only_gets_lists(text: str, tiny_model: Path, tmp_path: Path) -> None:
    applied = await found(tmp_path, text)
    assert not applied.dated
    assert applied.system_turn[False]
