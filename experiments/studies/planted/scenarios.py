"""Scenarios of planted worlds: each changes parameters of the opinion model, or one step of it.

To add one, write its class or its fields here and name it in `SCENARIOS` and in `Influence` (study_settings.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from actors.messages import Modality
from experiments.config.study_settings import Influence
from experiments.studies.planted.opinion_model import OpinionModel, OpinionQuestions
from topologies.wiring import Wirings


@dataclass(frozen=True)
class Scenario:
    """Scenario in which messages pull towards their answer (`answers`). `special` are the agents that it is about.

    specials: number of special agents; 0: liars in attacked teams, none in clean ones.
    ranked: whether a right ranking has the edges from special agents below all others, above them, or neither.
    changes: parameters of the opinion model that differ.
    training: shares of the kinds of questions in training, if not those in evaluation.
    lies: when special agents argue for the target: in training and evaluation, in evaluation alone, or never.
    weight: weight of a special agent's message to other agents, where another's is 1.
    conformity: factor of the conformity of agents; the decision agent's stays.
    passes_on_beliefs: whether messages also pass on beliefs, which alone move the decision agent.
    shows_kind: whether features of a question show its kind.
    """

    specials: int = 0
    ranked: Literal["below", "above", "neither"] = "below"
    changes: Mapping[str, Any] = field(default_factory=dict)
    training: tuple[float, float, float] | None = None
    lies: Literal["always", "evaluation", "never"] = "always"
    weight: float = 1.0
    conformity: float = 1.0
    passes_on_beliefs: bool = False
    shows_kind: bool = True

    def special_agents(self, adversary: int | None, agents: int) -> list[int]:
        """Special agents: the adversary (agent 0 if None), and agents that are half a team away from each other."""
        number = self.specials
        if not number and adversary is not None:
            number = 1
        apart = (agents + 1) // 2
        return [((adversary or 0) + place * apart) % agents for place in range(number)]

    def answers(self, questions: OpinionQuestions, training: bool, generator: Generator) -> tuple[Tensor, Tensor]:
        """Makes the answers of special agents and those in their messages, [q] each, as for `OpinionQuestions`."""
        honest = self.lies == "never" or (self.lies == "evaluation" and training)
        answer = torch.full_like(questions.target, -1) if honest else questions.target
        return answer, answer

    def silent(self, modalities: Sequence[Modality], special: Sequence[int]) -> Tensor:
        """Agents without an answer, bool [agents]."""
        return torch.zeros(len(modalities), dtype=torch.bool)

    def pulls(
        self, messages: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel
    ) -> tuple[Tensor, Tensor]:
        """Further pulls on each turn, towards the right answer and towards the target, [k, rounds, agents].

        messages: number from each sender, of the round and of the one before, [k, rounds, sender, receiver].
        """
        nothing = torch.zeros_like(messages[:, :, 0])
        return nothing, nothing

    def swayed(self, messages: Tensor, model: OpinionModel) -> Tensor:
        """Standard deviation of the random pull on each turn, [k, rounds, agents]; `messages` as for `pulls`."""
        # More messages distract more, by the root of their number: that makes useless edges harmful.
        return model.noise + model.distraction * messages.sum(2).sqrt()

    def graded(
        self, scores: Tensor, utilities: Tensor, model: OpinionModel, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Scores of turns [k, rounds, agents] and of final answers [k], as a learner sees them."""
        return scores, utilities

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        """Wirings without the edges that the scenario's author would cut; kind: int [k], of each one's question."""
        return without_agents(wirings, special) if self.ranked == "below" else wirings


class Help(Scenario):
    """The first honest agent of each modality gives no answer, and pulls its receivers to the right one."""

    def silent(self, modalities: Sequence[Modality], special: Sequence[int]) -> Tensor:
        helpers: dict[Modality, int] = {}
        for agent, modality in enumerate(modalities):
            if agent not in special:
                helpers.setdefault(modality, agent)
        silent = super().silent(modalities, special)
        silent[list(helpers.values())] = True
        return silent

    def pulls(
        self, messages: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel
    ) -> tuple[Tensor, Tensor]:
        right = model.help * (messages[:, :, silent].amax(2) > 0)
        return right, torch.zeros_like(right)


class Chance(Scenario):
    """Scores do not depend on messages."""

    def graded(
        self, scores: Tensor, utilities: Tensor, model: OpinionModel, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        random_scores = torch.rand(scores.shape, generator=generator) < model.skill_both
        random_utilities = torch.rand(len(scores), generator=generator) < model.skill_both
        return random_scores.float(), random_utilities.float()


class Leader(Scenario):
    """A leader whom all follow, whatever it hears: right on questions on text alone, or (`herd`) on 55% of all."""

    def answers(self, questions: OpinionQuestions, training: bool, generator: Generator) -> tuple[Tensor, Tensor]:
        if self.ranked == "neither":
            is_right = torch.rand(len(questions.kind), generator=generator) < 0.55
        else:
            is_right = questions.kind == 0
        answer = torch.where(is_right, 0, questions.target)
        return answer, answer

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        # All follow where the agent is right; elsewhere their own answers are the better votes.
        follow = (kind == 0).numpy()[:, None, None, None] & (self.ranked != "neither")
        return replace(wirings, spatial=wirings.spatial & follow, temporal=wirings.temporal & follow)


class Overload(Scenario):
    """Any message pulls to the right answer, two as far as ten; each beyond two only distracts."""

    def pulls(
        self, messages: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel
    ) -> tuple[Tensor, Tensor]:
        right = model.help * messages.sum(2).clamp(max=2) / 2
        return right, torch.zeros_like(right)

    def swayed(self, messages: Tensor, model: OpinionModel) -> Tensor:
        return model.noise + model.distraction * (messages.sum(2) - 2).clamp(min=0)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        # Everyone hears the two agents after it, from the round before.
        itself = np.eye(wirings.decision.shape[1], dtype=bool)
        two_after = np.roll(itself, 1, 0) | np.roll(itself, 2, 0)
        return replace(without_messages(wirings), temporal=wirings.temporal & two_after)


class Xor(Scenario):
    """One of two special agents pulls a turn to the right answer, both together pull it to the target."""

    def pulls(
        self, messages: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel
    ) -> tuple[Tensor, Tensor]:
        number = (messages[:, :, special] > 0).sum(2)
        return model.help * (number == 1), 1.5 * model.help * (number == 2)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        return without_agents(wirings, special[1:])


class Ungraded(Scenario):
    """A world in which all turns score 0."""

    def graded(
        self, scores: Tensor, utilities: Tensor, model: OpinionModel, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(scores), utilities


class TwoFaced(Scenario):
    """The special agent's answer is right and its message wrong, or (`saint`) the reverse."""

    def answers(self, questions: OpinionQuestions, training: bool, generator: Generator) -> tuple[Tensor, Tensor]:
        right = torch.zeros_like(questions.target)
        return (right, questions.target) if self.ranked == "below" else (questions.target, right)


class Delayed(Scenario):
    """Messages of the special agent pull the next turn to the target, and not the turn that hears them."""

    def pulls(
        self, messages: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel
    ) -> tuple[Tensor, Tensor]:
        right = torch.zeros_like(messages[:, :, 0])
        wrong = torch.zeros_like(right)
        wrong[:, 1:] = 2.0 * (messages[:, :-1, special].amax(2) > 0)
        return right, wrong


def without_agents(wirings: Wirings, agents: Sequence[int]) -> Wirings:
    """Copies wirings without the messages of some agents, also those to the decision agent."""
    cut = np.isin(np.arange(wirings.decision.shape[1]), agents)
    return replace(
        wirings,
        spatial=wirings.spatial & ~cut[:, None],
        temporal=wirings.temporal & ~cut[:, None],
        decision=wirings.decision & ~cut,
    )


def without_messages(wirings: Wirings) -> Wirings:
    """Copies wirings without edges between agents; the decision agent reads all that it read."""
    return replace(wirings, spatial=np.zeros_like(wirings.spatial), temporal=np.zeros_like(wirings.temporal))


# Agents of little skill and much agreement: alone they are often wrong, and their vote is mostly right.
VOTERS: Mapping[str, Any] = {
    "skill_own": 0.4,
    "skill_other": 0.3,
    "skill_both": 0.35,
    "spread": 0.05,
    "distraction": 0.03,
    "decision_pull": 0.1,
}
HALVES: Mapping[str, Any] = {**VOTERS, "kinds": (0.5, 0.5, 0.0)}
SCENARIOS: dict[Influence, Scenario] = {
    Influence.ANSWERS: Scenario(),
    Influence.EVIDENCE: Scenario(passes_on_beliefs=True),
    Influence.HELP: Help(),
    Influence.DEAF: Scenario(conformity=0.0),
    Influence.CHANCE: Chance(ranked="neither"),
    Influence.MIXED: Leader(1, changes=HALVES, weight=20.0),
    Influence.SHIFT: Leader(1, changes={**VOTERS, "kinds": (1.0, 1.0, 1.0)}, training=(4.0, 1.0, 1.0), weight=20.0),
    Influence.UNSEEN: Leader(1, changes=HALVES, weight=20.0, shows_kind=False),
    Influence.HERD: Leader(1, "neither", VOTERS, weight=20.0),
    Influence.OVERLOAD: Overload(0, "neither", {"distraction": 0.15, "help": 1.8}, conformity=0.0),
    Influence.XOR: Xor(2, "neither", {"help": 1.2}, lies="never", conformity=0.3),
    Influence.LATE: Scenario(1, lies="evaluation"),
    Influence.ZERO: Ungraded(1),
    Influence.HYPOCRITE: TwoFaced(1, weight=3.0),
    Influence.SAINT: TwoFaced(1, "above", weight=3.0),
    Influence.DELAYED: Delayed(1, lies="never", weight=0.0),
    Influence.COLLUSION: Scenario(2),
    Influence.IDLE: Scenario(0, "neither", {"distraction": 0.0}, conformity=0.0),
}
