"""Confirmation of a cut: the pruned graph against the simplest graphs, on questions that were kept for it.

All graphs answer the same questions. At a look the confirmation ends when bets (betting.py) show that another graph is
better than the pruned one, or that the pruned one is better than all others. At the end another graph wins if its mean
is higher by some standard errors.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from actors.messages import derive_seed
from topologies.betting import capitals
from topologies.graphs import as_wirings, joined
from topologies.learning.edge_state import EdgeState
from topologies.learning.spec import CONFIRMED, CONFIRMING, GRAPHS, PRUNED, RANDOM, UNPRUNED, LearnerSpec
from topologies.wiring import Bools, Floats, Ints, Wirings

LOOKS = 4
"""Largest number of looks."""
LEADS = np.array([0.0, 1.0, 0.25, 1.0])
"""Lead that each graph needs over a cut one, in standard errors of the difference of means.

The empty graph needs less than others, which bring back edges that were found to harm."""
CLEAR = 2.0
"""Lead over a graph from which nothing was cut. Where nothing is known, a smaller one would be taken by chance."""


class Confirmation:
    """Compares a learner's pruned graph with simple graphs and leaves the winner, in its last steps.

    existing: all edges that are learned, bool [unit, unit] by kind. pruned: the pruned graph's wirings, by features of
    questions or without; left: its edges, bool [rounds or 1, unit, unit] by kind.
    state: `scores`: mean utility [steps, graphs], NaN where a graph was not tried or its discussions failed; [1] each:
    `phase`, `winner` (its place), `steps` to take, those `done`, and the number of `failed` discussions.
    """

    prefix = "confirm."

    def __init__(
        self,
        spec: LearnerSpec,
        edges: EdgeState,
        existing: Mapping[str, Tensor],
        pruned: Callable[[Floats | None], Wirings],
        left: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        self.spec = spec
        self.edges = edges
        self.existing = existing
        self.pruned = pruned
        self.left = left
        self.state: dict[str, Tensor] = {}
        if spec.confirming:
            self._set(phase=0, winner=0, steps=0, done=0, failed=0)
            shape = (spec.pruning.steps, len(GRAPHS))
            self.state["scores"] = torch.full(shape, torch.nan, dtype=torch.float64)

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
        steps = self._number("steps")
        steps_done = self._number("done")
        between_looks = -(-steps // LOOKS)
        return min(between_looks - steps_done % between_looks, steps - steps_done) - 1

    def begin(self, steps: int) -> None:
        """Begins to compare, on so many steps' questions."""
        self._set(phase=CONFIRMING, steps=steps)

    def sample(self, k: int, questions: int, step: int, features: Floats | None) -> Wirings:
        """Draws wirings of the compared graphs: the pruned one by the questions' features, each random one anew."""

        draw = np.random.default_rng(derive_seed(self.spec.seed, "compared", step))
        wirings = []
        for question in range(questions):
            for place in places(step, k // questions):
                if GRAPHS[place] == PRUNED:
                    wirings.append(self.pruned(None if features is None else features[[question]]))
                else:
                    wirings.append(self._simple_wirings(GRAPHS[place], draw))
        return joined(wirings)

    def learn(self, step: int, questions: int, utility: Floats, failed: Bools) -> None:
        """Adds a step's utilities [k], equally many of each question. Ends the confirmation after the last look."""
        is_look = self.lookahead == 0
        steps_done = self._number("done")
        graph = np.tile(places(step, len(utility) // questions), questions)
        for place in np.unique(graph[~failed]):
            self.state["scores"][steps_done, place] = float(utility[~failed & (graph == place)].mean())
        self._set(done=steps_done + 1, failed=self._number("failed") + int(failed.sum()))

        is_last = steps_done + 1 == self._number("steps")
        if is_last or (is_look and decided(self.scores, self.spec.settings.error_rate)):
            self.decide()

    def decide(self) -> None:
        """Ends the confirmation: the winner's edges are left."""

        mean, error = leads(self.scores)
        remaining = self.left()
        cut = any((edges & ~remaining[kind]).any() for kind, edges in self.existing.items())
        needed_lead = (LEADS if cut else CLEAR) * error
        winner = int(np.where(mean > needed_lead, mean, 0).argmax())

        self._set(phase=CONFIRMED, winner=winner)
        if self.undone:
            draw = np.random.default_rng(derive_seed(self.spec.seed, "chosen graph"))
            for kind, edges in self._simple(self.winner, draw).items():
                self.edges.replace(kind, edges)

    def words(self) -> str:
        """Describes what came out; empty before that."""
        if self.phase != CONFIRMED:
            return ""
        outcome = f"cut undone, {self.winner} graph left" if self.undone else "pruned graph kept"
        duration = f"after {len(self.scores)} steps"
        failed = self._number("failed")
        if failed:
            duration += f", {failed} failed discussions not counted"

        mean, error = leads(self.scores)
        differences = [f"{name} {mean[i]:+.3f} (error {error[i]:.3f})" for i, name in enumerate(GRAPHS)][1:]
        return f"{outcome} {duration}; utility minus that of the pruned graph: {', '.join(differences)}"

    def doubts(self) -> tuple[str, ...]:
        """Returns the outcome where the pruned graph has not the highest mean, or no mean."""
        if self.phase != CONFIRMED or leads(self.scores)[0][1:].max() < 0:
            return ()
        return (self.words(),)

    def _number(self, name: str) -> int:
        return int(self.state[name]) if name in self.state else 0

    def _set(self, **numbers: int) -> None:
        self.state |= {name: torch.tensor([number]) for name, number in numbers.items()}

    def _simple(self, name: str, draw: np.random.Generator) -> dict[str, Tensor]:
        """Edges of a graph to compare the pruned one with, bool [1, unit, unit] by kind."""
        graph = {}
        for kind, existing in self.existing.items():
            edges = existing[None] & (name == UNPRUNED or kind == "decision")
            if name == RANDOM:
                number = int(self.left()[kind].sum())
                shuffled_edges = draw.permutation(existing.flatten().nonzero().squeeze(1).numpy())
                edges = torch.zeros_like(existing)[None]
                edges.view(-1)[shuffled_edges[:number]] = True
            graph[kind] = edges
        return graph

    def _simple_wirings(self, name: str, draw: np.random.Generator) -> Wirings:
        """One wiring of such a graph."""
        edges = self.edges.between_agents(self._simple(name, draw))
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
