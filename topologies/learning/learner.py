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
`next_stage()` ends one early, for which `settled()` may be the reason. `edge_scores()` ranks all edges,
`inference_wirings().decision` says whom the decision agent reads. Both, and `inference()`, may be asked for at any
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from actors.messages import Modality, derive_seed
from topologies.graphs import acyclic, as_wirings
from topologies.learning.blocks import Stage, listened_to, stages_of
from topologies.learning.draws import Common, sample_wirings
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate
from topologies.learning.estimators import ESTIMATORS, Reinforce
from topologies.learning.pruning_rules import RULES
from topologies.learning.randomised import Effects
from topologies.learning.scheme import Scheme
from topologies.learning.settings import Decision, Init, LearnerSettings, Optimiser, PruningSettings
from topologies.learning.settling import misjudged
from topologies.learning.step_report import StepReport
from topologies.wiring import KINDS, Bools, Edges, Floats, Wirings, check_shapes

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
        self.scheme = Scheme.of(modalities, rounds, settings or LearnerSettings(), pruning or PruningSettings())
        self.settings, self.pruning = settings, pruning = self.scheme.settings, self.scheme.pruning
        self.modalities, self.stages = self.scheme.modalities, self.scheme.stages
        self.rounds, self.seed, self.agents = rounds, seed, len(self.modalities)
        self.stage, self.step, self._over = 1, 0, False

        visual = torch.tensor([modality is Modality.VISUAL for modality in self.modalities])
        self._stages = self._stages_of(visual, self.scheme.rule.whole)

        own = {"spatial": rounds, "temporal": max(1, rounds - 1), "decision": 1}
        copies = own if settings.per_round else dict.fromkeys(KINDS, 1)
        by_round = settings.per_round and self.scheme.rule.by_round
        self._edges = EdgeState(self._stages[1].start, copies, settings.optimiser == Optimiser.ADAM, by_round)
        if settings.init == Init.GUMBEL:
            generator = Generator().manual_seed(derive_seed(seed, "gumbel"))
            for stage in self._stages.values():
                for block in stage.blocks:
                    self._edges.start_from_noise(block, stage.start, settings.tau, generator)
        self._estimator = self._estimate(visual)
        self._rule = RULES[pruning.rule](pruning, self._edges, rounds, self.scheme.estimator.each_step)

    @property
    def finished(self) -> bool:
        """Whether all stages are over. To learn on is no mistake: what is left is learned and pruned further."""
        return self._over or (self.stage == self.stages and self.step >= self.pruning.steps)

    def sample(self, k: int, draw: int = 0, ahead: int = 0, questions: int = 1) -> Wirings:
        """Draws `k` wirings, of the next stage where `pruning.steps` steps of this one are done.

        They are for so many `questions`, as many consecutive ones for each, which have in common what the settings say.

        The same stage, step and `draw` give the same ones, also after `load`. `ahead` asks for those of a later step,
        so many steps after the next one. Raises ValueError when k is below 1 or `ahead` above `foresight()`.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if self.step >= self.pruning.steps and self.stage < self.stages:
            self.next_stage()
        if not 0 <= ahead <= self.foresight():
            raise ValueError(f"ahead must be from 0 to {self.foresight()} here, got {ahead}")
        common = Common.of(k, self.rounds, questions, self.settings.shared_orders, self.settings.beginnings)
        return self._sample(k, self._estimator.chances(self._stage), self._generator("wirings", draw, ahead), common)

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
        self._check_wirings(wirings)
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

    def settled(self) -> bool:
        """Whether going on with the stage would hardly change its cut, so that `next_stage` may be called now.

        Asked at the stage's looks, and False wherever `settled` is not set. It depends on the state alone.
        """
        most = self.settings.settled
        if most is None or not self.pruning.is_look(self.step) or not self._knows():
            return False
        ends = self._estimator.outlook(self._stage, self.step, self.pruning.steps - self.step)
        generator, wrong, whole = self._generator("settling"), 0.0, 0.0
        for block in self._stage.blocks:
            theta, end = self._edges.logits[block.kind], ends[block.kind]
            # Of a mean over rounds, the variance is smaller by their number.
            of_mean = end.variance if self._edges.by_round else end.variance / len(theta)
            now, mean, variance = (self._edges.of_masks(block.kind, part) for part in (theta, end.mean, of_mean))
            cut = self._rule.end_cut(self._stage, block)
            parts = (block.of(part) for part in (self._edges.mask[block.kind], now, mean, variance))
            # Of each round that has a matrix of its own, or of all.
            for present, *values in zip(*(part if self._edges.by_round else part[None] for part in parts), strict=True):
                logits, *foreseen = (value[present] for value in values)
                if len(logits):
                    missed, all_of_it = misjudged(logits, Estimate(*foreseen), cut, generator)
                    wrong, whole = wrong + missed, whole + all_of_it
        return wrong <= most * whole

    def next_stage(self) -> None:
        """Goes on to stage 2, or finishes after the last stage. A staged one's edges start fully connected."""
        if self.settled():
            self._rule.cut_rest(self._stage, self._generator)
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
        """Present edges of every matrix so far, by "sender>receiver kind", and ", round t" where rounds have masks of
        their own."""
        blocks = {block.name: block for stage in range(1, self.stage + 1) for block in self._stages[stage].blocks}
        counts = {name: block.of(self._edges.left(block.kind)).sum((1, 2)) for name, block in blocks.items()}
        if not self._edges.by_round:
            return {name: int(count.sum()) for name, count in counts.items()}
        # Temporal edges are named by the round that they lead into, and none leads into the first.
        first = {name: 1 + (block.kind == "temporal") for name, block in blocks.items()}
        return {
            f"{name}, round {number}": int(left)
            for name, count in counts.items()
            for number, left in enumerate(count.tolist(), start=first[name])
        }

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """p * mask, float [sender, receiver]; of one round (from 1) or the mean over rounds where they differ."""
        return self._present(self._probability(), round)

    def chances(self) -> Edges[Floats]:
        """The probability that `sample` takes an allowed edge with, from which reading weights come while learning.

        Float [sender, receiver], the mean over rounds; [rounds, sender, receiver] where these have masks of their own.
        With `effects`, whose coins are fair, all edges weigh alike.
        """
        return self._reading(self._estimator.chances(self._stage))

    def reading(self) -> Edges[Floats]:
        """p * mask, from which reading weights come after learning; shapes as of `chances`."""
        return self._reading(self._probability())

    def decision_probabilities(self) -> Floats:
        """The probability that the decision agent reads each agent, float [agents]; 0 or 1 unless that is learned."""
        read = self._readers(self._speaks(ended=False))[:, 0].double()
        if "decision" in self._stage.drawn:
            read = read * self._edges.logits["decision"][0, :, 0].sigmoid()
        return read.numpy()

    def evidence(self) -> float | None:
        """With `effects`, the chance of scores like these where no edge has any effect. None with gradients, which say
        nothing of that."""
        return self._estimator.evidence()

    def without_evidence(self) -> float | None:
        """`evidence` where it is so large that the stage cuts nothing by its estimates; else None.

        Every stage ends with such a test, so that each has its share of the settings' `error_rate`.
        """
        chance = self.evidence()
        return chance if chance is not None and chance > self.settings.error_rate / self.stages else None

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
        added in descending p unless they close a cycle; every temporal one stays. Where rounds have masks of their own
        it is [rounds, sender, receiver].
        """
        kept = {kind: left.numpy() for kind, left in self._left().items()}
        if not self._edges.by_round:
            return Edges(acyclic(kept["spatial"], self.probabilities().spatial), kept["temporal"])
        p = self.reading().spatial
        spatial = np.stack([acyclic(*each) for each in zip(kept["spatial"], p, strict=True)])
        temporal = np.zeros_like(spatial)
        temporal[1:] = kept["temporal"]
        return Edges(spatial, temporal)

    def inference_wirings(self, k: int = 1) -> Wirings:
        """`inference()` as `k` equal wirings; a learned decision column reads everyone that pruning left in it."""
        speaks = self._speaks(ended=True)
        readers = self._readers(speaks, self._left() if "decision" in self._stage.drawn else None)[:, 0].numpy()
        return as_wirings(self.inference(), self.rounds, k, readers, None if speaks is None else speaks.numpy())

    def state(self) -> dict[str, np.ndarray]:
        """All that changes while learning, as arrays that safetensors can store; `load` takes it back."""
        clock = {"stage": self.stage, "step": self.step, "finished": int(self.finished)}
        tensors = {
            **self._edges.tensors(),
            **{name: torch.tensor(value) for name, value in clock.items()},
            **self._estimator.tensors(),
            **self._rule.tensors(),
        }
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        """Continues from `state()` of a learner with the same agents, rounds and settings.

        Raises ValueError when names, shapes or types differ; the learner is then as it was.
        """
        for name, mine in self.state().items():
            if name not in state:
                raise ValueError(f"learner state lacks {name}: it is not a state of this kind of learner")
            theirs = state[name]
            if theirs.shape != mine.shape or theirs.dtype != mine.dtype:
                raise ValueError(
                    f"learner state has {name} as {theirs.dtype} {theirs.shape}, this learner needs "
                    f"{mine.dtype} {mine.shape}: use the agents, rounds and settings it was saved with"
                )
        stage, step = int(state["stage"]), int(state["step"])
        if not 1 <= stage <= self.stages or step < 0:
            raise ValueError(f"learner state is at stage {stage}, step {step}: this learner has {self.stages} stage(s)")
        self.stage, self.step, self._over = stage, step, bool(state["finished"])
        tensors = {name: torch.tensor(value) for name, value in state.items()}
        for part in (self._edges, self._estimator, self._rule):
            part.restore(tensors)

    @property
    def _stage(self) -> Stage:
        return self._stages[self.stage]

    def _stages_of(self, visual: Tensor, whole: bool) -> dict[int, Stage]:
        return stages_of(visual, self.stages, self.rounds, self.settings, whole)

    def _estimate(self, visual: Tensor) -> Reinforce | Effects:
        return ESTIMATORS[self.settings.estimator](self.settings, self._edges, self.rounds, visual)

    def _sample(self, k: int, chances: Mapping[str, Tensor], generator: Generator, common: Common | None) -> Wirings:
        speaks, mask = self._speaks(ended=False), self._edges.mask
        return sample_wirings(k, self.rounds, mask, chances, self._readers(speaks), generator, speaks, common)

    def _check_wirings(self, wirings: Wirings) -> None:
        check_shapes(wirings, self.rounds, self.agents)

    def _generator(self, purpose: str, draw: int = 0, ahead: int = 0) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, purpose, self.stage, self.step + ahead, draw))

    def _probability(self) -> dict[str, Tensor]:
        """Sigmoid of all logits, [rounds or 1, sender, receiver] by kind."""
        return {kind: theta.sigmoid() for kind, theta in self._edges.logits.items()}

    def _present(self, values: Mapping[str, Tensor], round: int | None = None) -> Edges[Floats]:
        """Values [rounds or 1, sender, receiver] where edges are left, else 0, as float64 arrays [sender, receiver]."""
        return Edges(*(self._edges.present(kind, values[kind], round).double().numpy() for kind in Edges._fields))

    def _reading(self, values: Mapping[str, Tensor]) -> Edges[Floats]:
        """`_present`, of each round apart where rounds have masks of their own."""
        if not self._edges.by_round:
            return self._present(values)
        each = [self._present(values, number) for number in range(1, self.rounds + 1)]
        return Edges(*(np.stack(matrices) for matrices in zip(*each, strict=True)))

    def _speaks(self, ended: bool) -> Tensor | None:
        """The agents that take part, bool [rounds, agents]; None where all do. `ended`: if the stage ended now."""
        silent = self._rule.silent(self._stage, ended)
        return None if silent is None else ~silent.expand(self.rounds, self.agents)

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
        return self.without_evidence() is None

    def _readers(self, speaks: Tensor | None, left: Mapping[str, Tensor] | None = None) -> Tensor:
        """The agents that the decision agent may read, bool [agents, 1]: of those that take part in the last round.

        `connected` leaves out an agent that pruning (not one draw) left with no edge to another agent; one that never
        had such an edge is still read. left: with a learned column, the edges left if not those of now.
        """
        everybody = torch.ones(self.agents, 1, dtype=torch.bool)
        present = everybody if speaks is None else speaks[-1][:, None]
        if "decision" in self._stage.drawn:
            return (self._edges.mask if left is None else left)["decision"].view(self.agents, 1) & present
        if self.settings.decision != Decision.CONNECTED:
            return present
        starts = [self._stages[stage].start for stage in range(1, self.stage + 1)]
        ever = {kind: torch.stack([start[kind] for start in starts]).any(0) for kind in KINDS}
        now = {kind: self._edges.left(kind).any(0) for kind in KINDS}
        return listened_to(ever, now)[:, None] & present


def _finite(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity: score every sample, a failed one as 0")
    return array
