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
    """Agents with fixed skills. Among them are adversaries, or the scenario's special agents."""

    def __init__(self, model: OpinionModel, seed: int, adversaries: Sequence[int] = ()) -> None:
        self.scenario = SCENARIOS[model.influence]
        self.model = replace(model, **self.scenario.changes)
        self.seed = seed
        self.modalities = [Modality.TEXT] * model.text + [Modality.VISUAL] * model.visual
        self.agents = len(self.modalities)
        self.special = list(adversaries) or self.scenario.special_agents(None, self.agents)
        self.message_weights = torch.ones(self.agents)
        self.message_weights[self.special] = self.scenario.weight
        self.skill = self._draw_skill()
        self._silent = self.scenario.silent(self.modalities, self.special)

    def _draw_skill(self) -> Tensor:
        """Draws each agent's chance of knowing the answer, by kind of question [agents, 3]."""
        model = self.model
        means = {
            Modality.TEXT: [model.skill_own, model.skill_other, model.skill_both],
            Modality.VISUAL: [model.skill_other, model.skill_own, model.skill_both],
        }
        # One draw per agent, added to all three skills: some agents are better at everything.
        talent = model.spread * torch.randn(self.agents, 1, generator=self._generator("skills"))
        # Never certain to be right or wrong, whatever the spread.
        return (torch.tensor([means[modality] for modality in self.modalities]) + talent).clamp(0.05, 0.95)

    def questions(self, count: int, *key: str | int) -> OpinionQuestions:
        """Draws questions. The same `key` gives the same ones; keys from "learning" are those of training."""
        # The order of the draws below is part of the meaning of a seed.
        generator = self._generator("questions", *key)
        model = self.model
        is_training = key[0] == "learning"
        shares = model.kinds
        if is_training and self.scenario.training:
            shares = self.scenario.training
        kind = torch.multinomial(torch.tensor(shares).float(), count, replacement=True, generator=generator)

        def draw_beliefs(chance: Tensor) -> Tensor:
            # An agent that does not know believes one of the wrong answers, all equally likely.
            knows = torch.rand(chance.shape, generator=generator) < chance
            wrong_answers = torch.randint(1, model.options, chance.shape, generator=generator)
            return torch.where(knows, 0, wrong_answers)

        visible_kind = kind if self.scenario.shows_kind else torch.zeros_like(kind)
        questions = OpinionQuestions(
            private=draw_beliefs(self.skill[:, kind].T),
            decision=draw_beliefs(torch.full((count,), model.decision_skill)),
            target=torch.randint(1, model.options, (count,), generator=generator),
            sway=torch.randn(count, model.rounds, self.agents, model.options, generator=generator),
            decision_sway=torch.randn(count, model.options, generator=generator),
            kind=kind,
            features=one_hot(visible_kind, len(model.kinds)).double(),
            fixed=torch.full((count, self.agents), -1),
            claimed=torch.full((count, self.agents), -1),
        )
        answer, message = self.scenario.answers(questions, is_training, generator)
        questions.fixed[:, self.special] = answer[:, None]
        questions.claimed[:, self.special] = message[:, None]
        return questions

    def discuss(
        self, questions: OpinionQuestions, index: Tensor, wirings: Wirings, probabilities: Edges[Floats] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns scores of every turn [k, rounds, agents] and of the final answers [k], 0 or 1.

        As in the runtime, an agent answers after the senders of its round. `index` int [k] is the question of each
        wiring; `probabilities` of edges are for reading weights (equal weights if None).
        """
        model = self.model
        scenario = self.scenario
        k = len(index)
        discussions = torch.arange(k)
        spatial_p = temporal_p = None
        if probabilities is not None:
            spatial_p, temporal_p = probabilities
        spatial = dense_weights(wirings.spatial, spatial_p, self.message_weights)
        temporal = dense_weights(wirings.temporal, temporal_p, self.message_weights)
        messages = torch.from_numpy(wirings.spatial.astype(np.float32) + wirings.temporal)
        sway_size = scenario.swayed(messages, model)
        right_pull, wrong_pull = scenario.pulls(messages, self.special, self._silent, model)
        conformity = scenario.conformity * model.conformity
        speaks = torch.ones(k, model.rounds, self.agents)
        if wirings.speaks is not None:
            speaks = torch.tensor(wirings.speaks).float()
        speaks = speaks * ~self._silent

        order = torch.tensor(wirings.order)
        private = one_hot(questions.private, model.options).float()
        target = questions.target[index]
        fixed = questions.fixed[index]
        claimed = questions.claimed[index]
        scores = torch.zeros(k, model.rounds, self.agents)
        earlier_answers = torch.zeros(k, self.agents, model.options)
        # Each agent's last turn, which need not be of the round before: some agents skip rounds.
        last_answers = torch.zeros(k, self.agents, model.options)
        # Beliefs that each agent has, or claims to have, and passes on of others; they count with `evidence` only.
        earlier_beliefs = one_hot(unless_fixed(fixed, questions.private[index]), model.options).float()
        for t in range(model.rounds):
            beliefs = earlier_beliefs.clone()
            answers = torch.zeros(k, self.agents, model.options)
            # One place of the speaking order at a time, for all discussions at once.
            for place in range(self.agents):
                agent = order[:, t, place]
                speaker = (discussions, agent)
                turn = (discussions, t, agent)
                senders = spatial[discussions, t, :, agent]
                earlier_senders = temporal[discussions, t, :, agent]
                pull = private[index, agent] + sway_size[turn][:, None] * questions.sway[index, t, agent]
                # `answers` has earlier speakers of the round; the others are still zero and pull nowhere.
                pull += conformity * _blend(senders, answers)
                pull[:, 0] += right_pull[turn]
                pull[discussions, target] += wrong_pull[turn]
                # The first round has no round before it.
                if t:
                    pull += conformity * _blend(earlier_senders, earlier_answers)
                    pull += model.persistence * last_answers[speaker]
                if scenario.passes_on_beliefs:
                    beliefs[speaker] += _blend(senders, beliefs)
                    beliefs[speaker] += _blend(earlier_senders, earlier_beliefs)

                # An agent that ignores messages: its pull is computed with the others and discarded.
                answer = unless_fixed(fixed[speaker], pull.argmax(1))
                sent = unless_fixed(claimed[speaker], answer)
                answers[speaker] = one_hot(sent, model.options).float() * speaks[turn][:, None]
                scores[turn] = (answer == 0).float() * speaks[turn]
            last_answers = answers.where(speaks[:, t, :, None] > 0, last_answers)
            earlier_answers = answers
            earlier_beliefs = beliefs

        messages_read = earlier_beliefs if scenario.passes_on_beliefs else earlier_answers
        decisions = self._decide(questions, index, wirings, messages_read)
        # Draws for scores that do not depend on messages. Graphs that are compared speak in one order in every step.
        identity = np.ascontiguousarray(wirings.order).tobytes() + index.numpy().tobytes()
        generator = self._generator("chance", zlib.crc32(identity))
        return scenario.graded(scores, (decisions == 0).float(), model, generator)

    def _decide(self, questions: OpinionQuestions, index: Tensor, wirings: Wirings, messages: Tensor) -> Tensor:
        """Answers of the decision agent [k], from the agents' last messages [k, agents, options]."""
        model = self.model
        readers = torch.tensor(wirings.decision).float()
        number = readers.sum(1, keepdim=True)
        # It weighs all messages alike.
        pull = model.conformity * _blend(readers / number.clamp(min=1), messages)
        pull += model.decision_pull * one_hot(questions.decision[index], model.options)
        pull += (model.noise + model.distraction * number.sqrt()) * questions.decision_sway[index]
        return pull.argmax(1)

    def _generator(self, *key: str | int) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, "opinions", *key))


def dense_weights(present: np.ndarray, probabilities: Floats | None, message_weights: Tensor) -> Tensor:
    """Softmax of p over each receiver's present senders, float [..., sender, receiver] (`wiring.reading_weights`).

    message_weights: [senders], a factor of each sender's weight.
    """
    weights = torch.from_numpy(np.array(present)).float() * message_weights[:, None]
    if probabilities is not None:
        weights *= torch.from_numpy(np.exp(probabilities)).float()
    # A receiver without senders divides zero by the small number and stays zero.
    return weights / weights.sum(-2, keepdim=True).clamp(min=1e-9)


def unless_fixed(fixed: Tensor, answers: Tensor) -> Tensor:
    """Takes the fixed answer where there is one, and elsewhere, where it is -1, that of `answers`."""
    return fixed.where(fixed >= 0, answers)


def _blend(weights: Tensor, answers: Tensor) -> Tensor:
    """Weighted sum of answers: weights [k, sender], answers [k, sender, options], result [k, options]."""
    return torch.bmm(weights[:, None], answers)[:, 0]
