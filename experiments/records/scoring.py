"""Scores discussions by the labels of a data set, when they are recorded and again when their run is resumed."""

from functools import cached_property
from itertools import chain

from actors.errors import UserError
from actors.messages import Trace
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Dataset, Item
from experiments.records.records import Scored


class Scoring:
    """Computes scores from traces. The questions of `dataset` stay in memory from the first trace on.

    with_training: the run also records discussions of training questions.
    """

    def __init__(self, dataset: Dataset, *, with_training: bool = False) -> None:
        self.dataset = dataset
        self._with_training = with_training

    def __call__(self, trace: Trace) -> Scored:
        """Raises UserError for a discussion of a question that the run does not ask."""
        item = self._items.get(trace.question)
        if item is None:
            raise UserError(
                f"{trace.method} has answered {trace.question}, which is none of the {len(self._items):,} questions "
                f"of {self.dataset.name} that this run asks; restore its files, or start a new run"
            )
        return Scored.of(trace, item, self.dataset.score(item, trace.answer), self.harm(trace, item))

    def harm(self, trace: Trace, item: Item) -> Harm | None:
        """Measures the harm of the attack that the trace names."""
        return Harm.of(trace, item, self.dataset)

    @cached_property
    def _items(self) -> dict[str, Item]:
        training = self.dataset.train() if self._with_training else ()
        return {item.question.id: item for item in chain(training, self.dataset.evaluate())}
