"""The pruning rules: which edges are cut, and when.

To add one, write its class here and name it in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Generator, Tensor

from topologies.learning.blocks import Block, Stage
from topologies.learning.edge_state import EdgeState
from topologies.learning.settings import LearnerSettings, PruningSettings, Rule
from topologies.wiring import prune_mask

Random = Callable[[str], Generator]
"""Makes a generator of its own for a purpose, from the learner's seed, stage and step."""


class PruningRule:
    """A way of cutting edges: after each step, or when a stage ends.

    whole: whether it prunes one matrix of all agents for each kind of edge, not one for each pair of modalities.
    stages: the least number of stages that it needs.
    rate: p_t, the pruning rate last used.
    """

    whole = True
    stages = 1

    def __init__(self, pruning: PruningSettings, edges: EdgeState, rounds: int, each_step: bool) -> None:
        """`each_step`: whether the estimator's probabilities may be pruned by after each step."""
        self.pruning, self.edges, self.rounds, self.each_step = pruning, edges, rounds, each_step
        self.rate = pruning.first_rate(intra=True)

    def begin(self) -> None:
        """Starts a later stage than the first."""
        self.rate = self.pruning.first_rate(intra=False)

    def after_step(self, stage: Stage, step: int, random: Random) -> None:
        """Cuts after a step of a stage; `step` counts from 0."""

    def cut(self, stage: Stage, random: Random, tick: int = 1) -> None:
        """Cuts at the end of a stage. Doing it again changes nothing."""
        for kind, kept in self.left(stage, stage.final, random).items():
            self.edges.keep(kind, kept, tick)

    def left(self, stage: Stage, final: bool, random: Random) -> dict[str, Tensor]:
        """The edges left if the stage ended now, by kind; `final`: if nothing more were learned of them either."""
        kept = {kind: mask.clone() for kind, mask in self.edges.mask.items()}
        for block in stage.blocks:
            p, present = block.of(self.edges.probability(block.kind)), block.of(self.edges.mask[block.kind])
            kept[block.kind][block.cells] = self.left_of(block, p, present, stage, final, random)
        return kept

    def left_of(self, block: Block, p: Tensor, present: Tensor, stage: Stage, final: bool, random: Random) -> Tensor:
        """The present edges of one matrix that are left; p: float, present and result: bool, of one shape."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all that changes while learning, beside the edges."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores what `tensors` gave; other names are ignored."""


class Progressive(PruningRule):
    """The paper's: a share p_t of every matrix at each cut (Eqs. 13, 14).

    With an estimator that cannot be pruned by after each step, edges that harm go at the end of every stage, and the
    least beyond the share that the paper leaves at the end of the final one.
    """

    whole = False

    def after_step(self, stage: Stage, step: int, random: Random) -> None:
        schedule = self.pruning.schedule(self.pruning.first_rate(intra=stage.number == 1), self.rounds)
        # Learning may go on after the last step of a stage; nothing more is due then.
        self.rate, share = schedule[min(step, len(schedule) - 1)]
        if not self.each_step:
            return
        generator = random("pruning")
        for block in stage.blocks:
            # Of the edges at the start: shares of what is left, each rounded, would stall above the last one.
            room = room_for(share, block.of(stage.start[block.kind]))
            p, present = block.of(self.edges.probability(block.kind)), block.of(self.edges.mask[block.kind])
            kept = self.edges.mask[block.kind].clone()
            kept[block.cells] = largest(p, present, room, generator)
            self.edges.keep(block.kind, kept, step + 1)

    def left_of(self, block: Block, p: Tensor, present: Tensor, stage: Stage, final: bool, random: Random) -> Tensor:
        if self.each_step:
            return present
        if block.kind == "decision":
            return worth_keeping(p, present, len(p), at_least_one=True)
        share = self.pruning.schedule(self.pruning.first_rate(block.intra), self.rounds)[-1].share if final else 1.0
        return worth_keeping(p, present, room_for(share, block.of(stage.start[block.kind])), at_least_one=False)


class Once(PruningRule):
    """AgentPrune's: one cut when learning ends, of the least probable share of each matrix."""

    def left_of(self, block: Block, p: Tensor, present: Tensor, stage: Stage, final: bool, random: Random) -> Tensor:
        room = room_for(self.pruning.share_at_end(self.rounds), block.of(stage.start[block.kind]))
        return largest(p, present, room, random("cut")) if final else present


class Likely(PruningRule):
    """GPTSwarm's: edges with p > 1/2 stay when learning ends; the decision agent keeps one reader at least."""

    def left_of(self, block: Block, p: Tensor, present: Tensor, stage: Stage, final: bool, random: Random) -> Tensor:
        if not final:
            return present
        likely = present & (p > 0.5)
        return largest(p, present, 1, random("cut")) if block.kind == "decision" and not likely.any() else likely


class Agents(Once):
    """AgentDropout's: agents go when the first stage ends, and the least probable share of each matrix of the others
    when the second does, which learns them afresh."""

    stages = 2

    def __init__(self, pruning: PruningSettings, edges: EdgeState, rounds: int, each_step: bool) -> None:
        super().__init__(pruning, edges, rounds, each_step)
        self.dropped = torch.zeros(len(edges.mask["spatial"]), dtype=torch.bool)

    def begin(self) -> None:
        super().begin()
        self.edges.start_afresh()

    def cut(self, stage: Stage, random: Random, tick: int = 1) -> None:
        if stage.number == 1:
            self.dropped = self._weakest(stage)
        super().cut(stage, random, tick=stage.number)

    def left(self, stage: Stage, final: bool, random: Random) -> dict[str, Tensor]:
        mask = self.edges.mask
        if stage.number == 1:
            return {**without(self._weakest(stage), mask), "decision": mask["decision"]}
        return super().left(replace(stage, start=without(self.dropped, stage.start)), final, random)

    def _weakest(self, stage: Stage) -> Tensor:
        # Edges within a round decide: they all exist in both stages, temporal ones may be switched off.
        return weakest_agents(self.edges.probability("spatial"), stage.start["spatial"], self.pruning.agent_rate)

    def tensors(self) -> dict[str, Tensor]:
        return {"dropped": self.dropped.clone()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.dropped = tensors["dropped"].clone()


RULES: dict[Rule, type[PruningRule]] = {
    Rule.PROGRESSIVE: Progressive,
    Rule.ONCE: Once,
    Rule.LIKELY: Likely,
    Rule.AGENTS: Agents,
}


def rule_for(settings: LearnerSettings, pruning: PruningSettings, each_step: bool) -> type[PruningRule]:
    """The rule's class. Raises ValueError where it cannot prune what is learned by these settings."""
    rule = RULES[pruning.rule]
    # Stages split matrices by modality, and probabilities that no gradient has moved say nothing of an edge's share.
    if rule.whole and (settings.staged or not each_step):
        raise ValueError(f"pruning rule={pruning.rule} goes with estimator reinforce or rloo and staged=false")
    return rule


def room_for(share: float, start: Tensor) -> int:
    """The number of edges of a matrix that a share leaves of those at the start, at least one; start: bool."""
    return max(1, round(int(start.sum()) * share))


def without(agents: Tensor, edges: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Edges by kind, less those from or to some agents, bool [agents]."""
    either = agents[:, None] | agents
    gone = {"spatial": either, "temporal": either, "decision": agents[:, None]}
    return {kind: mask & ~gone[kind] for kind, mask in edges.items()}


def largest(p: Tensor, present: Tensor, room: int, generator: Generator) -> Tensor:
    """The `room` most probable of the present edges of one matrix, at least one; of equal ones, any.

    p: float, present and result: bool, of one shape.
    """
    edges = int(present.sum())
    return prune_mask(p, present, 1 - min(room, edges) / edges, generator) if edges else present.clone()


def worth_keeping(p: Tensor, present: Tensor, room: int, at_least_one: bool) -> Tensor:
    """The present edges of one matrix whose effect is not negative (p >= 1/2), the `room` best of them at most.

    p: float, present and result: bool, of one shape.
    """
    p = p * present
    least = p.flatten().topk(room).values[-1].clamp(min=0.5)
    return p >= (least.clamp(max=p.max()) if at_least_one else least)


def weakest_agents(p: Tensor, present: Tensor, rate: float) -> Tensor:
    """The round(rate * N) agents whose edges, in and out, have the smallest sum of p (AgentDropout's node dropout).

    One agent is always left, and of equal ones the last goes. Result: bool [agents].
    p: float, present: bool, [sender, receiver].
    """
    weight = (p * present).sum(0) + (p * present).sum(1)
    number = min(round(rate * len(weight)), len(weight) - 1)
    dropped = torch.zeros(len(weight), dtype=torch.bool)
    lightest_first = sorted(range(len(weight)), key=lambda agent: (float(weight[agent]), -agent))
    dropped[lightest_first[:number]] = True
    return dropped
