"""What can be checked of a vLLM model before anything is loaded."""

import dataclasses
from pathlib import Path

import pytest

from actors.backends.model_settings import ModelSettings
from actors.backends.vllm_backend import check_engine_arguments, known_arguments
from actors.backends.vllm_model import VllmModel
from actors.errors import UserError
from actors.messages import Request


def test_without_vllm_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_engine_arguments({"max_num_seq": 8}, "model")


def test_an_argument_that_the_models_settings_have_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(UserError, match=r"tensor_parallel_size.*model\.tensor_parallel "):
        check_engine_arguments({"tensor_parallel_size": 2}, "model")


async def test_asking_a_model_that_was_not_started_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(RuntimeError, match="before start"):
        await VllmModel(ModelSettings(name="any")).complete(Request("q", "", "", "", ""))


@pytest.mark.vllm
def test_an_unknown_engine_argument_names_the_one_that_was_meant(tiny_model: Path) -> None:
    with pytest.raises(UserError, match=r"'max_num_seq'.*'max_num_seqs'"):
        check_engine_arguments({"block_size": 32, "max_num_seq": 8}, "model")


@pytest.mark.vllm
def test_the_arguments_are_those_of_the_installed_vllm(tiny_model: Path) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    assert set(known_arguments()) == {field.name for field in dataclasses.fields(AsyncEngineArgs)}
