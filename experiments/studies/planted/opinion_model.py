"""Parameters and questions of the opinion model."""

from dataclasses import dataclass

from torch import Tensor

from experiments.config.study_settings import Influence


@dataclass(frozen=True)
class OpinionModel:
    """A team and its questions. Pulls and noises are in units of the pull of an agent's own opinion.

    text, visual: agents of each modality.
    options: possible answers, one of them right.
    kinds: shares of questions on text, on pictures and on both.
    skill_own, skill_other, skill_both: chance of knowing the answer alone, on a question of the agent's modality, of
        the other one, of both.
    spread: standard deviation of skill between agents.
    conformity: pull of all messages of a round together, and as much again of those from the round before.
    persistence: pull of the agent's own answer in the round before.
    help: pull towards the right answer of agents that help without answering.
    noise: standard deviation of the random pull on an agent that hears no message.
    distraction: how much that grows with the root of the number of messages.
    decision_skill, decision_pull: chance that the decision agent knows the answer, and the pull of this opinion.
    """

    text: int = 5
    visual: int = 4
    rounds: int = 2
    options: int = 8
    kinds: tuple[float, float, float] = (0.45, 0.35, 0.2)
    skill_own: float = 0.55
    skill_other: float = 0.25
    skill_both: float = 0.4
    spread: float = 0.12
    conformity: float = 1.2
    persistence: float = 0.3
    help: float = 0.8
    noise: float = 0.05
    distraction: float = 0.1
    influence: Influence = Influence.ANSWERS
    decision_skill: float = 0.4
    decision_pull: float = 0.6


@dataclass(frozen=True)
class OpinionQuestions:
    """Questions as draws that do not depend on the wiring; answers are ints below `options`.

    private: [q, agents], what each agent believes alone.
    decision: [q], what the decision agent believes alone.
    target: [q], the wrong answer that adversaries push.
    sway: [q, rounds, agents, options], standard normal.
    decision_sway: [q, options], standard normal.
    kind: [q], 0 on text, 1 on pictures, 2 on both.
    features: [q, 3], the kind as one of three; all the same where it is not to be seen.
    fixed: [q, agents], what an agent answers whatever it hears; -1 where it listens.
    claimed: [q, agents], the answer in an agent's messages if not its own; -1 where it is.
    """

    private: Tensor
    decision: Tensor
    target: Tensor
    sway: Tensor
    decision_sway: Tensor
    kind: Tensor
    features: Tensor
    fixed: Tensor
    claimed: Tensor
