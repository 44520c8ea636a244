"""Confirmation of a cut: the pruned graph against the simplest graphs, on held-back questions.

All graphs answer the same questions. At a look the confirmation ends when bets (betting.py) show that another graph is
better than the pruned one, or that the pruned one is better than all others. At the end another graph wins if its mean
is higher by some standard errors.
"""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import torch
from torch import Tensor

from actors.messages import derive_seed
from topologies.betting import capitals
from topologies.graphs import as_wirings, joined
from topologies.learning.edge_state import EdgeState
from topologies.learning.spec import CONFIRMED, CONFIRMING, GRAPHS, PRUNED, RANDOM, UNPRUNED, LearnerSpec
from topologies.wiring import Bools, Floats, Ints, Wirings

LOOKS = 4  # at most
LEADS = np.array([0.0, 1.0, 0.25, 1.0])
"""Lead that each graph needs over a cut one, in standard errors of the difference of means.

The empty graph needs less than others, which bring back edges that were found to harm."""
CLEAR = 2.0
"""Lead over a graph from which nothing was cut. Where nothing is known, a smaller one would be taken by chance."""


class Confirmation:
    """Compares a learner's pruned graph with simple graphs and leaves the winner, in its last steps.

    every: all edges that are learned, bool [unit, unit] by kind. pruned: the pruned graph's wirings, by features of
    questions or without; left: its edges, bool [rounds or 1, unit, unit] by kind.
    state: `scores`: mean utility [steps, graphs], NaN where a graph was not tried or its discussions failed; [1] each:
    `phase`, `winner` (its place), `steps` to take, those `done`, and the number of `failed` discussions.
    """

    prefix = "confirm."

    def __init__(
        self,
        spec: LearnerSpec,
        edges: EdgeState,
        every: Mapping[str, Tensor],
        pruned: Callable[[Floats | None], Wirings],
        left: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        self.spec, self.edges, self.every, self.pruned, self.left = spec, edges, every, pruned, left
        self.state: dict[str, Tensor] = {}
        if spec.confirming:
            scores = torch.full((spec.pruning.steps, len(GRAPHS)), torch.nan, dtype=torch.float64)
            self.state = {name: torch.zeros(1).long() for name in ("phase", "winner", "steps", "done", "failed")}
            self.state["scores"] = scores

    @property
    def phase(self) -> int:
        return self._now("phase")

    @property
    def winner(self) -> str:
        return GRAPHS[self._now("winner")]

    @property
    def undone(self) -> bool:
        """True if another graph than the pruned one was left."""
        return self.winner != PRUNED

    @property
    def scores(self) -> Floats:
        """Rows so far [steps done, graphs]."""
        scores: Floats = self.state["scores"].numpy()
        return scores[: self._now("done")]

    @property
    def lookahead(self) -> int:
        """Number of steps beyond the next one until the next look."""
        steps, done = self._now("steps"), self._now("done")
        each = -(-steps // LOOKS)
        return min(each - done % each, steps - done) - 1

    def begin(self, steps: int) -> None:
        """Begins to compare, on so many steps' questions."""
        self._set(phase=CONFIRMING, steps=steps)

    def sample(self, k: int, questions: int, step: int, features: Floats | None) -> Wirings:
        """Draws wirings of the compared graphs: the pruned one by the questions' features, each random one anew."""
        draw, batch = np.random.default_rng(derive_seed(self.spec.seed, "compared", step)), []
        for question, place in product(range(questions), places(step, k // questions)):
            if GRAPHS[place] == PRUNED:
                batch.append(self.pruned(None if features is None else features[[question]]))
            else:
                edges = self._simple(GRAPHS[place], draw)
                left = self.edges.between_agents(edges)
                read = left["decision"].flatten().numpy() if self.every["decision"].any() else None
                batch.append(as_wirings(self.edges.acyclic(left), self.spec.rounds, decision=read))
        return joined(batch)

    def learn(self, step: int, questions: int, utility: Floats, failed: Bools) -> None:
        """Adds a step's utilities [k], equally many of each question. Ends the confirmation after the last look."""
        look, done = not self.lookahead, self._now("done")
        row = self.state["scores"][done]
        place = np.tile(places(step, len(utility) // questions), questions)
        for graph in np.unique(place[~failed]):
            row[graph] = float(utility[~failed & (place == graph)].mean())
        self._set(done=done + 1, failed=self._now("failed") + int(failed.sum()))
        if done + 1 == self._now("steps") or (look and decided(self.scores, self.spec.settings.error_rate)):
            self.decide()

    def decide(self) -> None:
        """Ends the confirmation: the winner's edges are left."""
        mean, error = leads(self.scores)
        after = self.left()
        cut = any(bool((every & ~after[kind]).any()) for kind, every in self.every.items())
        winner = int(np.where(mean > (LEADS if cut else CLEAR) * error, mean, 0).argmax())
        self._set(phase=CONFIRMED, winner=winner)
        if winner:
            draw = np.random.default_rng(derive_seed(self.spec.seed, "chosen graph"))
            for kind, left in self._simple(GRAPHS[winner], draw).items():
                self.edges.replace(kind, left)

    def words(self) -> str:
        """Describes what came out; empty before that."""
        if self.phase != CONFIRMED:
            return ""
        done = f"cut undone, {self.winner} graph left" if self.undone else "pruned graph kept"
        mean, error = leads(self.scores)
        others = (f"{name} {mean[i]:+.3f} (error {error[i]:.3f})" for i, name in enumerate(GRAPHS) if i)
        failed = self._now("failed")
        after = f"after {len(self.scores)} steps" + f", {failed} failed discussions not counted" * (failed > 0)
        return f"{done} {after}; utility minus that of the pruned graph: {', '.join(others)}"

    def doubts(self) -> tuple[str, ...]:
        """Returns the outcome where the pruned graph has not the highest mean, or no mean."""
        return (self.words(),) if self.phase == CONFIRMED and not leads(self.scores)[0][1:].max() < 0 else ()

    def _now(self, name: str) -> int:
        return int(self.state[name]) if self.state else 0

    def _set(self, **numbers: int) -> None:
        self.state |= {name: torch.tensor([number]) for name, number in numbers.items()}

    def _simple(self, name: str, draw: np.random.Generator) -> dict[str, Tensor]:
        """Edges of a graph to compare the pruned one with, bool [1, unit, unit] by kind."""
        edges = {}
        for kind, each in self.every.items():
            every = each[None]
            edges[kind] = every & (name == UNPRUNED or kind == "decision")
            if name == RANDOM:
                drawn = draw.permutation(every.flatten().nonzero().squeeze(1).numpy())
                edges[kind] = torch.zeros_like(every)
                edges[kind].view(-1)[drawn[: int(self.left()[kind].sum())]] = True
        return edges


def places(step: int, samples: int) -> Ints:
    """Graphs of a question's samples [samples], in turns that differ between steps."""
    return (np.arange(samples) + step) % len(GRAPHS)


def leads(scores: Floats) -> tuple[Floats, Floats]:
    """Mean utility of each graph minus the first graph's, and its standard error [graphs]. Questions that one of the
    two lacks are left out. One difference of 1 is added to the variance, so that a few equal ones are no certainty."""
    apart = scores - scores[:, :1]
    seen = ~np.isnan(apart)
    number = seen.sum(0).clip(min=1)
    mean = np.where(seen, apart, 0).sum(0) / number
    return mean, np.sqrt(((np.where(seen, apart - mean, 0) ** 2).sum(0) + 1) / (number + 1) / number)


def decided(scores: Floats, error_rate: float) -> bool:
    """Tests whether a graph is better than the first, or the first better than all others. The tests hold at any number
    of looks, and any of them errs in `error_rate` of all runs at most. scores: from 0 to 1."""
    apart = [(other - scores[:, 0]).clip(-1, 1) for other in scores.T[1:]]
    bets = [capitals(values[~np.isnan(values)], np.zeros(1)) for values in apart]
    above, below = ([float(capital.max(initial=1.0)) for capital in side] for side in zip(*bets, strict=True))
    bound = 2 * len(apart) / error_rate
    return max(above) >= bound or min(below) >= bound
