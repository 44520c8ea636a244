"""Counts tokens as a vLLM model does, without loading the model: for estimates before a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from actors.prompting.text import one_line

LOG = logging.getLogger(__name__)


def token_counter(name: str, engine: Mapping[str, Any]) -> Callable[[str], int] | None:
    """A function from a text to its number of tokens, special ones excluded; None where there is no such tokenizer.

    The tokenizer is looked for where vLLM would: a local folder, or Hugging Face (its cache, or the network).
    The reason for None goes to the log.

    Args:
        name: a Hugging Face id or a local folder.
        engine: engine arguments, which may name another tokenizer.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        LOG.warning("tokens cannot be counted: %s", one_line(str(error)))
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            engine.get("tokenizer") or name,
            revision=engine.get("tokenizer_revision") or engine.get("revision"),
            cache_dir=engine.get("download_dir"),
            trust_remote_code=engine.get("trust_remote_code", False),
        )
    except Exception as error:  # a tokenizer may bring its own code, and that may raise anything
        LOG.warning("tokens cannot be counted: no tokenizer of %r: %s", name, one_line(str(error)))
        return None

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return count
