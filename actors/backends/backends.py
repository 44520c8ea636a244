"""Defines the kinds of models that `model=` and `judge=` name, in `BACKENDS`. vLLM's is in vllm_backend.py."""

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from actors.backends.backend import Backend, TokenCounting
from actors.backends.model_choice import ModelChoice
from actors.backends.model_settings import ModelSettings, declared_layout
from actors.backends.openai_endpoint import check_endpoint
from actors.backends.openai_model import OpenAIModel, longest_start_s
from actors.backends.vllm_backend import VllmBackend
from actors.errors import UserError
from actors.lookup import find, is_reference
from actors.models import Model
from actors.reader import reader
from actors.reader.english import count_tokens
from actors.reader.perception import PICTURE_TOKENS
from actors.reader.reader import Reader, ReaderSettings
from actors.secrets import secret

# Mean tokens of a reply in MMQA runs, by role.
READER_REPLY_TOKENS = {"": 71, "single": 44, "decision": 75}
# Settings of an endpoint in an exported team.
SETTINGS = ("base_url", "name", "timeout_s", "retries", "requests_per_minute", "tokens_per_minute", "extra", "thinking")


class ReaderBackend(Backend):
    """The embedded reader."""

    name = "reader"
    reads = (*Backend.reads, "reader")
    description = "the embedded reader: no neural network, nothing to download"

    def maker(self) -> Callable[[], Model]:
        return partial(Reader, self.reader)

    def dependencies(self) -> Mapping[str, Any]:
        """Returns the settings and a digest of the code, since every version answers differently."""
        code = hashlib.blake2b(digest_size=16)
        actors = Path(reader.__file__).parent.parent
        # It reads prompts by their headings, and gives answers that agents can read.
        paths = [actors / "messages.py", *actors.glob("prompting/*.*"), *actors.glob("reader/*.py")]
        for path in sorted(paths):
            code.update(path.read_bytes())
        return {"code": code.hexdigest(), "settings": asdict(self.reader)}

    def counting(self) -> TokenCounting:
        rule = "words and punctuation marks, as the embedded reader counts them"
        return TokenCounting(rule, count_tokens, PICTURE_TOKENS, reader.CHAT_OVERHEAD_TOKENS, READER_REPLY_TOKENS)

    def choice(self) -> ModelChoice:
        return ModelChoice(kind="reader", settings=asdict(self.reader))


class OpenAIBackend(Backend):
    """An endpoint with OpenAI's chat protocol. One process holds its rate limits and needs no GPU."""

    name = "openai"
    description = "an endpoint that speaks OpenAI's chat protocol"
    reads = (
        "model.name",
        "model.capacity",
        "model.base_url",
        "model.key_env",
        "model.timeout_s",
        "model.retries",
        "model.requests_per_minute",
        "model.tokens_per_minute",
        "model.extra",
        "model.thinking",
        "model.abilities",
    )

    def maker(self) -> Callable[[], Model]:
        model = self.settings
        key = self.key
        if not model.name or not model.base_url:
            needed = f"{key}=openai needs {key}.base_url=<http://host:port/v1> and {key}.name=<model>"
            hosted = f"{key}.base_url=https://api.openai.com/v1 {key}.key_env=OPENAI_API_KEY"
            # A key alone starts no paid requests: the user names the address.
            raise UserError(f"{needed}; OpenAI itself: {hosted}" if secret("OPENAI_API_KEY") else needed)
        api_key = secret(model.key_env)
        if model.key_env and api_key is None:
            # The value is not shown: by mistake it may be the key itself.
            raise UserError(f"{key}.key_env: there is no environment variable of that name; export the key under it")
        api_key = api_key or ""
        try:
            check_endpoint(model, api_key)
        except ValueError as error:
            raise UserError(f"{key}: {error}") from error
        return partial(OpenAIModel, model, SecretStr(api_key), self.usual)

    def dependencies(self) -> Mapping[str, Any]:
        model = self.settings
        return {"base_url": model.base_url, "extra": model.extra, **declared_layout(model)}

    @property
    def replicas(self) -> int:
        return 1

    @property
    def start_timeout_s(self) -> float:
        """Exceeds every timeout of the first requests, so that the error names the endpoint's address."""
        return super().start_timeout_s + longest_start_s(self.settings)

    @property
    def gpus_each(self) -> float:
        return 0.0

    def choice(self) -> ModelChoice:
        model = self.settings
        settings = {name: getattr(model, name) for name in SETTINGS} | {"abilities": model.abilities.declared()}
        return ModelChoice(kind="openai", settings=settings, key_env=model.key_env)


class ReplayBackend(Backend):
    name = "replay"
    description = "replies that the run `replay.run` recorded, read from its folder"
    # The embedded reader may have given them.
    reads = ("reader", "replay")


class NoBackend(Backend):
    name = "none"
    description = "no judge"
    reads = ()


@dataclass(frozen=True)
class OwnBackend(Backend):
    """A model of the user's: `model=package.module:MyModel`, or an entry point of the group `agora_mm.models`.

    factory: a class or function that is called with the settings in each replica's process and returns a `Model`.
        If the model has `async start()`, it is awaited before the first request.
    """

    factory: Callable[[ModelSettings], Model]

    @property
    def name(self) -> str:  # type: ignore[override]  # each instance has its own
        return self.settings.kind

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """Settings of replicas, and the ones in the `reads` of the class or function."""
        return (*Backend.reads, *getattr(self.factory, "reads", ()))

    def maker(self) -> Callable[[], Model]:
        if not callable(self.factory):
            raise UserError(f"{self.key}={self.settings.kind} is neither a class nor a function that makes a model")
        return partial(make_own, self.factory, self.settings)

    def dependencies(self) -> Mapping[str, Any]:
        """Returns settings and a digest of the source file, since every version answers differently."""
        # The module that defines the factory: a package may only re-export the name.
        module = getattr(self.factory, "__module__", "")
        file = getattr(sys.modules.get(module), "__file__", None)
        code = Path(file).read_bytes() if file else b""
        return {
            "reference": f"{module}:{getattr(self.factory, '__qualname__', '')}",
            "extra": self.settings.extra,
            "engine": self.settings.engine,
            "code": hashlib.blake2b(code, digest_size=16).hexdigest(),
        }


def make_own(factory: Callable[[ModelSettings], Model], settings: ModelSettings) -> Model:
    """Makes the user's model. Raises ValueError where it has no `complete`."""
    model = factory(settings)
    if not callable(getattr(model, "complete", None)):
        raise ValueError(f"{settings.kind} gave {type(model).__name__}, which has no method `complete`")
    return model


BACKENDS: tuple[type[Backend], ...] = (ReaderBackend, VllmBackend, OpenAIBackend, ReplayBackend, NoBackend)


def find_backend(key: str, settings: ModelSettings, reader: ReaderSettings) -> Backend:
    """Finds the backend of `settings.kind`: one of `BACKENDS`, or one of the user's. Raises UserError, which names
    `key`, the group of settings, where there is none or it cannot be imported."""
    backends = {backend.name: backend for backend in BACKENDS}
    try:
        backend: Any = find(settings.kind, backends, "models", key)
    except UserError as error:
        if is_reference(settings.kind):
            raise
        raise UserError(
            f"{error}; a served model, such as Ollama's or one of `transformers serve`, is {key}=openai "
            f"{key}.base_url=<http://host:port/v1> {key}.name=<model>"
        ) from error
    # By name and not by type: the user's reference may name one of these classes.
    if settings.kind in backends:
        return backends[settings.kind](key, settings, reader)
    return OwnBackend(key, settings, reader, factory=backend)
