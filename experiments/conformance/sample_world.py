"""A small world, in which methods and attacks are checked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.datasets.item import Dataset, Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.evidence.evidence import Evidence
from experiments.evidence.retrieval_settings import RetrievalSettings
from retrieval.embed import make_encoder
from retrieval.store import Store

TRAINING_QUESTIONS = 4
EVALUATED_QUESTIONS = 8


@dataclass
class SearchedItem:
    """Evidence of an item, and the results of searches for it by their arguments. Kept, for every check asks again."""

    evidence: Evidence
    results: dict[str, Any] = field(default_factory=dict)


@dataclass
class SampleWorld:
    """A data set, the index of its corpus, and the items to discuss."""

    dataset: Dataset
    store: Store
    items: tuple[Item, ...]
    _searched: dict[str, SearchedItem] = field(default_factory=dict)

    def searched(self, item: Item, settings: RetrievalSettings) -> SearchedItem:
        """Opens the evidence of an item. A relabelled item shares nothing with the original."""
        key = repr((item, settings))
        if key not in self._searched:
            self._searched[key] = SearchedItem(self.evidence(settings))
        return self._searched[key]

    def evidence(self, settings: RetrievalSettings) -> Evidence:
        """Opens the evidence of all items."""
        return Evidence(self.store, settings)


def sample_world(folder: Path) -> SampleWorld:
    """Generates a sample in the folder, with two questions of different kinds."""
    write_sample(folder / "sample", seed=3, train=TRAINING_QUESTIONS, dev=EVALUATED_QUESTIONS)
    dataset = Mmqa.at(folder / "sample", train=TRAINING_QUESTIONS)
    store = Store.open(folder, dataset.corpus, make_encoder("lexical"))
    first_of_type: dict[str, Item] = {}
    for item in dataset.evaluate():
        first_of_type.setdefault(item.tags["type"], item)
    return SampleWorld(dataset, store, tuple(first_of_type.values())[:2])
