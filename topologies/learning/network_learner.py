"""Learners that are networks: one draws each question's graph, and its weights follow the policy gradient.

They have the members of `Learner` (learner.py), work with the same simulators, and take as many steps. Only spatial
edges are learned, anew for every question, and an agent's own memory joins its rounds. Agents hear all their senders
alike. No edge is ever cut: a question's graph holds the edges that are likelier than not.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor, nn

from actors.messages import Modality, derive_seed
from topologies.graphs import acyclic, as_wirings, joined
from topologies.learning.checked import checked_clock, checked_scores
from topologies.learning.convolution import chain_of
from topologies.learning.sampling import sample_wirings
from topologies.learning.spec import LearnerSpec, LearnerStatus, StepReport
from topologies.learning.stages import LogitSharing
from topologies.wiring import Bools, Edges, Floats, Wirings, check_shapes

SEEN = 16
"""Number of different questions, the last ones, over whose graphs the common graph is the mean."""


class NetworkLearner:
    """A network over agents' profiles and questions' features, trained by REINFORCE and Adam.

    network: makes the network from profiles [agents, d'], the number of features d and an anchor graph [sender,
        receiver]. Called with features [k, d] and the generator of dropout (None after training), it returns logits of
        edges [k, sender, receiver].
    """

    network: Callable[[Tensor, int, Tensor], nn.Module]
    confirming = False

    def __init__(self, modalities: Iterable[Modality | str], **options: Any) -> None:
        """Makes a learner that has learned nothing yet; arguments and errors as for `Learner`."""
        self.spec = spec = LearnerSpec(tuple(modalities), **options)
        spec.check()
        self.rounds, self.seed, self.agents, self.stages = spec.rounds, spec.seed, len(spec.modalities), spec.stages
        self.pruning = spec.pruning
        self.stage, self.step, self._over = 1, 0, False
        self._mask = LogitSharing.of(spec).edges["spatial"]
        anchor = chain_of(self.agents) if spec.candidates is None else self._mask.float()
        profiles = np.eye(self.agents) if spec.profiles is None else spec.profiles
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.seed, "network", spec.variant.name) % 2**63)
            self.net = type(self).network(torch.from_numpy(profiles).float(), spec.features, anchor)
        self._trained = [weight for weight in self.net.parameters() if weight.requires_grad]
        self._adam = torch.optim.Adam(self._trained, lr=spec.settings.learning_rate)
        # What grows while learning, beyond weights: the last questions' features, and how many were seen.
        self.memory = {"features": torch.zeros(SEEN, spec.features), "seen": torch.tensor(0)}

    @property
    def finished(self) -> bool:
        """True if all stages are over."""
        return self._over or (self.stage == self.stages and self.step >= self.pruning.steps)

    def sample(
        self, k: int, draw: int = 0, ahead: int = 0, questions: int = 1, features: Floats | None = None
    ) -> Wirings:
        """Draws `k` wirings for so many questions with features [questions, d], as `Learner.sample` does."""
        if k < 1 or k % questions or ahead:
            raise ValueError(f"{k} wirings for {questions} questions, ahead={ahead}: expected some for each, ahead=0")
        if self.step >= self.pruning.steps and self.stage < self.stages:
            self.next_stage()
        each = self._features(features, questions).repeat_interleave(k // questions, 0)
        with torch.no_grad():
            p = self.net(each, None if draw or self.finished else self.generator("dropout")).sigmoid()
            chances = {"spatial": p[:, None], "temporal": torch.zeros(1, 1, 1)}
            mask = {"spatial": self._mask, "temporal": torch.zeros_like(self._mask)}
            everyone, generator = torch.ones(self.agents, 1, dtype=torch.bool), self.generator("wirings", draw)
            drawn = sample_wirings(k, self.rounds, mask, chances, everyone, generator)
            # Chances of questions differ: no learner of one graph could use them.
            drawn = replace(drawn, chances={}, features=None if features is None else each.double().numpy())
        return self.thinned(drawn, p.double().numpy())

    def lookahead(self) -> int:
        """0: each step is sampled from the weights after the last one."""
        return 0

    def learn(
        self,
        wirings: Wirings,
        turn_scores: npt.ArrayLike,
        utilities: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
    ) -> StepReport:
        """Takes one step along the mean of utility times each wiring's gradient of log P. There is no baseline.

        Arguments and errors as for `Learner.learn`; turn scores and groups have no part.
        """
        k = len(wirings.spatial)
        check_shapes(wirings, self.rounds, self.agents)
        scores = checked_scores(turn_scores, utilities, groups, (k, self.rounds, self.agents))
        utility = torch.from_numpy(scores.utilities).float()
        features = self._features(wirings.features, k)
        # The last SEEN different questions, over which the common graph is a mean.
        for row in features:
            count = int(self.memory["seen"])
            if not (self.memory["features"][: min(count, SEEN)] == row).all(1).any():
                self.memory["features"][count % SEEN] = row
                self.memory["seen"] += 1
        logits = self.net(features, self.generator("dropout"))[:, None]
        allowed, taken = torch.from_numpy(wirings.allowed.spatial), torch.from_numpy(wirings.spatial)
        # log p of a drawn edge and log(1 - p) of another, over all that could be drawn.
        log_p = ((logits * taken - torch.nn.functional.softplus(logits)) * allowed).sum((1, 2, 3))
        objective = (log_p * utility).mean()
        norm = self.descend(-objective)
        self.learned(features, wirings, utility)
        self.step += 1
        if self.finished:
            self.ended()
        return StepReport(
            stage=self.stage,
            step=self.step,
            utility=float(utility.mean()),
            objective=float(utility.mean()),
            gradient_norm=norm,
            edges=self.edges_left(),
        )

    def status(self) -> LearnerStatus:
        """Returns its place in the training. A network confirms no graph, and its forecast is not known."""
        return LearnerStatus.of(self)

    def doubts(self) -> tuple[str, ...]:
        """Empty, as no graph is compared."""
        return ()

    def may_stop(self) -> bool:
        """False: a network's forecast is not known."""
        return False

    def next_stage(self) -> None:
        """Goes on to stage 2, on other questions, or finishes after the last stage."""
        if self.stage < self.stages:
            self.stage, self.step = self.stage + 1, 0
        elif not self.finished:
            self._over = True
            self.ended()

    def edges_left(self) -> dict[str, int]:
        """Number of edges of the common graph, before cycles are opened."""
        return {"agents>agents spatial": int((self._common() >= 0.5).sum())}

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """Mean of p over the last questions seen, float [sender, receiver]; no temporal edge exists."""
        return Edges(self._common(), np.zeros((self.agents, self.agents)))

    def chances(self) -> Edges[Floats]:
        """Ones, float [sender, receiver]: all senders weigh alike."""
        return self.reading()

    def reading(self, features: Floats | None = None) -> Edges[Floats]:
        """Ones, as `chances`, or with features [q, d] of questions [q, rounds, sender, receiver]."""
        shape = () if features is None else (len(features), self.rounds)
        return Edges(*(np.ones((*shape, self.agents, self.agents)) for _ in Edges._fields))

    def decision_probabilities(self) -> Floats:
        """Ones, float [agents]: the decision agent reads every agent that takes part."""
        return np.ones(self.agents)

    def surrogate(self) -> None:
        """None: no answers stand for others."""

    def certain_harm(self) -> None:
        """None: no edge is certain to harm."""

    def edge_scores(self) -> Edges[Floats]:
        """Ranks edges by the mean of p over the last questions seen, float [sender, receiver]. -inf for no edge."""
        scores = np.where(self._mask.numpy(), self._common(), -np.inf)
        return Edges(scores, np.full_like(scores, -np.inf))

    def inference(self) -> Edges[Bools]:
        """Edges of the common graph, bool [sender, receiver]: likelier than not, unless they close a cycle."""
        return Edges(likely(self._common()), np.zeros((self.agents, self.agents), dtype=bool))

    def inference_wirings(self, features: Floats | None = None) -> Wirings:
        """The common graph, or one wiring for each question with features [q, d]."""
        if features is None:
            return as_wirings(self.inference(), self.rounds)
        # Many questions have the same features, such as the kinds of a simulated one.
        different, number = np.unique(features, axis=0, return_inverse=True)
        each = self._features(different, len(different))
        found = []
        for p, speaks in zip(self._p(each), self.speaking(each), strict=True):
            edges = Edges(likely(p * np.outer(speaks, speaks)), np.zeros_like(p, dtype=bool))
            found.append(as_wirings(edges, self.rounds, 1, speaks, np.tile(speaks, (self.rounds, 1))))
        return joined([found[i] for i in number])

    def state(self) -> dict[str, np.ndarray]:
        """All that changes while learning, as arrays that safetensors can store and `load` restores."""
        clock = {"stage": self.stage, "step": self.step, "finished": int(self.finished)}
        tensors = {name: torch.tensor(value) for name, value in clock.items()}
        # Weights alone would fit any team with such profiles.
        tensors["visual"] = torch.tensor(self.spec.visual)
        tensors |= {f"memory.{name}": value for name, value in self.memory.items()}
        tensors |= {f"network.{name}": value for name, value in self.net.state_dict().items()}
        for number, weight in enumerate(self._trained):
            adam = self._adam.state.get(weight, {})
            tensors[f"adam.{number}.step"] = adam.get("step", torch.zeros(()))
            for moment in ("exp_avg", "exp_avg_sq"):
                tensors[f"adam.{number}.{moment}"] = adam.get(moment, torch.zeros_like(weight))
        return {name: value.detach().clone().numpy() for name, value in tensors.items()}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        """Continues from `state()` of a learner with the same agents, rounds and settings. Errors as for `Learner`."""
        self.stage, self.step = checked_clock(state, self.state(), self.stages)
        self._over = bool(state["finished"])
        tensors = {name: torch.tensor(value) for name, value in state.items()}
        self.memory = {name: tensors[f"memory.{name}"] for name in self.memory}
        self.net.load_state_dict({name: tensors[f"network.{name}"] for name in self.net.state_dict()})
        for number, weight in enumerate(self._trained):
            names = ("step", "exp_avg", "exp_avg_sq")
            self._adam.state[weight] = {name: tensors[f"adam.{number}.{name}"] for name in names}

    def thinned(self, drawn: Wirings, p: Floats) -> Wirings:
        """Wirings to discuss along, of those drawn with p [k, sender, receiver]; here the same."""
        return drawn

    def speaking(self, features: Tensor) -> Bools:
        """Agents that take part after learning, bool [q, agents]; here all."""
        return np.ones((len(features), self.agents), dtype=bool)

    def learned(self, features: Tensor, wirings: Wirings, utility: Tensor) -> None:
        """Takes what a step's discussions show besides the gradient; here nothing."""

    def ended(self) -> None:
        """Does what remains when the last stage is over; here nothing."""

    def descend(self, loss: Tensor) -> float:
        """Takes one step of Adam along a loss; returns the norm of its gradient."""
        slopes = torch.autograd.grad(loss, self._trained, materialize_grads=True)
        for weight, slope in zip(self._trained, slopes, strict=True):
            weight.grad = slope
        self._adam.step()
        return float(torch.stack([slope.norm() for slope in slopes]).norm())

    def generator(self, purpose: str, draw: int = 0) -> Generator:
        """A generator for one purpose in this step."""
        return Generator().manual_seed(derive_seed(self.seed, purpose, self.stage, self.step, draw))

    def _features(self, features: Floats | None, questions: int) -> Tensor:
        """Features of each question, float [questions, d]; zeros where none are given."""
        if features is None:
            return torch.zeros(questions, self.spec.features)
        if features.shape != (questions, self.spec.features):
            expected = (questions, self.spec.features)
            raise ValueError(f"features has shape {features.shape}, expected {expected}")
        return torch.from_numpy(np.ascontiguousarray(features)).float()

    def _p(self, features: Tensor) -> Floats:
        """Probability of each edge for each question, without dropout, float [k, sender, receiver]."""
        with torch.no_grad():
            p: Floats = (self.net(features).sigmoid() * self._mask).double().numpy()
        return p

    def _common(self) -> Floats:
        """Mean of p over the last questions seen [sender, receiver]. Before any, p for features of zeros."""
        common: Floats = self._p(self.memory["features"][: max(1, min(int(self.memory["seen"]), SEEN))]).mean(0)
        return common


def likely(p: Floats) -> Bools:
    """Adds edges in descending p down to one half, unless they close a cycle. Bool [sender, receiver]."""
    return acyclic(p >= 0.5, p)
