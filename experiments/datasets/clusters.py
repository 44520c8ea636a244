"""Orders questions by their clusters: the documents, tables, lectures or pictures that questions share."""

from collections.abc import Iterable

from actors.messages import derive_seed
from experiments.datasets.item import Item


def clusters_at_random(items: Iterable[Item], seed: int) -> list[list[Item]]:
    """Returns whole clusters in a random order, each with its questions in their own order.

    Variants of one question stay together, with the first one's cluster. A question without a cluster is one alone.
    """
    clusters: dict[str, list[Item]] = {}
    cluster_of_group: dict[str, str] = {}
    for item in items:
        group = item.group or item.question.id
        name = cluster_of_group.setdefault(group, item.cluster or group)
        clusters.setdefault(name, []).append(item)

    names = sorted(clusters, key=lambda name: (derive_seed(seed, "look", name), name))
    return [clusters[name] for name in names]
