"""G-Designer (Zhang et al., ICML 2025): a graph network draws each question's graph from roles and the question."""

import torch
from torch import Generator, Tensor, nn

from topologies.learning.convolution import GraphConvolution, dropped, pair_logits
from topologies.learning.network_learner import NetworkLearner

HIDDEN = 16


class GDesigner(nn.Module):
    """Two graph convolutions over an anchor graph, a perceptron, and the inner products of agents.

    As in the authors' code, the perceptron keeps its first weights: their optimiser holds the convolutions alone.
    """

    def __init__(self, profiles: Tensor, features: int, anchor: Tensor, share: float = 0.5) -> None:
        """profiles: [agents, d']; features: d, of a question; anchor: [sender, receiver]; share: of dropout."""
        super().__init__()
        width = profiles.shape[1]
        self.profiles, self.share = profiles, share
        self.first = GraphConvolution(width + features, HIDDEN, anchor)
        self.second = GraphConvolution(HIDDEN, width, anchor)
        self.perceptron = nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))
        self.perceptron.requires_grad_(False)

    def hidden(self, features: Tensor, generator: Generator | None) -> Tensor:
        """First layer of each agent and question, [k, agents, HIDDEN]; generator: of dropout, in training."""
        return dropped(self.first(self.profiles, features).relu(), self.share, generator)

    def decoded(self, hidden: Tensor) -> Tensor:
        """Logits of edges [k, sender, receiver]."""
        return pair_logits(self.perceptron(torch.log_softmax(self.second(hidden), dim=-1)))

    def forward(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits of edges [k, sender, receiver] for questions' features [k, d]."""
        return self.decoded(self.hidden(features, generator))


class GDesignerLearner(NetworkLearner):
    """G-Designer on the protocol of learners."""

    network = GDesigner
