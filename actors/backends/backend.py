"""One kind of model: from a configuration to what a replica's process makes, and what its completions depend on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from actors.backends.model_choice import ModelChoice
from actors.backends.settings import ModelSettings
from actors.errors import UserError
from actors.models import Model
from actors.reader.reader import ReaderSettings

OF_PROCESSES = ("replicas", "capacity", "cpus", "gpus")  # settings that every kind of model goes by that has replicas


@dataclass(frozen=True)
class TokenCounting:
    """A model's tokens before a run: of a text; of any picture (None: by its size); of each prompt's frame (None: a
    chat template's). `rule` names in words what counts. `reply_tokens` are measured means by role, "" of any other."""

    rule: str
    text: Callable[[str], int]
    picture: int | None = None
    frame: int | None = None
    reply_tokens: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Memory:
    """What one replica takes at least: weights, a cache that is set aside for it, and its processes."""

    weights_bytes: int
    processes_bytes: int
    cache_bytes: int = 0

    @property
    def beside_bytes(self) -> int:
        return self.processes_bytes + self.cache_bytes

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.beside_bytes


@dataclass(frozen=True)
class Backend:
    """A model as a configuration describes it. This class itself is a kind that cannot answer; others override `maker`.

    key: the group of settings, `model` or `judge`, for errors.
    reader: settings of the embedded reader, which are a group of their own.
    reads: names of the settings that it goes by, beside the kind.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    usual_replicas: ClassVar[int] = 2
    start_timeout_s: ClassVar[float] = 120.0
    reads: ClassVar[tuple[str, ...]] = ()

    key: str
    settings: ModelSettings
    reader: ReaderSettings

    def maker(self) -> Callable[[], Model]:
        """Makes the model when it is called, in a replica's process.

        Raises:
            UserError: the settings cannot work. Nothing is loaded or asked for that.
        """
        others = "choose reader, vllm, transformers or openai"
        raise UserError(f"{self.key}={self.name} cannot answer ({self.description}): {others}")

    def on(self, cluster_gpus: float) -> tuple[Backend, str]:
        """This backend with the settings that were left open as they are best on a cluster of so many GPUs.

        Returns with it a line that names these (empty: there are none). It answers as if they had been given.
        """
        return self, ""

    def memory(self) -> Memory | None:
        """What one replica takes at least of a machine without GPUs; None where it is not known, or next to nothing."""
        return None

    def gpu_share(self) -> float | None:
        """The share of a GPU's memory that one replica sets aside whatever it needs; None of a kind that takes what it
        needs."""
        return None

    def gpu_bytes(self) -> int | None:
        """The weights of one replica on each of its GPUs; None where they are not known."""
        return None

    def identity(self) -> str:
        """The model and all that its completions depend on, as JSON: the key of what is cached."""
        known = {"kind": self.settings.kind, "name": self.settings.name, **self.dependencies()}
        return json.dumps(known, sort_keys=True)

    def dependencies(self) -> Mapping[str, Any]:
        """The settings and files on which completions depend, beside the kind and the name."""
        return {}

    @property
    def replicas(self) -> int:
        """The replicas that are asked for, or as many as this kind usually has."""
        return self.settings.replicas or self.usual_replicas

    @property
    def gpus_each(self) -> float:
        """The GPUs that each replica reserves on a cluster that has any; 0 of a kind that can do without, where nothing
        else is said."""
        return self.settings.gpus or 0.0

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        """The number of replicas, and the GPUs that each reserves on a cluster that has `cluster_gpus`."""
        return self.replicas, self.gpus_each

    def counting(self) -> TokenCounting | None:
        """The model's own count of tokens, without loading the model; None where only a guess can be made."""
        return None

    def choice(self) -> ModelChoice | None:
        """The model for an exported AutoGen team; None where only a run has it."""
        return None
