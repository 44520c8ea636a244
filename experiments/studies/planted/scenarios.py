"""Scenarios of planted worlds: each changes parameters of the opinion model, or one step of it.

To add one, write its class or its fields here and name it in `SCENARIOS` and in `Influence` (study_settings.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from experiments.config.study_settings import Influence
from experiments.studies.planted.cast import Cast, OpinionModel, OpinionQuestions
from topologies.wiring import Wirings

Shares = tuple[float, float, float]


@dataclass(frozen=True)
class Scenario:
    """Scenario in which messages pull towards their answer (`answers`). `special` are the agents that it is about.

    about: number of special agents; 0: liars in attacked teams, none in clean ones.
    ranked: whether a right ranking has the edges from special agents below all others, above them, or neither.
    changes: parameters of the opinion model that differ.
    training: shares of the kinds of questions in training, if not those in evaluation.
    weight: weight of a special agent's message to other agents, where another's is 1.
    heeded: factor of the conformity of agents; the decision agent's stays.
    beliefs: whether messages also pass on beliefs, which alone move the decision agent.
    visible: whether features of a question show its kind.
    """

    about: int = 0
    ranked: Literal["below", "above", "neither"] = "below"
    changes: Mapping[str, Any] = field(default_factory=dict)
    training: Shares | None = None
    weight: float = 1.0
    heeded: float = 1.0
    beliefs: bool = False
    visible: bool = True

    def chosen(self, first: int | None, agents: int) -> list[int]:
        """Special agents, the first of them given (agent 0 if None); a second one is half a team away."""
        number = self.about or int(first is not None)
        return [((first or 0) + n * ((agents + 1) // 2)) % agents for n in range(number)]

    def ask(self, asked: OpinionQuestions, special: Sequence[int], training: bool, draw: Generator) -> OpinionQuestions:
        """Returns the questions with what special agents answer and send; here they all push the target."""
        fixed = asked.fixed.clone()
        fixed[:, special] = asked.target[:, None]
        return replace(asked, fixed=fixed)

    def silent(self, cast: Cast) -> Tensor:
        """Agents without an answer, bool [agents]."""
        return torch.zeros(cast.agents, dtype=torch.bool)

    def pulls(self, heard: Tensor, cast: Cast) -> tuple[Tensor, Tensor | None]:
        """Further pulls on each turn towards the right answer and towards the target, [k, rounds, agents].

        heard: number of messages from each sender, of the round and of the one before, [k, rounds, sender, receiver].
        """
        return torch.zeros_like(heard[:, :, 0]), None

    def swayed(self, heard: Tensor, cast: Cast) -> Tensor:
        """Standard deviation of the random pull on each turn, [k, rounds, agents]; `heard` as for `pulls`."""
        # More messages distract more, by the root of their number: that makes useless edges harmful.
        return cast.model.noise + cast.model.distraction * heard.sum(2).sqrt()

    def graded(self, scores: Tensor, utilities: Tensor, model: OpinionModel, draw: Generator) -> tuple[Tensor, Tensor]:
        """Scores of turns [k, rounds, agents] and of final answers [k], as a learner sees them."""
        return scores, utilities

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        """Wirings without the edges that the scenario's author would cut; kind: int [k], of each one's question."""
        return without(wirings, special) if self.ranked == "below" else wirings


class Help(Scenario):
    """The first honest agent of each modality gives no answer, and pulls its receivers to the right one."""

    def silent(self, cast: Cast) -> Tensor:
        quiet = super().silent(cast)
        honest = [agent for agent in range(cast.agents) if agent not in cast.special]
        # The first of each modality is the last that is written.
        quiet[list({cast.modalities[agent]: agent for agent in reversed(honest)}.values())] = True
        return quiet

    def pulls(self, heard: Tensor, cast: Cast) -> tuple[Tensor, Tensor | None]:
        return cast.model.help * (heard[:, :, self.silent(cast)].amax(2) > 0).float(), None


class Chance(Scenario):
    """Scores do not depend on messages."""

    def graded(self, scores: Tensor, utilities: Tensor, model: OpinionModel, draw: Generator) -> tuple[Tensor, Tensor]:
        by_chance = torch.rand(scores.shape, generator=draw) < model.skill_both
        return by_chance.float(), (torch.rand(len(scores), generator=draw) < model.skill_both).float()


class Leader(Scenario):
    """The special agent is right on questions on text and wrong on all others, whatever it hears."""

    def ask(self, asked: OpinionQuestions, special: Sequence[int], training: bool, draw: Generator) -> OpinionQuestions:
        fixed = asked.fixed.clone()
        fixed[:, special] = torch.where(asked.kind == 0, 0, asked.target)[:, None]
        return replace(asked, fixed=fixed)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        # On questions on text all follow the agent that is right; on others their own answers are the better votes.
        led = (kind == 0).numpy()[:, None, None, None]
        decision = wirings.decision.copy()
        decision[kind.numpy() > 0] &= ~np.isin(np.arange(decision.shape[1]), special)
        spatial, temporal = wirings.spatial & led, wirings.temporal & led
        return replace(wirings, spatial=spatial, temporal=temporal, decision=decision)


class Herd(Scenario):
    """The special agent is right on 55% of the questions, and all follow it: votes are no longer independent."""

    def ask(self, asked: OpinionQuestions, special: Sequence[int], training: bool, draw: Generator) -> OpinionQuestions:
        fixed, right = asked.fixed.clone(), torch.rand(len(asked.kind), generator=draw) < 0.55
        fixed[:, special] = torch.where(right, 0, asked.target)[:, None]
        return replace(asked, fixed=fixed)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        return unheard(wirings)


class Overload(Scenario):
    """Any message pulls to the right answer, two as far as ten; each beyond two only distracts."""

    def pulls(self, heard: Tensor, cast: Cast) -> tuple[Tensor, Tensor | None]:
        return cast.model.help * heard.sum(2).clamp(max=2) / 2, None

    def swayed(self, heard: Tensor, cast: Cast) -> Tensor:
        return cast.model.noise + cast.model.distraction * (heard.sum(2) - 2).clamp(min=0)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        # Everyone hears the two agents after it, from the round before.
        agents = np.arange(wirings.decision.shape[1])
        kept = np.isin((agents[:, None] - agents) % len(agents), (1, 2))
        return replace(unheard(wirings), temporal=wirings.temporal & kept)


class Xor(Scenario):
    """A turn is pulled to the right answer by hearing one of two special agents, and to the target by hearing both."""

    def pulls(self, heard: Tensor, cast: Cast) -> tuple[Tensor, Tensor | None]:
        number = (heard[:, :, cast.special] > 0).sum(2)
        return cast.model.help * (number == 1), 1.5 * cast.model.help * (number == 2)

    def by_hand(self, wirings: Wirings, special: Sequence[int], kind: Tensor) -> Wirings:
        return without(wirings, special[1:])


class Late(Scenario):
    """The special agent lies in evaluation, and not in training."""

    def ask(self, asked: OpinionQuestions, special: Sequence[int], training: bool, draw: Generator) -> OpinionQuestions:
        return super().ask(asked, [] if training else special, training, draw)


class Ungraded(Scenario):
    """All turns score 0."""

    def graded(self, scores: Tensor, utilities: Tensor, model: OpinionModel, draw: Generator) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(scores), utilities


@dataclass(frozen=True)
class TwoFaced(Scenario):
    """The special agent's answer is right and its message wrong, or the reverse."""

    about: int = 1
    right: bool = True

    def ask(self, asked: OpinionQuestions, special: Sequence[int], training: bool, draw: Generator) -> OpinionQuestions:
        answer, told = asked.fixed.clone(), asked.told.clone()
        sides = torch.zeros_like(asked.target)[:, None], asked.target[:, None]
        answer[:, special], told[:, special] = sides if self.right else sides[::-1]
        return replace(asked, fixed=answer, told=told)


class Delayed(Scenario):
    """Messages of the special agent leave the turn that hears them as it is, and pull the next one to the target."""

    def ask(self, asked: OpinionQuestions, special: Sequence[int], training: bool, draw: Generator) -> OpinionQuestions:
        return asked

    def pulls(self, heard: Tensor, cast: Cast) -> tuple[Tensor, Tensor | None]:
        right = torch.zeros_like(heard[:, :, 0])
        wrong = right.clone()
        wrong[:, 1:] = 2.0 * (heard[:, :-1, cast.special].amax(2) > 0)
        return right, wrong


def without(wirings: Wirings, agents: Sequence[int]) -> Wirings:
    """Copies wirings without the messages of some agents, also those to the decision agent."""
    spatial, temporal, decision = wirings.spatial.copy(), wirings.temporal.copy(), wirings.decision.copy()
    spatial[:, :, agents], temporal[:, :, agents], decision[:, agents] = False, False, False
    return replace(wirings, spatial=spatial, temporal=temporal, decision=decision)


def unheard(wirings: Wirings) -> Wirings:
    """Copies wirings without edges between agents; an agent's own last turn is no edge, and the decision agent reads
    all that it read."""
    none = np.zeros_like(wirings.spatial)
    return replace(wirings, spatial=none, temporal=none)


# Agents of little skill and much agreement: alone they are often wrong, and their vote is mostly right.
VOTERS: Mapping[str, Any] = {
    "skill_own": 0.4,
    "skill_other": 0.3,
    "skill_both": 0.35,
    "distraction": 0.03,
    "decision_pull": 0.1,
    "spread": 0.05,
}
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
    Influence.HERD: Herd(1, "neither", VOTERS, weight=20.0),
    Influence.OVERLOAD: Overload(0, "neither", {"distraction": 0.15, "help": 1.8}, heeded=0.0),
    Influence.XOR: Xor(2, "neither", {"help": 1.2}, heeded=0.3),
    Influence.LATE: Late(1),
    Influence.ZERO: Ungraded(1),
    Influence.HYPOCRITE: TwoFaced(right=True, weight=3.0),
    Influence.SAINT: TwoFaced(right=False, ranked="above", weight=3.0),
    Influence.DELAYED: Delayed(1, weight=0.0),
    Influence.COLLUSION: Scenario(2),
    Influence.IDLE: Scenario(0, "neither", {"distraction": 0.0}, heeded=0.0),
}
