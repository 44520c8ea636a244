"""Confirmation of a cut: the pruned graph against the simplest ones, on questions that were kept for it.

All graphs answer the same questions. At a look the confirmation ends when bets (betting.py) show that another graph is
better than the pruned one, or that the pruned one is better than all others.

At the end the graph with the highest mean wins. Where something was cut, another one needs a lead of a standard error.
For edges are cut by the evidence of many discussions: a priori the difference d of another graph from the pruned one is
normal about -b, with standard deviation b. The confirming questions show D, with error s. Then d has the mean

    (D / s^2 - 1 / b) / (1 / s^2 + 1 / b^2),

which is above 0 where D > s^2 / b, and this is s for b = s. Where nothing was cut, d is 0 a priori.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from topologies.betting import capitals
from topologies.graphs import as_wirings, joined
from topologies.learning.edge_state import EdgeState
from topologies.learning.estimator import EdgeEstimator
from topologies.learning.spec import ALL, CONFIRMED, CONFIRMING, GRAPHS, PRUNED, LearnerSpec
from topologies.wiring import Bools, Floats, Ints, Wirings

LOOKS = 4
"""Largest number of looks."""


class Confirmation:
    """Compares a learner's pruned graph with simple graphs and leaves the winner, in its last steps.

    existing: all edges that are learned, bool [unit, unit] by kind. estimator: grades the agents.
    pruned: the pruned graph's wirings, by features of questions or without; left: its edges, bool [rounds or 1, unit,
        unit] by kind.
    state: `scores`: mean utility [steps, graphs], NaN where a graph was not tried or its discussions failed; [1] each:
    `phase`, `winner` (its place), the steps `done`, and the number of `failed` discussions.
    """

    prefix = "confirm."

    def __init__(
        self,
        spec: LearnerSpec,
        edges: EdgeState,
        existing: Mapping[str, Tensor],
        estimator: EdgeEstimator,
        pruned: Callable[[Floats | None], Wirings],
        left: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        self.spec = spec
        self.edges = edges
        self.existing = existing
        self.estimator = estimator
        self.pruned = pruned
        self.left = left
        self.state: dict[str, Tensor] = {}
        if spec.confirming:
            self._set(phase=0, winner=0, done=0, failed=0)
            self.state["scores"] = torch.full((spec.confirming, len(GRAPHS)), torch.nan, dtype=torch.float64)

    @property
    def phase(self) -> int:
        return self._number("phase")

    @property
    def winner(self) -> str:
        return GRAPHS[self._number("winner")]

    @property
    def undone(self) -> bool:
        """True if another graph than the pruned one was left."""
        return self.winner != PRUNED

    @property
    def scores(self) -> Floats:
        """Rows so far [steps done, graphs]."""
        scores: Floats = self.state["scores"].numpy()
        return scores[: self._number("done")]

    @property
    def lookahead(self) -> int:
        """Number of steps beyond the next one until the next look."""
        steps = self.spec.confirming
        steps_done = self._number("done")
        between_looks = -(-steps // LOOKS)
        return min(between_looks - steps_done % between_looks, steps - steps_done) - 1

    def begin(self) -> None:
        """Begins to compare."""
        self._set(phase=CONFIRMING)

    def sample(self, k: int, questions: int, step: int, features: Floats | None) -> Wirings:
        """Returns wirings of the compared graphs, the pruned one by the questions' features."""

        wirings = []
        for question in range(questions):
            for place in places(step, k // questions):
                if GRAPHS[place] == PRUNED:
                    wirings.append(self.pruned(None if features is None else features[[question]]))
                else:
                    wirings.append(self._simple_wirings(GRAPHS[place]))
        return joined(wirings)

    def learn(self, step: int, questions: int, utility: Floats, failed: Bools) -> None:
        """Adds a step's utilities [k], equally many of each question. Ends the confirmation after the last look."""
        is_look = self.lookahead == 0
        steps_done = self._number("done")
        graph = np.tile(places(step, len(utility) // questions), questions)
        for place in np.unique(graph[~failed]):
            self.state["scores"][steps_done, place] = float(utility[~failed & (graph == place)].mean())
        self._set(done=steps_done + 1, failed=self._number("failed") + int(failed.sum()))

        is_last = steps_done + 1 == self.spec.confirming
        if is_last or (is_look and decided(self.scores, self.spec.settings.error_rate)):
            self.decide()

    def decide(self) -> None:
        """Ends the confirmation: the winner's edges are left."""

        mean, error = leads(self.scores)
        remaining = self.left()
        cut = any((edges & ~remaining[kind]).any() for kind, edges in self.existing.items())
        needed_lead = error if cut else 0
        winner = int(np.where(mean > needed_lead, mean, 0).argmax())

        self._set(phase=CONFIRMED, winner=winner)
        if self.undone:
            for kind, edges in self._simple(self.winner).items():
                self.edges.replace(kind, edges)

    def words(self) -> str:
        """Describes what came out; empty before that."""
        if self.phase != CONFIRMED:
            return ""
        outcome = f"{self.winner} left after {len(self.scores)} steps"
        failed = self._number("failed")
        if failed:
            outcome += f", {failed} failed discussions not counted"

        mean, error = leads(self.scores)
        differences = [f"{name} {mean[i]:+.3f} (error {error[i]:.3f})" for i, name in enumerate(GRAPHS)][1:]
        return f"{outcome}; utility minus that of the pruned graph: {', '.join(differences)}"

    def doubts(self) -> tuple[str, ...]:
        """Warns where another graph than the pruned one was left."""
        if not self.undone:
            return ()
        lead = leads(self.scores)[0][self._number("winner")]
        return (
            f"the pruned graph was not better than {self.winner} ({lead:+.2f} on {len(self.scores)} training "
            "questions), which takes its place",
        )

    def _number(self, name: str) -> int:
        return int(self.state[name]) if name in self.state else 0

    def _set(self, **numbers: int) -> None:
        self.state |= {name: torch.tensor([number]) for name, number in numbers.items()}

    def _simple(self, name: str) -> dict[str, Tensor]:
        """Edges of a graph to compare the pruned one with, bool [1, unit, unit] by kind."""
        graph = {kind: existing[None] & (name == ALL) for kind, existing in self.existing.items()}
        graph["decision"] = self.existing["decision"][None] & ~self.estimator.worse_agents()
        return graph

    def _simple_wirings(self, name: str) -> Wirings:
        """One wiring of such a graph."""
        edges = self.edges.between_agents(self._simple(name))
        readers = edges["decision"].flatten().numpy() if self.existing["decision"].any() else None
        return as_wirings(self.edges.acyclic(edges), self.spec.rounds, decision=readers)


def places(step: int, samples: int) -> Ints:
    """Graphs of a question's samples [samples], in turns that differ between steps."""
    return (np.arange(samples) + step) % len(GRAPHS)


def leads(scores: Floats) -> tuple[Floats, Floats]:
    """Mean utility of each graph minus the first graph's, and its standard error [graphs]. Questions that one of the
    two lacks are left out. One difference of 1 is added to the variance, so that a few equal ones are no certainty."""
    differences = scores - scores[:, :1]
    compared = ~np.isnan(differences)
    number = compared.sum(0).clip(min=1)
    mean = np.where(compared, differences, 0).sum(0) / number
    squares = np.where(compared, differences - mean, 0) ** 2
    return mean, np.sqrt((squares.sum(0) + 1) / (number + 1) / number)


def decided(scores: Floats, error_rate: float) -> bool:
    """Tests whether a graph is better than the first, or the first better than all others. The tests hold at any number
    of looks, and any of them errs in `error_rate` of all runs at most. scores: from 0 to 1."""
    above = []
    below = []
    for graph_scores in scores.T[1:]:
        differences = (graph_scores - scores[:, 0]).clip(-1, 1)
        better, worse = capitals(differences[~np.isnan(differences)], np.zeros(1))
        above.append(float(better.max(initial=1.0)))
        below.append(float(worse.max(initial=1.0)))

    bound = 2 * len(above) / error_rate
    return max(above) >= bound or min(below) >= bound
