"""M3Prune's learner: samples wirings, learns from their scores which edges matter, and prunes the rest.

It works with any simulator of discussions (docs/learning.md has an example), which returns how good each agent's own
answer was in each round, [k, rounds, agents], and how good the final answers were, [k].

Each pass is one question (or several, named by `groups`). All K wirings of a question should be discussed with the
same question, so that they can be compared. Stages pass by themselves, each after `pruning.steps` passes;
`next_stage()` ends one early, for which `may_stop()` may be the reason. `edge_scores()` ranks all edges,
`inference_wirings().decision` names the agents that the decision agent reads. Both, and `inference()`, may be called
at any time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from actors.messages import Modality, derive_seed
from topologies.graphs import as_wirings, joined
from topologies.learning.checked import checked_clock, checked_scores
from topologies.learning.confirmation import Confirmation
from topologies.learning.early_stopping import misjudged
from topologies.learning.edge_state import EdgeState
from topologies.learning.estimator import Discussions, EdgeEstimator
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.sampling import sample_wirings, with_removals
from topologies.learning.spec import CONFIRMED, CONFIRMING, EXPLORING, LearnerSpec, LearnerStatus, StepReport, Surrogate
from topologies.learning.stages import LogitSharing, Stage, stages_of
from topologies.wiring import KINDS, Bools, Edges, Floats, Wirings, check_shapes

__all__ = ["Learner", "LearnerSettings", "PruningSettings", "StepReport"]


class Learner:
    """Masks and logits of N agents' edges, learned by an estimator and pruned by a rule.

    Staged (the paper): stage 1 learns and prunes the edges inside each modality, and none between them exists; stage 2
    goes on sampling those unchanged and learns and prunes the edges between modalities, and a learned decision column.
    Else both stages learn all edges, the second what the first has left. State changes in `learn`, `next_stage`
    and `load`, and in `sample` where a stage is over.
    """

    def __init__(self, modalities: Iterable[Modality | str], **options: Any) -> None:
        """Makes a learner that has learned nothing yet. Raises UserError on bad settings.

        modalities: "text" or "visual" for every agent, in the agents' order.
        options: other fields of `LearnerSpec`: rounds, seed, variant, settings, pruning, candidates, roles.
        """
        self.spec = spec = LearnerSpec(tuple(modalities), **options)
        spec.check()
        self.rounds, self.seed, self.agents, self.stages = spec.rounds, spec.seed, len(spec.modalities), spec.stages
        self.pruning = spec.pruning
        self.stage, self.step, self._over = 1, 0, False
        sharing = LogitSharing.of(spec)
        self._stages = stages_of(spec, sharing)
        self._edges = EdgeState(self._stages[1].start, sharing, spec.rounds if spec.variant.per_round else None)
        self._estimator: EdgeEstimator = resolve_name(spec.variant.estimator.implementation)(spec, self._edges)
        self._asked: Any = self._estimator if spec.variant.by_question else None
        self._rule = resolve_name(spec.variant.rule.implementation)(spec.pruning, self._edges, self._generator)
        every = {kind: last | self._stages[1].start[kind] for kind, last in self._stages[self.stages].start.items()}
        self._confirmation = Confirmation(spec, self._edges, every, self.inference_wirings, self._logits_left)

    @property
    def finished(self) -> bool:
        """True if all stages are over. A finished learner may go on: the edges left are learned and pruned further."""
        last = self._confirmation.phase == CONFIRMED if self.spec.confirming else self.step >= self.pruning.steps
        return self._over or (self.stage == self.stages and last)

    @property
    def confirming(self) -> bool:
        """True if the next steps compare the pruned graph with simple ones, on held-back questions."""
        return self._confirmation.phase == CONFIRMING

    def sample(
        self, k: int, draw: int = 0, ahead: int = 0, questions: int = 1, features: Floats | None = None
    ) -> Wirings:
        """Draws `k` wirings, of the next stage where `pruning.steps` steps of this one are done.

        They are for so many `questions`, as many consecutive ones for each. features: of these, [questions, d]; a
        learner of graphs by question learns from them (None: not known). The same stage, step and `draw` give the
        same wirings, also after `load`. `ahead` asks for wirings of a later step, so many steps after the next one.
        Raises ValueError when k is below 1, questions have different numbers, or `ahead` is above `lookahead()`.
        """
        if k < 1 or k % questions:
            raise ValueError(f"{k} wirings cannot be drawn for {questions} questions: expected one or more for each")
        if self.step >= self.pruning.steps and self.stage < self.stages:
            self.next_stage()
        if not 0 <= ahead <= self.lookahead():
            raise ValueError(f"ahead must be from 0 to {self.lookahead()} here, got {ahead}")
        if self.confirming:
            return self._confirmation.sample(k, questions, self.step + ahead, features)
        chances = {
            kind: self._edges.sharing.to_agents(kind, p) for kind, p in self._estimator.chances(self._stage).items()
        }
        mask = self._edges.between_agents(self._edges.mask)
        speaks, each, masks = self._speaks(ended=False), k, [mask]
        if features is not None and self.stage > 1 and self._asked and self._asked.by_question():
            each, masks = k // questions, self._of_each(features, lambda: self._left(False))
        own = torch.arange(each)
        # With `shared_orders`, a question's samples all take its first one's.
        orders = own - own % (k // questions) if self.spec.settings.shared_orders else None
        generator = self._generator("wirings", draw, ahead)
        draws = partial(sample_wirings, each, self.rounds, chances=chances, generator=generator, orders=orders)
        drawn = [draws(mask=left, readers=self._readers(speaks, left)[:, None], speaks=speaks) for left in masks]
        wirings = joined(drawn)
        if self.spec.variant.unheard:
            wirings = with_removals(wirings, k // questions, self.step + ahead, self.spec.variant.unheard == "turn")
        return wirings if features is None else replace(wirings, features=np.repeat(features, k // questions, axis=0))

    def status(self) -> LearnerStatus:
        """Returns its place in the training, which `Course` reads between steps."""
        return LearnerStatus.of(self)

    def lookahead(self) -> int:
        """Number of steps beyond the next one that can be sampled now. Their discussions can start."""
        if self.confirming:
            return self._confirmation.lookahead
        return self._estimator.lookahead(self._schedule.steps_to_interim(self.step) - 1)

    def learn(
        self,
        wirings: Wirings,
        turn_scores: npt.ArrayLike,
        utilities: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
    ) -> StepReport:
        """Takes one training step: the estimator changes the logits, then the rule prunes.

        turn_scores: [k, rounds, agents], how good each agent's own answer was; only `effects` uses it.
        utilities: [k], of the final answers, NaN of a failed discussion: it counts neither for nor against an edge or a
        graph. groups: int [k], the question of each sample (one by default).
        Raises ValueError on a wrong shape, a value that is not finite, and with `rloo` a question with one sample.
        """
        k = len(wirings.spatial)
        check_shapes(wirings, self.rounds, self.agents)
        given = checked_scores(turn_scores, utilities, groups, (k, self.rounds, self.agents))
        scores, utility = torch.from_numpy(given.turns), torch.from_numpy(given.utilities).float()
        group, interim = torch.from_numpy(given.groups), self._schedule.steps_to_interim(self.step) == 1
        measured = {"objective": utility.mean().item()}
        if compared := self.confirming:
            self._confirmation.learn(self.step, int(group.max()) + 1, given.utilities, given.failed)
        else:
            change, terms = self._estimator.learn(self._stage, Discussions(wirings, scores, utility, group))
            measured |= {name: term.item() for name, term in terms._asdict().items()}
            measured["objective"] += terms.weighted(self.spec.settings, self.spec.variant, self.stage).item()
            measured["gradient_norm"] = float(torch.stack([g.norm() for g in change.values()]).norm())
            self._rule.after_step(self._stage, self.step)
            measured["pruning_rate"] = self._rule.rate
            if interim:
                for kind, harmful in self._estimator.harmful(self._stage).items():
                    self._edges.cut_others(kind, ~harmful, tick=1)
                for kind, certain in self._estimator.certain_harm().items():
                    self._edges.rank_anew(kind, certain)
        self.step += 1
        if self.stage == self.stages and self.step >= self._schedule.steps:
            self._end()
        confirmed = self._confirmation.words() if compared else ""
        return StepReport(
            stage=self.stage,
            step=self.step,
            utility=float(utility.mean()),
            **measured,
            edges=self.edges_left(),
            confirmed=confirmed,
            # Any of these steps may be the last one; tests of all edges in every step would take half of its time.
            doubts=self.doubts() if confirmed or (interim and not compared) else (),
        )

    def may_stop(self) -> bool:
        """True if the rest of the stage would hardly change its cut. Then `next_stage` may be called.

        Only at interim analyses with `early_stop` set, each with its share of `error_rate`; by the state alone.
        """
        most, share = self.spec.early_stop, self.spec.settings.error_rate / (self.stages * max(self.pruning.interim, 1))
        if most is None or self.confirming or not self._schedule.is_interim(self.step):
            return False
        if (self.evidence() or 0.0) > share:
            return False
        ends = self._estimator.forecast(self.step, self._schedule.steps - self.step)
        generator, wrong, whole = self._generator("settling"), 0.0, 0.0
        for block in self._stage.blocks:
            cut = self._rule.end_cut(self._stage, block)
            parts = (self._edges.mask[block.kind], self._edges.logits[block.kind], *ends[block.kind])
            # Each round's matrix, or the one that all share.
            for present, *values in zip(*map(block.of, parts), strict=True):
                logits, mean, variance = (value[present] for value in values)
                if len(logits):
                    forecast = ends[block.kind]._replace(mean=mean, variance=variance)
                    missed, all_edges = misjudged(logits, forecast, cut, generator)
                    wrong, whole = wrong + missed, whole + all_edges
        return wrong <= most * whole

    def next_stage(self) -> None:
        """Goes on to stage 2, whose new edges all exist, or after the last stage to the confirmation, or ends it."""
        if self.confirming:
            self._confirmation.decide()
            return
        if self.may_stop():
            self._rule.cut_rest(self._stage)
        if self.stage == self.stages:
            self._end()
            self._over = not self.confirming
            return
        self._cut()
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
        """Counts the present edges of every matrix so far, by "sender>receiver kind", as `EdgeState.counts` does."""
        return self._edges.counts(block for stage in range(1, self.stage + 1) for block in self._stages[stage].blocks)

    def probabilities(self, round: int | None = None) -> Edges[Floats]:
        """p * mask, float [sender, receiver]. Of one round (from 1), or the mean over rounds where they differ."""
        edges = self._edges
        return Edges(*(edges.present(kind, edges.probability(kind), round).numpy() for kind in Edges._fields))

    def chances(self) -> Edges[Floats]:
        """Returns the chance of each allowed edge in `sample`, which gives the reading weights while learning.

        Float [sender, receiver], or [rounds, sender, receiver] where rounds have masks of their own. With `effects`,
        whose coins are fair, all edges weigh alike. In a confirmation, as after it: the probability of every edge.
        """
        if self.confirming:
            p = {kind: self._edges.sharing.to_agents(kind, self._edges.probability(kind))[0] for kind in Edges._fields}
            return Edges(p["spatial"].double().numpy(), p["temporal"].double().numpy())
        return self._edges.reading(self._estimator.chances(self._stage), self.rounds)

    def reading(self, features: Floats | None = None) -> Edges[Floats]:
        """Returns p * mask, which gives the reading weights after learning. Shapes are those of `chances`; with
        features of questions [q, d] they are [q, rounds, sender, receiver]."""
        if features is None:
            return self._edges.reading({kind: self._edges.probability(kind) for kind in KINDS}, self.rounds)
        each = self._of_each(features, self.reading)
        shape = (self.rounds, self.agents, self.agents)
        return Edges(*(np.stack([np.broadcast_to(p, shape) for p in kind]) for kind in zip(*each, strict=True)))

    def decision_probabilities(self) -> Floats:
        """Probability that the decision agent reads each agent, float [agents]. 0 or 1 unless it is learned."""
        read = self._readers(self._speaks(ended=False)).double()
        if "decision" in self._stage.drawn:
            read = read * self._edges.sharing.to_agents("decision", self._edges.probability("decision")).view(
                self.agents
            )
        return read.numpy()

    def evidence(self) -> float | None:
        """Returns the chance of scores like these if no edge had any effect, with `effects`. None with gradients."""
        return self._estimator.evidence()

    def surrogate(self) -> Surrogate | None:
        """Returns the check whether effects on own answers carry over to the final one. None with gradients."""
        return self._estimator.surrogate()

    def without_evidence(self) -> float | None:
        """`evidence` where it is so large that the stage cuts nothing by its estimates; else None.

        Every stage ends with such a test, so that each has its share of `error_rate`.
        """
        chance = self.evidence()
        return chance if chance is not None and chance > self.spec.settings.error_rate / self.stages else None

    def doubts(self) -> tuple[str, ...]:
        """Lists reasons to doubt that the graph is better than a simpler one, a line each."""
        chance = self.without_evidence()
        unknown = () if chance is None else (f"no evidence that any edge matters (p = {chance:.2g}), so none is cut",)
        return (*unknown, *self._confirmation.doubts())

    def certain_harm(self) -> Edges[Bools] | None:
        """Edges that were cut as certain to harm, bool [sender, receiver], with `effects`; None with gradients."""
        cut = self._estimator.certain_harm()
        return Edges(cut["spatial"].numpy(), cut["temporal"].numpy()) if cut else None

    def edge_scores(self) -> Edges[Floats]:
        """Ranks all edges, float [sender, receiver]: p where present, negative where pruned, -inf for no edge.

        A pruned edge ranks below the present ones of its matrix, and the lower the earlier it was pruned. Among edges
        pruned together, and with `effects` among all, the smaller p ranks lower. Where a simple graph took the place of
        the pruned one, the edges that it lacks have p too.
        """
        return Edges(self._edges.score("spatial").numpy(), self._edges.score("temporal").numpy())

    def inference(self) -> Edges[Bools]:
        """Returns the edges to answer with, bool [sender, receiver] (section 8's threshold wiring; deterministic).

        All edges that pruning left are candidates, whatever their p: pruning is the threshold. The spatial ones are
        added in descending p unless they close a cycle; every temporal one stays. [rounds, sender, receiver] where
        rounds have masks of their own.
        """
        return self._edges.acyclic(self._left())

    def inference_wirings(self, features: Floats | None = None) -> Wirings:
        """`inference()` as one wiring, or one for each question with features [q, d].

        A learned decision column reads all agents that pruning left in it.
        """
        if features is not None:
            return joined(self._of_each(features, self.inference_wirings))
        speaks = self._speaks(ended=True)
        readers = self._readers(speaks, self._left()).numpy()
        return as_wirings(self.inference(), self.rounds, 1, readers, None if speaks is None else speaks.numpy())

    def state(self) -> dict[str, np.ndarray]:
        """All that changes while learning, as arrays that safetensors can store and `load` restores."""
        clock = {"stage": self.stage, "step": self.step, "finished": int(self.finished)}
        tensors = self._edges.tensors() | {name: torch.tensor(value) for name, value in clock.items()}
        for part in (self._estimator, self._rule, self._confirmation):
            tensors |= {part.prefix + name: tensor.clone() for name, tensor in part.state.items()}
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        """Continues from `state()` of a learner with the same agents, rounds and settings.

        Raises ValueError when names, shapes or types differ; the learner is then as it was.
        """
        stage, step = checked_clock(state, self.state(), self.stages)
        self.stage, self.step, self._over = stage, step, bool(state["finished"])
        tensors = {name: torch.tensor(value) for name, value in state.items()}
        self._edges.restore(tensors)
        for part in (self._estimator, self._rule, self._confirmation):
            part.state = {name: tensors[part.prefix + name] for name in part.state}

    @property
    def _stage(self) -> Stage:
        return self._stages[self.stage]

    def _of_each(self, features: Floats, read: Callable[[], Any]) -> list[Any]:
        """Reads something of the graph of each question, once for questions with equal features [q, d]."""
        rows, places = np.unique(features, axis=0, return_inverse=True)
        found, common = [], self._edges.logits
        for row in rows:
            self._edges.logits = self._asked.logits_of(row) if self._asked else common
            found.append(read())
            self._edges.logits = common
        return [found[place] for place in places.ravel().tolist()]

    def _generator(self, purpose: str, draw: int = 0, ahead: int = 0) -> Generator:
        return Generator().manual_seed(derive_seed(self.seed, purpose, self.stage, self.step + ahead, draw))

    def _speaks(self, ended: bool) -> Tensor | None:
        """Agents that take part, bool [rounds, agents]; None where all do. `ended`: if the stage ended now."""
        silent = self._rule.silent(self._stage, ended)
        return None if silent is None else ~silent.expand(self.rounds, self.agents)

    def _left(self, final: bool = True) -> dict[str, Tensor]:
        """Edges left if learning ended here, or just its stage. Bool [rounds or 1, sender, receiver] by kind."""
        return self._edges.between_agents(self._logits_left(final))

    def _logits_left(self, final: bool = True) -> Mapping[str, Tensor]:
        """As `_left`, of edges that have logits, bool [rounds or 1, unit, unit]."""
        # Without evidence estimates are noise, and where the cut was undone they are wrong.
        unknown = self._confirmation.undone or self.without_evidence() is not None
        return self._edges.mask if unknown else self._rule.left(self._stage, final)

    @property
    def _schedule(self) -> PruningSettings:
        return self.spec.exploring(self.stage)

    def _end(self) -> None:
        """Cuts at the end of the last stage, and goes on to confirm the cut."""
        if self._confirmation.phase != EXPLORING:
            return  # a confirmed graph that goes on learning is not cut again
        if self.spec.confirming:
            self._rule.cut_rest(self._stage)
            self._confirmation.begin(self.pruning.steps - self.step)
        self._cut()

    def _cut(self) -> None:
        if self.without_evidence() is None and not (self._asked and self._asked.by_question()):
            self._rule.cut(self._stage)

    def _readers(self, speaks: Tensor | None, left: Mapping[str, Tensor] | None = None) -> Tensor:
        """Agents of the last round that the decision agent may read, bool [agents].

        left: with a learned column, the edges left if not those of now.
        """
        present = torch.ones(self.agents, dtype=torch.bool) if speaks is None else speaks[-1]
        if "decision" in self._stage.drawn:
            column = (self._edges.between_agents(self._edges.mask) if left is None else left)["decision"]
            return column.view(self.agents) & present
        return present
