"""Settings of a model: what answers, and what it runs on."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from actors.lookup import names_code
from actors.messages import Abilities
from actors.settings import setting


@dataclass
class DeclaredAbilities:
    """Abilities that the user declares. null: the ability is tested when the model starts."""

    pictures: bool | None = None
    """Reads pictures; with false, pictures are described in words."""
    schema: bool | None = None
    """Can be constrained to a JSON schema."""
    likelihoods: bool | None = None
    """Returns the probabilities of its tokens."""
    system_turn: bool | None = None
    """Takes a system turn; with false, its text opens the user turn."""
    context_tokens: int | None = setting(None, at_least=1)
    """Longest context, prompt and reply together, in tokens."""

    def over(self, tested: Abilities) -> Abilities:
        """Returns the tested abilities, with declared ones in their place."""
        return replace(tested, **self.declared())

    def declared(self) -> dict[str, Any]:
        """Returns the declared abilities by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class ModelSettings:
    """A model. `model=vllm` is short for `model.kind=vllm`."""

    kind: str = setting("reader", outside=names_code("models"))
    """`reader`, `vllm`, `openai` (any endpoint with OpenAI's protocol), `replay` (replies that the run `replay.run`
    recorded), `none` (no judge), or your own as `package.module:MyModel`: a class or function that is called with these
    settings and returns an object with `async complete(request)`."""
    name: str = setting("", outside=bool)
    """vLLM: a Hugging Face id or a local folder. Endpoint: the model's name there."""
    replicas: int | None = setting(None, at_least=1, at_most=10_000)
    """Copies of the model, each in a separate process (null: for vLLM one for each `tensor_parallel` GPUs, one on a
    CPU; for other kinds two). An endpoint has one."""
    capacity: int = setting(64, at_least=1)
    """Requests that one replica works on at once; further requests wait at the agents."""
    gpus: float | None = setting(None, at_least=0)
    """GPUs that Ray reserves for each replica (null: `tensor_parallel` for vLLM where the cluster has GPUs, else 0)."""
    tensor_parallel: int = setting(1, at_least=1, at_most=1_000)
    """vLLM: GPUs that share one copy of the weights."""
    max_model_len: int | None = setting(None, at_least=1)
    """vLLM: longest context, prompt and reply together, in tokens (null: the model's maximum)."""
    dtype: str = "auto"
    """vLLM: number type of the computation. `auto` is the weights' type; on a CPU bfloat16, or float32 if the weights
    are float32 or the processor lacks bfloat16."""
    engine: dict[str, Any] = setting(factory=dict, outside=bool)
    """vLLM: further engine arguments, passed on unchanged. On a CPU, block_size=32 and enforce_eager=true are the
    defaults."""
    hang_s: float | None = setting(None, at_least=1, at_most=1e6)
    """vLLM: seconds without a sign of life after which an engine is restarted (null: 120, on a CPU 1800). Must exceed
    the longest step."""
    base_url: str = setting("", outside=bool)
    """Endpoint: address up to and including the version, such as `http://host:8000/v1`."""
    key_env: str = setting("", outside=bool)
    """Endpoint: environment variable that holds the key (empty: no key). The key is never written down."""
    timeout_s: float = setting(120.0, at_least=0.1, at_most=1e6)
    """Endpoint: longest duration of one attempt, in seconds."""
    retries: int = setting(4, at_least=0, at_most=100)
    """Endpoint: retries after a fault, with growing pauses. Waiting for a rate limit takes none of them."""
    requests_per_minute: float | None = setting(None, at_least=1)
    """Endpoint: most requests in any 60 s (null: no limit)."""
    tokens_per_minute: float | None = setting(None, at_least=1)
    """Endpoint: most tokens in any 60 s (null: no limit)."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Endpoint: further fields of the request's body, sent unchanged; null removes a field."""
    thinking: bool | None = setting(None, since="0.3.0")
    """vLLM and endpoint: whether a model that can think before it answers does so (null: its own default)."""
    abilities: DeclaredAbilities = field(default_factory=DeclaredAbilities)
    """vLLM and endpoint: abilities that are declared and not tested."""


@dataclass(frozen=True, slots=True)
class Usual:
    """Values of a run's requests, with which an endpoint is probed. `pictures`: the most of one request."""

    temperature: float = 0.0
    max_tokens: int = 512
    pictures: int = 1


def declared_layout(model: ModelSettings) -> dict[str, bool]:
    """Returns the settings that change a prompt's layout, on which completions depend."""
    declared = {"system_turn": model.abilities.system_turn, "thinking": model.thinking}
    return {name: value for name, value in declared.items() if value is not None}


def template_arguments(thinking: bool | None) -> dict[str, bool]:
    """Returns the variables by which chat templates switch thinking on or off (Qwen's, DeepSeek's)."""
    if thinking is None:
        return {}
    return {"enable_thinking": thinking, "thinking": thinking}


def thinking_arguments(thinking: bool | None) -> dict[str, Any]:
    """Returns the fields of a request that switch thinking: those of open models' servers, and OpenAI's."""
    if thinking is None:
        return {}
    arguments: dict[str, Any] = {"chat_template_kwargs": template_arguments(thinking)}
    if not thinking:
        arguments["reasoning_effort"] = "none"
    return arguments


def model_name(model: ModelSettings) -> str:
    """Returns the model's name in records."""
    return model.name or model.kind
