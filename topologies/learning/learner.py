"""M3Prune's learner: it samples wirings, learns from their scores which edges matter and prunes the rest.

It works with any simulator of discussions, here `discuss`, which returns how good each agent's own answer was in each
round, [k, rounds, agents], and how good the final answers were, [k]:

    from topologies.learner import Learner

    learner = Learner(["text", "text", "text", "visual", "visual"])
    while not learner.finished:
        wirings = learner.sample(10)
        turn_scores, utilities = discuss(wirings)
        learner.learn(wirings, turn_scores, utilities)
    spatial, temporal = learner.inference()

Each pass is one question (or several: say which with `groups`). All K wirings of a question should be discussed with
the same question, so that they can be compared. Stages pass by themselves, each after `pruning.steps` passes;
`next_stage()` ends one early. `edge_scores()` ranks all edges, `inference_wirings().decision` says whom the decision
agent reads. Both, and `inference()`, may be asked for at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from actors.messages import Modality, derive_seed
from topologies import wiring
from topologies.graphs import acyclic, as_wirings
from topologies.learning.ascent import Ascent
from topologies.learning.blocks import KINDS, blocks_of, by_modality, listened_to, stage_masks
from topologies.learning.cuts import left_of, weakest_agents
from topologies.learning.edge_state import EdgeState
from topologies.learning.observations import Observations, worth_keeping
from topologies.learning.settings import (
    Clock,
    Decision,
    Estimator,
    Init,
    LearnerSettings,
    Optimiser,
    PruningSettings,
    Rule,
    check_settings,
    share_left,
)
from topologies.learning.step_report import StepReport
from topologies.wiring import Bools, Edges, Floats, Wirings

__all__ = ["Learner", "LearnerSettings", "PruningSettings", "StepReport"]


class Learner:
    """Masks and logits of N agents' edges, and what is done with them.

    Staged (the paper): stage 1 learns and prunes the edges inside each modality, and none between them exists; stage 2
    goes on sampling those unchanged and learns and prunes the edges between modalities, and a learned decision column.
    Else both stages learn all edges, the second those that the first has left. State changes in `learn`, `next_stage`
    and `load`, and in `sample` where a stage is over.
    """

    def __init__(
        self,
        modalities: Iterable[Modality | str],
        *,
        rounds: int = 2,
        seed: int = 0,
        settings: LearnerSettings | None = None,
        pruning: PruningSettings | None = None,
    ) -> None:
        """`modalities`: "text" or "visual" for every agent, in the agents' order. Raises ValueError on bad settings."""
        names = [str(modality) for modality in modalities]
        wrong = sorted(set(names) - {"text", "visual"})
        if wrong or not names:
            raise ValueError(f"each agent is text or visual, got {', '.join(wrong) or 'no agents'}")
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        self.modalities = tuple(map(Modality, names))
        self.settings = settings or LearnerSettings()
        self.pruning = pruning or PruningSettings()
        check_settings(self.settings, self.pruning)
        self.rounds, self.seed, self.agents = rounds, seed, len(names)
        self.stage, self.step, self._over = 1, 0, False
        visual = torch.tensor([name == "visual" for name in names])
        mixed = bool(visual.any()) and not bool(visual.all())
        by_rule = self.pruning.rule != Rule.PROGRESSIVE
        self.stages = 2 if (self.settings.inter and mixed) or self.pruning.rule == Rule.AGENTS else 1
        learned = self.settings.decides() == Decision.LEARNED
        self._start = stage_masks(visual, self.stages, rounds, learned, self.settings.in_stages())
        if not self.settings.temporal:
            self._start = {s: {**m, "temporal": torch.zeros_like(m["temporal"])} for s, m in self._start.items()}
        groups = {"agents": torch.arange(self.agents)} if by_rule else by_modality(visual)
        self._blocks = {stage: blocks_of(start, groups) for stage, start in self._start.items()}
        self._dropped = torch.zeros(self.agents, dtype=torch.bool)  # agents, with Rule.AGENTS
        copies = {"spatial": rounds, "temporal": max(1, rounds - 1), "decision": 1}
        adam = self.settings.optimiser == Optimiser.ADAM
        self._edges = EdgeState(self._start[1], copies if self.settings.per_round else dict.fromkeys(KINDS, 1), adam)
        self._pruning_rate = self._first_rate()
        by_effects = self.settings.estimator == Estimator.EFFECTS
        self._observations = Observations(self._edges.logits, rounds) if by_effects else None
        if self.settings.init == Init.GUMBEL:
            generator = Generator().manual_seed(derive_seed(seed, "gumbel"))
            for stage, blocks in self._blocks.items():
                for block in blocks:
                    self._edges.start_from_noise(block, self._start[stage], self.settings.tau, generator)

    @property
    def finished(self) -> bool:
        """Whether all stages are over. To learn on is no mistake: what is left is learned and pruned further."""
        return self._over or (self.stage == self.stages and self.step >= self.pruning.steps)

    def sample(self, k: int, draw: int = 0, ahead: int = 0) -> Wirings:
        """Draw `k` wirings, of the next stage where `pruning.steps` steps of this one are done.

        The same stage, step and `draw` give the same ones, also after `load`. `ahead` asks for those of a later step,
        so many steps after the next one. Raises ValueError when k is below 1 or `ahead` above `foresight()`.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if self.step >= self.pruning.steps and self.stage < self.stages:
            self.next_stage()
        if not 0 <= ahead <= self.foresight():
            raise ValueError(f"ahead must be from 0 to {self.foresight()} here, got {ahead}")
        generator = self._generator("wirings", draw, ahead)
        order = wiring.sample_permutations(k, self.rounds, self.agents, generator)
        allowed = {
            "spatial": wiring.allowed_spatial(self._edges.mask["spatial"], order),
            "temporal": wiring.allowed_temporal(self._edges.mask["temporal"], k, self.rounds),
        }
        taken = {"spatial": wiring.sample_edges(self._chances("spatial"), allowed["spatial"], generator)}
        later = wiring.sample_edges(self._chances("temporal"), allowed["temporal"][:, 1:], generator)
        taken["temporal"] = torch.zeros_like(allowed["temporal"])
        taken["temporal"][:, 1:] = later
        readers = self._readers().expand(k, 1, self.agents, 1)
        read = readers
        if self._learns_decision():
            read = wiring.sample_edges(self._chances("decision"), readers, generator)
        return Wirings(
            spatial=taken["spatial"].numpy(),
            temporal=taken["temporal"].numpy(),
            allowed=Edges(allowed["spatial"].numpy(), allowed["temporal"].numpy()),
            order=order.numpy(),
            decision=read[:, 0, :, 0].numpy().copy(),
            decision_allowed=readers[:, 0, :, 0].numpy().copy(),
        )

    def foresight(self) -> int:
        """How many steps can be sampled beyond the next one: discussions of several steps may then be held at once.

        With `effects` the rest of the stage, because nothing that is learned in it changes how it samples; else none.
        """
        return max(0, self.pruning.steps - self.step - 1) if self._observations else 0

    def learn(
        self,
        wirings: Wirings,
        turn_scores: npt.ArrayLike,
        utilities: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
    ) -> StepReport:
        """One training step: gradient ascent on the objective (Eqs. 7, 8, 11), then pruning (Eqs. 13, 14).

        With `effects`, both follow what listening does: logits are effect / standard deviation, the other terms of the
        objective have no say, and edges are cut when a stage ends.
        turn_scores: [k, rounds, agents], how good each agent's own answer was; only `effects` uses it.
        utilities: [k], the final answers'. groups: int [k], the question that each sample belongs to (one by default).
        Raises ValueError on a wrong shape, a value that is not finite, and with `rloo` a question with one sample.
        """
        k = len(wirings.spatial)
        wiring.check_shapes(wirings, self.rounds, self.agents)
        utility = torch.from_numpy(_finite("utilities", utilities, (k,))).float()
        scores = torch.from_numpy(_finite("turn_scores", turn_scores, (k, self.rounds, self.agents)))
        question = np.zeros(k) if groups is None else np.asarray(groups)
        if question.shape != (k,):
            raise ValueError(f"groups has shape {question.shape}, expected {(k,)}")
        group = torch.tensor(np.unique(question, return_inverse=True)[1])
        ascent = self._ascent()
        if self._observations:
            terms = ascent.terms(self._edges.mask, self._edges.logits)
            chances = {kind: self._chances(kind) for kind in KINDS if kind != "decision" or self._learns_decision()}
            self._observations.add(wirings, scores, utility, group, chances)
            change = self._believe(self._observations)
        else:
            change, terms = ascent.step(self._edges, wirings, utility, group)
        self._prune()
        self.step += 1
        if self.finished:
            self._cut()
        return StepReport(
            stage=self.stage,
            step=self.step,
            utility=float(utility.mean()),
            rank=terms["rank"].item(),
            noise=terms["noise"].item(),
            alignment=terms["alignment"].item(),
            objective=utility.mean().item() + ascent.regular(terms).item(),
            gradient_norm=float(torch.stack([g.norm() for g in change.values()]).norm()),
            pruning_rate=self._pruning_rate,
            edges=self.edges_left(),
        )

    def next_stage(self) -> None:
        """Go on to stage 2, or finish after the last stage. A staged one's edges start fully connected."""
        self._cut()
        if self.stage == self.stages:
            self._over = True
            return
        before = self._start[self.stage]
        self.stage, self.step = self.stage + 1, 0
        self._pruning_rate = self._first_rate()
        for kind in KINDS:
            self._edges.mask[kind] |= self._start[self.stage][kind] & ~before[kind]
        if self._observations:
            self._believe(self._observations)
        if self.pruning.rule == Rule.AGENTS:
            self._edges.start_afresh()

    def edges_left(self) -> dict[str, int]:
        """Present edges of every matrix so far, by "sender>receiver kind"."""
        seen = [block for stage in range(1, self.stage + 1) for block in self._blocks[stage]]
        return {block.name: int(block.of(self._edges.mask[block.kind]).sum()) for block in seen}

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """p * mask, float [sender, receiver]; of one round (from 1) or the mean over rounds where they differ."""
        kept = {kind: self._edges.probability(kind, round) * self._edges.mask[kind] for kind in ("spatial", "temporal")}
        return Edges(kept["spatial"].double().numpy(), kept["temporal"].double().numpy())

    def chances(self) -> Edges[Floats]:
        """With what probability `sample` takes each edge that it may, float [sender, receiver] (the mean over rounds).

        Reading weights come from it while learning: with `effects`, whose coins are fair, all edges then weigh alike.
        """
        chances = {kind: self._chances(kind).mean(0) * self._edges.mask[kind] for kind in ("spatial", "temporal")}
        return Edges(chances["spatial"].double().numpy(), chances["temporal"].double().numpy())

    def decision_probabilities(self) -> Floats:
        """How likely the decision agent reads each agent, float [agents]; 0 or 1 unless that is learned."""
        read = self._readers()[:, 0].double()
        if self._learns_decision():
            read = read * self._edges.probability("decision")[:, 0]
        return read.numpy()

    def edge_scores(self) -> Edges[Floats]:
        """A ranking of all edges, float [sender, receiver]: p where present, negative where pruned, -inf for no edge.

        A pruned edge ranks below the present ones of its matrix, and the lower the earlier it was pruned; of those
        pruned together, and with `effects` of all, the one with the smaller p is lower.
        """
        return Edges(self._edges.score("spatial"), self._edges.score("temporal"))

    def inference(self) -> Edges[Bools]:
        """The edges to answer with, bool [sender, receiver] (section 8's threshold wiring; deterministic).

        All edges that pruning left are candidates, whatever their p: pruning is the threshold. The spatial ones are
        added in descending p unless they close a cycle; every temporal one stays.
        """
        kept = {kind: mask.numpy() for kind, mask in self._worth().items()}
        return Edges(acyclic(kept["spatial"], self.probabilities().spatial), kept["temporal"])

    def inference_wirings(self, k: int = 1) -> Wirings:
        """`inference()` as `k` equal wirings; a learned decision column reads everyone that pruning left in it."""
        readers = self._worth()["decision"] if self._learns_decision() else self._readers()
        return as_wirings(self.inference(), self.rounds, k, decision=readers[:, 0].numpy())

    def state(self) -> dict[str, Tensor]:
        """All that changes while learning, as tensors that safetensors can store; `load` takes it back."""
        tensors = self._edges.tensors()
        clock = {"stage": self.stage, "step": self.step, "finished": int(self.finished)}
        tensors |= {name: torch.tensor(value) for name, value in clock.items()}
        if self._observations:
            tensors |= {f"seen.{name}": value for name, value in self._observations.tensors().items()}
        if self.pruning.rule == Rule.AGENTS:
            tensors["dropped"] = self._dropped.clone()
        return tensors | {"pruning_rate": torch.tensor(self._pruning_rate, dtype=torch.float64)}

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue from `state()` of a learner with the same agents, rounds and settings.

        Raises ValueError when names, shapes or types differ; the learner is then as it was.
        """
        for name, mine in self.state().items():
            if name not in state:
                raise ValueError(f"learner state lacks {name}: it is not a state of this kind of learner")
            theirs = state[name]
            if theirs.shape != mine.shape or theirs.dtype != mine.dtype:
                raise ValueError(
                    f"learner state has {name} as {theirs.dtype} {tuple(theirs.shape)}, this learner needs "
                    f"{mine.dtype} {tuple(mine.shape)}: use the agents, rounds and settings it was saved with"
                )
        stage, step = int(state["stage"]), int(state["step"])
        if not 1 <= stage <= self.stages or step < 0:
            raise ValueError(f"learner state is at stage {stage}, step {step}: this learner has {self.stages} stage(s)")
        self._edges.restore(state)
        if self.pruning.rule == Rule.AGENTS:
            self._dropped = state["dropped"].clone()
        if self._observations:
            self._observations.restore({name.removeprefix("seen."): value for name, value in state.items()})
        self.stage, self.step, self._over = stage, step, bool(state["finished"])
        self._pruning_rate = float(state["pruning_rate"])

    def _generator(self, purpose: str, draw: int = 0, ahead: int = 0) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, purpose, self.stage, self.step + ahead, draw))

    def _first_rate(self) -> float:
        return self.pruning.first_rate(intra=self.stage == 1)

    def _chances(self, kind: str) -> Tensor:
        """With what probability `sample` takes each allowed edge, [rounds or 1, sender, receiver].

        `effects` goes on tossing a fair coin: that tells most about an edge, and following p was not better.
        """
        theta = self._edges.logits[kind]
        return torch.full_like(theta, 0.5) if self._observations else theta.sigmoid()

    def _learns_decision(self) -> bool:
        return bool(self._start[self.stage]["decision"].any())

    def _readers(self) -> Tensor:
        """Whom the decision agent may read, bool [agents, 1].

        `connected` leaves out an agent that pruning (not one draw) left with no edge to another agent; one that never
        had such an edge is still read.
        """
        if self._learns_decision():
            return self._edges.mask["decision"]
        if self.settings.decides() != Decision.CONNECTED:
            return torch.ones(self.agents, 1, dtype=torch.bool)
        had = {kind: torch.stack([self._start[s][kind] for s in range(1, self.stage + 1)]).any(0) for kind in KINDS}
        return listened_to(had, self._edges.mask)[:, None]

    def _ascent(self) -> Ascent:
        return Ascent(self.settings, self._start[self.stage], self._blocks[self.stage])

    def _believe(self, seen: Observations) -> dict[str, Tensor]:
        """Set this stage's logits to what the observations say; the change by kind."""
        change = {}
        for kind, theta in seen.logits().items():
            change[kind] = (theta - self._edges.logits[kind]) * self._start[self.stage][kind]
            self._edges.logits[kind] += change[kind]
            self._edges.rank_anew(kind)
        return change

    def _prune(self) -> None:
        """Eqs. 13 and 14, for as many ticks as a step has; with `effects` or another rule, that is left to `_cut`."""
        if self.pruning.rule != Rule.PROGRESSIVE:
            return
        ticks = self.rounds if self.pruning.clock == Clock.ROUND else 1
        generator = self._generator("pruning")
        for tick in range(self.step * ticks + 1, (self.step + 1) * ticks + 1):
            self._pruning_rate *= exp(-tick / (self.pruning.steps * ticks))
            if not self._observations:
                for block in self._blocks[self.stage]:
                    self._edges.prune(block, self._pruning_rate, tick, generator)

    def _cut(self) -> None:
        """With `effects` or another rule: keep of each matrix what is worth keeping. Doing it again changes nothing."""
        if self.pruning.rule == Rule.AGENTS and self.stage == 1:
            self._dropped = self._weakest()
        for kind, kept in self._worth(last=self.stage == self.stages or self.settings.in_stages()).items():
            self._edges.keep(kind, kept, tick=self.stage if self.pruning.rule == Rule.AGENTS else 1)

    def _worth(self, last: bool = True) -> dict[str, Tensor]:
        """The edges that would be left if learning ended here, by kind; those that harm are cut first, and no others
        if more is to come (`last` is False)."""
        kept = {kind: mask.clone() for kind, mask in self._edges.mask.items()}
        if self.pruning.rule != Rule.PROGRESSIVE:
            return self._by_rule(kept, last)
        if not self._observations:
            return kept
        ticks = self.pruning.steps * (self.rounds if self.pruning.clock == Clock.ROUND else 1)
        for block in self._blocks[self.stage]:
            p, present = self._edges.probability(block.kind), self._edges.mask[block.kind]
            share = share_left(self.pruning.first_rate(block.intra), ticks, ticks) if last else 1.0
            room = max(1, round(int(block.of(self._start[self.stage][block.kind]).sum()) * share))
            kept[block.kind][block.cells] = worth_keeping(block, p, present, room)
        return kept

    def _by_rule(self, kept: dict[str, Tensor], last: bool) -> dict[str, Tensor]:
        """What a rule other than the progressive one leaves; before the last stage ends only agents go."""
        if self.pruning.rule == Rule.AGENTS:
            gone = self._weakest() if self.stage == 1 else self._dropped
            for kind in ("spatial", "temporal"):
                kept[kind] &= ~(gone[:, None] | gone)
        if not last or (self.pruning.rule == Rule.AGENTS and self.stage == 1):
            return kept
        for block in self._blocks[self.stage]:
            p, present = block.of(self._edges.probability(block.kind)), block.of(kept[block.kind])
            gone = self._dropped[:, None] if block.kind == "decision" else self._dropped[:, None] | self._dropped
            start = int((self._start[self.stage][block.kind] & ~gone).sum())
            room = max(1, round(start * self.pruning.share_at_end()))
            kept[block.kind][block.cells] = left_of(block, self.pruning.rule, p, present, room, self._generator("cut"))
        return kept

    def _weakest(self) -> Tensor:
        """The agents that Rule.AGENTS drops, bool [agents]: by their edges within a round, all of which are learned."""
        start = self._start[1]["spatial"]
        return weakest_agents(self._edges.probability("spatial"), start, self.pruning.agent_rate)


def _finite(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity: score every sample, a failed one as 0")
    return array
