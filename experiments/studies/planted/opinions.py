"""An opinion model of discussions: agents with skills that conform, persist and get distracted.

It replaces language models in studies of the communication graph: the learner sees scores only, and the study knows
everything. Thousands of discussions run at once. Answer 0 is right, all others are wrong.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from actors.messages import Modality, derive_seed
from experiments.config.study_settings import Influence
from topologies.wiring import Edges, Floats, Wirings


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
    help: pull of an agent that helps towards the right answer.
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
    """

    private: Tensor
    decision: Tensor
    target: Tensor
    sway: Tensor
    decision_sway: Tensor


class OpinionTeam:
    """Agents with fixed skills; adversaries among them ignore messages and push the target."""

    def __init__(self, model: OpinionModel, seed: int, adversaries: Sequence[int] = ()) -> None:
        self.model, self.seed = model, seed
        self.modalities = [Modality.TEXT] * model.text + [Modality.VISUAL] * model.visual
        self.agents = len(self.modalities)
        self.adversary = torch.zeros(self.agents, dtype=torch.bool)
        self.adversary[list(adversaries)] = True
        by_modality = {
            Modality.TEXT: [model.skill_own, model.skill_other, model.skill_both],
            Modality.VISUAL: [model.skill_other, model.skill_own, model.skill_both],
        }
        # One draw per agent, added to all three skills: some agents are better at everything.
        talent = model.spread * torch.randn(self.agents, 1, generator=self._generator("skills"))
        # Never certain to be right or wrong, whatever the spread.
        self.skill = (torch.tensor([by_modality[m] for m in self.modalities]) + talent).clamp(0.05, 0.95)
        # Agents that help without answering: with `help` the first honest one of each modality.
        self._silent = torch.zeros(self.agents, dtype=torch.bool)
        if model.influence == Influence.HELP:
            honest = [agent for agent in range(self.agents) if not self.adversary[agent]]
            # The first of each modality is the last that is written.
            self._silent[list({self.modalities[agent]: agent for agent in reversed(honest)}.values())] = True

    def questions(self, count: int, *key: str | int) -> OpinionQuestions:
        """Draws `count` questions; the same `key` gives the same ones."""
        # The order of the draws below is part of the meaning of a seed.
        generator, m = self._generator("questions", *key), self.model
        kind = torch.multinomial(torch.tensor(m.kinds).float(), count, replacement=True, generator=generator)

        def believed(chance: Tensor) -> Tensor:
            # An agent that does not know believes one of the wrong answers, all equally likely.
            knows = torch.rand(chance.shape, generator=generator) < chance
            return torch.where(knows, 0, torch.randint(1, m.options, chance.shape, generator=generator))

        return OpinionQuestions(
            private=believed(self.skill[:, kind].T),
            decision=believed(torch.full((count,), m.decision_skill)),
            target=torch.randint(1, m.options, (count,), generator=generator),
            sway=torch.randn(count, m.rounds, self.agents, m.options, generator=generator),
            decision_sway=torch.randn(count, m.options, generator=generator),
        )

    def discuss(
        self, questions: OpinionQuestions, index: Tensor, wirings: Wirings, probabilities: Edges[Floats] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns scores of every turn [k, rounds, agents] and of the final answers [k], 0 or 1.

        As in the runtime, an agent answers after the senders of its round. `index` int [k] is the question of each
        wiring; `probabilities` of edges are for reading weights (equal weights if None).
        """
        m, k = self.model, len(index)
        if m.influence == Influence.CHANCE:
            # Scores that do not depend on messages, drawn from the speaking orders.
            drawn = self._generator("chance", zlib.crc32(np.ascontiguousarray(wirings.order).tobytes()))
            scores = torch.rand(k, m.rounds, self.agents, generator=drawn) < m.skill_both
            return scores.float(), (torch.rand(k, generator=drawn) < m.skill_both).float()
        edges = wirings.spatial, wirings.temporal
        weights = [dense_weights(e, p) for e, p in zip(edges, probabilities or (None, None), strict=True)]
        spatial, temporal = weights
        heard = sum(torch.from_numpy(e.sum(axis=2, dtype=np.float32)) for e in edges)
        # More messages distract more, by the root of their number: that makes useless edges harmful.
        swayed = m.noise + m.distraction * torch.as_tensor(heard).sqrt()
        conformity = 0.0 if m.influence == Influence.DEAF else m.conformity
        silent = self._silent
        helped = sum(torch.from_numpy(e[:, :, silent.numpy()].any(axis=2)).float() for e in edges)
        corrected = m.help * torch.as_tensor(helped).clamp(max=1)
        order, each = torch.tensor(wirings.order), torch.arange(k)
        private = one_hot(questions.private, m.options).float()
        target = questions.target[index]
        scores = torch.zeros(k, m.rounds, self.agents)
        before = torch.zeros(k, self.agents, m.options)
        # Each agent's last turn, which need not be of the round before: some agents skip rounds.
        own = torch.zeros(k, self.agents, m.options)
        part = torch.ones(k, m.rounds, self.agents) if wirings.speaks is None else torch.tensor(wirings.speaks).float()
        # What each agent believes, or claims to, and passes on of others' beliefs; it counts with `evidence` only.
        passes_on = m.influence == Influence.EVIDENCE
        known = one_hot(torch.where(self.adversary, target[:, None], questions.private[index]), m.options).float()
        for t in range(m.rounds):
            beliefs = known.clone()
            answers = torch.zeros(k, self.agents, m.options)
            # One place of the speaking order at a time, for all discussions at once.
            for place in range(self.agents):
                agent = order[:, t, place]
                pull = private[index, agent] + swayed[each, t, agent, None] * questions.sway[index, t, agent]
                # `answers` has earlier speakers of the round; the others are still zero and pull nowhere.
                pull += conformity * _blend(spatial[each, t, :, agent], answers)
                if passes_on:
                    beliefs[each, agent] += _blend(spatial[each, t, :, agent], beliefs)
                pull[:, 0] += corrected[each, t, agent]
                # The first round has no round before it.
                if t:
                    pull += conformity * _blend(temporal[each, t, :, agent], before)
                    if passes_on:
                        beliefs[each, agent] += _blend(temporal[each, t, :, agent], known)
                    pull += m.persistence * own[each, agent]
                # An adversary ignores messages: its pull is computed with the others and discarded.
                answer = torch.where(self.adversary[agent], target, pull.argmax(1))
                present = part[each, t, agent] * ~silent[agent]
                answers[each, agent] = one_hot(answer, m.options).float() * present[:, None]
                scores[each, t, agent] = (answer == 0).float() * present
            own = answers.where(part[:, t, :, None] > 0, own)
            before, known = answers, beliefs
        read = torch.tensor(wirings.decision).float()
        # The decision agent weighs all messages alike.
        number = read.sum(1, keepdim=True)
        pull = m.conformity * _blend(read / number.clamp(min=1), known if passes_on else before)
        pull += m.decision_pull * one_hot(questions.decision[index], m.options)
        pull += (m.noise + m.distraction * number.sqrt()) * questions.decision_sway[index]
        return scores, (pull.argmax(1) == 0).float()

    def _generator(self, *key: str | int) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, "opinions", *key))


def dense_weights(present: Tensor | np.ndarray, probabilities: Floats | None) -> Tensor:
    """Softmax of p over each receiver's present senders, float [..., sender, receiver] (`wiring.reading_weights`)."""
    weights = torch.as_tensor(np.array(present)).float()
    if probabilities is not None:
        weights *= torch.from_numpy(np.exp(probabilities)).float()
    # A receiver without senders divides zero by the small number and stays zero.
    return weights / weights.sum(-2, keepdim=True).clamp(min=1e-9)


def _blend(weights: Tensor, answers: Tensor) -> Tensor:
    """Weighted sum of answers: weights [k, sender], answers [k, sender, options], result [k, options]."""
    return torch.bmm(weights[:, None], answers)[:, 0]
