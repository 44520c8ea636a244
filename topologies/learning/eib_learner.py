"""EIB-Learner (Shen et al., EMNLP 2025): a dense and a sparse view of the team, fused by the question.

M = a_d M_d + a_s M_s, with a = softmax(MLP(question)) and M_v = sigmoid(Z_v Z_v^T), Z_v being the embedding of agents
by a graph network over the complete graph (d) or a chain (s) (Eqs. 7 to 10). The policy gradient of utility trains all
weights (Eq. 11). The paper leaves the layers open; here each view has two graph convolutions of 16 dimensions.
"""

import torch
from torch import Generator, Tensor, nn

from topologies.learning.convolution import GraphConvolution, chain_of
from topologies.learning.network_learner import NetworkLearner

WIDTH = 16


class EibNetwork(nn.Module):
    """The two views and their fusion."""

    def __init__(self, profiles: Tensor, features: int, anchor: Tensor) -> None:
        """profiles: [agents, d']; features: d, of a question; anchor: not used, as the paper fixes both graphs."""
        super().__init__()
        agents, width = profiles.shape
        self.profiles = profiles
        # With I, all agents of a complete graph would have one embedding.
        complete = 1 - torch.eye(agents)
        graphs = ((complete, False), (chain_of(agents), True))
        self.first = nn.ModuleList(GraphConvolution(width + features, WIDTH, *graph) for graph in graphs)
        self.second = nn.ModuleList(GraphConvolution(WIDTH, WIDTH, *graph) for graph in graphs)
        self.gate = nn.Sequential(nn.Linear(max(features, 1), WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))

    def forward(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits of edges [k, sender, receiver] for questions' features [k, d]; there is no dropout."""
        views = []
        for first_layer, second_layer in zip(self.first, self.second, strict=True):
            embedded = second_layer(first_layer(self.profiles, features).relu())
            views.append((embedded @ embedded.transpose(-1, -2)).sigmoid())
        dense, sparse = views
        # A learner without features has one question for all.
        question = features if features.shape[1] else features.new_zeros(len(features), 1)
        shares = self.gate(question).softmax(-1)[:, :, None, None]
        return torch.logit(shares[:, 0] * dense + shares[:, 1] * sparse, eps=1e-6)


class EibLearner(NetworkLearner):
    """EIB-Learner on the protocol of learners."""

    network = EibNetwork
