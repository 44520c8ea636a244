"""The settings of a model: what answers, and what it runs on."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from actors.errors import UserError
from actors.messages import Abilities
from actors.settings import at_least


@dataclass
class DeclaredAbilities:
    """What a model can do, where it is known better than by asking (null: it is found out when the model starts)."""

    pictures: bool | None = None
    """False: pictures are described to it in words."""
    schema: bool | None = None
    """It can be kept to a JSON schema."""
    likelihoods: bool | None = None
    """It tells the probabilities of its tokens."""
    system_turn: bool | None = None
    """False: what a system turn would say opens the user turn."""
    seeds: bool | None = None
    """Equal requests get equal replies."""
    context_tokens: int | None = at_least(1, default=None)
    """Prompt and reply together."""

    def over(self, found: Abilities) -> Abilities:
        """What was found out, with what is declared in its place."""
        return replace(found, **self.declared())

    def declared(self) -> dict[str, Any]:
        """The abilities that are declared, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class ModelSettings:
    """A model. `model=vllm` is short for `model.kind=vllm`."""

    kind: str = "reader"
    """`reader`, `vllm`, `transformers` (a small text model, without vLLM), `openai` (any endpoint that speaks OpenAI's
    protocol), `replay` (what the run `replay.run` recorded), `none` (nobody, for `judge`), or a model of your own,
    `package.module:MyModel`: a class or function that is called with these settings and gives an object with
    `async complete(request)`."""
    name: str = ""
    """vLLM, transformers: a Hugging Face id or a local folder. Endpoint: the model's name there."""
    replicas: int | None = at_least(1, default=None, most=10_000)
    """Engines of vLLM or copies of the model, each in its own process (an endpoint needs one). null: vLLM one for each
    `tensor_parallel` GPUs, or one on a CPU; others two."""
    capacity: int = at_least(1, default=64)
    """Requests that one replica works on at once; more wait where they come from."""
    cpus: float = at_least(0, default=0.5)
    """Cores that Ray reserves for each replica. transformers: its threads too; with less than 1, the replicas share all
    cores."""
    gpus: float | None = at_least(0, default=None)
    """GPUs that Ray reserves for each replica (null, where the cluster has any: `tensor_parallel` for vLLM, one or an
    equal part of one for transformers; else 0)."""
    tensor_parallel: int = at_least(1, default=1, most=1_000)
    max_model_len: int | None = at_least(1, default=None)
    """vLLM, transformers: longest context, in tokens of prompt and reply (null: the model's own)."""
    dtype: str = "auto"
    """vLLM, transformers: the type of numbers to compute with. `auto` is the weights' own; on a CPU, for vLLM, float32
    for weights of float32 and where the processor does not compute with bfloat16, and else that."""
    engine: dict[str, Any] = field(default_factory=dict)
    """Further engine arguments, passed to vLLM as they are. On a CPU, block_size=32 and enforce_eager=true are there
    unless they are given."""
    hang_s: float | None = at_least(1, default=None, most=1e6)
    """vLLM: an engine that gives no sign of life for so long is restarted (null: 120, on a CPU 1800). It must be longer
    than its longest step."""
    base_url: str = ""
    """Endpoint: its address up to and including the version (`http://host:8000/v1`)."""
    key_env: str = ""
    """Endpoint: the environment variable that holds its key (empty: it needs none); the key is never written down."""
    timeout_s: float = at_least(0.1, default=120.0, most=1e6)
    """Endpoint: the longest that one attempt may take."""
    retries: int = at_least(0, default=4, most=100)
    """Endpoint: retries of a request that met a fault, with growing pauses; rate limits are waited out."""
    requests_per_minute: float | None = at_least(1, default=None)
    """Endpoint: rate limits of its own (null: none)."""
    tokens_per_minute: float | None = at_least(1, default=None)
    extra: dict[str, Any] = field(default_factory=dict)
    """Endpoint: further fields of the request's body, sent as they are."""
    abilities: DeclaredAbilities = field(default_factory=DeclaredAbilities)

    def check_values(self, key: str) -> None:
        """Raises UserError for a key or a password in a place where it would be shown and written down."""
        # The values themselves are in neither message.
        if not re.fullmatch(r"(?:[A-Za-z_]\w*)?", self.key_env):
            raise UserError(f"{key}.key_env is not the name of an environment variable; export the key under one")
        if "@" in self.base_url or "?" in self.base_url:
            raise UserError(f"{key}.base_url has a password or a query; a key goes into the variable of key_env")


def common_fields(kind: type[Any], model: ModelSettings) -> dict[str, Any]:
    """The values of those settings that a dataclass of one kind of model has too."""
    return {f.name: getattr(model, f.name) for f in fields(kind) if hasattr(model, f.name)}


def layout(abilities: DeclaredAbilities) -> dict[str, bool]:
    """What is declared of a model that changes how equal requests reach it: completions depend on that."""
    return {} if abilities.system_turn is None else {"system_turn": abilities.system_turn}


def model_name(model: ModelSettings) -> str:
    """The model's name in records."""
    return model.name or model.kind
