"""M3Prune's learner: it samples wirings, learns from their scores which edges matter and prunes the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from actors.messages import Modality, derive_seed
from topologies import wiring
from topologies.blocks import KINDS, blocks_of, starting_masks
from topologies.edge_state import EdgeState
from topologies.graphs import acyclic, as_wirings
from topologies.objective import alignment, leave_one_out, nuclear_norm, root_mean_square
from topologies.settings import Clock, Decision, Estimator, Init, LearnerSettings, PruningSettings, check_settings
from topologies.wiring import Bools, Edges, Floats, Wirings

__all__ = ["Learner", "LearnerSettings", "PruningSettings", "StepReport"]


@dataclass(frozen=True)
class StepReport:
    """One training step. The terms are those of the objective before the step, without their weights.

    utility: mean over the samples. rank: nuclear norms, summed over matrices. noise: what the root mean square of
    mask0 - p * mask exceeds epsilon by. alignment: mean cosines, summed over kinds. gradient_norm: over all logits that
    this stage trains. pruning_rate: the p_t last used. edges: left after the step, by "sender>receiver kind".
    """

    stage: int
    step: int
    utility: float
    rank: float
    noise: float
    alignment: float
    objective: float
    gradient_norm: float
    pruning_rate: float
    edges: dict[str, int]


class Learner:
    """Masks and logits of N agents' edges, and what is done with them.

    Stage 1 learns and prunes the edges inside each modality, and none between them exists; stage 2 goes on sampling
    those unchanged and learns and prunes the edges between modalities. A learned decision column belongs to the last
    stage. State changes in `learn`, `next_stage` and `load` only.
    """

    def __init__(
        self,
        modalities: Sequence[Modality | str],
        *,
        rounds: int = 2,
        seed: int = 0,
        settings: LearnerSettings | None = None,
        pruning: PruningSettings | None = None,
    ) -> None:
        """`modalities`: "text" or "visual" for every agent, in the agents' order. Raises ValueError on bad settings."""
        wrong = sorted({str(m) for m in modalities} - {"text", "visual"})
        if wrong or not modalities:
            raise ValueError(f"each agent is text or visual, got {', '.join(wrong) or 'no agents'}")
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        self.settings = settings or LearnerSettings()
        self.pruning = pruning or PruningSettings()
        check_settings(self.settings, self.pruning)
        self.rounds, self.seed, self.agents = rounds, seed, len(modalities)
        self.stage, self.step, self.finished = 1, 0, False
        visual = torch.tensor([m == Modality.VISUAL for m in modalities])
        mixed = bool(visual.any()) and not bool(visual.all())
        self.stages = 2 if self.settings.inter and mixed else 1
        learned = self.settings.decision == Decision.LEARNED
        self._start = {
            stage: starting_masks(visual, stage, rounds, learned and stage == self.stages)
            for stage in range(1, self.stages + 1)
        }
        self._blocks = {stage: blocks_of(start, visual) for stage, start in self._start.items()}
        copies = {"spatial": rounds, "temporal": max(1, rounds - 1), "decision": 1}
        self._edges = EdgeState(self._start[1], copies if self.settings.per_round else dict.fromkeys(KINDS, 1))
        self._pruning_rate = self._first_rate()
        if self.settings.init == Init.GUMBEL:
            self._start_from_noise()

    def sample(self, k: int, draw: int = 0) -> Wirings:
        """Draw `k` wirings. The same stage, step and `draw` give the same ones, also after `load`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        generator = self._generator("wirings", draw)
        order = wiring.sample_permutations(k, self.rounds, self.agents, generator)
        allowed = {
            "spatial": wiring.allowed_spatial(self._edges.mask["spatial"], order),
            "temporal": wiring.allowed_temporal(self._edges.mask["temporal"], k, self.rounds),
        }
        taken = {"spatial": wiring.sample_edges(self._edges.logits["spatial"].sigmoid(), allowed["spatial"], generator)}
        later = wiring.sample_edges(self._edges.logits["temporal"].sigmoid(), allowed["temporal"][:, 1:], generator)
        taken["temporal"] = torch.zeros_like(allowed["temporal"])
        taken["temporal"][:, 1:] = later
        readers = self._readers().expand(k, 1, self.agents, 1)
        read = readers
        if self._learns_decision():
            read = wiring.sample_edges(self._edges.logits["decision"].sigmoid(), readers, generator)
        return Wirings(
            spatial=taken["spatial"].numpy(),
            temporal=taken["temporal"].numpy(),
            allowed=Edges(allowed["spatial"].numpy(), allowed["temporal"].numpy()),
            order=order.numpy(),
            decision=read[:, 0, :, 0].numpy().copy(),
            decision_allowed=readers[:, 0, :, 0].numpy().copy(),
        )

    def learn(
        self,
        wirings: Wirings,
        turn_scores: npt.ArrayLike,
        utilities: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
    ) -> StepReport:
        """One training step: gradient ascent on the objective (Eqs. 7, 8, 11), then pruning (Eqs. 13, 14).

        turn_scores: [k, rounds, agents], how good each agent's own answer was; these estimators do not use it.
        utilities: [k], the final answers'. groups: int [k], the question that each sample belongs to (one by default).
        Raises ValueError on a wrong shape or a value that is not finite, and after the last stage.
        """
        if self.finished:
            raise ValueError("the last stage is over: sample and infer, or load an earlier state to learn")
        k = len(wirings.spatial)
        wiring.check_shapes(wirings, self.rounds, self.agents)
        utility = torch.from_numpy(_finite("utilities", utilities, (k,))).float()
        _finite("turn_scores", turn_scores, (k, self.rounds, self.agents))
        question = np.zeros(k) if groups is None else np.asarray(groups)
        if question.shape != (k,):
            raise ValueError(f"groups has shape {question.shape}, expected {(k,)}")
        group = torch.tensor(np.unique(question, return_inverse=True)[1])
        credit = utility if self.settings.estimator == Estimator.REINFORCE else leave_one_out(utility, group)

        logits = {kind: theta.clone().requires_grad_() for kind, theta in self._edges.logits.items()}
        terms = self._terms(logits)
        surrogate = (credit * self._log_probability(logits, wirings)).mean()
        settings, start = self.settings, self._start[self.stage]
        regular = (
            settings.align_weight * terms["alignment"]
            - settings.rank_weight * terms["rank"]
            - settings.noise_weight * terms["noise"]
        )
        ascent = torch.autograd.grad(surrogate + regular, [logits[kind] for kind in KINDS])
        trained = {kind: start[kind] & self._edges.mask[kind] for kind in KINDS}
        gradient = {kind: g * trained[kind] for kind, g in zip(KINDS, ascent, strict=True)}
        for kind in KINDS:
            self._edges.logits[kind] += settings.rate * gradient[kind]
        self._prune()
        self.step += 1
        return StepReport(
            stage=self.stage,
            step=self.step,
            utility=float(utility.mean()),
            rank=terms["rank"].item(),
            noise=terms["noise"].item(),
            alignment=terms["alignment"].item(),
            objective=utility.mean().item() + regular.item(),
            gradient_norm=float(torch.stack([g.norm() for g in gradient.values()]).norm()),
            pruning_rate=self._pruning_rate,
            edges=self.edges_left(),
        )

    def next_stage(self) -> None:
        """Go on to stage 2, whose edges start fully connected, or finish after the last stage."""
        if self.stage == self.stages:
            self.finished = True
            return
        self.stage, self.step = self.stage + 1, 0
        self._pruning_rate = self._first_rate()
        for kind in KINDS:
            self._edges.mask[kind] |= self._start[self.stage][kind]

    def edges_left(self) -> dict[str, int]:
        """Present edges of every matrix so far, by "sender>receiver kind"."""
        seen = [block for stage in range(1, self.stage + 1) for block in self._blocks[stage]]
        return {block.name: int(block.of(self._edges.mask[block.kind]).sum()) for block in seen}

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """p * mask, float [sender, receiver]; of one round (from 1) or the mean over rounds where they differ."""
        kept = {kind: self._edges.probability(kind, round) * self._edges.mask[kind] for kind in ("spatial", "temporal")}
        return Edges(kept["spatial"].double().numpy(), kept["temporal"].double().numpy())

    def decision_probabilities(self) -> Floats:
        """How likely the decision agent reads each agent, float [agents]; 0 or 1 unless that is learned."""
        read = self._readers()[:, 0].double()
        if self._learns_decision():
            read = read * self._edges.probability("decision")[:, 0]
        return read.numpy()

    def edge_scores(self) -> Edges[Floats]:
        """A ranking of all edges, float [sender, receiver]: p where present, negative where pruned, -inf for no edge.

        A pruned edge ranks below the present ones of its matrix, and the lower the earlier it was pruned; of those
        pruned together, the one with the smaller p is lower.
        """
        return Edges(self._edges.score("spatial"), self._edges.score("temporal"))

    def inference(self) -> Edges[Bools]:
        """The edges to answer with, bool [sender, receiver] (section 8's threshold wiring; deterministic).

        All edges that pruning left are candidates, whatever their p: pruning is the threshold. The spatial ones are
        added in descending p unless they close a cycle; every temporal one stays.
        """
        mask = {kind: self._edges.mask[kind].numpy().copy() for kind in KINDS}
        return Edges(acyclic(mask["spatial"], self.probabilities().spatial), mask["temporal"])

    def inference_wirings(self, k: int = 1) -> Wirings:
        """`inference()` as `k` equal wirings; a learned decision column reads everyone that pruning left in it."""
        return as_wirings(self.inference(), self.rounds, k, decision=self._readers()[:, 0].numpy())

    def state(self) -> dict[str, Tensor]:
        """All that changes while learning, as tensors that safetensors can store; `load` takes it back."""
        tensors = self._edges.tensors()
        clock = {"stage": self.stage, "step": self.step, "finished": int(self.finished)}
        tensors |= {name: torch.tensor(value) for name, value in clock.items()}
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
        self.stage, self.step, self.finished = stage, step, bool(state["finished"])
        self._pruning_rate = float(state["pruning_rate"])

    def _generator(self, purpose: str, draw: int = 0) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, purpose, self.stage, self.step, draw))

    def _first_rate(self) -> float:
        own = self.pruning.intra_rate if self.stage == 1 else self.pruning.inter_rate
        return self.pruning.rate if own is None else own

    def _start_from_noise(self) -> None:
        generator = Generator().manual_seed(derive_seed(self.seed, "gumbel"))
        for stage, blocks in self._blocks.items():
            for block in blocks:
                exists, theta = block.of(self._start[stage][block.kind]), self._edges.logits[block.kind]
                p = wiring.gumbel_probability(exists.expand(len(theta), *exists.shape), self.settings.tau, generator)
                theta[(..., *block.cells)] = p.clamp(1e-3, 1 - 1e-3).logit()

    def _learns_decision(self) -> bool:
        return self.settings.decision == Decision.LEARNED and self.stage == self.stages

    def _readers(self) -> Tensor:
        """Whom the decision agent may read, bool [agents, 1].

        `connected` leaves out an agent that pruning (not one draw) left with no edge to another agent; one that never
        had such an edge is still read.
        """
        if self._learns_decision():
            return self._edges.mask["decision"]
        if self.settings.decision != Decision.CONNECTED:
            return torch.ones(self.agents, 1, dtype=torch.bool)
        had = torch.zeros(self.agents, self.agents, dtype=torch.bool)
        for stage in range(1, self.stage + 1):
            had |= self._start[stage]["spatial"] | self._start[stage]["temporal"]
        has = self._edges.mask["spatial"] | self._edges.mask["temporal"]
        others = ~torch.eye(self.agents, dtype=torch.bool)
        return (has & others).any(1, keepdim=True) | ~(had & others).any(1, keepdim=True)

    def _log_probability(self, logits: dict[str, Tensor], wirings: Wirings) -> Tensor:
        """log P of each wiring [k], over all kinds of edges, those frozen or always present included."""
        drawn = {
            "spatial": (wirings.allowed.spatial, wirings.spatial),
            "temporal": (wirings.allowed.temporal[:, 1:], wirings.temporal[:, 1:]),
            "decision": (wirings.decision_allowed[:, None, :, None], wirings.decision[:, None, :, None]),
        }
        total = torch.zeros(len(wirings.spatial))
        for kind, (allowed, taken) in drawn.items():
            pair = torch.tensor(allowed), torch.tensor(taken)  # copies: arrays that crossed a process are read-only
            total = total + wiring.log_probability(logits[kind], *pair, self.settings.likelihood)
        return total

    def _terms(self, logits: dict[str, Tensor]) -> dict[str, Tensor]:
        """Rank, noise and alignment of the matrices that this stage trains."""
        weighted = {kind: theta.sigmoid() * self._edges.mask[kind] for kind, theta in logits.items()}
        matrices = {block.name: block.of(weighted[block.kind]) for block in self._blocks[self.stage]}
        rms = root_mean_square([self._start[self.stage][kind] for kind in KINDS], [weighted[kind] for kind in KINDS])
        aligned = [
            alignment(matrices[f"text>visual {kind}"], matrices[f"visual>text {kind}"])
            for kind in ("spatial", "temporal")
            if f"text>visual {kind}" in matrices
        ]
        return {
            "rank": torch.stack([nuclear_norm(m) for m in matrices.values()]).sum() if matrices else torch.zeros(()),
            "noise": (rms - self.settings.epsilon).relu(),
            "alignment": torch.stack(aligned).sum() if aligned else torch.zeros(()),
        }

    def _prune(self) -> None:
        ticks = self.rounds if self.pruning.clock == Clock.ROUND else 1
        generator = self._generator("pruning")
        for tick in range(self.step * ticks + 1, (self.step + 1) * ticks + 1):
            self._pruning_rate *= exp(-tick / (self.pruning.steps * ticks))
            for block in self._blocks[self.stage]:
                self._edges.prune(block, self._pruning_rate, tick, generator)


def _finite(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity: score every sample, a failed one as 0")
    return array
