"""Graph convolutions of small teams, as dense matrices, and what networks of agents make of them."""

import torch
from torch import Generator, Tensor, nn


class GraphConvolution(nn.Module):
    """D^-1/2 (A + I) D^-1/2 X W + b (Kipf and Welling 2017, Eq. 2). D are in-degrees.

    adjacency: float [sender, receiver]. Without `loops`, I is left out.
    """

    def __init__(self, inputs: int, outputs: int, adjacency: Tensor, loops: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.linear.weight)
        matrix = adjacency.clone().fill_diagonal_(1.0) if loops else adjacency
        degrees = matrix.sum(0)
        scale = degrees.clamp(min=1e-12).rsqrt() * (degrees > 0)
        self.register_buffer("normalised", scale[:, None] * matrix.T * scale, persistent=False)

    def forward(self, x: Tensor, shared: Tensor | None = None) -> Tensor:
        """x: [..., agents, inputs]; returns [..., agents, outputs].

        shared: [k, d], the last d inputs of all agents in each of k graphs (returns [k, agents, outputs]).
        """
        assert isinstance(self.normalised, Tensor)
        weight = self.linear.weight
        transformed = x @ weight[:, : x.shape[-1]].T
        if shared is not None:
            # Profiles and questions are multiplied apart: their joint inputs would be k times as many.
            transformed = transformed + (shared @ weight[:, x.shape[-1] :].T)[:, None]
        convolved: Tensor = self.normalised @ transformed + self.bias
        return convolved


def dropped(x: Tensor, share: float, generator: Generator | None) -> Tensor:
    """Dropout (Srivastava et al. 2014): zeroes a share of the values and scales the others; None: returns them all."""
    if generator is None or share == 0:
        return x
    return x * (torch.rand(x.shape, generator=generator) >= share) / (1 - share)


def pair_logits(embedded: Tensor) -> Tensor:
    """Z Z^T of agents' embeddings [k, agents, d], [k, s, r]. Scaled to -1 to 1 over all pairs of a question.

    Where all pairs are alike, they stay as they are.
    """
    pairs = embedded @ embedded.transpose(-1, -2)
    low = pairs.amin((1, 2), keepdim=True)
    width = pairs.amax((1, 2), keepdim=True) - low
    return torch.where(width > 0, (pairs - low) / width.where(width > 0, 1) * 2 - 1, pairs)


def chain_of(agents: int) -> Tensor:
    """Adjacency of a chain, each agent heard by the next, float [sender, receiver]."""
    return torch.diag(torch.ones(agents - 1), 1)
