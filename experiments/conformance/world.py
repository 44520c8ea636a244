"""A few questions over a small corpus, on which methods are observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.messages import Source
from actors.models import Model
from actors.reader.reader import Reader, ReaderSettings
from experiments.conformance.scripted import MemoisedModel
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from retrieval.embed import make_encoder
from retrieval.store import Store


@dataclass
class World:
    """Items and the index of their corpus, with the embedded reader as the model.

    `known` keeps search results and `reader` completions, since every check asks the same questions.
    """

    items: tuple[Item, ...]
    store: Store
    reader: Model = field(default_factory=lambda: MemoisedModel(Reader(ReaderSettings())))
    known: dict[Any, Any] = field(default_factory=dict)


def world_of(folder: Path, corpus: Callable[[], Iterator[Source]], items: Sequence[Item]) -> World:
    """A world of these items; its index lies in the folder."""
    return World(tuple(items), Store.open(folder, corpus, make_encoder("lexical")))


def sample_world(folder: Path) -> World:
    """Two generated questions of different kinds; everything lies in the folder."""
    write_sample(folder / "sample", seed=3, train=0, dev=8)
    data = Mmqa(folder / "sample")
    # Reversed, because the last of equal keys wins: the first question of each type stays.
    by_type = {item.tags["type"]: item for item in reversed(list(data.evaluate()))}
    return world_of(folder, data.corpus, list(by_type.values())[:2])
