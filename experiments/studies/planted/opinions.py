"""An opinion model of a discussion, thousands at once: agents with skills that conform, persist and get distracted.

It replaces language models in studies of the communication graph: the learner sees scores only, and whoever measures
the learner knows everything. Answer 0 is right, all others are wrong.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from actors.messages import Modality, derive_seed
from experiments.studies.planted.settings import Influence, OpinionSettings
from topologies.wiring import Edges, Floats, Wirings

HELP = 0.8  # pull towards the right answer of whoever hears an agent that helps without answering


@dataclass(frozen=True)
class Questions:
    """Answers are ints below `options`. A question's draws are the same whatever the wiring.

    private: [q, agents], what each agent believes alone; decision: [q], what the decision agent does; target: [q], the
    wrong answer that adversaries push; sway: [q, rounds, agents, options], standard normal, and decision_sway:
    [q, options].
    """

    private: Tensor
    decision: Tensor
    target: Tensor
    sway: Tensor
    decision_sway: Tensor


class Team:
    """Agents with fixed skills, some of them adversaries that hear nobody and push the target in every round."""

    def __init__(self, settings: OpinionSettings, seed: int, adversaries: Sequence[int] = ()) -> None:
        """Raises ValueError when an adversary is no agent of the team or the shares of question kinds are not three."""
        self.settings, self.seed = settings, seed
        self.modalities = [Modality.TEXT] * settings.text + [Modality.VISUAL] * settings.visual
        self.agents = len(self.modalities)
        if len(settings.kinds) != 3 or min(settings.kinds) < 0 or not sum(settings.kinds) > 0:
            raise ValueError(f"kinds must be three shares (text, pictures, both), got {settings.kinds}")
        if wrong := [a for a in adversaries if not 0 <= a < self.agents]:
            raise ValueError(f"adversaries {wrong} are none of the {self.agents} agents, counted from 0")
        self.adversary = torch.zeros(self.agents, dtype=torch.bool)
        self.adversary[list(adversaries)] = True
        by_modality = {
            Modality.TEXT: [settings.skill_own, settings.skill_other, settings.skill_both],
            Modality.VISUAL: [settings.skill_other, settings.skill_own, settings.skill_both],
        }
        # One draw per agent, added to all three skills: some agents are better at everything.
        talent = settings.spread * torch.randn(self.agents, 1, generator=self._generator("skills"))
        # Never certain to be right or wrong, whatever the spread.
        self.skill = (torch.tensor([by_modality[m] for m in self.modalities]) + talent).clamp(0.05, 0.95)

    def questions(self, count: int, *key: str | int) -> Questions:
        """Draws `count` questions; the same `key` gives the same ones."""
        # The order of the draws below is part of the meaning of a seed.
        generator, s = self._generator("questions", *key), self.settings
        kind = torch.multinomial(torch.tensor(s.kinds).float(), count, replacement=True, generator=generator)

        def believed(chance: Tensor) -> Tensor:
            # An agent that does not know believes one of the wrong answers, all equally likely.
            knows = torch.rand(chance.shape, generator=generator) < chance
            return torch.where(knows, 0, torch.randint(1, s.options, chance.shape, generator=generator))

        return Questions(
            private=believed(self.skill[:, kind].T),
            decision=believed(torch.full((count,), s.decision_skill)),
            target=torch.randint(1, s.options, (count,), generator=generator),
            sway=torch.randn(count, s.rounds, self.agents, s.options, generator=generator),
            decision_sway=torch.randn(count, s.options, generator=generator),
        )

    def discuss(
        self, questions: Questions, index: Tensor, wirings: Wirings, probabilities: Edges[Floats] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores of every turn [k, rounds, agents] and of the final answers [k], 0 or 1.

        index: int [k], the question that each wiring is for; probabilities: those that reading weights are computed
        from (equal weights if None). As in the runtime, an agent answers after everyone it hears in its round.
        """
        s, k = self.settings, len(index)
        if s.influence == Influence.CHANCE:
            return self._chance(wirings)
        weights = [reading_weights(e, p) for e, p in zip(_edges(wirings), probabilities or (None, None), strict=True)]
        spatial, temporal = weights
        heard = sum(torch.from_numpy(e.sum(axis=2, dtype=np.float32)) for e in _edges(wirings))
        # More messages distract more, by the root of their number: what makes useless edges harmful.
        swayed = s.noise + s.distraction * torch.as_tensor(heard).sqrt()
        conformity = 0.0 if s.influence == Influence.DEAF else s.conformity
        silent = self._silent()
        helped = sum(torch.from_numpy(e[:, :, silent.numpy()].any(axis=2)).float() for e in _edges(wirings))
        corrected = HELP * torch.as_tensor(helped).clamp(max=1)
        order, each = torch.tensor(wirings.order), torch.arange(k)
        private = one_hot(questions.private, s.options).float()
        target = questions.target[index]
        scores = torch.zeros(k, s.rounds, self.agents)
        before = torch.zeros(k, self.agents, s.options)
        # Each agent's last turn, which need not have been in the round before: not everybody takes part in every round.
        own = torch.zeros(k, self.agents, s.options)
        part = torch.ones(k, s.rounds, self.agents) if wirings.speaks is None else torch.tensor(wirings.speaks).float()
        # What each agent believes, or claims to, and what it was told of others'; only with `evidence` does it count.
        telling = s.influence == Influence.EVIDENCE
        known = one_hot(torch.where(self.adversary, target[:, None], questions.private[index]), s.options).float()
        for t in range(s.rounds):
            told = known.clone()
            answers = torch.zeros(k, self.agents, s.options)
            # One place of the speaking order at a time, for all discussions at once.
            for place in range(self.agents):
                agent = order[:, t, place]
                pull = private[index, agent] + swayed[each, t, agent, None] * questions.sway[index, t, agent]
                # `answers` holds those who have spoken; the others are still zero and pull nowhere.
                pull += conformity * _blend(spatial[each, t, :, agent], answers)
                if telling:
                    told[each, agent] += _blend(spatial[each, t, :, agent], told)
                pull[:, 0] += corrected[each, t, agent]
                # The first round has no round before it.
                if t:
                    pull += conformity * _blend(temporal[each, t, :, agent], before)
                    if telling:
                        told[each, agent] += _blend(temporal[each, t, :, agent], known)
                    pull += s.persistence * own[each, agent]
                # An adversary hears nobody: its pull is computed with the others and discarded.
                answer = torch.where(self.adversary[agent], target, pull.argmax(1))
                present = part[each, t, agent] * ~silent[agent]
                answers[each, agent] = one_hot(answer, s.options).float() * present[:, None]
                scores[each, t, agent] = (answer == 0).float() * present
            own = answers.where(part[:, t, :, None] > 0, own)
            before, known = answers, told
        read = torch.tensor(wirings.decision).float()
        # The decision agent weighs all that it reads alike.
        number = read.sum(1, keepdim=True)
        said = known if telling else before
        pull = s.conformity * _blend(read / number.clamp(min=1), said)
        pull += s.decision_pull * one_hot(questions.decision[index], s.options)
        pull += (s.noise + s.distraction * number.sqrt()) * questions.decision_sway[index]
        return scores, (pull.argmax(1) == 0).float()

    def _silent(self) -> Tensor:
        """The agents that help without answering, bool [agents]: with `help` the first honest one of each modality."""
        silent = torch.zeros(self.agents, dtype=torch.bool)
        if self.settings.influence == Influence.HELP:
            honest = [agent for agent in range(self.agents) if not self.adversary[agent]]
            # The first of each is the last that is written.
            silent[list({self.modalities[agent]: agent for agent in reversed(honest)}.values())] = True
        return silent

    def _chance(self, wirings: Wirings) -> tuple[Tensor, Tensor]:
        """Scores that depend on nothing that anybody hears, drawn from the speaking orders."""
        drawn = self._generator("chance", zlib.crc32(np.ascontiguousarray(wirings.order).tobytes()))
        k = len(wirings.order)
        scores = torch.rand(k, self.settings.rounds, self.agents, generator=drawn) < self.settings.skill_both
        return scores.float(), (torch.rand(k, generator=drawn) < self.settings.skill_both).float()

    def _generator(self, *key: str | int) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, "opinions", *key))


def reading_weights(present: Tensor | np.ndarray, probabilities: Floats | None) -> Tensor:
    """Softmax of p over each receiver's present senders, float [..., sender, receiver] (Eqs. 6 and 10)."""
    weights = torch.as_tensor(np.array(present)).float()
    if probabilities is not None:
        weights *= torch.from_numpy(np.exp(probabilities)).float()
    # A receiver without senders divides zero by the small number and stays zero.
    return weights / weights.sum(-2, keepdim=True).clamp(min=1e-9)


def _blend(weights: Tensor, answers: Tensor) -> Tensor:
    """Weighted sum of answers: weights [k, sender], answers [k, sender, options], result [k, options]."""
    return torch.bmm(weights[:, None], answers)[:, 0]


def _edges(wirings: Wirings) -> Edges[np.ndarray]:
    return Edges(wirings.spatial, wirings.temporal)
