"""Discussions along a learner's graph: sampled wirings while it learns, and afterwards the pruned one.

Where graphs depend on questions, a question's features are its embedding and the kinds of its evidence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from actors.messages import Kind, Question, Trace, derive_seed
from topologies.learning.course import TrainingStep
from topologies.learning.learner_settings import Inference
from topologies.learning.spec import LearnerSpec
from topologies.topology import Ask, Wired
from topologies.wiring import Edges, Floats, Wiring, Wirings

if TYPE_CHECKING:
    from topologies.learning.learner import Learner

Features = Callable[[Question], Awaitable[Floats]]
TRAINING = "train."
"""Prefix of a method's name in its training discussions."""


def make_learner(spec: LearnerSpec) -> Learner:
    """Makes a learner in the calling process, which imports PyTorch only now. Raises UserError on bad settings.

    PyTorch gets one thread. A learner's tensors are small, so that threads mostly wait for each other, and sums over
    several threads have other last digits.
    """
    import torch

    torch.set_num_threads(1)
    implementation = "topologies.learning.learner:Learner"
    if spec.variant.estimator.is_network:
        implementation = spec.variant.estimator.implementation
    # Networks have the same members.
    return cast("Learner", resolve_name(implementation)(**vars(spec)))


def features_of(question: Question, embedding: npt.ArrayLike) -> Floats:
    """Joins the direction of an embedding (of several [m, d], their mean) and a 1 per kind of evidence, [d + 3]."""
    mean = np.atleast_2d(np.asarray(embedding, dtype=np.float64)).mean(0)
    direction = mean / max(float(np.linalg.norm(mean)), 1e-12)
    kinds = {source.kind for source in question.evidence}
    return np.concatenate([direction, [float(kind in kinds) for kind in Kind]])


def split(wirings: Wirings, probabilities: Edges[Floats] | None = None) -> list[Wiring]:
    """Splits a batch into wirings, one for each discussion, with the probabilities of their reading weights."""
    return [
        Wiring.of_matrices(
            wirings.spatial[k],
            wirings.temporal[k],
            wirings.decision[k],
            probabilities=probabilities,
            allowed=Edges(wirings.allowed.spatial[k], wirings.allowed.temporal[k]),
            speaks=None if wirings.speaks is None else wirings.speaks[k],
        )
        for k in range(len(wirings.spatial))
    ]


class LearnedTopology:
    """Topology of a learned method. Call `freeze` once learning is over, then `answer`.

    learner: a `Learner` with methods as coroutines: in the topology actor, which alone owns masks and logits.
    features: features of a question, where the graph depends on them.
    """

    def __init__(
        self, method: str, agents: Sequence[str], learner: Any, inference: Inference, features: Features | None = None
    ) -> None:
        self.method = method
        self.agents = tuple(agents)
        self.by_question = features is not None
        self._learner = learner
        self._inference = inference
        self._features = features
        self._common: Wiring | None = None

    def along(self, step: TrainingStep) -> list[Wired]:
        """Makes a topology along each wiring of a training step."""
        # Agents keep their memories by a discussion's name: several learners need different ones.
        name = f"{TRAINING}{self.method}"
        return [Wired(name, self.agents, wiring, every_turn=True) for wiring in split(step.wirings, step.chances)]

    async def freeze(self) -> None:
        """Fetches the common learned wiring, the deterministic one of section 8."""
        self._common = await self._weighted(await self._learner.inference_wirings(), None)

    @property
    def common(self) -> Wiring:
        """Frozen wiring of a question without features. Raises RuntimeError before `freeze`."""
        if self._common is None:
            raise RuntimeError(f"{self.method} has no wiring to answer with yet: call freeze() after learning")
        return self._common

    async def wiring(self, *questions: Question) -> Wiring:
        """Learned wiring for a question, or for the mean features of several. Raises as `common`."""
        features = await self.features(questions)
        if features is None:
            return self.common
        mean = features.mean(0, keepdims=True)
        return await self._weighted(await self._learner.inference_wirings(mean), mean)

    async def features(self, questions: Sequence[Question]) -> Floats | None:
        """Features of questions [questions, d]; None where the graph does not depend on them."""
        if self._features is None:
            return None
        return np.stack([await self._features(question) for question in questions])

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        if self._inference == "sampled":
            draw = derive_seed(seed, "inference", question.id, sample) % 2**31
            features = await self.features([question])
            wiring = await self._weighted(await self._learner.sample(1, draw=draw, features=features), features)
        else:
            wiring = await self.wiring(question)
        return await Wired(self.method, self.agents, wiring).answer(question, ask, seed, sample)

    async def _weighted(self, wirings: Wirings, features: Floats | None) -> Wiring:
        """The only one of some wirings, with its reading weights; features: of its question [1, d]."""
        probabilities = await self._learner.reading(features)
        if features is not None:
            probabilities = Edges(probabilities.spatial[0], probabilities.temporal[0])
        [wiring] = split(wirings, probabilities)
        return wiring
