"""Effects of edges, and how much more or less a sender helps on a question like this one.

All edges of sender j have d_j(x) = g_j' (x - m_j) more effect on a question with features x, g_j ~ N(0, t_j^2 I). Long
features are projected at random to a few dimensions (Johnson and Lindenstrauss 1984). docs/learning.md has more.

With y the sum over a sender's receivers of (e - p) c (effects.py) and n of (e - p)^2: m_j is the mean of x weighted by
n, C_j the sum of n (x - m_j)(x - m_j)', h_j that of (x - m_j) y, and s_j^2 C_j its variance if no effect depends on x.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from actors.messages import derive_seed
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate, by_kind
from topologies.learning.randomised import CREDITS, Effects
from topologies.learning.sampling import Draws
from topologies.learning.spec import LearnerSpec
from topologies.learning.stages import Stage
from topologies.wiring import Floats

WIDTH = 32
"""Largest number of features that deviations depend on."""
BEFORE = "before."
"""Prefix of the sums as they were before the stage."""


class Deviations(NamedTuple):
    """m_j, h_j [senders, w], C_j [senders, w, w] and s_j^2 [senders]."""

    mean: Tensor
    total: Tensor
    scatter: Tensor
    noise: Tensor

    def chances(self) -> Tensor:
        """Chance of each |h_j|^2, and of their sum, [senders + 1], if no effect depended on x (Satterthwaite 1946)."""
        trace, size = self._trace_and_size()
        degrees = (trace**2 / size).clamp(min=1e-6)
        squared = torch.where(self.noise > 0, (self.total**2).sum(1) / self.noise * trace / size, 0)
        all_degrees = torch.cat([degrees, degrees.sum()[None]])
        all_squared = torch.cat([squared, squared.sum()[None]])
        return torch.as_tensor(torch.special.gammaincc(all_degrees / 2, all_squared / 2))

    def at(self, x: Tensor) -> Estimate:
        """d_j(x) of a question [w]: posterior mean and variance [senders], with t_j^2 by moments (empirical Bayes)."""
        trace, size = self._trace_and_size()
        surplus = (self.total**2).sum(1) - self.noise * trace
        variance = (surplus.clamp(min=0) / size)[:, None]

        lengths, axes = torch.linalg.eigh(self.scatter)
        difference = ((x - self.mean)[:, None] @ axes)[:, 0]
        total = (self.total[:, None] @ axes)[:, 0]
        trust = variance / (variance * lengths.clamp(min=0) + self.noise[:, None]).clamp(min=1e-12)
        return Estimate((difference * trust * total).sum(1), (difference**2 * trust).sum(1) * self.noise)

    def _trace_and_size(self) -> tuple[Tensor, Tensor]:
        """Trace of C_j, and of its square, [senders]."""
        trace = self.scatter.diagonal(dim1=1, dim2=2).sum(1)
        return trace, (self.scatter**2).sum((1, 2)).clamp(min=1e-12)


class EffectsByQuestion(Effects):
    """Logits of each question: (effect + deviation) / standard deviation of both.

    While no deviation shows, at `error_rate`, it is `effects_common`. Where one does, no edge is cut for all questions,
    and after the first stage each draws from the edges of its graph.
    state: also sums of n (1, x)(1, x)', (1, x) y and (e - p)^2 c^2, and all sums as they were before the stage.
    """

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        super().__init__(spec, edges)
        self.projection = torch.eye(spec.features, dtype=torch.float64)
        if spec.features > WIDTH:
            generator = Generator().manual_seed(derive_seed(spec.seed, "question features"))
            normal = torch.randn(spec.features, WIDTH, generator=generator, dtype=torch.float64)
            self.projection = normal / WIDTH**0.5

        agents = len(self.visual)
        rows = 1 + self.projection.shape[1]
        shapes = {
            "squares": (agents, rows, rows),
            "products": (len(CREDITS), agents, rows),
            "noise": (len(CREDITS), agents),
        }

        for name, shape in shapes.items():
            self.state[f"question.{name}"] = torch.zeros(shape, dtype=torch.float64)
        self._remember()

    def _remember(self) -> None:
        """Keeps the sums as they are before a stage."""
        names = [name for name in self.state if not name.startswith(BEFORE)]
        self.state |= {BEFORE + name: self.state[name].clone() for name in names}

    def _add(self, kind: str, draws: Draws, surprises: Tensor, credit: Tensor, features: Floats | None) -> None:
        super()._add(kind, draws, surprises, credit, features)
        if features is None or not self.spec.features:
            return

        x = torch.tensor(features) @ self.projection
        rows = torch.nn.functional.pad(x, (1, 0), value=1.0)
        squared = surprises**2
        by_credit = credit.movedim(1, -1)
        outer = rows[:, None] * rows[..., None]
        self.state["question.squares"] += torch.einsum("ks,kvw->svw", squared.sum((1, 3)), outer)
        self.state["question.products"] += (surprises @ by_credit).sum(1).permute(2, 1, 0) @ rows
        self.state["question.noise"] += (squared @ by_credit**2).sum((0, 1)).T

    def _deviations(self) -> Deviations:
        credit = CREDITS.index(self.surrogate().credit)
        squares = self.state["question.squares"]
        products = self.state["question.products"][credit]
        number = squares[:, :1, 0].clamp(min=1e-12)
        mean = squares[:, 0, 1:] / number
        return Deviations(
            mean,
            total=products[:, 1:] - mean * products[:, :1],
            scatter=squares[:, 1:, 1:] - number[..., None] * mean[:, :, None] * mean[:, None],
            noise=self.state["question.noise"][credit] / number[:, 0],
        )

    def by_question(self) -> bool:
        *of_senders, of_all = self._deviations().chances().tolist()
        return bool(2 * min(len(of_senders) * min(of_senders), of_all) <= self.settings.error_rate)

    def logits_of(self, features: Floats) -> dict[str, Tensor]:
        """Logits of a question, by kind. They stay below those after the stage before, so that cut edges stay cut."""
        if not self.by_question():
            return self.edges.logits
        logits = self._logits_at(features)
        current_state = self.state
        self.state = {
            name.removeprefix(BEFORE): values for name, values in current_state.items() if name.startswith(BEFORE)
        }
        if self.by_question():
            logits = logits.minimum(self._logits_at(features))
        self.state = current_state
        return {kind: of_kind[None] for kind, of_kind in by_kind(logits).items()}

    def _logits_at(self, features: Floats) -> Tensor:
        """Logits of a question with features [d], [sender, 2 N + 1]."""
        deviation = self._deviations().at(torch.tensor(features) @ self.projection)
        effect = self.posterior()
        mean = effect.mean + deviation.mean[:, None]
        return Estimate(mean, effect.variance + deviation.variance[:, None]).logits

    def begin(self, stage: Stage) -> None:
        super().begin(stage)
        self._remember()

    def evidence(self) -> float:
        return 0.0 if self.by_question() else super().evidence()

    def lookahead(self, steps_left: int) -> int:
        return 0 if self.by_question() else super().lookahead(steps_left)

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        return {} if self.by_question() else super().harmful(stage)
