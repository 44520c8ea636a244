"""Tokens are counted as the model counts them, without loading it."""

import logging
from pathlib import Path

import pytest

from actors.backends.model_settings import ModelSettings
from actors.backends.vllm_backend import token_counter

pytestmark = pytest.mark.vllm


def test_a_text_has_as_many_tokens_as_the_models_tokenizer_makes_of_it(settings: ModelSettings) -> None:
    count = token_counter(settings.name, settings.engine)
    assert count is not None
    assert count("") == 0
    assert count("small") < len("small")  # one of its merges
    assert count("Ünruly ✓" * 1000) == 1000 * count("Ünruly ✓")


def test_a_model_without_a_tokenizer_has_no_counter_and_the_log_says_why(
    tmp_path: Path, tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert token_counter(str(tmp_path), {}) is None
    assert str(tmp_path) in caplog.text
