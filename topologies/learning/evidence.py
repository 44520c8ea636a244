"""What is certain about edges while they are being learned, with error rates that hold at every look.

An edge is drawn by a coin e of chance p that knows nothing of the discussion. Were it without any effect, the sum S of
(e - p) c over samples, c being the credit of the turn that it leads to, would be a fair game, and with U the sum of
c^2 / 4 the mean of exp(l S - l^2 U / 2) would be 1 at most, whatever l (Hoeffding). Mixed over l, that bounds S at all
times at once (Robbins 1970): nothing is estimated, and nothing assumed of the scores.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

LOOK = 5.0  # about U of one edge after 100 samples with credits of .45: where the bound is tightest, fixed beforehand


class Sums(NamedTuple):
    """S and U of edges, or of groups of them, of one shape."""

    total: Tensor
    spread: Tensor

    def over(self, *dimensions: int) -> Sums:
        """Those of groups: of all edges along some dimensions together."""
        return Sums(self.total.sum(dimensions), self.spread.sum(dimensions))


def certain_harm(sums: Sums, edges: Tensor, tests: int, error_rate: float) -> Tensor:
    """Whether an effect is surely below zero, however often one looks; bool.

    Of `tests` such sums without effect, any is ever called harmful in `error_rate` of all runs at most.
    edges: how many each sum is over.
    """
    mixed = LOOK * edges.clamp(min=1)
    bound = 2 * torch.tensor(tests / error_rate).log() + ((sums.spread + mixed) / mixed).log()
    harm: Tensor = (sums.total < 0) & (sums.total**2 / (sums.spread + mixed) >= bound)
    return harm


def chance_of(sums: Sums) -> float:
    """The chance of sums that are this large together where none has an effect (chi-squared); 1 without samples."""
    known = sums.spread > 0
    if not bool(known.any()):
        return 1.0
    squared = (sums.total[known] ** 2 / sums.spread[known]).sum()
    return float(torch.special.gammaincc(known.sum().double() / 2, squared.double() / 2))
