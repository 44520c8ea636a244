"""The networks beside G-Designer's and AGP's own code, on the same random weights and input (`record_networks.py`)."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from tests.instruments.fidelity.record_networks import RECORDS, SIZES, WIDTH, anchor, given, labels
from topologies.learning.agp import Agp, label_loss
from topologies.learning.g_designer import GDesigner

TOLERANCE = 1e-6
# Their parameters, by ours.
THEIRS = {
    "first.linear.weight": "gcn.conv1.lin.weight",
    "first.bias": "gcn.conv1.bias",
    "second.linear.weight": "gcn.conv2.lin.weight",
    "second.bias": "gcn.conv2.bias",
    "perceptron.0.weight": "mlp.fc1.weight",
    "perceptron.0.bias": "mlp.fc1.bias",
    "perceptron.2.weight": "mlp.fc2.weight",
    "perceptron.2.bias": "mlp.fc2.bias",
    **{f"head.{layer}.{part}": f"gcn.mask_head.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")},
}


def case(name: str, size: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))[size]
    return read


def network(kind: type[GDesigner], agents: int) -> GDesigner:
    ours = kind(given("profiles", agents, WIDTH), WIDTH, torch.from_numpy(anchor(agents)).double()).double()
    with torch.no_grad():
        for name, values in ours.named_parameters():
            values.copy_(given(THEIRS[name], *values.shape, scale=0.5 if values.dim() == 1 else 0.1))
    return ours


def apart(ours: torch.Tensor, theirs: Any) -> float:
    return float((ours.detach().flatten() - torch.tensor(theirs, dtype=torch.float64).flatten()).abs().max())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "kind"), [("g_designer", GDesigner), ("agp", Agp)])
def test_logits_of_edges_are_the_authors_own(name: str, kind: type[GDesigner], size: str) -> None:
    theirs = case(name, size)
    logits = network(kind, theirs["agents"])(given("query", WIDTH)[None])
    assert np.ptp(theirs["logits"]) > 1
    assert apart(logits, theirs["logits"]) < TOLERANCE


@pytest.mark.parametrize("size", SIZES)
def test_who_takes_part_and_the_loss_of_stage_two_are_agp_s_own(size: str) -> None:
    theirs = case("agp", size)
    ours, query = network(Agp, theirs["agents"]), given("query", WIDTH)[None]
    assert isinstance(ours, Agp)
    p = ours.takes_part(query)
    assert apart(p, theirs["takes_part"]) < TOLERANCE
    assert np.ptp(theirs["takes_part"]) > 0.01
    edges, left_out = labels(theirs["agents"])
    others = 1 - torch.eye(theirs["agents"], dtype=torch.float64)
    taken, takes = torch.from_numpy(edges != 0).double()[None], torch.from_numpy(left_out == 0).double()[None]
    loss = label_loss(ours(query).sigmoid() * others, p, taken, takes)
    assert apart(loss, theirs["loss"]) < TOLERANCE
