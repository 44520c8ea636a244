"""Confirmation of a cut: the pruned graph against the simplest graphs, on held-back questions.

All graphs answer the same questions. At a look the confirmation ends when bets (betting.py) show that another graph is
better than the pruned one, or that the pruned one is better than all others. At the end another graph wins if its mean
is higher by `LEAD` standard errors: what the estimates say for the pruned graph weighs as much.
"""

import numpy as np
import torch
from torch import Tensor

from topologies.betting import capitals
from topologies.learning.spec import CONFIRMED, EXPLORING
from topologies.wiring import Floats, Ints

PRUNED, UNPRUNED, EMPTY, RANDOM = GRAPHS = ("pruned", "unpruned", "empty", "random")
"""The pruned graph, all edges, no edges between agents, and random edges, as many as the pruned graph has."""
LOOKS = 4  # at most
LEAD = 0.25  # with 36 questions, no planted world then loses .02 to the best of the simple graphs, on average


class Confirmation:
    """Mean utilities of the graphs, one row a step.

    state: `scores`: [steps, graphs], NaN where a graph was not tried; `phase`: [1]; `winner`: [1], its place.
    """

    prefix = "confirm."

    def __init__(self, steps: int, error_rate: float) -> None:
        self.steps, self.error_rate, self.state = steps, error_rate, dict[str, Tensor]()
        if steps:
            scores = torch.full((steps, len(GRAPHS)), torch.nan, dtype=torch.float64)
            self.state = {"scores": scores, "phase": torch.zeros(1).long(), "winner": torch.zeros(1).long()}

    @property
    def phase(self) -> int:
        return int(self.state["phase"]) if self.steps else EXPLORING

    @property
    def winner(self) -> str:
        return GRAPHS[int(self.state["winner"])] if self.steps else PRUNED

    @property
    def scores(self) -> Floats:
        """Rows so far [steps so far, graphs]."""
        scores: Floats = self.state["scores"].numpy()
        return scores[: int((~np.isnan(scores)).any(1).sum())]

    @property
    def lookahead(self) -> int:
        """Number of steps beyond the next one until the next look."""
        done, each = len(self.scores), -(-self.steps // LOOKS)
        return min(each - done % each, self.steps - done) - 1

    def places(self, step: int, samples: int) -> Ints:
        """Graphs of a question's samples [samples], in turns that differ between steps."""
        return (np.arange(samples) + step) % len(GRAPHS)

    def learn(self, places: Ints, utility: Floats) -> bool:
        """Adds a step's utilities [k] of graphs [k]; returns True when the confirmation is over."""
        look, row = not self.lookahead, self.state["scores"][len(self.scores)]
        for place in np.unique(places):
            row[place] = float(utility[places == place].mean())
        return len(self.scores) == self.steps or (look and decided(self.scores, self.error_rate))

    def decide(self) -> None:
        """Ends the confirmation."""
        mean, error = leads(self.scores)
        winner = int(np.where(mean > LEAD * error, mean, 0).argmax())
        self.state |= {"phase": torch.full((1,), CONFIRMED), "winner": torch.full((1,), winner)}

    def words(self) -> str:
        """Describes what came out."""
        done = "cut confirmed" if self.winner == PRUNED else f"cut undone, {self.winner} graph left"
        mean, error = leads(self.scores)
        others = (f"{name} {mean[i]:+.3f} (error {error[i]:.3f})" for i, name in enumerate(GRAPHS) if i)
        return f"{done} after {len(self.scores)} steps; utility minus that of the pruned graph: {', '.join(others)}"

    def doubts(self) -> tuple[str, ...]:
        """Returns the outcome where the pruned graph has not the highest mean, or no mean."""
        doubtful = self.phase == CONFIRMED and not leads(self.scores)[0][1:].max() < 0
        return (self.words(),) if doubtful else ()


def leads(scores: Floats) -> tuple[Floats, Floats]:
    """Mean utility of each graph minus that of the first, on the questions that both have, and its standard error
    [graphs]. One difference of 1 is added to the variance, so that a few equal ones are no certainty."""
    apart = scores - scores[:, :1]
    seen = ~np.isnan(apart)
    number = seen.sum(0).clip(min=1)
    mean = np.where(seen, apart, 0).sum(0) / number
    return mean, np.sqrt(((np.where(seen, apart - mean, 0) ** 2).sum(0) + 1) / (number + 1) / number)


def decided(scores: Floats, error_rate: float) -> bool:
    """True if a graph is shown to be better than the first, or the first to be better than all others, by tests that
    hold at any number of looks; any of them errs in `error_rate` of all runs at most. scores: from 0 to 1."""
    apart = [(other - scores[:, 0]).clip(-1, 1) for other in scores.T[1:]]
    above, below = zip(*(capitals(values[~np.isnan(values)], np.zeros(1)) for values in apart), strict=True)
    bound = 2 * len(apart) / error_rate
    return max(map(_most, above)) >= bound or min(map(_most, below)) >= bound


def _most(capital: Floats) -> float:
    return float(capital.max(initial=1.0))
