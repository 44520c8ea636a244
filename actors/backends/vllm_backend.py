"""vLLM engines as a kind of model: one engine in each replica's process.

Arguments, weights' types and tokenizers are looked up in files; neither vLLM nor a model is loaded.
"""

import ast
import importlib.util
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from actors.backends.backend import Backend, TokenCounting
from actors.backends.model_choice import ModelChoice
from actors.backends.model_settings import declared_layout
from actors.backends.vllm_model import VllmModel
from actors.errors import UserError
from actors.lookup import near_miss
from actors.models import Model
from actors.prompting.safe_text import one_line

# vLLM needs these on a CPU, and no answer depends on them.
ON_A_CPU: Mapping[str, Any] = {"block_size": 32, "enforce_eager": True}
# A step there may be a whole context of prompts; two cores compute some 45 tokens a second (1.5 billion weights).
HANG_ON_A_CPU_S = 1800
ENGINE_START_S = 600.0  # to load weights and compile

GPU_SHARE = 0.9  # vLLM's default of gpu_memory_utilization
SERVER = "http://localhost:8000/v1"  # default address of `vllm serve`

# Arguments that settings of the model set; as engine arguments they would contradict it.
SETTINGS = {
    "model": "name",
    "tensor_parallel_size": "tensor_parallel",
    "max_model_len": "max_model_len",
    "dtype": "dtype",
}
BFLOAT16_ARITHMETIC = ("avx512_bf16", "amx_bf16", "bf16")  # Intel and AMD, Intel, Arm
LOG = logging.getLogger(__name__)


class VllmBackend(Backend):
    name = "vllm"
    description = "vLLM engines that the run starts"
    extra = "vllm"
    reads = (
        *Backend.reads,
        "model.name",
        "model.tensor_parallel",
        "model.max_model_len",
        "model.dtype",
        "model.engine",
        "model.hang_s",
        "model.key_env",
        "model.thinking",
        "model.abilities",
    )
    usual_replicas = 1

    def maker(self) -> Callable[[], Model]:
        if not self.settings.name:
            raise UserError(f"{self.key}=vllm needs {self.key}.name=<Hugging Face id or local folder>")
        check_engine_arguments(self.settings.engine, self.key)
        return partial(VllmModel, self.settings)

    def dependencies(self) -> Mapping[str, Any]:
        """Includes the files of a local folder, which change with further training."""
        model = self.settings
        return {
            "dtype": model.dtype,
            "max_model_len": model.max_model_len,
            "engine": model.engine,
            **declared_layout(model),
            **files_of(model.name),
        }

    def on(self, cluster_gpus: float) -> tuple[Backend, str]:
        """Fills in what vLLM needs on a CPU.

        It needs another block size, no compilation, and patience for steps of many minutes.

        It runs float32 weights safely in no other type, and others fast in bfloat16 only where the processor supports
        it (this machine's is taken for all nodes').
        """
        if cluster_gpus:
            return self, ""
        model = self.settings
        engine = {key: value for key, value in ON_A_CPU.items() if key not in model.engine}
        filled_in: dict[str, Any] = {}
        weights_type = declared_type(model.name)
        if model.dtype == "auto" and weights_type:
            is_bfloat16 = weights_type != "float32" and computes_bfloat16()
            filled_in["dtype"] = "bfloat16" if is_bfloat16 else "float32"
        if model.hang_s is None:
            filled_in["hang_s"] = HANG_ON_A_CPU_S
        settings = replace(model, **filled_in, engine={**model.engine, **engine})

        filled_in |= {f"engine.{key}": value for key, value in engine.items()}
        if model.replicas is None:
            filled_in["replicas"] = self.replicas
        if not filled_in:
            return self, ""
        words = []  # as on the command line
        for name, value in sorted(filled_in.items()):
            text = value if isinstance(value, str) else json.dumps(value)
            words.append(f"{self.key}.{name}={text}")
        return replace(self, settings=settings), f"vLLM on a CPU, with what was not set: {' '.join(words)}"

    @property
    def start_timeout_s(self) -> float:
        return ENGINE_START_S

    def gpu_share(self) -> float:
        return float(self.settings.engine.get("gpu_memory_utilization", GPU_SHARE))

    @property
    def gpus_each(self) -> float:
        if self.settings.gpus is None:
            return float(self.settings.tensor_parallel)
        return self.settings.gpus

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        model = self.settings
        gpus = self.gpus_each if cluster_gpus or model.gpus is not None else 0.0
        if model.replicas or not gpus:
            return self.replicas, gpus
        # At least one, which is refused with the reason where it cannot be placed.
        return max(1, int(cluster_gpus // gpus)), gpus

    def counting(self) -> TokenCounting:
        count = token_counter(self.settings.name, self.settings.engine)
        if count is None:
            return super().counting()
        return TokenCounting(f"the tokenizer of {self.settings.name}", count)

    def choice(self) -> ModelChoice:
        """Returns a server that the team's user starts with `vllm serve <name>`."""
        settings = {"base_url": SERVER, "name": self.settings.name}
        return ModelChoice(kind="openai", settings=settings, key_env=self.settings.key_env)


def check_engine_arguments(engine: Mapping[str, Any], key: str) -> None:
    """Raises UserError, which names `key`, for an argument that the installed vLLM does not have."""
    arguments = known_arguments()
    for name in engine:
        if name in SETTINGS:
            raise UserError(f"{key}.engine.{name}: use {key}.{SETTINGS[name]} instead")
        if arguments and name not in arguments:
            raise UserError(f"{key}.engine: vLLM has no argument {name!r}.{near_miss(name, arguments)}")


def known_arguments() -> list[str]:
    """Lists the fields of the installed vLLM's AsyncEngineArgs. Empty without vLLM. Its import takes ten seconds."""
    spec = importlib.util.find_spec("vllm")
    source = Path((spec and spec.origin) or "").parent / "engine" / "arg_utils.py"
    if not source.is_file():
        return []
    names: list[str] = []
    for definition in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(definition, ast.ClassDef) and definition.name in ("EngineArgs", "AsyncEngineArgs"):
            targets = [statement.target for statement in definition.body if isinstance(statement, ast.AnnAssign)]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def declared_type(name: str) -> str:
    """Returns the number type in the `config.json` of a local folder or downloaded id, or ""."""
    file: Any = Path(name) / "config.json"
    if not Path(name).is_dir():
        try:
            from huggingface_hub import try_to_load_from_cache

            file = try_to_load_from_cache(name, "config.json")
        except (ImportError, ValueError):  # not installed, or no id
            return ""
        if not isinstance(file, str):  # a missing file is None or a marker object
            return ""
    try:
        config = json.loads(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        LOG.warning("the type of %r is not known: %s", name, one_line(str(error)))
        return ""
    # A model that reads pictures may have it in the configuration of its text part alone.
    parts = [config, config.get("text_config")] if isinstance(config, dict) else []
    for part in parts:
        if isinstance(part, dict):
            dtype = part.get("dtype") or part.get("torch_dtype")
            if isinstance(dtype, str):
                return dtype
    return ""


def files_of(name: str) -> dict[str, Any]:
    """Lists name, size and date of a local folder's files, which change with further training. Empty for an id."""
    folder = Path(name)
    if not folder.is_dir():
        return {}
    files = []
    for path in sorted(folder.iterdir()):
        status = path.stat()
        files.append((path.name, status.st_size, status.st_mtime_ns))
    return {"files": files}


def token_counter(name: str, engine: Mapping[str, Any]) -> Callable[[str], int] | None:
    """Returns a function that counts a text's tokens without special ones. None without a tokenizer.

    The tokenizer is searched where vLLM would: in a local folder, or on Hugging Face (its cache, or the network).
    `engine` may name another one than the model's. The reason for None goes to the log.
    """
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            engine.get("tokenizer") or name,
            revision=engine.get("tokenizer_revision") or engine.get("revision"),
            cache_dir=engine.get("download_dir"),
            trust_remote_code=engine.get("trust_remote_code", False),
        )
    except Exception as error:  # a tokenizer may bring code, which may raise anything
        LOG.warning("tokens cannot be counted: no tokenizer of %r: %s", name, one_line(str(error)))
        return None

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return count


def computes_bfloat16() -> bool:
    """Tests whether this machine's processor multiplies matrices of bfloat16 directly.

    Without such instructions a CPU converts every number before it multiplies: prompts took seven times as long as in
    float32 (EPYC of the third generation).
    """
    import torch

    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in BFLOAT16_ARITHMETIC)
