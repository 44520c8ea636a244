"""The learner among candidate edges in lists: many agents with a few candidates each, or logits tied by role.

    candidates = around(small_world(10_000))
    learner = ListLearner(modalities, candidates=candidates)

As `Learner` in all but what matrices of all pairs are needed for: the objective is utility alone, without the terms of
rank, noise and alignment, and no effects are estimated. A logit that edges share is learned from all of them, and cut
with all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from actors.messages import Modality
from topologies.edge_lists import ListedWirings
from topologies.graphs import acyclic_pairs
from topologies.learning.blocks import Members, Stage
from topologies.learning.candidates import Candidates
from topologies.learning.draws import Common
from topologies.learning.edge_state import EdgeState
from topologies.learning.estimators import Reinforce
from topologies.learning.learner import Learner
from topologies.learning.objective import Terms, credited_slope, leave_one_out
from topologies.learning.scheme import DENSE, check_listed
from topologies.learning.settings import Decision, Estimator, LearnerSettings, PruningSettings
from topologies.wiring import KINDS, Bools, Edges, Floats, Ints


class ListLearner(Learner):
    """Masks and logits of candidate edges, learned by policy gradient and pruned by a rule."""

    def __init__(
        self,
        modalities: Iterable[Modality | str],
        *,
        candidates: Edges[Ints],
        roles: Sequence[str] | None = None,
        rounds: int = 2,
        seed: int = 0,
        settings: LearnerSettings | None = None,
        pruning: PruningSettings | None = None,
    ) -> None:
        """`candidates`: pairs (sender, receiver) of each kind; `roles`: of each agent, where logits are tied by role.

        Raises ValueError on bad settings, and on those that need a matrix of all pairs.
        """
        names = [str(modality) for modality in modalities]
        settings, pruning = settings or LearnerSettings(estimator=Estimator.REINFORCE), pruning or PruningSettings()
        check_listed(settings, pruning)
        self._candidates = Candidates.of(candidates, [name == "visual" for name in names], roles)
        super().__init__(names, rounds=rounds, seed=seed, settings=settings, pruning=pruning)

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """p * mask, float [sender, receiver]. Raises ValueError above a thousand agents: `reading` is a list."""
        left = {kind: self._edges.present(kind, p, round) for kind, p in self._probability().items()}
        return Edges(*(self._matrix(kind, left[kind], 0.0) for kind in Edges._fields))

    def decision_probabilities(self) -> Floats:
        read = self._readers().double()
        if "decision" in self._stage.drawn:
            read = read * self._edges.probability("decision")[self._candidates.logit["decision"]]
        return read.numpy()

    def edge_scores(self) -> Edges[Floats]:
        return Edges(*(self._matrix(k, torch.from_numpy(self._edges.score(k)), -np.inf) for k in Edges._fields))

    def edges_left(self) -> dict[str, int]:
        blocks = [block for stage in range(1, self.stage + 1) for block in self._stages[stage].blocks]
        left = {kind: self._edges.mask[kind] * self._candidates.counts(kind) for kind in KINDS}
        return {block.name: int(block.of(left[block.kind]).sum()) for block in blocks}

    def inference(self) -> Edges[Bools]:
        """The candidates to answer with, bool [edges]: what pruning left, the spatial ones in descending p unless they
        close a cycle."""
        kept = self._left()
        spatial, temporal = (kept[kind][self._candidates.logit[kind]].numpy() for kind in Edges._fields)
        places = np.flatnonzero(spatial)
        pairs, scores = self._candidates.pairs["spatial"][places], self.reading().spatial[places]
        taken = np.zeros_like(spatial)
        taken[places[acyclic_pairs(pairs, scores, self.agents)]] = True
        return Edges(taken, temporal)

    def inference_wirings(self, k: int = 1) -> ListedWirings:  # type: ignore[override]
        taken = self.inference()
        spatial, temporal = (np.broadcast_to(each, (k, self.rounds, len(each))).copy() for each in taken)
        temporal[:, :1] = False
        readers = self._readers(left=self._left() if "decision" in self._stage.drawn else None)
        read = np.broadcast_to(readers.numpy(), (k, self.agents)).copy()
        pairs = Edges(self._candidates.pairs["spatial"], self._candidates.pairs["temporal"])
        return ListedWirings(pairs, spatial, temporal, Edges(spatial, temporal), read, read)

    def _matrix(self, kind: str, values: Tensor, absent: float) -> Floats:
        if self.agents > DENSE:
            raise ValueError(f"{self.agents} agents are too many for a matrix of all pairs, {DENSE} at most")
        return self._candidates.matrix(kind, values, absent)

    def _reading(self, values: Mapping[str, Tensor]) -> Edges[Floats]:
        """Values [rounds or 1, logits] where edges are left, else 0: their mean over rounds, float [edges]."""
        left = {kind: self._edges.present(kind, values[kind]) for kind in Edges._fields}
        return Edges(*(p[self._candidates.logit[kind]].double().numpy() for kind, p in left.items()))

    def _readers(self, speaks: Tensor | None = None, left: Mapping[str, Tensor] | None = None) -> Tensor:
        """bool [agents]; no rule that goes with lists has agents that take no part (`speaks`)."""
        if "decision" in self._stage.drawn:
            return (self._edges.mask if left is None else left)["decision"][self._candidates.logit["decision"]]
        return torch.ones(self.agents, dtype=torch.bool)

    def _stages_of(self, visual: Tensor, whole: bool) -> dict[int, Stage]:
        settings, ends = self.settings, self._candidates.visual
        same = {kind: both[:, 0] == both[:, 1] for kind, both in ends.items()}
        exists = {"spatial": True, "temporal": self.rounds > 1 and settings.temporal}
        starts = {
            number: {kind: (same[kind] == (number == 1)) & exists[kind] for kind in Edges._fields}
            | {"decision": torch.full_like(same["decision"], settings.decision == Decision.LEARNED and last)}
            for number in range(1, self.stages + 1)
            for last in [number == self.stages]
        }
        if not settings.staged:
            together = {kind: torch.stack([start[kind] for start in starts.values()]).any(0) for kind in KINDS}
            starts = dict.fromkeys(starts, together)
        return {
            number: Stage(
                number, start, self._blocks(start, whole), final=number == self.stages or bool(settings.staged)
            )
            for number, start in starts.items()
        }

    def _blocks(self, start: Mapping[str, Tensor], whole: bool) -> list[Members]:
        blocks = []
        for kind in KINDS:
            ends = self._candidates.visual[kind].tolist()
            group = ["agents>decision" if kind == "decision" else _between(whole, *pair) for pair in ends]
            for name in dict.fromkeys(group):
                members = torch.tensor([place for place, own in enumerate(group) if own == name])
                sender, _, receiver = name.partition(">")
                full = name if kind == "decision" else f"{name} {kind}"
                blocks.append(Members(full, kind, members, sender == receiver))
        return [block for block in blocks if bool(block.of(start[block.kind]).any())]

    def _estimate(self, visual: Tensor) -> Reinforce:
        return ListedReinforce(self.settings, self._edges, self._candidates)

    def _check_wirings(self, wirings: ListedWirings) -> None:  # type: ignore[override]
        shape = (self.rounds, len(self._candidates.pairs["spatial"]))
        if not len(wirings.spatial) or wirings.spatial.shape[1:] != shape:
            raise ValueError(f"wirings.spatial has shape {wirings.spatial.shape}, expected (k, {shape[0]}, {shape[1]})")

    def _sample(  # type: ignore[override]
        self, k: int, chances: Mapping[str, Tensor], generator: Generator, common: Common | None
    ) -> ListedWirings:
        orders = None if common is None else common.orders
        return self._candidates.sample(k, self.rounds, self._edges.mask, chances, generator, orders)


class ListedReinforce(Reinforce):
    """Policy gradient on utility alone, of logits that several edges may share."""

    def __init__(self, settings: LearnerSettings, edges: EdgeState, candidates: Candidates) -> None:
        super().__init__(settings, edges, 0, torch.zeros(0))
        self._candidates = candidates

    def credit(self, wirings: ListedWirings, utility: Tensor, group: Tensor) -> Tensor:  # type: ignore[override]
        return leave_one_out(utility, group) if self.settings.estimator == Estimator.RLOO else utility

    def _terms(self, stage: Stage) -> tuple[Terms, dict[str, Tensor]]:
        none = torch.zeros(())
        return Terms(none, none, none), dict.fromkeys(KINDS, none)

    def _expected(self, wirings: ListedWirings, credit: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        slopes = {}
        for kind, (allowed, taken) in wirings.drawn().items():
            place, theta = self._candidates.logit[kind], self.edges.logits[kind]
            drawn = torch.tensor(allowed), torch.tensor(taken)
            of_edges = credited_slope(theta[:, place], *drawn, credit, self.settings.likelihood)
            slopes[kind] = torch.zeros_like(theta).index_add_(1, place, of_edges)
        return slopes


def _between(whole: bool, sender_is_visual: bool, receiver_is_visual: bool) -> str:
    if whole:
        return "agents>agents"
    return ">".join("visual" if visual else "text" for visual in (sender_is_visual, receiver_is_visual))
