"""Settings of learning and pruning."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Literal, NamedTuple

from actors.settings import setting

Decision = Literal["all", "learned"]
Graph = Literal["complete", "ring", "star", "tree", "layered", "regular", "small_world"]
Inference = Literal["threshold", "sampled"]
Noise = Literal["rms", "squared"]


@dataclass
class LearnerSettings:
    """Settings of every learner; a variant (variants.py) fixes all else.

    The weights are those of the objective's terms (Eqs. 7, 11); 0 switches a term off. Their defaults come from
    gradients per logit, measured with 5 textual and 4 visual agents, T = 2 and K = 10. An edge that raises utility by
    .05 pulls its logit by .012 a step, in noise of standard deviation .08 (with a baseline) or .11 (without).
    """

    learning_rate: float = setting(0.1, above=0, at_most=100)
    """Learning rate of Adam (eta)."""
    # At weight 1 the rank pulls every logit by .06 to .13, differing by up to .06 inside a matrix, always the same way:
    # it would decide the pruning alone. At .1 it breaks ties between edges whose utilities differ by less than .02.
    rank_weight: float = setting(0.1, at_least=0, at_most=1e6)
    """Weight of the nuclear norm, which favours graphs of low rank (Eq. 7)."""
    noise: Noise = "rms"
    """Noise term of Eq. 7, v being the distance of p * mask from the unpruned matrix. `rms`: relu(v - epsilon), v the
    root mean square over all edges; `squared`: relu(v - epsilon)^2, v the Frobenius norm of each matrix. Only there
    epsilon changes the gradient while v is above it."""
    noise_weight: float = setting(1.0, at_least=0, at_most=1e6)
    """Weight of the distance from the unpruned graph beyond epsilon (Eq. 7)."""
    epsilon: float = setting(0.1, at_least=0)
    """Distance from the unpruned graph that Eq. 7 tolerates."""
    align_weight: float = setting(1.0, at_least=0, at_most=1e6)
    """Weight of the alignment of edges between the modalities (Eqs. 11, 12)."""
    reward: Literal["final", "own"] = setting("final", since="0.4.0")
    """Score that the policy gradient credits edges with: that of the final answer, or of the receiver's own answers."""
    error_rate: float = setting(0.05, above=0, below=1)
    """`effects`: share of runs without any effect that may prune an edge all the same; with the others, an agent."""
    decision: Decision | None = None
    """Agents that the decision agent reads: `all`, or `learned` edges (null: the method's own choice)."""
    shared_orders: bool = False
    """Lets all samples of a question speak in one order, so that more turns are equal and computed once."""
    early_stop: float | None = setting(None, at_least=0, at_most=1)
    """Ends a stage at an interim analysis that misjudges at most this share of what edges are worth (null: .12 with
    `effects_common`, which its own discussions then save, and never with others; 0: never)."""
    confirm: float | None = setting(None, at_least=0, at_most=0.5, since="0.4.0", before=0.0)
    """Share of the training questions, the last ones, on which the pruned graph is compared with all edges and with no
    edges; a cut that is worse is undone (null: .2 with `effects`, none with others; 0: none)."""


@dataclass
class PruningSettings:
    """Schedule of pruning: cut t of a stage prunes the share p_t = p_{t-1} exp(-t / T) of every matrix (Eqs. 13, 14).

    With eight cuts this share of the edges is left:

        p_0     .05  .1   .15  .2   .25  .3   .4   .5
        left    .88  .76  .66  .57  .49  .42  .30  .21

    `effects` prunes at a stage's end: every edge that harms and, after the last stage, the least beyond that share.
    """

    rate: float = setting(0.25, at_least=0, below=1)
    """Pruning rate p_0 of the first cut; 0 with `effects` prunes harmful edges alone."""
    intra_rate: float | None = setting(None, at_least=0, below=1)
    """Pruning rate p_0 of edges inside a modality (null: `pruning.rate`)."""
    inter_rate: float | None = setting(None, at_least=0, below=1)
    """Pruning rate p_0 of all other edges (null: `pruning.rate`)."""
    # With a cut after every step nearly all come in the first nine.
    cuts: int = setting(8, at_least=1)
    """Number of cuts in a stage, at equal distances."""
    steps: int = setting(40, at_least=1, at_most=1_000_000)
    """Training steps of a stage."""
    interim: int = setting(4, at_least=0)
    """Number of interim analyses in a stage, at which `effects` prunes harmful edges (0: at its end only)."""

    def steps_to_interim(self, step: int) -> int:
        """Counts the steps after `step` of a stage until its next interim analysis or its end."""
        ends = spread_over(self.steps, self.interim) or [self.steps]
        return min((end for end in ends if end > step), default=step + 1) - step

    def is_interim(self, step: int) -> bool:
        """True if an interim analysis follows so many steps of a stage, before its last one."""
        return step < self.steps and self.steps_to_interim(step - 1) == 1

    def first_rate(self, intra: bool) -> float:
        """p_0 of edges inside a modality, or of all others."""
        own = self.intra_rate if intra else self.inter_rate
        return self.rate if own is None else own

    def schedule(self, first_rate: float) -> list[Cut]:
        """Returns the rate and the share of edges left after each step of a stage (Eqs. 13, 14)."""
        due, left, rate = spread_over(self.steps, self.cuts), 1.0, first_rate
        cuts: list[Cut] = []
        for step in range(1, self.steps + 1):
            if step in due:
                rate *= exp(-(due.index(step) + 1) / len(due))
                left *= 1 - rate
            cuts.append(Cut(rate, left))
        return cuts


class Cut(NamedTuple):
    """Rate p_t of the last cut after one step, and the share of a matrix's first edges that remains."""

    rate: float
    share: float


def spread_over(steps: int, times: int) -> list[int]:
    """Returns the steps, from 1, after which one of `times` events at equal distances is due.

    The n-th is due once n / times of the steps are done, rounded up: the last after the last step, and no two at once.
    """
    times = min(times, steps)
    return [-(-steps * n // times) for n in range(1, times + 1)]
