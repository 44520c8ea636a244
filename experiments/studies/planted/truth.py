"""True effects of an opinion team's edges, and the best utility that pruning can reach."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator

from actors.messages import derive_seed
from experiments.studies.planted.opinions import OpinionTeam
from topologies.graphs import acyclic, as_wirings
from topologies.learning.effects import credited_sum, surprise
from topologies.learning.objective import leave_one_out
from topologies.learning.sampling import allowed_spatial, allowed_temporal, sample_edges, sample_permutations
from topologies.wiring import Edges, Floats, Wirings

CHUNK = 4_000  # discussions at once: few enough that their arrays stay in a processor's cache
LEVELS = 12  # thresholds on the effects that greedy removal tries
PER_QUESTION = 4  # wirings of each question, compared with one another


@dataclass(frozen=True)
class Truth:
    """Effects of every edge when all others are drawn with probability one half, float [sender, receiver].

    on_receiver: on the score of the receiver's own answer in that round; on_answer: on the final answer's utility.
    readers: [agents], on the utility where the decision agent reads the agent.
    """

    on_receiver: Edges[Floats]
    on_answer: Edges[Floats]
    readers: Floats


def true_effects(team: OpinionTeam, discussions: int) -> Truth:
    """Estimates effects from randomised discussions; the standard error is about 1 / sqrt(discussions), or less."""
    n = team.agents
    half, kinds = torch.full((1, n, n), 0.5), ("spatial", "temporal")
    # Double precision: sums over tens of thousands of discussions, from chunks added one after another.
    products = {(kind, by): torch.zeros(n, n).double() for kind in kinds for by in ("receiver", "answer")}
    squares = {kind: torch.zeros(n, n).double() for kind in kinds}
    readers = torch.zeros(n).double(), torch.zeros(n).double()
    for chunk in range(max(1, round(discussions / CHUNK))):
        questions = team.questions(CHUNK // PER_QUESTION, "truth", chunk)
        # Consecutive discussions share a question, against which `leave_one_out` compares each.
        index = torch.arange(CHUNK) // PER_QUESTION
        drawn = random_wirings(team, CHUNK, chunk)
        scores, utilities = team.discuss(questions, index, drawn)
        # Credit is relative to the question's other discussions, so hard questions do not add noise.
        own, final = leave_one_out(scores, index), leave_one_out(utilities, index)
        shared = final[:, None, None].expand_as(own)
        for kind, taken, allowed in zip(kinds, (drawn.spatial, drawn.temporal), drawn.allowed, strict=True):
            unforeseen = surprise(torch.from_numpy(taken), torch.from_numpy(allowed), half)
            for by, credit in (("receiver", own), ("answer", shared)):
                products[kind, by] += credited_sum(unforeseen, credit).sum(0)
            squares[kind] += (unforeseen**2).sum(0).sum(0)
        # As in `surprise`: drawn or not (1 or 0), minus the probability 0.5.
        read = torch.from_numpy(drawn.decision).double() - 0.5
        readers[0].add_(final.double() @ read)
        readers[1].add_((read**2).sum(0))

    def effects(by: str) -> Edges[Floats]:
        return Edges(*((products[kind, by] / squares[kind].clamp(min=1e-9)).numpy() for kind in kinds))

    return Truth(effects("receiver"), effects("answer"), (readers[0] / readers[1]).numpy())


def random_wirings(team: OpinionTeam, k: int, draw: int, chances: Sequence[float] = (0.5, 0.5, 0.5)) -> Wirings:
    """Draws speaking orders, and spatial, temporal and the decision agent's edges, each kind with its probability."""
    n, rounds = team.agents, team.model.rounds
    generator = Generator().manual_seed(derive_seed(team.seed, "random wirings", draw))
    order = sample_permutations(k, rounds, n, generator)
    everyone = torch.ones(n, n, dtype=torch.bool)
    allowed = allowed_spatial(everyone, order), allowed_temporal(everyone, k, rounds)
    spatial = sample_edges(torch.tensor(chances[0]), allowed[0], generator).numpy()
    temporal = sample_edges(torch.tensor(chances[1]), allowed[1], generator).numpy()
    read = (torch.rand(k, n, generator=generator) < chances[2]).numpy()
    could = Edges(allowed[0].numpy(), allowed[1].numpy())
    return Wirings(spatial, temporal, could, order.numpy(), read, np.ones_like(read))


def best_reachable(team: OpinionTeam, truth: Truth, evaluated: int) -> tuple[Wirings, float]:
    """Finds the best graph by greedy removal of edges in the order of true effects, and its utility.

    Candidates use either effect and every number of readers, and are compared on other questions.
    """
    # Stable, so that ties give the same readers everywhere.
    readers = np.argsort(-truth.readers, kind="stable")
    candidates: list[tuple[Edges[Floats], float]] = []
    for effects in (truth.on_receiver, truth.on_answer):
        known = np.concatenate([effect.ravel() for effect in effects])
        candidates += [(effects, float(level)) for level in np.quantile(known, np.linspace(0, 0.95, LEVELS))]

    def graph(effects: Edges[Floats], level: float, number: int) -> Wirings:
        # A spatial graph has no self-loops.
        spatial = (effects.spatial >= level) & ~np.eye(team.agents, dtype=bool)
        left = Edges(acyclic(spatial, effects.spatial), effects.temporal >= level)
        read = np.zeros(team.agents, dtype=bool)
        read[readers[:number]] = True
        return as_wirings(left, team.model.rounds, decision=read)

    def tried(effects: Edges[Floats], level: float, number: int) -> float:
        # Not the final questions: a maximum over many graphs is too high on the questions that chose it.
        return utility(team, graph(effects, level, number), None, evaluated // 2, "choosing")

    # Coordinate descent: graph, readers, graph again. All pairs would cost many times as much.
    number = max(1, int((truth.readers > 0).sum()))
    effects, level = max(candidates, key=lambda candidate: tried(candidate[0], candidate[1], number))
    number = max(range(1, team.agents + 1), key=lambda count: tried(effects, level, count))
    effects, level = max(candidates, key=lambda candidate: tried(candidate[0], candidate[1], number))
    best = graph(effects, level, number)
    return best, utility(team, best, None, evaluated)


def utility(
    team: OpinionTeam, wirings: Wirings, probabilities: Edges[Floats] | None, questions: int, key: str = "evaluation"
) -> float:
    """Mean utility along one wiring, or one for each question, on questions that no learner sees."""
    return float(held(team, wirings, probabilities, questions, key)[1].mean())


def held(
    team: OpinionTeam, wirings: Wirings, probabilities: Edges[Floats] | None, questions: int, key: str = "evaluation"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Discusses these questions; scores of turns [questions, rounds, agents] and of final answers [questions]."""

    def times(array: np.ndarray) -> np.ndarray:
        return np.broadcast_to(array, (questions, *array.shape[1:]))

    w = wirings
    each = (times(w.spatial), times(w.temporal), Edges(*map(times, w.allowed)), times(w.order), times(w.decision))
    speaks = None if w.speaks is None else times(w.speaks)
    repeated = Wirings(*each, times(w.decision_allowed), speaks=speaks)
    drawn = team.questions(questions, key)
    return team.discuss(drawn, torch.arange(questions), repeated, probabilities)
