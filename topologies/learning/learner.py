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
from itertools import chain
from pkgutil import resolve_name
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from actors.messages import Modality
from topologies.graphs import as_wirings, joined
from topologies.learning.checked import checked_scores
from topologies.learning.confirmation import Confirmation
from topologies.learning.early_stopping import misjudged
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate
from topologies.learning.estimator import EdgeEstimator, ScoredDiscussions
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.sampling import sample_wirings, with_removals
from topologies.learning.spec import CONFIRMED, CONFIRMING, EXPLORING, StepReport, Surrogate
from topologies.learning.staged_learner import StagedLearner
from topologies.learning.stages import LogitSharing, Stage, stages_of
from topologies.wiring import KINDS, Bools, Edges, Floats, Wirings

__all__ = ["Learner", "LearnerSettings", "PruningSettings", "StepReport"]
T = TypeVar("T")


class Learner(StagedLearner):
    """Masks and logits of N agents' edges, learned by an estimator and pruned by a rule.

    Staged (the paper): stage 1 learns and prunes the edges inside each modality, and none between them exists; stage 2
    goes on sampling those unchanged and learns and prunes the edges between modalities, and a learned decision column.
    Else both stages learn all edges, the second what the first has left. State changes in `learn`, `next_stage`
    and `load`, and in `sample` where a stage is over.
    """

    def __init__(self, modalities: Iterable[Modality | str], **options: object) -> None:
        super().__init__(modalities, **options)
        spec = self.spec
        sharing = LogitSharing.of(spec)
        self._stages = stages_of(spec, sharing)
        first, last = self._stages[1], self._stages[self.stages]
        self._edges = EdgeState(first.start, sharing, spec.rounds if spec.variant.per_round else None)

        self._estimator: EdgeEstimator = resolve_name(spec.variant.estimator.implementation)(spec, self._edges)
        self._rule = resolve_name(spec.variant.rule.implementation)(spec.pruning, self._edges, self.generator)

        existing = {kind: first.start[kind] | last.start[kind] for kind in KINDS}
        self._confirmation = Confirmation(
            spec, self._edges, existing, self._estimator, pruned=self.inference_wirings, left=self._masks_left
        )
        # Parts with a state of their own.
        self._parts = (self._estimator, self._rule, self._confirmation)

    @property
    def finished(self) -> bool:
        if self.spec.confirming and not self._ended:
            return self._confirmation.phase == CONFIRMED
        return super().finished

    @property
    def confirming(self) -> bool:
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
        self._prepare_sampling(k, questions, ahead)
        step = self.step + ahead
        if self.confirming:
            return self._confirmation.sample(k, questions, step, features)

        masks = [self._edges.between_agents(self._edges.mask)]
        if features is not None and self.stage > 1 and self._estimator.by_question():
            masks = self._by_question(features, lambda: self._edges_left(final=False))

        samples = k // questions
        number = k // len(masks)
        orders = None
        if self.spec.settings.shared_orders:
            # A question's samples all take its first one's.
            orders = torch.arange(number)
            orders -= orders % samples

        chances = self._estimator.chances(self._stage)
        chances = {kind: self._edges.sharing.to_agents(kind, p) for kind, p in chances.items()}
        speaks = self._speaks(ended=False)
        generator = self.generator("wirings", draw, ahead)
        batches = [
            sample_wirings(
                number,
                self.rounds,
                mask=mask,
                chances=chances,
                readers=self._readers(speaks, mask)[:, None],
                generator=generator,
                speaks=speaks,
                orders=orders,
            )
            for mask in masks
        ]

        wirings = joined(batches)
        if self.spec.variant.removal:
            wirings = with_removals(wirings, samples, step, turns=self.spec.variant.removal == "turn")

        if features is None:
            return wirings
        return replace(wirings, features=np.repeat(features, samples, axis=0))

    def lookahead(self) -> int:
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
        scores = checked_scores(wirings, turn_scores, utilities, groups, self.rounds, self.agents)
        utility = torch.from_numpy(scores.utilities).float()
        mean_utility = utility.mean().item()
        measures = {"objective": mean_utility}

        confirming = self.confirming
        interim = self._schedule.steps_to_interim(self.step) == 1 and not confirming
        if confirming:
            questions = int(scores.questions.max()) + 1
            self._confirmation.learn(self.step, questions, scores.utilities, scores.failed)
        else:
            turns = torch.from_numpy(scores.turns)
            discussions = ScoredDiscussions(wirings, turns, utility, torch.from_numpy(scores.questions))
            change, terms = self._estimator.learn(self._stage, discussions)
            self._rule.after_step(self._stage, self.step)
            if interim:
                self._cut_harmful()
            weighted = terms.weighted(self.spec.settings, self.spec.variant, self.stage)
            measures["objective"] += weighted.item()
            measures |= {name: term.item() for name, term in terms._asdict().items()}
            measures["gradient_norm"] = torch.stack([matrix.norm() for matrix in change.values()]).norm().item()
            measures["pruning_rate"] = self._rule.rate

        self.step += 1
        if self.stage == self.stages and self.step >= self._schedule.steps:
            self._end()

        confirmed = self._confirmation.words() if confirming else ""
        # Any of these steps may be the last one; tests of all edges in every step would take half of its time.
        doubts = self.doubts() if confirmed or interim else ()

        return StepReport(
            stage=self.stage,
            step=self.step,
            utility=mean_utility,
            **measures,
            edges=self.edges_left(),
            confirmed=confirmed,
            doubts=doubts,
        )

    def may_stop(self) -> bool:
        """True if the rest of the stage would hardly change its cut. Then `next_stage` may be called.

        Only at interim analyses with `early_stop` set, each with its share of `error_rate`; by the state alone.
        """
        if self.spec.early_stop is None or self.confirming or not self._schedule.is_interim(self.step):
            return False
        tests = self.stages * self.pruning.interim
        if (self.evidence() or 0.0) > self.spec.settings.error_rate / tests:
            return False

        ends = self._estimator.forecast(self.step, self._schedule.steps - self.step)

        generator = self.generator("settling")
        wrong = total = 0.0
        for block in self._stage.blocks:
            cut = self._rule.end_cut(self._stage, block)
            end = ends[block.kind]
            # Each round's matrix, or the one that all share.
            rounds = zip(
                block.of(self._edges.mask[block.kind]),
                block.of(self._edges.logits[block.kind]),
                block.of(end.mean),
                block.of(end.variance),
                strict=True,
            )
            for present, logits, mean, variance in rounds:
                if present.any():
                    forecast = Estimate(mean[present], variance[present])
                    block_wrong, block_total = misjudged(logits[present], forecast, cut, generator)
                    wrong += block_wrong
                    total += block_total
        return wrong <= self.spec.early_stop * total

    def next_stage(self) -> None:
        """Goes on to stage 2, whose new edges all exist, or after the last stage to the confirmation, or ends it."""
        if self.confirming:
            self._confirmation.decide()
            return
        if self.may_stop():
            self._rule.cut_rest(self._stage)
        if self.stage == self.stages:
            self._end()
            self._ended = not self.confirming
            return

        self._cut()
        earlier_start = self._stage.start
        self.stage += 1
        self.step = 0
        start = self._stage.start
        for kind in KINDS:
            self._edges.mask[kind] |= start[kind] & ~earlier_start[kind]
        if not all(torch.equal(start[kind], earlier_start[kind]) for kind in KINDS):
            # Other edges are learned from now on: an optimiser that goes on would take too long steps for them.
            self._edges.forget_gradients()
        self._estimator.begin(self._stage)
        self._rule.begin()

    def edges_left(self) -> dict[str, int]:
        """Counts the present edges of every matrix so far, by "sender>receiver kind", as `EdgeState.counts` does."""
        blocks = [self._stages[number].blocks for number in range(1, self.stage + 1)]
        return self._edges.counts(chain.from_iterable(blocks))

    def probabilities(self) -> Edges[Floats]:
        """p * mask, float [sender, receiver]; the mean over rounds where they differ."""
        edges = self._edges
        return Edges(*(edges.mean_over_rounds(kind, edges.probability(kind)).numpy() for kind in Edges._fields))

    def chances(self) -> Edges[Floats]:
        """Returns the chance of each allowed edge in `sample`, which gives the reading weights while learning.

        Float [sender, receiver], or [rounds, sender, receiver] where rounds have masks of their own. With `effects`,
        whose coins are fair, all edges weigh alike. In a confirmation, as after it: the probability of every edge.
        """
        if not self.confirming:
            return self._edges.reading(self._estimator.chances(self._stage), self.rounds)
        return Edges(*(self._probability(kind)[0].double().numpy() for kind in Edges._fields))

    def reading(self, features: Floats | None = None) -> Edges[Floats]:
        """Returns p * mask, which gives the reading weights after learning. Shapes are those of `chances`; with
        features of questions [q, d] they are [q, rounds, sender, receiver]."""

        if features is None:
            return self._edges.reading({kind: self._edges.probability(kind) for kind in KINDS}, self.rounds)
        shape = (self.rounds, self.agents, self.agents)
        questions = self._by_question(features, self.reading)
        spatial = [np.broadcast_to(reading.spatial, shape) for reading in questions]
        temporal = [np.broadcast_to(reading.temporal, shape) for reading in questions]
        return Edges(np.stack(spatial), np.stack(temporal))

    def decision_probabilities(self) -> Floats:
        """Probability that the decision agent reads each agent, float [agents]. 0 or 1 unless it is learned."""
        readers = self._readers(self._speaks(ended=False), self._edges.between_agents(self._edges.mask)).double()
        if "decision" in self._stage.drawn:
            readers = readers * self._probability("decision").view(self.agents)
        return readers.numpy()

    def evidence(self) -> float | None:
        """Returns the chance of scores like these if no edge had any effect, with `effects`. None with gradients."""
        return self._estimator.evidence()

    def surrogate(self) -> Surrogate | None:
        return self._estimator.surrogate()

    def without_evidence(self) -> float | None:
        """`evidence` where it is so large that the stage cuts nothing by its estimates; else None.

        Every stage ends with such a test, so that each has its share of `error_rate`.
        """
        chance = self.evidence()
        if chance is None or chance <= self.spec.settings.error_rate / self.stages:
            return None
        return chance

    def doubts(self) -> tuple[str, ...]:
        doubts = self._confirmation.doubts()
        chance = self.without_evidence()
        if doubts or chance is None:
            return doubts
        return (f"no evidence that any edge matters (p = {chance:.2g}), so none is cut",)

    def certain_harm(self) -> Edges[Bools] | None:
        harm = self._estimator.certain_harm()
        return Edges(harm["spatial"].numpy(), harm["temporal"].numpy()) if harm else None

    def edge_scores(self, features: Floats | None = None) -> Edges[Floats]:
        """Ranks all edges, float [sender, receiver]: p where present, negative where pruned, -inf for no edge.

        A pruned edge ranks below the present ones of its matrix, and the lower the earlier it was pruned. Among edges
        pruned together, and with `effects` among all, the smaller p ranks lower. Where a simple graph took the place of
        the pruned one, the edges that it lacks have p too. Where graphs depend on the question: with features of
        questions [q, d], p of the common graph minus the share of the questions' graphs that lack the edge.
        """
        graphs = []
        if features is not None and self._estimator.by_question():
            graphs = self._by_question(features, self._edges_left)

        scores = []
        for kind in Edges._fields:
            score = self._edges.score(kind)
            if graphs:
                score = score - torch.stack([~graph[kind][0] for graph in graphs]).double().mean(0)
            scores.append(score.numpy())
        return Edges(*scores)

    def inference(self) -> Edges[Bools]:
        """Returns the edges to answer with, bool [sender, receiver] (section 8's threshold wiring; deterministic).

        All edges that pruning left are candidates, whatever their p: pruning is the threshold. The spatial ones are
        added in descending p unless they close a cycle; every temporal one stays. [rounds, sender, receiver] where
        rounds have masks of their own.
        """
        return self._edges.acyclic(self._edges_left())

    def inference_wirings(self, features: Floats | None = None) -> Wirings:
        """`inference()` as one wiring, or one for each question with features [q, d].

        A learned decision column reads all agents that pruning left in it.
        """
        if features is not None:
            return joined(self._by_question(features, self.inference_wirings))
        speaks = self._speaks(ended=True)
        readers = self._readers(speaks, self._edges_left()).numpy()
        return as_wirings(self.inference(), self.rounds, 1, readers, None if speaks is None else speaks.numpy())

    def _tensors(self) -> dict[str, Tensor]:
        tensors = self._edges.tensors()
        for part in self._parts:
            tensors |= {part.prefix + name: tensor for name, tensor in part.state.items()}
        return tensors

    def _restore(self, tensors: Mapping[str, Tensor]) -> None:
        self._edges.restore(tensors)
        for part in self._parts:
            part.state = {name: tensors[part.prefix + name] for name in part.state}

    @property
    def _stage(self) -> Stage:
        return self._stages[self.stage]

    @property
    def _schedule(self) -> PruningSettings:
        return self.spec.exploring(self.stage)

    def _probability(self, kind: str) -> Tensor:
        """Probability of every edge between agents, [rounds or 1, sender, receiver]."""
        return self._edges.sharing.to_agents(kind, self._edges.probability(kind))

    def _by_question(self, features: Floats, read: Callable[[], T]) -> list[T]:
        """Reads something of the graph of each question, once for questions with equal features [q, d]."""
        common = self._edges.logits
        results: dict[bytes, T] = {}
        for row in features:
            if row.tobytes() not in results:
                self._edges.logits = dict(self._estimator.logits_of(row))
                results[row.tobytes()] = read()
                self._edges.logits = common
        return [results[row.tobytes()] for row in features]

    def _speaks(self, ended: bool) -> Tensor | None:
        """Agents that take part, bool [rounds, agents]; None where all do. `ended`: if the stage ended now."""
        silent = self._rule.silent(self._stage, ended)
        return None if silent is None else ~silent.expand(self.rounds, self.agents)

    def _readers(self, speaks: Tensor | None, remaining: Mapping[str, Tensor]) -> Tensor:
        """Agents of the last round that the decision agent may read, bool [agents]; remaining: edges between agents."""
        readers = torch.ones(self.agents, dtype=torch.bool) if speaks is None else speaks[-1]
        if "decision" in self._stage.drawn:
            readers = readers & remaining["decision"].view(self.agents)
        return readers

    def _edges_left(self, final: bool = True) -> dict[str, Tensor]:
        """Edges left if learning ended here, or just its stage. Bool [rounds or 1, sender, receiver] by kind."""
        return self._edges.between_agents(self._masks_left(final))

    def _masks_left(self, final: bool = True) -> Mapping[str, Tensor]:
        """Masks of `_edges_left` for edges that have logits, bool [rounds or 1, unit, unit]."""
        # Without evidence estimates are noise, and where the cut was undone they are wrong.
        if self._confirmation.undone or self.without_evidence() is not None:
            return self._edges.mask
        masks: Mapping[str, Tensor] = self._rule.left(self._stage, final)
        return masks

    def _cut_harmful(self) -> None:
        """Cuts the edges that are certain to harm, at an interim analysis."""
        for kind, harmful in self._estimator.harmful(self._stage).items():
            self._edges.cut_others(kind, ~harmful, tick=1)
        for kind, harmful in self._estimator.certain_harm().items():
            self._edges.rank_anew(kind, harmful)

    def _cut(self) -> None:
        """Cuts at the end of a stage."""
        if self.without_evidence() is None and not self._estimator.by_question():
            self._rule.cut(self._stage)

    def _end(self) -> None:
        """Cuts at the end of the last stage, and goes on to confirm the cut."""
        if self._confirmation.phase != EXPLORING:
            return  # a confirmed graph that goes on learning is not cut again
        if self.spec.confirming:
            self._rule.cut_rest(self._stage)
            self._confirmation.begin()
        self._cut()
