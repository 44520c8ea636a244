"""The learner's ranking of edges as a file of the run folder, and how well it tells attackers from others."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from experiments.attacks.metrics import auc_attacker, honest_edges_cut
from topologies.wiring import Edges, Floats

NAME = "edge_scores.json"


def write_edge_scores(folder: Path, agents: Sequence[str], attackers: Sequence[str], scores: Edges[Floats]) -> None:
    """Matrices are [sender, receiver] in the agents' order; null where no edge can be, negative where one was cut."""
    names = {"agents": list(agents), "attackers": list(attackers)}
    # JSON has no infinity, so an edge that cannot be is null.
    matrices = {
        kind: [[round(value, 6) if math.isfinite(value) else None for value in row] for row in matrix.tolist()]
        for kind, matrix in scores._asdict().items()
    }
    (folder / NAME).write_text(json.dumps(names | matrices) + "\n")


def attackers_found(folder: Path) -> dict[str, float]:
    """`auc_attacker` and `honest_edges_cut` of a run, spatial and temporal edges together; empty where nothing was
    learned or nobody in particular compromised."""
    path = folder / NAME
    if not path.is_file():
        return {}
    record = json.loads(path.read_text())
    attackers = [record["agents"].index(name) for name in record["attackers"]]
    if not attackers:
        return {}
    scores = [
        [[-math.inf if value is None else value for value in row] for row in record[kind]]
        for kind in ("spatial", "temporal")
    ]
    figures = {
        "auc_attacker": auc_attacker(scores, attackers),
        "honest_edges_cut": honest_edges_cut(scores, attackers),
    }
    return {name: value for name, value in figures.items() if value is not None}
