"""AGP, Adaptive Graph Pruning (Li et al., ECAI 2025): a network drops agents and draws edges for each question.

Stage I: as G-Designer's, a graph network samples graphs and follows the policy gradient; an agent with few likely edges
is left out. Graphs of right answers are kept. Stage II: after all discussions, the network learns them as labels.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy

from actors.messages import Modality
from topologies.learning.g_designer import HIDDEN, GDesigner
from topologies.learning.network_learner import NetworkLearner
from topologies.wiring import Bools, Floats, Wirings

# An agent whose drawn edges sum to less, times the number of agents, is left out while learning. Half the authors' .12:
# a speaking order leaves one of an edge's two directions, and their draws come to both.
FEW = 0.06
KEPT = 0.55  # an agent with less probability is left out after learning
RIGHT = 0.5  # utility of an answer whose graph is a label
BATCH = 10  # labels of a step of stage II
LABELS = 100  # at most


class Agp(GDesigner):
    """G-Designer's network without dropout, and a head for the agents on its first layer."""

    def __init__(self, profiles: Tensor, features: int, anchor: Tensor) -> None:
        super().__init__(profiles, features, anchor, share=0.0)
        self.head = nn.Sequential(nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, 1))

    def takes_part(self, features: Tensor) -> Tensor:
        """Probability that each agent takes part, [k, agents]."""
        p: Tensor = self.head(self.hidden(features, None))[..., 0].sigmoid()
        return p


class AgpLearner(NetworkLearner):
    """AGP on the protocol of learners. Its last labels are part of its state."""

    network = Agp

    def __init__(self, modalities: Iterable[Modality | str], **options: Any) -> None:
        super().__init__(modalities, **options)
        agents = self.agents
        shapes = {"of": (self.spec.features,), "edges": (agents, agents), "takes": (agents,)}
        for name, shape in shapes.items():
            self.memory[name] = torch.zeros(LABELS, *shape)
        self.memory["labels"] = torch.tensor(0)

    def thinned(self, wirings: Wirings, p: Floats) -> Wirings:
        """Leaves out agents whose drawn edges have little probability in sum (mean over rounds), but never all."""
        weights = wirings.spatial.mean(1) * p
        score = weights.sum(1) + weights.sum(2)
        takes = (score >= FEW * self.agents) | (score >= score.max(1, keepdims=True))
        # Edges of the other agents count as not drawn.
        spatial = wirings.spatial & (takes[:, :, None] & takes[:, None])[:, None]
        speaks = np.repeat(takes[:, None], self.rounds, 1)
        return replace(wirings, spatial=spatial, decision=takes, decision_allowed=takes.copy(), speaks=speaks)

    def speaking(self, features: Tensor) -> Bools:
        """Agents with a probability above KEPT, or else the likeliest, bool [q, agents]."""
        with torch.no_grad():
            p = self._takes_part(features).numpy()

        likely = p > KEPT
        likeliest = p >= p.max(1, keepdims=True)
        speaking: Bools = likely | (~likely.any(1, keepdims=True) & likeliest)
        return speaking

    def learned(self, features: Tensor, wirings: Wirings, utility: Tensor) -> None:
        """Keeps graphs and agents of right answers as labels, the last ones."""
        assert wirings.speaks is not None
        for k in np.flatnonzero(utility.numpy() >= RIGHT):
            place = int(self.memory["labels"]) % LABELS
            self.memory["of"][place] = features[k]
            self.memory["edges"][place] = torch.from_numpy(wirings.spatial[k, -1])
            self.memory["takes"][place] = torch.from_numpy(wirings.speaks[k, -1])
            self.memory["labels"] += 1

    def ended(self) -> None:
        """Learns the labels (stage II): batches in a random order, so many as there are."""
        count = min(int(self.memory["labels"]), LABELS)
        order = torch.randperm(count, generator=self.generator("labels"))
        for start in range(0, count, BATCH):
            batch = order[start : start + BATCH]
            features = self.memory["of"][batch]
            p = self.net(features).sigmoid() * self._mask
            loss = label_loss(p, self._takes_part(features), self.memory["edges"][batch], self.memory["takes"][batch])
            self.descend(loss)

    def _takes_part(self, features: Tensor) -> Tensor:
        assert isinstance(self.net, Agp)
        return self.net.takes_part(features)


def label_loss(p: Tensor, takes_part: Tensor, edges: Tensor, takes: Tensor) -> Tensor:
    """Loss of stage II, mean over labels (the authors' `train_loss`).

        L = MSE(p, edges | both take part) + mean(p^2 | else) + BCE(q, takes) + .05 mean(q) + .01 sum_out p / N^2

    p, edges: [k, sender, receiver]; takes_part (q), takes: [k, agents], 1 for agents that take part; sum_out is over
    edges from agents that do not.
    """
    both = takes[:, :, None] * takes[:, None]
    inside = ((p - edges) ** 2 * both).sum((1, 2)) / both.sum((1, 2)).clamp(min=1)
    outside = (p**2 * (1 - both)).sum((1, 2)) / (1 - both).sum((1, 2)).clamp(min=1)
    agents = binary_cross_entropy(takes_part, takes, reduction="none").mean(1)
    silent = ((1 - takes)[:, :, None] * p).sum((1, 2)) / takes.shape[1] ** 2
    return (inside + outside + agents + 0.05 * takes_part.mean(1) + 0.01 * silent).mean()
