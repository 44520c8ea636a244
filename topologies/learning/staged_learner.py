"""Steps, stages and saved state of every learner."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from actors.messages import Modality, derive_seed
from topologies.learning.checked import checked_clock
from topologies.learning.spec import LearnerSpec, LearnerStatus, Surrogate
from topologies.wiring import Bools, Edges


class StagedLearner(ABC):
    """Learner of one stage or two, each with `pruning.steps` steps.

    stage: from 1; step: steps of the stage that it has learned from.
    """

    def __init__(self, modalities: Iterable[Modality | str], **options: Any) -> None:
        """Makes a learner that has learned nothing yet. Raises UserError on bad settings.

        modalities: "text" or "visual" for every agent, in the agents' order.
        options: other fields of `LearnerSpec`: rounds, seed, variant, settings, pruning, candidates, roles.
        """
        self.spec = LearnerSpec(tuple(modalities), **options)
        self.spec.check()
        self.rounds = self.spec.rounds
        self.seed = self.spec.seed
        self.agents = len(self.spec.modalities)
        self.stages = self.spec.stages
        self.pruning = self.spec.pruning
        self.stage = 1
        self.step = 0
        self._ended = False

    @property
    def finished(self) -> bool:
        """True if all stages are over. A finished learner may go on: the edges left are learned and pruned further."""
        return self._ended or (self.stage == self.stages and self.step >= self.pruning.steps)

    @property
    def confirming(self) -> bool:
        """True if the next steps compare the pruned graph with simple ones, on questions that were kept for it."""
        return False

    def status(self) -> LearnerStatus:
        """Returns its place in the training, which `Course` reads between steps."""
        return LearnerStatus(
            stage=self.stage,
            step=self.step,
            steps=self.pruning.steps,
            finished=self.finished,
            confirming=self.confirming,
            may_stop=self.may_stop(),
            lookahead=self.lookahead(),
        )

    def lookahead(self) -> int:
        """Number of steps beyond the next one that can be sampled now. Their discussions can start."""
        return 0

    def may_stop(self) -> bool:
        """True if the rest of the stage would hardly change its cut. Then `next_stage` may be called."""
        return False

    @abstractmethod
    def next_stage(self) -> None:
        """Ends the stage."""

    def doubts(self) -> tuple[str, ...]:
        """Lists reasons to doubt that the graph is better than a simpler one, a line each."""
        return ()

    def surrogate(self) -> Surrogate | None:
        """Returns the check whether effects on own answers carry over to the final one. None with gradients."""
        return None

    def certain_harm(self) -> Edges[Bools] | None:
        """Edges that were cut as certain to harm, bool [sender, receiver], with `effects`; None with gradients."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """All that changes while learning, as arrays that safetensors can store and `load` restores."""
        clock = {"stage": self.stage, "step": self.step, "finished": int(self.finished)}
        tensors = {name: torch.tensor(value) for name, value in clock.items()} | self._tensors()
        return {name: tensor.detach().clone().numpy() for name, tensor in tensors.items()}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        """Continues from `state()` of a learner with the same agents, rounds and settings.

        Raises ValueError when names, shapes or types differ; the learner is then as it was.
        """
        self.stage, self.step = checked_clock(state, self.state(), self.stages)
        self._ended = bool(state["finished"])
        self._restore({name: torch.tensor(value) for name, value in state.items()})

    @abstractmethod
    def _tensors(self) -> dict[str, Tensor]:
        """All that changes while learning, besides stage and step."""

    @abstractmethod
    def _restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores what `_tensors` has returned."""

    def generator(self, purpose: str, draw: int = 0, ahead: int = 0) -> Generator:
        """Makes the generator of one purpose in the next step, or in a step so many after it."""
        return Generator().manual_seed(derive_seed(self.seed, purpose, self.stage, self.step + ahead, draw))

    def _prepare_sampling(self, k: int, questions: int, ahead: int) -> None:
        """Goes on to the next stage if this one is over. Raises ValueError for numbers that `sample` cannot draw."""
        if k < 1 or k % questions:
            raise ValueError(f"{k} wirings cannot be drawn for {questions} questions: expected one or more for each")
        if self.step >= self.pruning.steps and self.stage < self.stages:
            self.next_stage()
        if not 0 <= ahead <= self.lookahead():
            raise ValueError(f"ahead must be from 0 to {self.lookahead()} here, got {ahead}")
