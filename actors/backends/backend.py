"""Defines the interface of a kind of model: settings, replicas, and what completions depend on."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from actors.backends.model_choice import ModelChoice
from actors.backends.model_settings import ModelSettings, Usual
from actors.errors import UserError
from actors.models import Model
from actors.reader.reader import ReaderSettings
from actors.settings import START_S

CHARACTERS_PER_TOKEN = 4
CHAT_TOKENS = 13  # what Qwen's chat template adds to a system and a user turn


def tokens_of_characters(text: str) -> int:
    """Estimates the tokens of a text by its length."""
    return round(len(text) / CHARACTERS_PER_TOKEN)


@dataclass(frozen=True)
class TokenCounting:
    """Counts a model's tokens before a run, by default from characters.

    rule: states in words how `text` counts.
    picture: tokens of any picture (None: they depend on its size).
    frame: tokens around each prompt.
    reply_tokens: measured mean tokens of a reply, by role; "" is any other role. Empty where none were measured.
    """

    rule: str = f"{CHARACTERS_PER_TOKEN} characters to a token (a guess)"
    text: Callable[[str], int] = tokens_of_characters
    picture: int | None = None
    frame: int = CHAT_TOKENS
    reply_tokens: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Backend:
    """A model as a configuration describes it. This base class cannot answer; kinds that can override `maker`.

    reads: keys of the settings that count with it, as those of `model`; others are refused. By default those of
        replicas.
    extra: the extra of the project (`pip install '.[extra]'`) that its replicas need; empty for none.
    key: the group of settings, such as `model` or `judge`, for errors.
    reader: settings of the embedded reader.
    usual: values of the run's requests.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ("model.replicas", "model.capacity", "model.gpus")
    extra: ClassVar[str] = ""
    usual_replicas: ClassVar[int] = 2

    key: str
    settings: ModelSettings
    reader: ReaderSettings
    usual: Usual = field(default=Usual(), kw_only=True)

    def maker(self) -> Callable[[], Model]:
        """Returns a function that makes the model in a replica's process. Raises UserError for settings that cannot
        work."""
        raise UserError(f"{self.key}={self.name} cannot answer ({self.description}): choose reader, vllm or openai")

    def on(self, cluster_gpus: float) -> "tuple[Backend, str]":
        """Fills in open settings for a cluster with that many GPUs. Returns the backend, which answers like this one,
        and a line that lists the settings (empty: none)."""
        return self, ""

    def gpu_share(self) -> float | None:
        """Returns the share of a GPU's memory that one replica reserves. None where it allocates on demand."""
        return None

    def identity(self) -> str:
        """Returns the model and all that its completions depend on, as JSON. Part of the completion cache's keys."""
        settings = {"kind": self.settings.kind, "name": self.settings.name, **self.dependencies()}
        return json.dumps(settings, sort_keys=True)

    def dependencies(self) -> Mapping[str, Any]:
        """Returns the settings and files on which completions depend, apart from kind and name."""
        return {}

    @property
    def replicas(self) -> int:
        """Number of replicas: the configured one, or else the kind's default."""
        return self.settings.replicas or self.usual_replicas

    @property
    def start_timeout_s(self) -> float:
        """Longest time until the replicas are ready, in seconds, unless `ray.start_timeout_s` is set."""
        return START_S

    @property
    def gpus_each(self) -> float:
        """GPUs that each replica reserves on a cluster that has GPUs."""
        return self.settings.gpus or 0.0

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        """Returns the number of replicas, and the GPUs of each, on a cluster with `cluster_gpus`."""
        return self.replicas, self.gpus_each

    def counting(self) -> TokenCounting:
        """Returns the model's count of tokens, without loading the model, or an estimate."""
        return TokenCounting()

    def choice(self) -> ModelChoice | None:
        """Returns the model for an exported AutoGen team. None where only a run can provide it."""
        return None
