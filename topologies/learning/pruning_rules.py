"""Pruning rules: which edges are cut, and when.

To add one, write its class here, and describe it as a `Rule` in variants.py.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from topologies.learning.early_stopping import EndCut
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import by_kind, side_by_side
from topologies.learning.learner_settings import PruningSettings
from topologies.learning.stages import Block, Stage
from topologies.wiring import KINDS

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
        self.pruning = pruning
        self.edges = edges
        self.random = random
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
        for kind, remaining in self.left(stage, stage.final).items():
            self.edges.cut_others(kind, remaining, tick)

    def left(self, stage: Stage, final: bool) -> dict[str, Tensor]:
        """Edges left if the stage ended now, by kind; `final`: if no later stage learned them again either."""
        remaining = {kind: mask.clone() for kind, mask in self.edges.mask.items()}
        probabilities = self.probabilities(stage)
        for block in stage.blocks:
            rounds = zip(
                block.of(probabilities[block.kind]),
                block.of(self.edges.mask[block.kind]),
                self.rooms(stage, block),
                strict=True,
            )
            of_rounds = [self.left_of(block, p, present, room, final) for p, present, room in rounds]
            block.put(remaining[block.kind], torch.stack(of_rounds))
        return remaining

    def probabilities(self, stage: Stage) -> dict[str, Tensor]:
        """Probabilities that decide a cut at the end, [rounds or 1, sender, receiver] by kind."""
        return {kind: self.edges.probability(kind) for kind in KINDS}

    def rooms(self, stage: Stage, block: Block) -> list[int]:
        """Number of a matrix's edges that the cut at the end leaves at most, in each round that has its own."""
        share = self.share(stage, block)
        start = stage.start[block.kind].expand(self.edges.mask[block.kind].shape)
        return [room_for(share, of_round) for of_round in block.of(self.existing(block.kind, start))]

    def existing(self, kind: str, start: Tensor) -> Tensor:
        """Edges of a stage's start that can be left, bool [rounds or 1, sender, receiver]."""
        return start

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
        return EndCut(self.rooms(stage, block)[-1], self.by_sign)

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
            remaining = self.edges.mask[block.kind].clone()
            block.put(remaining, largest(block.of(self.edges.probability(block.kind)), present, room, generator))
            self.edges.cut_others(block.kind, remaining, tick=step + 1)

    def cut_rest(self, stage: Stage) -> None:
        self.after_step(stage, self.pruning.steps - 1)

    def share(self, stage: Stage, block: Block) -> float:
        return self.schedules[stage.number == 1][-1].share


class BySign(PruningRule):
    """Rule of this project for estimated effects, which are noise in the first steps.

    Harmful edges (p < 1/2) go at the end of every stage. After the last one, the least edges go too, beyond the share
    that M3Prune leaves.

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
        self.state = {f"judged.{kind}": mask.any(0) for kind, mask in self.edges.mask.items()}

    def probabilities(self, stage: Stage) -> dict[str, Tensor]:
        """Spares harmful edges beyond half of what a receiver hears: they are at least 1/2."""
        logits = side_by_side({kind: values.mean(0) for kind, values in self.edges.logits.items()})
        present = side_by_side({kind: self.state[f"judged.{kind}"] for kind in KINDS})
        harmful = present & (logits < 0) & side_by_side(stage.start)
        spared = by_kind(harmful & ~worst_half(harmful, logits, present))
        probabilities = super().probabilities(stage)
        return {kind: p.where(~spared[kind], p.clamp(min=0.5)) for kind, p in probabilities.items()}

    def left_of(self, block: Block, p: Tensor, present: Tensor, room: int, final: bool) -> Tensor:
        """Keeps edges without a negative effect (p >= 1/2), at the end the `room` best; one reader at least."""
        p = p * present
        number = room if final else p.numel()
        threshold = p.flatten().topk(number).values[-1].clamp(min=0.5)
        if block.kind == "decision":
            threshold = threshold.clamp(max=p.max())
        return present & (p >= threshold)


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
        if block.kind == "decision" and not likely.any():
            return largest(p, present, 1, self.random("cut"))
        return likely


class AgentRule(Once):
    """AgentDropout's rule: agents go when the first stage ends. The second stage learns the others' edges afresh, and
    the least probable share of each matrix goes at its end.

    Each round drops agents and cuts edges by itself: an agent may be out of the first round and speak in the second.

    state: `dropped`: bool [rounds, agents].
    """

    def __init__(self, pruning: PruningSettings, edges: EdgeState, random: Random) -> None:
        super().__init__(pruning, edges, random)
        self.state["dropped"] = torch.zeros(edges.logits["spatial"].shape[:2], dtype=torch.bool)

    def begin(self) -> None:
        super().begin()
        for logits in self.edges.logits.values():
            logits.zero_()
        self.edges.forget_gradients()

    def cut(self, stage: Stage, tick: int = 1) -> None:
        if stage.number == 1:
            self.state["dropped"] = self._weakest(stage)
        super().cut(stage, tick=stage.number)

    def left(self, stage: Stage, final: bool) -> dict[str, Tensor]:
        if stage.number > 1:
            return super().left(stage, final)
        dropped = self._weakest(stage)
        return {kind: without(dropped, mask, kind) for kind, mask in self.edges.mask.items()}

    def existing(self, kind: str, start: Tensor) -> Tensor:
        return without(self.state["dropped"], start, kind)

    def silent(self, stage: Stage, ended: bool) -> Tensor | None:
        dropped = self._weakest(stage) if ended and stage.number == 1 else self.state["dropped"]
        return dropped if dropped.any() else None

    def _weakest(self, stage: Stage) -> Tensor:
        # Edges within a round decide: they all exist in both stages, temporal ones may be switched off.
        start = stage.start["spatial"]
        return torch.stack([weakest_agents(logits, start, AGENT_RATE) for logits in self.edges.logits["spatial"]])


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


def worst_half(harmful: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
    """Picks the harmful edges to cut at once: at most half of what a receiver hears, the most harmful first.

    An edge was judged with the others there. Where messages replace each other each seems to harm, and without the
    others it may help: the remaining ones are judged again. harmful, mask: bool, logits: float, [sender, 2 N + 1]
    (`side_by_side`); the decision agent is one more receiver.
    """
    # Senders of both kinds, by receiver, [2 N, N].
    both_kinds = [torch.cat(columns[:, :-1].chunk(2, dim=1)) for columns in (harmful, logits, mask)]
    between_agents = _worst_half(*both_kinds)
    to_decision = _worst_half(harmful[:, -1:], logits[:, -1:], mask[:, -1:])
    return torch.cat([*between_agents.chunk(2), to_decision], dim=1)


def _worst_half(harmful: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
    rank = logits.where(harmful, torch.inf).argsort(dim=0, stable=True).argsort(dim=0)
    return harmful & (rank < (mask.sum(0) + 1) // 2)


def weakest_agents(logits: Tensor, present: Tensor, rate: float) -> Tensor:
    """Picks the round(rate * N) agents with the smallest mean logit of all their edges (AgentDropout).

    One agent is always left, and of equal ones the first goes. The mean of no edges is 0. Result: bool [agents].
    logits: float, present: bool, [sender, receiver].
    """
    agents = len(logits)
    logits = logits.where(present, 0)
    total = logits.sum(0) + logits.sum(1)
    number = present.sum(0) + present.sum(1)
    ascending = (total / number.clamp(min=1)).argsort(stable=True)
    dropped = torch.zeros(agents, dtype=torch.bool)
    dropped[ascending[: min(round(rate * agents), agents - 1)]] = True
    return dropped
