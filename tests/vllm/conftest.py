"""A real engine on a random model: what the tests marked `vllm` share."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from actors.backends.model_settings import ModelSettings
from actors.backends.openai_model import OpenAIModel
from actors.backends.vllm_model import VllmModel
from actors.messages import Question
from tests.vllm.questions import harbours

CONTEXT_TOKENS = 2560
NAME = "tiny"
START_S = 240
ARGUMENTS = [
    *("--served-model-name", NAME, "--max-model-len", str(CONTEXT_TOKENS), "--dtype", "float32"),
    *("--enforce-eager", "--block-size", "32", "--max-num-seqs", "8", "--limit-mm-per-prompt", '{"image": 3}'),
    *("--enable-prompt-tokens-details", "--generation-config", "vllm", "--host", "127.0.0.1"),
    *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
    *("--distributed-executor-backend", "uni"),
    "--no-enable-chunked-prefill",  # in chunks, a prompt with a seed ends the engine of the CPU build
]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's folder. Also makes torchvision importable, here and in the processes that the engine starts."""
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    import tests.vllm.sitecustomize  # noqa: F401

    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"  # GiB
    # With the executor `uni` an engine is one process, as on one GPU: half of what its start costs is importing vLLM.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from tests.vllm.tiny_model import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("tiny_qwen25vl"))


@pytest.fixture(scope="session")
def strict_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with a chat template that refuses a system turn beside pictures."""
    from tests.vllm.tiny_model import NO_SYSTEM_BESIDE_PICTURES, write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("strict"), chat_template=NO_SYSTEM_BESIDE_PICTURES)


@pytest.fixture(scope="session")
def settings(tiny_model: Path) -> ModelSettings:
    """Small and eager, in the one precision that the CPU build runs safely."""
    return ModelSettings(
        name=str(tiny_model),
        max_model_len=CONTEXT_TOKENS,
        dtype="float32",
        engine={
            **{"enforce_eager": True, "block_size": 32, "max_num_seqs": 8, "limit_mm_per_prompt": {"image": 3}},
            "distributed_executor_backend": "uni",
        },
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model(settings: ModelSettings) -> AsyncIterator[VllmModel]:
    """One engine for all tests: starting one takes most of their time. The last of `test_vllm_model.py` ends it."""
    model = VllmModel(settings)
    await model.start()
    yield model
    await model.close()


@pytest.fixture(scope="module")
def starting(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server that has only begun to load, so that what else has to load does so at the same time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny_model), *ARGUMENTS]
    with (
        open(tmp_path_factory.mktemp("server") / "log", "wb") as log,
        subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log, env=dict(os.environ)) as process,
    ):
        yield f"http://127.0.0.1:{port}/v1", process
        process.terminate()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(starting: tuple[str, subprocess.Popen[bytes]], model: VllmModel) -> AsyncIterator[OpenAIModel]:
    """The server's model; `model` has loaded meanwhile in this process."""
    base_url, process = starting
    for _ in range(START_S):
        assert process.poll() is None, "the server ended while it was loading"
        found = OpenAIModel(ModelSettings(base_url=base_url, name=NAME, retries=0))
        try:
            await found.start()
            break
        except ValueError:
            await asyncio.sleep(1)
    yield found
    await found.close()


@pytest.fixture
def question(tmp_path: Path) -> Question:
    return harbours(tmp_path)
