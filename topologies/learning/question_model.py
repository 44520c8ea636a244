"""Estimator `effects_by_question`: `effects`, and how much more or less a sender helps on a question like this one.

All edges of sender j have d_j(x) = g_j' (x - m_j) more effect on a question with features x, g_j ~ N(0, t_j^2 I). Long
features are projected at random to a few dimensions (Johnson and Lindenstrauss 1984). docs/learning.md has more.

With y the sum over a sender's receivers of (e - p) c (effects.py) and n of (e - p)^2: m_j is the mean of x weighted by
n, C_j the sum of n (x - m_j)(x - m_j)', h_j that of (x - m_j) y, and s_j^2 C_j its variance if no effect depends on x.
"""

from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from actors.messages import derive_seed
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate
from topologies.learning.objective import Terms
from topologies.learning.randomised import CREDITS, MOST, Effects
from topologies.learning.spec import LearnerSpec
from topologies.learning.stages import Stage
from topologies.wiring import Floats, Wirings

WIDTH, BEFORE = 32, "before."


class Deviations(NamedTuple):
    """m_j, h_j [senders, w], C_j [senders, w, w] and s_j^2 [senders]."""

    mean: Tensor
    total: Tensor
    spread: Tensor
    noise: Tensor

    def chances(self) -> Tensor:
        """Chance of each |h_j|^2, and of their sum, [senders + 1], if no effect depended on x (Satterthwaite 1946)."""
        trace, size = self.spread.diagonal(dim1=1, dim2=2).sum(1), (self.spread**2).sum((1, 2)).clamp(min=1e-12)
        squared = torch.where(self.noise > 0, (self.total**2).sum(1) / self.noise * trace / size, 0)
        parts = ((trace**2 / size).clamp(min=1e-6), squared)
        return torch.as_tensor(torch.special.gammaincc(*(torch.cat([of, of.sum()[None]]) / 2 for of in parts)))

    def at(self, x: Tensor) -> Estimate:
        """d_j(x) of a question [w]: posterior mean and variance [senders], with t_j^2 by moments (empirical Bayes)."""
        surplus = (self.total**2).sum(1) - self.noise * self.spread.diagonal(dim1=1, dim2=2).sum(1)
        scatter = (surplus.clamp(min=0) / (self.spread**2).sum((1, 2)).clamp(min=1e-12))[:, None]
        size, axes = torch.linalg.eigh(self.spread)
        apart, h = ((each[:, None] @ axes)[:, 0] for each in (x - self.mean, self.total))
        trust = scatter / (scatter * size.clamp(min=0) + self.noise[:, None]).clamp(min=1e-12)
        return Estimate((apart * trust * h).sum(1), (apart**2 * trust).sum(1) * self.noise)


class EffectsByQuestion(Effects):
    """Logits of each question: (effect + deviation) / standard deviation of both.

    While no deviation shows, at `error_rate`, it is `effects`. Where one does, no edge is cut for all questions, and
    after the first stage each draws from the edges of its graph.
    state: also sums of n (1, x)(1, x)', (1, x) y and (e - p)^2 c^2, and all sums as they were before the stage.
    """

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        super().__init__(spec, edges)
        drawn = Generator().manual_seed(derive_seed(spec.seed, "question features"))
        wide, agents, of = min(spec.features, WIDTH), len(spec.modalities), len(CREDITS)
        projection = torch.randn(spec.features, wide, generator=drawn, dtype=torch.float64) / WIDTH**0.5
        self.project = projection if spec.features > WIDTH else torch.eye(spec.features, dtype=torch.float64)
        shapes = {"squares": (agents, wide + 1, wide + 1), "products": (of, agents, wide + 1), "noise": (of, agents)}
        self.state |= {f"question.{name}": torch.zeros(shape).double() for name, shape in shapes.items()}
        self.state |= {BEFORE + name: each.clone() for name, each in self.state.items()}

    def learn(self, stage: Stage, wirings: Wirings, *scores: Any) -> tuple[dict[str, Tensor], Terms]:
        x = None if wirings.features is None else torch.tensor(wirings.features) @ self.project
        self.rows = None if x is None else torch.nn.functional.pad(x, (1, 0), value=1.0)
        return super().learn(stage, wirings, *scores)

    def _add(self, kind: str, allowed: Tensor, taken: Tensor, probability: Tensor, credit: Tensor) -> Tensor:
        unforeseen = super()._add(kind, allowed, taken, probability, credit)
        if self.rows is not None:
            squared, each = unforeseen**2, credit.movedim(1, -1)
            self.state["question.squares"] += torch.einsum(
                "ks,kvw->svw", squared.sum((1, 3)), self.rows[:, None] * self.rows[..., None]
            )
            self.state["question.products"] += (unforeseen @ each).sum(1).permute(2, 1, 0) @ self.rows
            self.state["question.noise"] += (squared @ each**2).sum((0, 1)).T
        return unforeseen

    def _deviations(self) -> Deviations:
        credit = CREDITS.index(self.surrogate().credit)
        squares, products, noise = (self.state[f"question.{name}"] for name in ("squares", "products", "noise"))
        number = squares[:, :1, 0].clamp(min=1e-12)
        mean = squares[:, 0, 1:] / number
        spread = squares[:, 1:, 1:] - number[..., None] * mean[:, :, None] * mean[:, None]
        total = products[credit, :, 1:] - mean * products[credit, :, :1]
        return Deviations(mean, total, spread, noise[credit] / number[:, 0])

    def by_question(self) -> bool:
        *each, together = map(float, self._deviations().chances())
        return 2 * min(len(each) * min(each), together) <= self.settings.error_rate

    def logits_of(self, features: Floats) -> dict[str, Tensor]:
        """Logits of a question, by kind. They stay below those after the stage before, so that cut edges stay cut."""
        if not self.by_question():
            return self.edges.logits
        now, found = self.state, self._at(features)
        self.state = {name.removeprefix(BEFORE): each for name, each in now.items() if name.startswith(BEFORE)}
        then = self._at(features) if self.by_question() else found
        self.state = now
        return {kind: theta.minimum(then[kind]) for kind, theta in found.items()}

    def _at(self, features: Floats) -> dict[str, Tensor]:
        apart = self._deviations().at(torch.tensor(features) @ self.project)
        both = {kind: [part + apart[n][:, None] for n, part in enumerate(of)] for kind, of in self.posterior().items()}
        return {kind: (mean / variance.sqrt()).clamp(-MOST, MOST).float() for kind, (mean, variance) in both.items()}

    def begin(self, stage: Stage) -> None:
        super().begin(stage)
        now = {name: each.clone() for name, each in self.state.items() if not name.startswith(BEFORE)}
        self.state |= {BEFORE + name: each for name, each in now.items()}

    def evidence(self) -> float:
        return 0.0 if self.by_question() else super().evidence()

    def lookahead(self, steps_left: int) -> int:
        return 0 if self.by_question() else super().lookahead(steps_left)

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        return {} if self.by_question() else super().harmful(stage)
