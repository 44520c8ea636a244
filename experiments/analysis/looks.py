"""Evaluations that stop early (`compare.stop`): the looks at a run's answers, and its verdict at the last."""

from collections.abc import Mapping, Sequence
from typing import Any

from actors.messages import derive_seed
from experiments.analysis.anytime import anytime_test
from experiments.analysis.scores import by_method, clusters_of
from experiments.analysis.summary import UNKNOWN, adjusted_tests, rounded, verdict
from experiments.datasets.item import Dataset, Item, Subset
from experiments.records.recorder import RunFolder

QUESTIONS = 10  # new ones at a look, at least


def looks(dataset: Dataset, seed: int) -> list[Subset]:
    """Makes the data set up to each look: whole clusters of questions, in an order by seed, as if drawn at random."""
    clusters: dict[str, list[Item]] = {}
    of_group: dict[str, str] = {}
    for item in dataset.evaluate():
        # Variants of one question stay together, with the first one's cluster.
        name = of_group.setdefault(item.group or item.question.id, item.cluster or item.group or item.question.id)
        clusters.setdefault(name, []).append(item)
    found: list[Subset] = []
    items: list[Item] = []
    for name in sorted(clusters, key=lambda name: (derive_seed(seed, "look", name), name)):
        items.extend(clusters[name])
        if len(items) - (len(found[-1].items) if found else 0) >= QUESTIONS:
            found.append(Subset(dataset, tuple(items)))
    return found if found and len(found[-1].items) == len(items) else [*found, Subset(dataset, tuple(items))]


def test_so_far(run: RunFolder, pair: Sequence[str], look: Dataset, margin: float) -> Mapping[str, Any] | None:
    """Tests two methods on the recorded questions of a look, as metrics.json has it; None without a shared one."""
    first, second = (by_method(run).get(method, {}) for method in pair)
    asked = dict.fromkeys(item.group or item.question.id for item in look.evaluate())
    if not (shared := [id for id in asked if id in first and id in second]):
        return None
    clusters = clusters_of([first])
    differences = [first[id].utility - second[id].utility for id in shared]
    (test,) = adjusted_tests([{**anytime_test(differences, [clusters[id] for id in shared], margin)}], margin)
    return dict(rounded(test | {"verdict": verdict(test)}))


def reached(run: RunFolder, pair: Sequence[str], look: Dataset, margin: float) -> bool:
    """True if the records up to a look show a verdict."""
    test = test_so_far(run, pair, look, margin)
    return test is not None and bool(test["verdict"] != UNKNOWN)


def summarise(run: RunFolder, pair: Sequence[str], dataset: Dataset, seed: int, margin: float) -> dict[str, Any]:
    """Returns what metrics.json has of the looks: the pair, questions asked and planned, and the anytime-valid test."""
    count = sum(scored.method == pair[0] for scored in run.scores())
    planned = looks(dataset, seed)
    last = next((look for look in planned if len(look.items) >= count), planned[-1])
    test = test_so_far(run, pair, last, margin)
    return {"pair": list(pair), "questions": len(last.items), "planned": len(planned[-1].items), "test": test}
