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

Pulls = tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Scenario:
    """Scenario in which messages pull towards their answer (`answers`). `special` are the agents that it is about.

    about: number of special agents; 0: liars in attacked teams, none in clean ones.
    ranked: whether a right ranking has the edges from special agents below all others, above them, or neither.
    changes: parameters of the opinion model that differ.
    training: shares of the kinds of questions in training, if not those in evaluation.
    lies: when special agents argue for the target: in training and evaluation, in evaluation alone, or never.
    weight: weight of a special agent's message to other agents, where another's is 1.
    heeded: factor of the conformity of agents; the decision agent's stays.
    beliefs: whether messages also pass on beliefs, which alone move the decision agent.
    visible: whether features of a question show its kind.
    """

    about: int = 0
    ranked: Literal["below", "above", "neither"] = "below"
    changes: Mapping[str, Any] = field(default_factory=dict)
    training: tuple[float, float, float] | None = None
    lies: Literal["always", "evaluation", "never"] = "always"
    weight: float = 1.0
    heeded: float = 1.0
    beliefs: bool = False
    visible: bool = True

    def chosen(self, first: int | None, agents: int) -> list[int]:
        """Special agents, the first of them given (agent 0 if None); a second one is half a team away."""
        number = self.about or int(first is not None)
        return [((first or 0) + n * ((agents + 1) // 2)) % agents for n in range(number)]

    def answers(self, asked: OpinionQuestions, training: bool, draw: Generator) -> tuple[Tensor, Tensor]:
        """Makes the answers of special agents and those in their messages, [q] each, as for `OpinionQuestions`."""
        honest = self.lies == "never" or (self.lies == "evaluation" and training)
        return (torch.full_like(asked.target, -1) if honest else asked.target,) * 2

    def silent(self, modalities: Sequence[Modality], special: Sequence[int]) -> Tensor:
        """Agents without an answer, bool [agents]."""
        return torch.zeros(len(modalities), dtype=torch.bool)

    def pulls(self, heard: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel) -> Pulls:
        """Further pulls on each turn towards the right answer and towards the target, [k, rounds, agents].

        heard: number of messages from each sender, of the round and of the one before, [k, rounds, sender, receiver].
        """
        return torch.zeros_like(heard[:, :, 0]), None

    def swayed(self, heard: Tensor, model: OpinionModel) -> Tensor:
        """Standard deviation of the random pull on each turn, [k, rounds, agents]; `heard` as for `pulls`."""
        # More messages distract more, by the root of their number: that makes useless edges harmful.
        return model.noise + model.distraction * heard.sum(2).sqrt()

    def graded(self, scores: Tensor, utilities: Tensor, model: OpinionModel, draw: Generator) -> tuple[Tensor, Tensor]:
        """Scores of turns [k, rounds, agents] and of final answers [k], as a learner sees them."""
        return scores, utilities

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        """Wirings without the edges that the scenario's author would cut; kind: int [k], of each one's question."""
        return without(wirings, special) if self.ranked == "below" else wirings


class Help(Scenario):
    """The first honest agent of each modality gives no answer, and pulls its receivers to the right one."""

    def silent(self, modalities: Sequence[Modality], special: Sequence[int]) -> Tensor:
        quiet = super().silent(modalities, special)
        honest = [agent for agent in range(len(modalities)) if agent not in special]
        # The first of each modality is the last that is written.
        quiet[list({modalities[agent]: agent for agent in reversed(honest)}.values())] = True
        return quiet

    def pulls(self, heard: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel) -> Pulls:
        return model.help * (heard[:, :, silent].amax(2) > 0).float(), None


class Chance(Scenario):
    """Scores do not depend on messages."""

    def graded(self, scores: Tensor, utilities: Tensor, model: OpinionModel, draw: Generator) -> tuple[Tensor, Tensor]:
        by_chance = torch.rand(scores.shape, generator=draw) < model.skill_both
        return by_chance.float(), (torch.rand(len(scores), generator=draw) < model.skill_both).float()


class Leader(Scenario):
    """A leader whom all follow, whatever it hears: right on questions on text alone, or (`herd`) on 55% of all."""

    def answers(self, asked: OpinionQuestions, training: bool, draw: Generator) -> tuple[Tensor, Tensor]:
        herd = torch.rand(len(asked.kind), generator=draw) < 0.55
        return (torch.where(herd if self.ranked == "neither" else asked.kind == 0, 0, asked.target),) * 2

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        # All follow where the agent is right; elsewhere their own answers are the better votes.
        led = (kind == 0).numpy()[:, None, None, None] & (self.ranked != "neither")
        return replace(wirings, spatial=wirings.spatial & led, temporal=wirings.temporal & led)


class Overload(Scenario):
    """Any message pulls to the right answer, two as far as ten; each beyond two only distracts."""

    def pulls(self, heard: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel) -> Pulls:
        return model.help * heard.sum(2).clamp(max=2) / 2, None

    def swayed(self, heard: Tensor, model: OpinionModel) -> Tensor:
        return model.noise + model.distraction * (heard.sum(2) - 2).clamp(min=0)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        # Everyone hears the two agents after it, from the round before.
        kept = np.roll(np.eye(wirings.decision.shape[1]), 1, 0) + np.roll(np.eye(wirings.decision.shape[1]), 2, 0)
        return replace(unheard(wirings), temporal=wirings.temporal & (kept > 0))


class Xor(Scenario):
    """One of two special agents pulls a turn to the right answer, both together pull it to the target."""

    def pulls(self, heard: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel) -> Pulls:
        number = (heard[:, :, special] > 0).sum(2)
        return model.help * (number == 1), 1.5 * model.help * (number == 2)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        return without(wirings, special[1:])


class Ungraded(Scenario):
    """A world in which all turns score 0."""

    def graded(self, scores: Tensor, utilities: Tensor, model: OpinionModel, draw: Generator) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(scores), utilities


class TwoFaced(Scenario):
    """The special agent's answer is right and its message wrong, or (`saint`) the reverse."""

    def answers(self, asked: OpinionQuestions, training: bool, draw: Generator) -> tuple[Tensor, Tensor]:
        right = torch.zeros_like(asked.target)
        return (right, asked.target) if self.ranked == "below" else (asked.target, right)


class Delayed(Scenario):
    """Messages of the special agent pull the next turn to the target, and not the turn that hears them."""

    def pulls(self, heard: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel) -> Pulls:
        wrong = torch.zeros_like(heard[:, :, 0])
        wrong[:, 1:] = 2.0 * (heard[:, :-1, special].amax(2) > 0)
        return torch.zeros_like(wrong), wrong


def without(wirings: Wirings, agents: Sequence[int]) -> Wirings:
    """Copies wirings without the messages of some agents, also those to the decision agent."""
    spatial, temporal, decision = wirings.spatial.copy(), wirings.temporal.copy(), wirings.decision.copy()
    spatial[:, :, agents], temporal[:, :, agents], decision[:, agents] = False, False, False
    return replace(wirings, spatial=spatial, temporal=temporal, decision=decision)


def unheard(wirings: Wirings) -> Wirings:
    """Copies wirings without edges between agents; the decision agent reads all that it read."""
    return replace(wirings, spatial=np.zeros_like(wirings.spatial), temporal=np.zeros_like(wirings.temporal))


# Agents of little skill and much agreement: alone they are often wrong, and their vote is mostly right.
VOTERS: Mapping[str, Any] = {"skill_own": 0.4, "skill_other": 0.3, "skill_both": 0.35, "spread": 0.05}
VOTERS = {**VOTERS, "distraction": 0.03, "decision_pull": 0.1}
HALVES: Mapping[str, Any] = {**VOTERS, "kinds": (0.5, 0.5, 0.0)}
SCENARIOS: dict[Influence, Scenario] = {
    Influence.ANSWERS: Scenario(),
    Influence.EVIDENCE: Scenario(beliefs=True),
    Influence.HELP: Help(),
    Influence.DEAF: Scenario(heeded=0.0),
    Influence.CHANCE: Chance(ranked="neither"),
    Influence.MIXED: Leader(1, changes=HALVES, weight=20.0),
    Influence.SHIFT: Leader(1, changes={**VOTERS, "kinds": (1.0, 1.0, 1.0)}, training=(4.0, 1.0, 1.0), weight=20.0),
    Influence.UNSEEN: Leader(1, changes=HALVES, weight=20.0, visible=False),
    Influence.HERD: Leader(1, "neither", VOTERS, weight=20.0),
    Influence.OVERLOAD: Overload(0, "neither", {"distraction": 0.15, "help": 1.8}, heeded=0.0),
    Influence.XOR: Xor(2, "neither", {"help": 1.2}, lies="never", heeded=0.3),
    Influence.LATE: Scenario(1, lies="evaluation"),
    Influence.ZERO: Ungraded(1),
    Influence.HYPOCRITE: TwoFaced(1, weight=3.0),
    Influence.SAINT: TwoFaced(1, "above", weight=3.0),
    Influence.DELAYED: Delayed(1, lies="never", weight=0.0),
    Influence.COLLUSION: Scenario(2),
    Influence.IDLE: Scenario(0, "neither", {"distraction": 0.0}, heeded=0.0),
}
