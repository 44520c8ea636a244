"""M3Prune's learner: samples wirings, learns from their scores which edges matter, and prunes the rest.

It works with any simulator of discussions, here `discuss`, which returns how good each agent's own answer was in each
round, [k, rounds, agents], and how good the final answers were, [k]:

    from topologies.learning.learner import Learner

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

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from actors.messages import Modality, derive_seed
from topologies.graphs import acyclic, as_wirings
from topologies.learning.blocks import KINDS, Stage, listened_to, stages_of
from topologies.learning.edge_state import EdgeState
from topologies.learning.estimators import ESTIMATORS, resolved
from topologies.learning.pruning_rules import rule_for
from topologies.learning.settings import Decision, Init, LearnerSettings, Optimiser, PruningSettings
from topologies.learning.step_report import StepReport
from topologies.wiring import Bools, Edges, Floats, Wirings, check_shapes, sample_wirings

__all__ = ["Learner", "LearnerSettings", "PruningSettings", "StepReport"]


class Learner:
    """Masks and logits of N agents' edges, learned by an estimator and pruned by a rule.

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
        unknown = sorted(set(names) - {"text", "visual"})
        if unknown or not names:
            raise ValueError(f"each agent is text or visual, got {', '.join(unknown) or 'no agents'}")
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        settings, self.pruning = settings or LearnerSettings(), pruning or PruningSettings()
        settings.check()
        self.pruning.check()
        self.settings = settings = resolved(settings)
        self.modalities = tuple(map(Modality, names))
        self.rounds, self.seed, self.agents = rounds, seed, len(names)
        self.stage, self.step, self._over = 1, 0, False

        estimator = ESTIMATORS[settings.estimator]
        rule = rule_for(settings, self.pruning, estimator.each_step)
        visual = torch.tensor([name == "visual" for name in names])
        mixed = bool(visual.any()) and not bool(visual.all())
        self.stages = max(rule.stages, 2 if settings.inter and mixed else 1)
        self._stages = stages_of(visual, self.stages, rounds, settings, rule.whole)

        own = {"spatial": rounds, "temporal": max(1, rounds - 1), "decision": 1}
        copies = own if settings.per_round else dict.fromkeys(KINDS, 1)
        self._edges = EdgeState(self._stages[1].start, copies, settings.optimiser == Optimiser.ADAM)
        if settings.init == Init.GUMBEL:
            generator = Generator().manual_seed(derive_seed(seed, "gumbel"))
            for stage in self._stages.values():
                for block in stage.blocks:
                    self._edges.start_from_noise(block, stage.start, settings.tau, generator)
        self._estimator = estimator(settings, self._edges, rounds, visual)
        self._rule = rule(self.pruning, self._edges, rounds, estimator.each_step)

    @property
    def finished(self) -> bool:
        """Whether all stages are over. To learn on is no mistake: what is left is learned and pruned further."""
        return self._over or (self.stage == self.stages and self.step >= self.pruning.steps)

    def sample(self, k: int, draw: int = 0, ahead: int = 0) -> Wirings:
        """Draws `k` wirings, of the next stage where `pruning.steps` steps of this one are done.

        The same stage, step and `draw` give the same ones, also after `load`. `ahead` asks for those of a later step,
        so many steps after the next one. Raises ValueError when k is below 1 or `ahead` above `foresight()`.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if self.step >= self.pruning.steps and self.stage < self.stages:
            self.next_stage()
        if not 0 <= ahead <= self.foresight():
            raise ValueError(f"ahead must be from 0 to {self.foresight()} here, got {ahead}")
        chances, generator = self._estimator.chances(self._stage), self._generator("wirings", draw, ahead)
        return sample_wirings(k, self.rounds, self._edges.mask, chances, self._readers(), generator)

    def foresight(self) -> int:
        """The number of steps beyond the next one that can be sampled, to hold their discussions at the same time."""
        return self._estimator.foresight(self.pruning.steps_to_look(self.step) - 1)

    def learn(
        self,
        wirings: Wirings,
        turn_scores: npt.ArrayLike,
        utilities: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
    ) -> StepReport:
        """One training step: the estimator changes the logits, then the rule prunes.

        turn_scores: [k, rounds, agents], how good each agent's own answer was; only `effects` uses it.
        utilities: [k], the final answers'. groups: int [k], the question that each sample belongs to (one by default).
        Raises ValueError on a wrong shape, a value that is not finite, and with `rloo` a question with one sample.
        """
        k = len(wirings.spatial)
        check_shapes(wirings, self.rounds, self.agents)
        utility = torch.from_numpy(_finite("utilities", utilities, (k,))).float()
        scores = torch.from_numpy(_finite("turn_scores", turn_scores, (k, self.rounds, self.agents)))
        question = np.zeros(k) if groups is None else np.asarray(groups)
        if question.shape != (k,):
            raise ValueError(f"groups has shape {question.shape}, expected {(k,)}")
        group = torch.tensor(np.unique(question, return_inverse=True)[1])
        change, terms = self._estimator.learn(self._stage, wirings, scores, utility, group)
        self._rule.after_step(self._stage, self.step, self._generator)
        if self.pruning.steps_to_look(self.step) == 1:
            for kind, harmful in self._estimator.harmful(self._stage).items():
                self._edges.keep(kind, ~harmful, self.step + 1)
        self.step += 1
        if self.finished:
            self._cut()
        return StepReport(
            stage=self.stage,
            step=self.step,
            utility=float(utility.mean()),
            **{name: term.item() for name, term in terms._asdict().items()},
            objective=utility.mean().item() + terms.weighted(self.settings, self.stage).item(),
            gradient_norm=float(torch.stack([g.norm() for g in change.values()]).norm()),
            pruning_rate=self._rule.rate,
            edges=self.edges_left(),
        )

    def next_stage(self) -> None:
        """Goes on to stage 2, or finishes after the last stage. A staged one's edges start fully connected."""
        self._cut()
        if self.stage == self.stages:
            self._over = True
            return
        before = self._stage.start
        self.stage, self.step = self.stage + 1, 0
        for kind, start in self._stage.start.items():
            self._edges.mask[kind] |= start & ~before[kind]
        if any(not torch.equal(start, before[kind]) for kind, start in self._stage.start.items()):
            # Other edges are learned from now on: an optimiser that goes on would take too long steps for them.
            self._edges.forget_gradients()
        self._estimator.begin(self._stage)
        self._rule.begin()

    def edges_left(self) -> dict[str, int]:
        """Present edges of every matrix so far, by "sender>receiver kind"."""
        blocks = [block for stage in range(1, self.stage + 1) for block in self._stages[stage].blocks]
        return {block.name: int(block.of(self._edges.mask[block.kind]).sum()) for block in blocks}

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """p * mask, float [sender, receiver]; of one round (from 1) or the mean over rounds where they differ."""
        return self._present({kind: self._edges.probability(kind, round) for kind in Edges._fields})

    def chances(self) -> Edges[Floats]:
        """The probability that `sample` takes an allowed edge with, float [sender, receiver] (the mean over rounds).

        Reading weights come from it while learning: with `effects`, whose coins are fair, all edges then weigh alike.
        """
        return self._present({kind: p.mean(0) for kind, p in self._estimator.chances(self._stage).items()})

    def decision_probabilities(self) -> Floats:
        """The probability that the decision agent reads each agent, float [agents]; 0 or 1 unless that is learned."""
        read = self._readers()[:, 0].double()
        if "decision" in self._stage.drawn:
            read = read * self._edges.probability("decision")[:, 0]
        return read.numpy()

    def evidence(self) -> float | None:
        """With `effects`, the chance of scores like these where no edge has any effect; above the settings'
        `error_rate` nothing is cut by them. None with gradients, which say nothing of that."""
        return self._estimator.evidence()

    def certain_harm(self) -> Edges[Bools] | None:
        """With `effects`, the edges that were cut as certain to harm, bool [sender, receiver]; else None."""
        cut = self._estimator.certain_harm()
        return Edges(cut["spatial"].numpy(), cut["temporal"].numpy()) if cut else None

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
        kept = self._left()
        return Edges(acyclic(kept["spatial"].numpy(), self.probabilities().spatial), kept["temporal"].numpy())

    def inference_wirings(self, k: int = 1) -> Wirings:
        """`inference()` as `k` equal wirings; a learned decision column reads everyone that pruning left in it."""
        readers = self._left()["decision"] if "decision" in self._stage.drawn else self._readers()
        return as_wirings(self.inference(), self.rounds, k, decision=readers[:, 0].numpy())

    def state(self) -> dict[str, Tensor]:
        """All that changes while learning, as tensors that safetensors can store; `load` takes it back."""
        clock = {"stage": self.stage, "step": self.step, "finished": int(self.finished)}
        return {
            **self._edges.tensors(),
            **{name: torch.tensor(value) for name, value in clock.items()},
            **self._estimator.tensors(),
            **self._rule.tensors(),
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Continues from `state()` of a learner with the same agents, rounds and settings.

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
        self.stage, self.step, self._over = stage, step, bool(state["finished"])
        for part in (self._edges, self._estimator, self._rule):
            part.restore(state)

    @property
    def _stage(self) -> Stage:
        return self._stages[self.stage]

    def _generator(self, purpose: str, draw: int = 0, ahead: int = 0) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, purpose, self.stage, self.step + ahead, draw))

    def _present(self, values: Mapping[str, Tensor]) -> Edges[Floats]:
        """Values where edges are left, else 0, as float64 arrays; all [sender, receiver], by kind."""
        left = {kind: (values[kind] * self._edges.mask[kind]).double().numpy() for kind in Edges._fields}
        return Edges(left["spatial"], left["temporal"])

    def _left(self) -> dict[str, Tensor]:
        """The edges that would be left if learning ended here, by kind."""
        if not self._knows():
            return {kind: mask.clone() for kind, mask in self._edges.mask.items()}
        return self._rule.left(self._stage, True, self._generator)

    def _cut(self) -> None:
        """Prunes at the end of a stage."""
        if self._knows():
            self._rule.cut(self._stage, self._generator)

    def _knows(self) -> bool:
        """False where there is no evidence of any effect: the estimates are noise then, and say nothing to cut by."""
        chance = self.evidence()
        return chance is None or chance <= self.settings.error_rate

    def _readers(self) -> Tensor:
        """The agents that the decision agent may read, bool [agents, 1].

        `connected` leaves out an agent that pruning (not one draw) left with no edge to another agent; one that never
        had such an edge is still read.
        """
        if "decision" in self._stage.drawn:
            return self._edges.mask["decision"]
        if self.settings.decision != Decision.CONNECTED:
            return torch.ones(self.agents, 1, dtype=torch.bool)
        starts = [self._stages[stage].start for stage in range(1, self.stage + 1)]
        ever = {kind: torch.stack([start[kind] for start in starts]).any(0) for kind in KINDS}
        return listened_to(ever, self._edges.mask)[:, None]


def _finite(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity: score every sample, a failed one as 0")
    return array
