"""True effects of an opinion team's edges, and the best utility that pruning can reach."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from actors.messages import derive_seed
from experiments.studies.planted.opinions import OpinionTeam
from topologies.graphs import acyclic, as_wirings
from topologies.learning.effects import credited_sum, surprise
from topologies.learning.objective import leave_one_out
from topologies.learning.sampling import allowed_spatial, allowed_temporal, sample_edges, sample_permutations
from topologies.wiring import Bools, Edges, Floats, Wirings

CHUNK = 4_000  # discussions at once: few enough that their arrays stay in a processor's cache
LEVELS = 12  # thresholds on the effects that greedy removal tries
PER_QUESTION = 4  # wirings of each question, compared with one another


@dataclass(frozen=True)
class Truth:
    """Effects of every edge when all others are drawn with probability one half, float [sender, receiver].

    on_receiver: on the score of the receiver's own answer in that round; on_answer: on the final answer's utility.
    readers: [agents], on the utility where the decision agent reads the agent.
    tosses: sum of an edge's squared surprises, (e - p)^2, over all discussions; discussions: their number.
    receiver_variance, answer_variance: of a receiver's score and of the utility, on one question.
    """

    on_receiver: Edges[Floats]
    on_answer: Edges[Floats]
    readers: Floats
    tosses: Edges[Floats]
    discussions: int
    receiver_variance: float
    answer_variance: float


class EffectSums:
    """Sums over randomised discussions, of which the effects of one kind of edge are the quotients."""

    def __init__(self, agents: int) -> None:
        # Double precision: sums over tens of thousands of discussions, from chunks added one after another.
        self.on_receiver, self.on_answer, self.squares = torch.zeros(3, agents, agents).double()
        self.half = torch.full((1, agents, agents), 0.5)

    def add(self, drawn_edges: Bools, allowed_edges: Bools, receiver_credit: Tensor, answer_credit: Tensor) -> None:
        """Adds discussions: the drawn and allowed edges, and credits [k, rounds, receiver]."""
        surprises = surprise(torch.from_numpy(drawn_edges), torch.from_numpy(allowed_edges), self.half)
        self.on_receiver += credited_sum(surprises, receiver_credit).sum(0)
        self.on_answer += credited_sum(surprises, answer_credit).sum(0)
        self.squares += (surprises**2).sum(0).sum(0)

    def effects(self, products: Tensor) -> Floats:
        """Effects from the sums of products, `on_receiver` or `on_answer`."""
        quotients: Floats = (products / self.squares.clamp(min=1e-9)).numpy()
        return quotients


class DiscussionSums:
    """Sums over randomised discussions of a team of `agents`, of whose questions each has `samples`."""

    def __init__(self, agents: int, samples: int) -> None:
        self._samples = samples
        self._discussions = 0
        self._kinds = Edges(EffectSums(agents), EffectSums(agents))
        self._receiver_variances: list[float] = []
        self._answer_variances: list[float] = []

    def add(
        self, drawn: Edges[Bools], allowed: Edges[Bools], scores: Tensor, utilities: Tensor, index: Tensor
    ) -> Tensor:
        """Adds discussions, and returns the credit of their utilities, shape [k].

        drawn, allowed: edges, [k, rounds, sender, receiver]. scores: of turns, [k, rounds, agent]. utilities: of final
        answers, [k]. index: the question of each discussion, [k].
        """
        # Credit is relative to the question's other discussions, so hard questions do not add noise.
        receiver_credit = leave_one_out(scores, index)
        utility_credit = leave_one_out(utilities, index)
        answer_credit = utility_credit[:, None, None].expand_as(receiver_credit)
        for sums, drawn_edges, allowed_edges in zip(self._kinds, drawn, allowed, strict=True):
            sums.add(drawn_edges, allowed_edges, receiver_credit, answer_credit)
        self._discussions += len(utilities)
        self._receiver_variances.append(float(receiver_credit.double().square().mean()))
        self._answer_variances.append(float(utility_credit.double().square().mean()))
        return utility_credit

    def truth(self, readers: Floats) -> Truth:
        """Returns the effects in the discussions that were added. `readers`: as in `Truth`."""
        # A score's distance from the mean of the question's others varies by that mean as well.
        own_share = 1 - 1 / self._samples
        return Truth(
            on_receiver=Edges(*(kind.effects(kind.on_receiver) for kind in self._kinds)),
            on_answer=Edges(*(kind.effects(kind.on_answer) for kind in self._kinds)),
            readers=readers,
            tosses=Edges(*(kind.squares.numpy() for kind in self._kinds)),
            discussions=self._discussions,
            receiver_variance=own_share * float(np.mean(self._receiver_variances)),
            answer_variance=own_share * float(np.mean(self._answer_variances)),
        )


def true_effects(team: OpinionTeam, discussions: int) -> Truth:
    """Estimates effects from randomised discussions; the standard error is about 1 / sqrt(discussions), or less."""
    sums = DiscussionSums(team.agents, PER_QUESTION)
    reader_products = torch.zeros(team.agents).double()
    reader_squares = torch.zeros(team.agents).double()
    chunks = max(1, round(discussions / CHUNK))
    for chunk in range(chunks):
        questions = team.questions(CHUNK // PER_QUESTION, "truth", chunk)
        # Consecutive discussions share a question, against which `leave_one_out` compares each.
        index = torch.arange(CHUNK) // PER_QUESTION
        wirings = random_wirings(team, CHUNK, chunk)
        scores, utilities = team.discuss(questions, index, wirings)
        drawn_edges = Edges(wirings.spatial, wirings.temporal)
        utility_credit = sums.add(drawn_edges, wirings.allowed, scores, utilities, index)
        # As in `surprise`: drawn or not (1 or 0), minus the probability 0.5.
        reading = torch.from_numpy(wirings.decision).double() - 0.5
        reader_products += utility_credit.double() @ reading
        reader_squares += (reading**2).sum(0)
    return sums.truth((reader_products / reader_squares).numpy())


def random_wirings(team: OpinionTeam, k: int, draw: int, chances: Sequence[float] = (0.5, 0.5, 0.5)) -> Wirings:
    """Draws speaking orders, and spatial, temporal and the decision agent's edges, each kind with its probability."""
    rounds = team.model.rounds
    generator = Generator().manual_seed(derive_seed(team.seed, "random wirings", draw))
    order = sample_permutations(k, rounds, team.agents, generator)
    everyone = torch.ones(team.agents, team.agents, dtype=torch.bool)
    spatial_allowed = allowed_spatial(everyone, order)
    temporal_allowed = allowed_temporal(everyone, k, rounds)
    spatial_chance, temporal_chance, reading_chance = chances
    spatial = sample_edges(torch.tensor(spatial_chance), spatial_allowed, generator)
    temporal = sample_edges(torch.tensor(temporal_chance), temporal_allowed, generator)
    decision = (torch.rand(k, team.agents, generator=generator) < reading_chance).numpy()
    return Wirings(
        spatial=spatial.numpy(),
        temporal=temporal.numpy(),
        allowed=Edges(spatial_allowed.numpy(), temporal_allowed.numpy()),
        order=order.numpy(),
        decision=decision,
        decision_allowed=np.ones_like(decision),
    )


def best_reachable(team: OpinionTeam, truth: Truth, evaluated: int) -> tuple[Wirings, float]:
    """Finds the best graph by greedy removal of edges in the order of true effects, and its utility.

    Candidates use either effect and every number of readers, and are compared on other questions.
    """
    # Stable, so that ties give the same readers everywhere.
    readers = np.argsort(-truth.readers, kind="stable")
    candidates: list[tuple[Edges[Floats], float]] = []
    for effects in (truth.on_receiver, truth.on_answer):
        levels = np.quantile(np.concatenate(effects, axis=None), np.linspace(0, 0.95, LEVELS))
        candidates += [(effects, level) for level in levels]

    def graph(effects: Edges[Floats], level: float, number: int) -> Wirings:
        # A spatial graph has no self-loops.
        spatial = (effects.spatial >= level) & ~np.eye(team.agents, dtype=bool)
        edges = Edges(acyclic(spatial, effects.spatial), effects.temporal >= level)
        return as_wirings(edges, team.model.rounds, decision=np.isin(np.arange(team.agents), readers[:number]))

    def choosing_utility(candidate: tuple[Edges[Floats], float], number: int) -> float:
        # Not the final questions: a maximum over many graphs is too high on the questions that chose it.
        return utility(team, graph(*candidate, number), None, evaluated // 2, "choosing")

    # Coordinate descent: graph, readers, graph again. All pairs would cost many times as much.
    number = max(1, int((truth.readers > 0).sum()))
    best = max(candidates, key=lambda candidate: choosing_utility(candidate, number))
    number = max(range(1, team.agents + 1), key=lambda count: choosing_utility(best, count))
    best = max(candidates, key=lambda candidate: choosing_utility(candidate, number))
    wirings = graph(*best, number)
    return wirings, utility(team, wirings, None, evaluated)


def utility(
    team: OpinionTeam, wirings: Wirings, probabilities: Edges[Floats] | None, questions: int, key: str = "evaluation"
) -> float:
    """Mean utility along one wiring, or one for each question, on questions that no learner sees."""
    _, utilities = discuss_questions(team, wirings, probabilities, questions, key)
    return float(utilities.mean())


def discuss_questions(
    team: OpinionTeam, wirings: Wirings, probabilities: Edges[Floats] | None, questions: int, key: str = "evaluation"
) -> tuple[Tensor, Tensor]:
    """Discusses these questions; scores of turns [questions, rounds, agents] and of final answers [questions]."""
    repeated: dict[str, Any] = {}
    for name in ("spatial", "temporal", "order", "decision", "speaks"):
        array = getattr(wirings, name)
        if array is not None:
            repeated[name] = np.broadcast_to(array, (questions, *array.shape[1:]))
    batch = team.questions(questions, key)
    return team.discuss(batch, torch.arange(questions), replace(wirings, **repeated), probabilities)
