"""Lays a request out as a chat for vLLM: real pictures, in the turns that the model's chat template takes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PIL import Image

from actors.backends.chat import PROBE, chat
from actors.messages import Kind, Request, Source
from actors.pictures import read_picture
from actors.prompting.safe_text import without_tokens

LOG = logging.getLogger(__name__)
PICTURE = Source("1", "1", Kind.IMAGE, "Picture", "", image="never opened")


def open_pictures(request: Request) -> list[Image.Image]:
    """Reads the request's picture files in order. Raises OSError, which names the unreadable picture."""
    return [read_picture(source.image) for source in request.images if source.image is not None]


def turns(request: Request, pictures: Sequence[Image.Image], system_turn: bool = True) -> list[dict[str, Any]]:
    """Returns the chat of a request. Without a `system_turn` its text opens the user turn: the order stays."""
    return chat(request, [{"type": "image_pil", "image_pil": picture} for picture in pictures], system_turn)


def without_special_tokens(messages: Sequence[dict[str, Any]], tokenizer: Any) -> list[dict[str, Any]]:
    """Breaks the tokenizer's own special tokens in the texts of a chat: only its template may place them."""
    tokens = tokenizer.all_special_tokens

    def safe(content: Any) -> Any:
        if isinstance(content, str):
            return without_tokens(content, tokens)
        return [{**part, "text": safe(part["text"])} if "text" in part else part for part in content]

    return [{**message, "content": safe(message["content"])} for message in messages]


def template_parameters() -> Any:
    """Returns parameters with which vLLM applies the chat template up to the beginning of the reply."""
    from vllm.renderers.params import ChatParams

    return ChatParams(chat_template_kwargs={"add_generation_prompt": True})


async def system_turns(renderer: Any) -> dict[bool, bool]:
    """Tests whether the chat template renders a system turn, without pictures (False) and with pictures (True).

    Some templates raise an error (Llama-3.2-Vision's, with pictures), and some leave the system turn out.

    Raises:
        ValueError: the template does not render a plain question either, or there is none.
    """
    from vllm.exceptions import VLLMClientError

    async def rendered(with_picture: bool, system_turn: bool) -> str:
        pictures = [Image.new("RGB", (64, 64))] if with_picture else []
        probe = replace(PROBE, images=(PICTURE,)) if with_picture else PROBE
        _, prompt = await renderer.render_messages_async(turns(probe, pictures, system_turn), template_parameters())
        text: str = prompt.get("prompt") or renderer.get_tokenizer().decode(prompt["prompt_token_ids"])
        return text

    taken = {}
    for with_picture in (False, True):
        try:
            taken[with_picture] = PROBE.system in await rendered(with_picture, system_turn=True)
        except (VLLMClientError, ValueError):
            taken[with_picture] = False
    if not taken[False]:
        try:
            await rendered(with_picture=False, system_turn=False)
        except VLLMClientError as error:
            raise ValueError(str(error)) from error
    LOG.info("its chat template takes a system turn without pictures: %s, with pictures: %s", taken[False], taken[True])
    return taken
