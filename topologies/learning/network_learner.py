"""Learners that are networks: one draws each question's graph, and its weights follow the policy gradient.

They have the members of `Learner` (learner.py), work with the same simulators, and take as many steps. Only spatial
edges are learned, anew for every question, and an agent's own memory joins its rounds. Agents hear all their senders
alike. No edge is ever cut: a question's graph holds the edges that are likelier than not.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from actors.messages import Modality, derive_seed
from topologies.graphs import acyclic, as_wirings, joined
from topologies.learning.checked import checked_scores
from topologies.learning.convolution import chain_of
from topologies.learning.sampling import sample_wirings
from topologies.learning.spec import StepReport
from topologies.learning.staged_learner import StagedLearner
from topologies.learning.stages import LogitSharing
from topologies.wiring import Bools, Edges, Floats, Wirings, check_shape

SEEN = 16
"""Number of different questions, the last ones, over whose graphs the common graph is the mean."""
MOMENTS = ("exp_avg", "exp_avg_sq")
"""Adam's moments in PyTorch's names."""


class NetworkLearner(StagedLearner):
    """A network over agents' profiles and questions' features, trained by REINFORCE and Adam.

    network: makes the network from profiles [agents, d'], the number of features d and an anchor graph [sender,
        receiver]. Called with features [k, d] and the generator of dropout (None after training), it returns logits of
        edges [k, sender, receiver].
    """

    network: Callable[[Tensor, int, Tensor], nn.Module]

    def __init__(self, modalities: Iterable[Modality | str], **options: object) -> None:
        super().__init__(modalities, **options)
        spec = self.spec
        self._mask = LogitSharing.of(spec).edges["spatial"]
        anchor = chain_of(self.agents) if spec.candidates is None else self._mask.float()
        profiles = np.eye(self.agents) if spec.profiles is None else spec.profiles

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.seed, "network", spec.variant.name) % 2**63)
            self.net = type(self).network(torch.from_numpy(profiles).float(), spec.features, anchor)

        self._trained = [weight for weight in self.net.parameters() if weight.requires_grad]
        self._adam = torch.optim.Adam(self._trained, lr=spec.settings.learning_rate)
        # State that grows while learning, beyond weights: the last questions' features, and how many were seen.
        self.memory = {"features": torch.zeros(SEEN, spec.features), "seen": torch.tensor(0)}

    def sample(
        self, k: int, draw: int = 0, ahead: int = 0, questions: int = 1, features: Floats | None = None
    ) -> Wirings:
        """Draws `k` wirings for so many questions with features [questions, d], as `Learner.sample` does."""
        self._prepare_sampling(k, questions, ahead)
        rows = self._features(features, questions).repeat_interleave(k // questions, 0)
        dropout = None if draw or self.finished else self.generator("dropout")
        with torch.no_grad():
            p = self.net(rows, dropout).sigmoid()

        wirings = sample_wirings(
            k,
            self.rounds,
            mask={"spatial": self._mask, "temporal": torch.zeros_like(self._mask)},
            chances={"spatial": p[:, None], "temporal": torch.zeros(1, 1, 1)},
            readers=torch.ones(self.agents, 1, dtype=torch.bool),
            generator=self.generator("wirings", draw),
        )

        # Chances of questions differ: no learner of one graph could use them.
        wirings = replace(wirings, chances={}, features=None if features is None else rows.double().numpy())
        return self.thinned(wirings, p.double().numpy())

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
        scores = checked_scores(wirings, turn_scores, utilities, groups, self.rounds, self.agents)
        utility = torch.from_numpy(scores.utilities).float()
        features = self._features(wirings.features, len(utility))
        self._remember(features)

        logits = self.net(features, self.generator("dropout"))[:, None]
        allowed_edges = torch.from_numpy(wirings.allowed.spatial)
        drawn_edges = torch.from_numpy(wirings.spatial)
        # log p of a drawn edge and log(1 - p) of another, over all that could be drawn.
        log_p = ((logits * drawn_edges - softplus(logits)) * allowed_edges).sum((1, 2, 3))
        gradient_norm = self.descend(-(log_p * utility).mean())

        self.learned(features, wirings, utility)
        self.step += 1
        if self.finished:
            self.ended()

        mean_utility = float(utility.mean())
        return StepReport(
            stage=self.stage,
            step=self.step,
            utility=mean_utility,
            objective=mean_utility,
            gradient_norm=gradient_norm,
            edges=self.edges_left(),
        )

    def next_stage(self) -> None:
        """Goes on to stage 2, on other questions, or finishes after the last stage."""
        if self.stage < self.stages:
            self.stage += 1
            self.step = 0
        elif not self.finished:
            self._ended = True
            self.ended()

    def edges_left(self) -> dict[str, int]:
        """Number of edges of the common graph, before cycles are opened."""
        return {"agents>agents spatial": int((self._common() >= 0.5).sum())}

    def probabilities(self) -> Edges[Floats]:
        """Mean of p over the last questions seen, float [sender, receiver]; no temporal edge exists."""
        common = self._common()
        return Edges(common, np.zeros_like(common))

    def chances(self) -> Edges[Floats]:
        """Ones, float [sender, receiver]: all senders weigh alike."""
        return self.reading()

    def reading(self, features: Floats | None = None) -> Edges[Floats]:
        """Ones, as `chances`, or with features [q, d] of questions [q, rounds, sender, receiver]."""
        shape = () if features is None else (len(features), self.rounds)
        ones = np.ones((*shape, self.agents, self.agents))
        return Edges(ones, ones.copy())

    def decision_probabilities(self) -> Floats:
        """Ones, float [agents]: the decision agent reads every agent that takes part."""
        return np.ones(self.agents)

    def edge_scores(self, features: Floats | None = None) -> Edges[Floats]:
        """Ranks edges by the mean of p over the last questions seen, whatever `features`, float [sender, receiver].
        -inf for no edge."""
        scores = np.where(self._mask.numpy(), self._common(), -np.inf)
        return Edges(scores, np.full_like(scores, -np.inf))

    def inference(self) -> Edges[Bools]:
        """Edges of the common graph, bool [sender, receiver]: likelier than not, unless they close a cycle."""
        return likely_graph(self._common())

    def inference_wirings(self, features: Floats | None = None) -> Wirings:
        """The common graph, or one wiring for each question with features [q, d]."""
        if features is None:
            return as_wirings(self.inference(), self.rounds)

        # Many questions have the same features, such as the kinds of a simulated one.
        different, number = np.unique(features, axis=0, return_inverse=True)
        rows = self._features(different, len(different))
        wirings = []
        for p, speaks in zip(self._p(rows), self.speaking(rows), strict=True):
            graph = likely_graph(p * np.outer(speaks, speaks))
            speakers = np.tile(speaks, (self.rounds, 1))
            wirings.append(as_wirings(graph, self.rounds, decision=speaks, speaks=speakers))
        return joined([wirings[i] for i in number])

    def thinned(self, wirings: Wirings, p: Floats) -> Wirings:
        """Wirings to discuss along, of those drawn with p [k, sender, receiver]; here the same."""
        return wirings

    def speaking(self, features: Tensor) -> Bools:
        """Agents that take part after learning, bool [q, agents]; here all."""
        return np.ones((len(features), self.agents), dtype=bool)

    def learned(self, features: Tensor, wirings: Wirings, utility: Tensor) -> None:
        """Takes what a step's discussions show besides the gradient; here nothing."""

    def ended(self) -> None:
        """Does what remains when the last stage is over; here nothing."""

    def descend(self, loss: Tensor) -> float:
        """Takes one step of Adam along a loss; returns the norm of its gradient."""
        gradients = torch.autograd.grad(loss, self._trained, materialize_grads=True)
        for weight, gradient in zip(self._trained, gradients, strict=True):
            weight.grad = gradient
        self._adam.step()
        return float(torch.stack([gradient.norm() for gradient in gradients]).norm())

    def _tensors(self) -> dict[str, Tensor]:
        # Weights alone would fit any team with such profiles.
        tensors = {"visual": torch.tensor(self.spec.visual)}
        tensors |= {f"memory.{name}": value for name, value in self.memory.items()}
        tensors |= {f"network.{name}": value for name, value in self.net.state_dict().items()}
        for number, weight in enumerate(self._trained):
            adam = self._adam.state.get(weight, {})
            tensors[f"adam.{number}.step"] = adam.get("step", torch.zeros(()))
            for moment in MOMENTS:
                tensors[f"adam.{number}.{moment}"] = adam.get(moment, torch.zeros_like(weight))
        return tensors

    def _restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.memory = {name: tensors[f"memory.{name}"] for name in self.memory}
        self.net.load_state_dict({name: tensors[f"network.{name}"] for name in self.net.state_dict()})
        for number, weight in enumerate(self._trained):
            self._adam.state[weight] = {name: tensors[f"adam.{number}.{name}"] for name in ("step", *MOMENTS)}

    def _features(self, features: Floats | None, questions: int) -> Tensor:
        """Features of each question, float [questions, d]; zeros where none are given."""
        expected = (questions, self.spec.features)
        if features is None:
            return torch.zeros(expected)
        check_shape("features", features, expected)
        return torch.from_numpy(np.ascontiguousarray(features)).float()

    def _remember(self, features: Tensor) -> None:
        """Keeps the last `SEEN` different questions, over which the common graph is a mean."""
        remembered = self.memory["features"]
        for row in features:
            count = int(self.memory["seen"])
            if not (remembered[: min(count, SEEN)] == row).all(1).any():
                remembered[count % SEEN] = row
                self.memory["seen"] += 1

    def _p(self, features: Tensor) -> Floats:
        """Probability of each edge for each question, without dropout, float [k, sender, receiver]."""
        with torch.no_grad():
            p: Floats = (self.net(features).sigmoid() * self._mask).double().numpy()
        return p

    def _common(self) -> Floats:
        """Mean of p over the last questions seen [sender, receiver]. Before any, p for features of zeros."""
        count = min(int(self.memory["seen"]), SEEN)
        common: Floats = self._p(self.memory["features"][: max(1, count)]).mean(0)
        return common


def likely_graph(p: Floats) -> Edges[Bools]:
    """Adds spatial edges in descending p [sender, receiver] down to one half, unless they close a cycle."""
    spatial = acyclic(p >= 0.5, p)
    return Edges(spatial, np.zeros_like(spatial))
