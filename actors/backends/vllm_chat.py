"""Lays a request out as a chat for vLLM. Pictures are real, and turns as the model's chat template takes them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from PIL import Image

from actors.backends.chat import PROBE, chat
from actors.backends.model_settings import template_arguments
from actors.messages import Kind, Request, Source
from actors.pictures import read_picture
from actors.prompting.safe_text import without_tokens

LOG = logging.getLogger(__name__)
DAY = datetime(2024, 7, 26)  # the date of templates that know none
PICTURE = Source("1", "1", Kind.IMAGE, "Picture", "", image="never opened")


def open_pictures(request: Request) -> list[Image.Image]:
    """Reads the request's picture files in order. Raises OSError, which names the unreadable picture."""
    return [read_picture(source.image) for source in request.images if source.image is not None]


def turns(request: Request, pictures: Sequence[Image.Image], system_turn: bool = True) -> list[dict[str, Any]]:
    """Returns the chat of a request. Without a `system_turn` its text opens the user turn: the order stays."""
    return chat(request, [{"type": "image_pil", "image_pil": picture} for picture in pictures], system_turn)


def without_special_tokens(messages: Sequence[dict[str, Any]], tokenizer: Any) -> list[dict[str, Any]]:
    """Breaks the tokenizer's own special tokens in the texts of a chat. Only its template may place them."""
    tokens = tokenizer.all_special_tokens

    def safe(content: Any) -> Any:
        if isinstance(content, str):
            return without_tokens(content, tokens)
        return [{**part, "text": safe(part["text"])} if "text" in part else part for part in content]

    return [{**message, "content": safe(message["content"])} for message in messages]


@dataclass(frozen=True, slots=True)
class Template:
    """Applies a model's chat template.

    parameters: vLLM's, of the template.
    system_turn: whether it renders one, without pictures (False) and with pictures (True).
    dated: it writes today's date, in whose place it gets `DAY`, so that prompts are the same tomorrow.
    """

    parameters: Any
    system_turn: Mapping[bool, bool]
    dated: bool


async def find_template(renderer: Any, thinking: bool | None = None) -> Template:
    """Tests what the chat template renders: a system turn, texts that are no lists, the date.

    Some templates raise an error (Llama-3.2-Vision's, with pictures), and some leave out what they do not take. Raises
    ValueError where there is none, or it does not render a plain question.
    """
    from vllm.exceptions import VLLMClientError
    from vllm.renderers.params import ChatParams

    def parameters(form: str = "auto", day: datetime = DAY) -> Any:
        arguments = {"add_generation_prompt": True, "strftime_now": day.strftime, **template_arguments(thinking)}
        return ChatParams(chat_template_content_format=form, chat_template_kwargs=arguments)

    async def rendered(applied: Any, with_picture: bool = False, system_turn: bool = False) -> str:
        pictures = [Image.new("RGB", (64, 64))] if with_picture else []
        probe = replace(PROBE, images=(PICTURE,)) if with_picture else PROBE
        _, prompt = await renderer.render_messages_async(turns(probe, pictures, system_turn), applied)
        text: str = prompt.get("prompt") or renderer.get_tokenizer().decode(prompt["prompt_token_ids"])
        return text

    applied = parameters()
    try:
        plain = await rendered(applied)
        if PROBE.shared not in plain:
            applied = parameters("openai")
            plain = await rendered(applied)
    except VLLMClientError as error:
        raise ValueError(str(error)) from error
    if PROBE.shared not in plain:
        raise ValueError("its chat template leaves out the question")
    tomorrow = parameters(applied.chat_template_content_format, DAY + timedelta(days=1))
    taken = {}
    for with_picture in (False, True):
        try:
            taken[with_picture] = PROBE.system in await rendered(applied, with_picture, system_turn=True)
        except (VLLMClientError, ValueError):
            taken[with_picture] = False
    LOG.info("its chat template takes a system turn without pictures: %s, with pictures: %s", taken[False], taken[True])
    return Template(applied, taken, plain != await rendered(tomorrow))
