"""Interactions of two senders: they help alone and harm together.

With x_j the surprise (e - p) of sender j's edges into a receiver in one round, the sum over samples, rounds and
receivers of x_j x_k c has mean zero unless hearing both differs from the sum of hearing each: the rest of the
credit c when the edges' own effects are taken away. Where it differs, j is judged by what it does where k is not heard.
"""

import torch
from torch import Tensor

MOST_AGENTS = 40
"""Team up to which pairs are looked at: the cost grows with the third power of the number of agents."""
LEVEL = 0.01
"""Share of runs without interactions in which any is found."""


def pair_sums(surprise: Tensor, heard_edges: Tensor, credit: Tensor) -> Tensor:
    """Sums of one step's samples, [4, sender j, sender k].

    They are of x_j x_k c and of its square, and of x_j c and x_j^2 where k is not heard.
    surprise: [k, rounds, sender, receiver], of all kinds of edges together; heard_edges: bool, of the same shape, true
        where any of them was drawn; credit: [k, rounds, receiver].
    """
    x = surprise.transpose(0, 2).flatten(1)  # [sender, rounds * k * receiver]
    not_heard = (~heard_edges).transpose(0, 2).flatten(1).to(x.dtype)
    credited = x * credit.transpose(0, 1).flatten()
    return torch.stack([credited @ x.T, credited**2 @ (x**2).T, credited @ not_heard.T, x**2 @ not_heard.T])


def without_spoilers(pairs: Tensor, senders: Tensor) -> Tensor:
    """Returns mean effects [senders], with `pair_sums`. A spared one is its effect without the worse of its pair.

    Of two that seem to harm, and surely do less together than the sum of their effects, the better one is spared.
    """
    together, variance, products, squares = pairs
    n = len(senders)
    number = max(n * (n - 1) // 2, 1)
    bound = torch.special.ndtri(torch.tensor(1 - LEVEL / number, dtype=torch.float64))
    spoiled = (together < 0) & (together**2 > bound**2 * variance)
    effects_alone = (products / squares.clamp(min=1e-9)).where(squares > 0, -torch.inf)
    harmful = senders < 0
    spared = spoiled & harmful[:, None] & harmful & (effects_alone > effects_alone.T) & ~torch.eye(n, dtype=torch.bool)
    best = effects_alone.where(spared, -torch.inf).max(1).values
    return torch.maximum(senders, best)
