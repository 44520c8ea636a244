"""Learner among candidate edges in lists: many agents with a few candidates each, or logits tied by role.

    candidates = candidates_along(small_world(10_000))
    learner = SparseLearner(modalities, variant=M3PRUNE, candidates=candidates)

It differs from `Learner` where that needs matrices of all pairs: the objective is utility alone, without the terms of
rank, noise and alignment, and no effects are estimated. A logit that edges share is learned from all of them, and cut
with all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from actors.messages import Modality
from topologies.graphs import acyclic_pairs
from topologies.learning.edge_state import EdgeState
from topologies.learning.estimators import Reinforce
from topologies.learning.learner import Learner
from topologies.learning.objective import Terms, credited_slope, leave_one_out
from topologies.learning.sampling import CommonDraws, sample_permutations
from topologies.learning.spec import DENSE, LearnerSpec
from topologies.learning.stages import Block, Stage, stages_from
from topologies.learning.variants import M3PRUNE, Estimator
from topologies.wiring import KINDS, Bools, Edges, Floats, Ints, ListedWirings, drawn


@dataclass(frozen=True)
class CandidateEdges:
    """Candidate edges by kind, and the logit of each.

    agents: their number. pairs: int [edges, 2], (sender, receiver), ascending; of `decision` (sender, 0).
    logit: int [edges], the place of each edge's logit. visual: bool [logits, 2], the modality at both ends.
    """

    agents: int
    pairs: Mapping[str, Ints]
    logit: Mapping[str, Tensor]
    visual: Mapping[str, Tensor]

    @classmethod
    def of(cls, edges: Edges[Ints], visual: Sequence[bool], roles: Sequence[str] | None = None) -> CandidateEdges:
        """Candidates with a logit each, or one for each pair of roles; visual, roles: of the agents."""
        n = len(visual)
        pairs = {**edges._asdict(), "decision": np.column_stack([np.arange(n), np.zeros(n, dtype=np.int64)])}
        # A logit for each pair of groups; an agent by itself is a group of one.
        group = np.arange(n) if roles is None else np.unique(roles, return_inverse=True)[1]
        ends, logit, of_ends = np.array(visual), {}, {}
        for kind, listed in pairs.items():
            senders, receivers = listed.T
            heard_by = np.zeros_like(receivers) if kind == "decision" else group[receivers]
            _, first, place = np.unique(group[senders] * n + heard_by, return_index=True, return_inverse=True)
            logit[kind] = torch.from_numpy(place)
            of_ends[kind] = torch.from_numpy(np.column_stack([ends[senders], ends[receivers]])[first])
        return cls(n, pairs, logit, of_ends)

    def counts(self, kind: str) -> Tensor:
        """Counts the edges of each logit, int [logits]."""
        return torch.bincount(self.logit[kind], minlength=len(self.visual[kind]))

    def matrix(self, kind: str, values: Tensor, absent: float) -> Floats:
        """Spreads values [logits] over a matrix [sender, receiver], `absent` where there is no candidate."""
        filled = np.full((self.agents, 1 if kind == "decision" else self.agents), absent)
        filled[tuple(self.pairs[kind].T)] = values[self.logit[kind]].double().numpy()
        return filled

    def sample(
        self,
        k: int,
        rounds: int,
        mask: Mapping[str, Tensor],
        chances: Mapping[str, Tensor],
        generator: Generator,
        orders: Tensor | None = None,
    ) -> ListedWirings:
        """Draws `k` wirings, each along orders in which every spatial edge leads forwards.

        mask: bool [logits] by kind; chances: [1, logits] by kind, all of which are drawn. orders: int [k, rounds], the
        sample whose order each one takes (None: its own).
        """
        place = sample_permutations(k, rounds, self.agents, generator).argsort(dim=-1)
        if orders is not None:
            place = place[orders, torch.arange(rounds)]
        left = {kind: mask[kind][self.logit[kind]] for kind in KINDS}
        senders, receivers = torch.from_numpy(self.pairs["spatial"]).T
        spatial_allowed = (place[..., senders] < place[..., receivers]) & left["spatial"]
        temporal_allowed = left["temporal"].expand(k, rounds, -1).clone()
        temporal_allowed[:, :1] = False
        spatial = self._draw("spatial", chances, spatial_allowed, generator)
        temporal = torch.zeros_like(temporal_allowed)
        temporal[:, 1:] = self._draw("temporal", chances, temporal_allowed[:, 1:], generator)
        readable = left["decision"].expand(k, 1, -1)
        read = self._draw("decision", chances, readable, generator) if "decision" in chances else readable
        return ListedWirings(
            Edges(self.pairs["spatial"], self.pairs["temporal"]),
            spatial.numpy(),
            temporal.numpy(),
            Edges(spatial_allowed.numpy(), temporal_allowed.numpy()),
            read[:, 0].numpy().copy(),
            readable[:, 0].numpy().copy(),
        )

    def _draw(self, kind: str, chances: Mapping[str, Tensor], allowed: Tensor, generator: Generator) -> Tensor:
        drawn: Tensor = torch.rand(allowed.shape, generator=generator) < chances[kind][:, self.logit[kind]]
        return drawn & allowed


class SparseLearner(Learner):
    """Masks and logits of candidate edges, learned by policy gradient and pruned by a rule."""

    def __init__(self, modalities: Iterable[Modality | str], **options: Any) -> None:
        """Makes a learner as `Learner` does, with `candidates` and `roles` among the options.

        Raises UserError on bad settings, and on variants and settings that need a matrix of all pairs.
        """
        super().__init__(modalities, **{"variant": M3PRUNE, **options})

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """p * mask, float [sender, receiver]. Raises ValueError above a thousand agents; `reading` is a list."""
        left = {kind: self._edges.present(kind, p, round) for kind, p in self._probability().items()}
        return Edges(*(self._matrix(kind, left[kind], 0.0) for kind in Edges._fields))

    def edge_scores(self) -> Edges[Floats]:
        return Edges(*(self._matrix(k, torch.from_numpy(self._edges.score(k)), -np.inf) for k in Edges._fields))

    def edges_left(self) -> dict[str, int]:
        blocks = [block for stage in range(1, self.stage + 1) for block in self._stages[stage].blocks]
        left = {kind: self._edges.mask[kind] * self._candidates.counts(kind) for kind in KINDS}
        return {block.name: int(block.of(left[block.kind]).sum()) for block in blocks}

    def inference(self) -> Edges[Bools]:
        """Candidates to answer with, bool [edges]: all that pruning left, the spatial ones in descending p unless
        they close a cycle."""
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
        readers = self._readers(None, self._left() if "decision" in self._stage.drawn else None)
        read = np.broadcast_to(readers.numpy(), (k, self.agents)).copy()
        pairs = Edges(self._candidates.pairs["spatial"], self._candidates.pairs["temporal"])
        return ListedWirings(pairs, spatial, temporal, Edges(spatial, temporal), read, read)

    def _matrix(self, kind: str, values: Tensor, absent: float) -> Floats:
        if self.agents > DENSE:
            raise ValueError(f"{self.agents} agents are too many for a matrix of all pairs, {DENSE} at most")
        return self._candidates.matrix(kind, values, absent)

    def _reading(self, values: Mapping[str, Tensor]) -> Edges[Floats]:
        """Values [1, logits] where edges are left, else 0, float [edges]."""
        left = {kind: self._edges.present(kind, values[kind]) for kind in Edges._fields}
        return Edges(*(p[self._candidates.logit[kind]].double().numpy() for kind, p in left.items()))

    def _by_agent(self, decision: Tensor) -> Tensor:
        return decision[self._candidates.logit["decision"]]

    def _stages_of(self) -> dict[int, Stage]:
        spec = self.spec
        assert spec.candidates is not None
        visual = [str(name) == "visual" for name in spec.modalities]
        # Here, as it is the first that a new learner asks for.
        self._candidates = CandidateEdges.of(spec.candidates, visual, spec.roles)
        ends, blocks = self._candidates.visual, []
        for kind in KINDS:
            learned = kind == "decision"
            group = ["agents>decision" if learned else _between(spec.whole, *pair) for pair in ends[kind].tolist()]
            for name in dict.fromkeys(group):
                members = torch.tensor([place for place, own in enumerate(group) if own == name])
                sender, _, receiver = name.partition(">")
                blocks.append(Block(name if learned else f"{name} {kind}", kind, (members,), sender == receiver))
        return stages_from(spec, {kind: both[:, 0] == both[:, 1] for kind, both in ends.items()}, blocks)

    def _estimate(self) -> Reinforce:
        return ListedReinforce(self.spec, self._edges, self._candidates)

    def _check_wirings(self, wirings: ListedWirings) -> None:  # type: ignore[override]
        shape = (self.rounds, len(self._candidates.pairs["spatial"]))
        if not len(wirings.spatial) or wirings.spatial.shape[1:] != shape:
            raise ValueError(f"wirings.spatial has shape {wirings.spatial.shape}, expected (k, {shape[0]}, {shape[1]})")

    def _sample(  # type: ignore[override]
        self, k: int, chances: Mapping[str, Tensor], generator: Generator, common: CommonDraws | None
    ) -> ListedWirings:
        orders = None if common is None else common.orders
        return self._candidates.sample(k, self.rounds, self._edges.mask, chances, generator, orders)


class ListedReinforce(Reinforce):
    """Policy gradient on utility alone, of logits that several edges may share."""

    def __init__(self, spec: LearnerSpec, edges: EdgeState, candidates: CandidateEdges) -> None:
        super().__init__(spec, edges)
        self._candidates = candidates

    def credit(self, wirings: ListedWirings, utility: Tensor, group: Tensor) -> Tensor:  # type: ignore[override]
        return leave_one_out(utility, group) if self.spec.variant.estimator is Estimator.RLOO else utility

    def _terms(self, stage: Stage) -> tuple[Terms, dict[str, Tensor]]:
        none = torch.zeros(())
        return Terms(none, none, none), dict.fromkeys(KINDS, none)

    def _expected(self, wirings: ListedWirings, credit: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        slopes = {}
        for kind, (allowed, taken) in drawn(wirings).items():
            place, theta = self._candidates.logit[kind], self.edges.logits[kind]
            of_edges = credited_slope(theta[:, place], torch.tensor(allowed), torch.tensor(taken), credit)
            slopes[kind] = torch.zeros_like(theta).index_add_(1, place, of_edges)
        return slopes


def _between(whole: bool, sender_is_visual: bool, receiver_is_visual: bool) -> str:
    if whole:
        return "agents>agents"
    return ">".join("visual" if visual else "text" for visual in (sender_is_visual, receiver_is_visual))
