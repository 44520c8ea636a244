"""An opinion model of discussions: agents with skills that conform, persist and get distracted.

It replaces language models in studies of the communication graph: the learner sees scores only, and the study knows
everything. Thousands of discussions run at once. Answer 0 is right, all others are wrong.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from actors.messages import Modality, derive_seed
from experiments.studies.planted.opinion_model import OpinionModel, OpinionQuestions
from experiments.studies.planted.scenarios import SCENARIOS
from topologies.wiring import Edges, Floats, Wirings


class OpinionTeam:
    """Agents with fixed skills; adversaries, or the scenario's special agents, among them."""

    def __init__(self, model: OpinionModel, seed: int, adversaries: Sequence[int] = ()) -> None:
        self.scenario = SCENARIOS[model.influence]
        self.model = model = replace(model, **self.scenario.changes)
        self.seed = seed
        self.modalities = [Modality.TEXT] * model.text + [Modality.VISUAL] * model.visual
        self.agents = len(self.modalities)
        self.special = list(adversaries) or self.scenario.chosen(None, self.agents)
        self.weight = torch.ones(self.agents)
        self.weight[self.special] = self.scenario.weight
        by_modality = {
            Modality.TEXT: [model.skill_own, model.skill_other, model.skill_both],
            Modality.VISUAL: [model.skill_other, model.skill_own, model.skill_both],
        }
        # One draw per agent, added to all three skills: some agents are better at everything.
        talent = model.spread * torch.randn(self.agents, 1, generator=self._generator("skills"))
        # Never certain to be right or wrong, however much skill varies.
        self.skill = (torch.tensor([by_modality[m] for m in self.modalities]) + talent).clamp(0.05, 0.95)
        self._silent = self.scenario.silent(self.modalities, self.special)

    def questions(self, count: int, *key: str | int) -> OpinionQuestions:
        """Draws `count` questions; the same `key` gives the same ones. Keys from "learning" are those of training."""
        # The order of the draws below is part of the meaning of a seed.
        generator, m, training = self._generator("questions", *key), self.model, key[0] == "learning"
        kinds = (self.scenario.training if training else None) or m.kinds
        kind = torch.multinomial(torch.tensor(kinds).float(), count, replacement=True, generator=generator)

        def believed(chance: Tensor) -> Tensor:
            # An agent that does not know believes one of the wrong answers, all equally likely.
            knows = torch.rand(chance.shape, generator=generator) < chance
            return torch.where(knows, 0, torch.randint(1, m.options, chance.shape, generator=generator))

        none = torch.full((count, self.agents), -1)
        plain = OpinionQuestions(
            private=believed(self.skill[:, kind].T),
            decision=believed(torch.full((count,), m.decision_skill)),
            target=torch.randint(1, m.options, (count,), generator=generator),
            sway=torch.randn(count, m.rounds, self.agents, m.options, generator=generator),
            decision_sway=torch.randn(count, m.options, generator=generator),
            kind=kind,
            features=one_hot(kind if self.scenario.visible else torch.zeros_like(kind), len(m.kinds)).double(),
            fixed=none,
            told=none.clone(),
        )
        answer, message = self.scenario.answers(plain, training, generator)
        plain.fixed[:, self.special], plain.told[:, self.special] = answer[:, None], message[:, None]
        return plain

    def discuss(
        self, questions: OpinionQuestions, index: Tensor, wirings: Wirings, probabilities: Edges[Floats] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns scores of every turn [k, rounds, agents] and of the final answers [k], 0 or 1.

        As in the runtime, an agent answers after the senders of its round. `index` int [k] is the question of each
        wiring; `probabilities` of edges are for reading weights (equal weights if None).
        """
        m, k = self.model, len(index)
        edges = wirings.spatial, wirings.temporal
        weights = [dense_weights(e, p, self.weight) for e, p in zip(edges, probabilities or (None, None), strict=True)]
        spatial, temporal = weights
        heard = torch.from_numpy(edges[0].astype(np.float32) + edges[1])
        swayed = self.scenario.swayed(heard, m)
        right, wrong = self.scenario.pulls(heard, self.special, self._silent, m)
        conformity, silent = self.scenario.heeded * m.conformity, self._silent
        order, each = torch.tensor(wirings.order), torch.arange(k)
        private = one_hot(questions.private, m.options).float()
        target = questions.target[index]
        scores = torch.zeros(k, m.rounds, self.agents)
        before = torch.zeros(k, self.agents, m.options)
        # Each agent's last turn, which need not be of the round before: some agents skip rounds.
        own = torch.zeros(k, self.agents, m.options)
        part = torch.ones(k, m.rounds, self.agents) if wirings.speaks is None else torch.tensor(wirings.speaks).float()
        # What each agent believes, or claims to, and passes on of others' beliefs; it counts with `evidence` only.
        passes_on, fixed, told = self.scenario.beliefs, questions.fixed[index], questions.told[index]
        known = one_hot(fixed.where(fixed >= 0, questions.private[index]), m.options).float()
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
                pull[:, 0] += right[each, t, agent]
                if wrong is not None:
                    pull[each, target] += wrong[each, t, agent]
                # The first round has no round before it.
                if t:
                    pull += conformity * _blend(temporal[each, t, :, agent], before)
                    if passes_on:
                        beliefs[each, agent] += _blend(temporal[each, t, :, agent], known)
                    pull += m.persistence * own[each, agent]
                # An agent that ignores messages: its pull is computed with the others and discarded.
                answer = fixed[each, agent].where(fixed[each, agent] >= 0, pull.argmax(1))
                sent = told[each, agent].where(told[each, agent] >= 0, answer)
                present = part[each, t, agent] * ~silent[agent]
                answers[each, agent] = one_hot(sent, m.options).float() * present[:, None]
                scores[each, t, agent] = (answer == 0).float() * present
            own = answers.where(part[:, t, :, None] > 0, own)
            before, known = answers, beliefs
        read = torch.tensor(wirings.decision).float()
        number = read.sum(1, keepdim=True)
        # The decision agent weighs all messages alike.
        pull = m.conformity * _blend(read / number.clamp(min=1), known if passes_on else before)
        pull += m.decision_pull * one_hot(questions.decision[index], m.options)
        pull += (m.noise + m.distraction * number.sqrt()) * questions.decision_sway[index]
        # Draws for scores that do not depend on messages. Graphs that are compared speak in one order in every step.
        held = np.ascontiguousarray(wirings.order).tobytes() + index.numpy().tobytes()
        drawn = self._generator("chance", zlib.crc32(held))
        return self.scenario.graded(scores, (pull.argmax(1) == 0).float(), m, drawn)

    def _generator(self, *key: str | int) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, "opinions", *key))


def dense_weights(present: np.ndarray, probabilities: Floats | None, weight: Tensor) -> Tensor:
    """Softmax of p over each receiver's present senders, float [..., sender, receiver] (`wiring.reading_weights`).

    weight: [senders], a factor of each sender's weight.
    """
    weights = torch.from_numpy(np.array(present)).float() * weight[:, None]
    if probabilities is not None:
        weights *= torch.from_numpy(np.exp(probabilities)).float()
    # A receiver without senders divides zero by the small number and stays zero.
    return weights / weights.sum(-2, keepdim=True).clamp(min=1e-9)


def _blend(weights: Tensor, answers: Tensor) -> Tensor:
    """Weighted sum of answers: weights [k, sender], answers [k, sender, options], result [k, options]."""
    return torch.bmm(weights[:, None], answers)[:, 0]
