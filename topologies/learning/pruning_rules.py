"""Pruning rules: which edges are cut, and when.

To add one, write its class here, and name it in `RULES` and in `Rule` (variants.py).
"""

from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor

from topologies.learning.early_stopping import EndCut
from topologies.learning.edge_state import EdgeState
from topologies.learning.learner_settings import PruningSettings
from topologies.learning.stages import Block, Stage
from topologies.learning.variants import Rule

Random = Callable[[str], Generator]
"""Makes a generator for a purpose, from the learner's seed, stage and step."""

AGENT_RATE = 0.2
"""Share of the team that `agents` prunes after the first stage (Wang et al. 2025)."""


class PruningRule:
    """Cuts edges after each step, or when a stage ends.

    rate: p_t, the pruning rate last used; schedules: the cuts of all steps, of edges inside modalities or of others.
    by_sign: whether the cut at the end also spares no edge with p < 1/2.
    state: all else that changes while learning; part of the learner's state.
    """

    by_sign = False
    prefix = ""

    def __init__(self, pruning: PruningSettings, edges: EdgeState, random: Random) -> None:
        self.pruning, self.edges, self.random = pruning, edges, random
        self.state: dict[str, Tensor] = {}
        self.schedules = {intra: pruning.schedule(pruning.first_rate(intra)) for intra in (True, False)}
        self.rate = pruning.first_rate(intra=True)

    def begin(self) -> None:
        """Starts a later stage than the first."""
        self.rate = self.pruning.first_rate(intra=False)

    def after_step(self, stage: Stage, step: int) -> None:
        """Cuts after a step of a stage; `step` counts from 0."""

    def cut(self, stage: Stage, tick: int = 1) -> None:
        """Cuts at the end of a stage. Doing it again changes nothing."""
        for kind, kept in self.left(stage, stage.final).items():
            self.edges.keep(kind, kept, tick)

    def left(self, stage: Stage, final: bool) -> dict[str, Tensor]:
        """Edges left if the stage ended now, by kind; `final`: if no later stage learned them again either."""
        kept = {kind: mask.clone() for kind, mask in self.edges.mask.items()}
        for block in stage.blocks:
            p, present = block.of(self.edges.probability(block.kind)), block.of(self.edges.mask[block.kind])
            rooms = [room_for(self.share(stage, block), of_round) for of_round in self.start(stage, block)]
            rounds = [self.left_of(block, *each, final) for each in zip(p, present, rooms, strict=True)]
            kept[block.kind][(..., *block.cells)] = torch.stack(rounds)
        return kept

    def start(self, stage: Stage, block: Block) -> Tensor:
        """Edges of a matrix before the stage pruned any, bool [rounds or 1, sender, receiver]."""
        return block.of(stage.start[block.kind].expand(self.edges.mask[block.kind].shape))

    def share(self, stage: Stage, block: Block) -> float:
        """Share of a matrix's edges that the cut at the end leaves at most."""
        return 1.0

    def left_of(self, block: Block, p: Tensor, present: Tensor, room: int, final: bool) -> Tensor:
        """Present edges of one matrix that a cut leaves, `room` at most in the end.

        p: float, present and result: bool, [sender, receiver].
        """
        return present

    def cut_rest(self, stage: Stage) -> None:
        """Makes the cuts of a stage's remaining steps, where it ends early."""

    def end_cut(self, stage: Stage, block: Block) -> EndCut:
        """Returns a matrix's cut at the end of a stage if no later stage relearned its edges."""
        return EndCut(room_for(self.share(stage, block), self.start(stage, block)[-1]), self.by_sign)

    def silent(self, stage: Stage, ended: bool) -> Tensor | None:
        """Agents that take no part, bool [rounds or 1, agents]; None where all do. `ended`: if the stage ended now."""
        return None


class Progressive(PruningRule):
    """M3Prune's: a share p_t of every matrix at each cut (Eqs. 13, 14)."""

    def after_step(self, stage: Stage, step: int) -> None:
        schedule = self.schedules[stage.number == 1]
        # Learning may go on after the last step of a stage; no more cuts are due then.
        self.rate, share = schedule[min(step, len(schedule) - 1)]
        # Shares of the edges at the start: rounded shares of the remaining ones would stall above the last one.
        rooms = [room_for(share, block.of(stage.start[block.kind])) for block in stage.blocks]
        presents = [block.of(self.edges.mask[block.kind]) for block in stage.blocks]
        if all(int(present.sum()) <= room for room, present in zip(rooms, presents, strict=True)):
            return
        generator = self.random("pruning")
        for block, room, present in zip(stage.blocks, rooms, presents, strict=True):
            kept = self.edges.mask[block.kind].clone()
            kept[(..., *block.cells)] = largest(block.of(self.edges.probability(block.kind)), present, room, generator)
            self.edges.keep(block.kind, kept, tick=step + 1)

    def cut_rest(self, stage: Stage) -> None:
        self.after_step(stage, self.pruning.steps - 1)

    def share(self, stage: Stage, block: Block) -> float:
        return self.schedules[stage.number == 1][-1].share


class BySign(PruningRule):
    """Ours, for estimated effects, which are noise in the first steps: harmful edges (p < 1/2) go at the end of every
    stage, and after the last one the least, beyond the share that M3Prune leaves.

    state: `judged.<kind>`: bool [sender, receiver], the edges that were there in the last step.
    """

    by_sign = True

    def __init__(self, pruning: PruningSettings, edges: EdgeState, random: Random) -> None:
        super().__init__(pruning, edges, random)
        self._judge()

    def after_step(self, stage: Stage, step: int) -> None:
        schedule = self.schedules[stage.number == 1]
        self.rate = schedule[min(step, len(schedule) - 1)].rate
        self._judge()

    def share(self, stage: Stage, block: Block) -> float:
        return 1.0 if block.kind == "decision" else self.schedules[block.intra][-1].share

    def _judge(self) -> None:
        self.state |= {f"judged.{kind}": mask.any(0) for kind, mask in self.edges.mask.items()}

    def left(self, stage: Stage, final: bool) -> dict[str, Tensor]:
        theta = {kind: each.mean(0) for kind, each in self.edges.logits.items()}
        judged = {kind: self.state[f"judged.{kind}"] for kind in theta}
        harmful = {kind: judged[kind] & (theta[kind] < 0) & stage.start[kind] for kind in theta}
        self._spared = {kind: harmful[kind] & ~cut for kind, cut in worst_half(harmful, theta, judged).items()}
        return super().left(stage, final)

    def left_of(self, block: Block, p: Tensor, present: Tensor, room: int, final: bool) -> Tensor:
        """Keeps edges without a negative effect (p >= 1/2), at the end the `room` best; one reader at least."""
        p = p.where(~block.of(self._spared[block.kind]), p.clamp(min=0.5)) * present
        least = p.flatten().topk(room if final else p.numel()).values[-1].clamp(min=0.5)
        return present & (p >= (least.clamp(max=p.max()) if block.kind == "decision" else least))


class Once(PruningRule):
    """AgentPrune's: one cut when learning ends, of the least probable share of each matrix."""

    def share(self, stage: Stage, block: Block) -> float:
        # As much as all cuts of a schedule leave, so that a comparison of rules is one of equally sparse graphs.
        return self.pruning.schedule(self.pruning.rate)[-1].share

    def left_of(self, block: Block, p: Tensor, present: Tensor, room: int, final: bool) -> Tensor:
        return largest(p, present, room, self.random("cut")) if final else present


class Likely(PruningRule):
    """GPTSwarm's: edges with p > 1/2 stay when learning ends; the decision agent keeps one reader at least."""

    by_sign = True

    def left_of(self, block: Block, p: Tensor, present: Tensor, room: int, final: bool) -> Tensor:
        likely = present & (p > 0.5) if final else present
        return largest(p, present, 1, self.random("cut")) if block.kind == "decision" and not likely.any() else likely


class AgentRule(Once):
    """AgentDropout's: agents go when the first stage ends; the second learns the others' edges afresh, and the least
    probable share of each matrix goes when it ends.

    Each round drops agents and cuts edges by itself: an agent may be out of the first round and speak in the second.

    state: `dropped`: bool [rounds, agents].
    """

    def __init__(self, pruning: PruningSettings, edges: EdgeState, random: Random) -> None:
        super().__init__(pruning, edges, random)
        self.state["dropped"] = torch.zeros(edges.logits["spatial"].shape[:2], dtype=torch.bool)

    def begin(self) -> None:
        super().begin()
        for theta in self.edges.logits.values():
            theta.zero_()
        self.edges.forget_gradients()

    def cut(self, stage: Stage, tick: int = 1) -> None:
        if stage.number == 1:
            self.state["dropped"] = self._weakest(stage)
        super().cut(stage, tick=stage.number)

    def left(self, stage: Stage, final: bool) -> dict[str, Tensor]:
        if stage.number == 1:
            dropped = self._weakest(stage)
            return {kind: without(dropped, mask, kind) for kind, mask in self.edges.mask.items()}
        return super().left(stage, final)

    def start(self, stage: Stage, block: Block) -> Tensor:
        start = stage.start[block.kind].expand(self.edges.mask[block.kind].shape)
        return block.of(without(self.state["dropped"], start, block.kind))

    def silent(self, stage: Stage, ended: bool) -> Tensor | None:
        dropped = self._weakest(stage) if ended and stage.number == 1 else self.state["dropped"]
        return dropped if bool(dropped.any()) else None

    def _weakest(self, stage: Stage) -> Tensor:
        # Edges within a round decide: they all exist in both stages, temporal ones may be switched off.
        start = stage.start["spatial"]
        return torch.stack([weakest_agents(theta, start, AGENT_RATE) for theta in self.edges.logits["spatial"]])


RULES: dict[Rule, type[PruningRule]] = {
    "progressive": Progressive,
    "by_sign": BySign,
    "once": Once,
    "likely": Likely,
    "agents": AgentRule,
}


def room_for(share: float, start: Tensor) -> int:
    """Number of edges that a share leaves of a matrix's edges at the start (bool). At least one."""
    return max(1, round(int(start.sum()) * share))


def without(agents: Tensor, edges: Tensor, kind: str) -> Tensor:
    """Edges of one kind, without edges from or to agents that are out of a round.

    agents: bool [rounds or 1, agents]; edges and result: bool [rounds or 1, sender, receiver] (of temporal edges, one
    matrix for each round but the first: into it from the round before).
    """
    if kind == "decision":
        return edges  # the decision agent reads agents that take part, whether their edges are learned or not
    senders = receivers = agents
    if kind == "temporal" and len(agents) > 1:
        senders, receivers = agents[:-1], agents[1:]
    return edges & ~(senders[:, :, None] | receivers[:, None, :])


def largest(p: Tensor, present: Tensor, room: int, generator: Generator) -> Tensor:
    """Keeps the `room` most probable of the present edges of one matrix, at least one (Eqs. 13, 14).

    Equal p are cut at random: by index, an estimator that has learned nothing yet would cut the last agents' edges.
    p: float, present and result: bool, of one shape.
    """
    edges = present.flatten().nonzero().squeeze(1)
    if not len(edges):
        return present.clone()
    edges = edges[torch.randperm(len(edges), generator=generator)]
    # Stable: the shuffle above decides between equal p.
    ranked = edges[p.flatten()[edges].argsort(descending=True, stable=True)]
    stays = torch.zeros(present.numel(), dtype=torch.bool)
    stays[ranked[: max(1, room)]] = True
    return stays.view(present.shape)


def worst_half(
    harmful: Mapping[str, Tensor], theta: Mapping[str, Tensor], mask: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Picks the harmful edges to cut at once: at most half of what a receiver hears, the most harmful first.

    An edge was judged with the others there. Where messages replace each other each seems to harm, and without the
    others it may help: what is left is judged again. harmful, mask: bool, theta: float, [sender, receiver] by kind; the
    decision agent is one more receiver.
    """

    def worst(harmful: Tensor, theta: Tensor, mask: Tensor) -> Tensor:
        rank = theta.where(harmful, torch.inf).argsort(dim=0, stable=True).argsort(dim=0)
        return harmful & (rank < (mask.sum(0) + 1) // 2)

    kinds = ("spatial", "temporal")
    both = worst(*(torch.cat([each[kind] for kind in kinds]) for each in (harmful, theta, mask)))
    alone = worst(*(each["decision"] for each in (harmful, theta, mask)))
    return dict(zip((*kinds, "decision"), (*both.chunk(2), alone), strict=True))


def weakest_agents(logits: Tensor, present: Tensor, rate: float) -> Tensor:
    """Picks the round(rate * N) agents with the smallest mean logit of all their edges (AgentDropout).

    One agent is always left, and of equal ones the first goes. The mean of no edges is 0. Result: bool [agents].
    logits: float, present: bool, [sender, receiver].
    """
    of_agents = logits.where(present, 0), present.float()
    total, number = (each.sum(0) + each.sum(1) for each in of_agents)
    lightest_first = (total / number.clamp(min=1)).argsort(stable=True)
    dropped = torch.zeros(len(logits), dtype=torch.bool)
    dropped[lightest_first[: min(round(rate * len(logits)), len(logits) - 1)]] = True
    return dropped
