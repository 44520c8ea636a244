"""Measures redundant edges of the full graph (Definition 1 of M3Prune). It also reads learners' cuts.

Every edge is removed in turn, and the same questions are asked again. A turn's seed depends on the question, round
and agent alone, so discussions differ by what the missing edge changes and by nothing else; turns that read the same
as before are answered from the completion cache.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np

from actors.errors import UserError
from actors.messages import Trace
from actors.runtime.in_order import in_order
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item
from experiments.records.records import Scored
from experiments.running.discussing import discuss
from experiments.running.discussions import Discussions
from topologies.baselines import complete_wiring
from topologies.topology import DECISION_AGENT, Wired
from topologies.wiring import KINDS, Bools, Floats, Wiring

# Names of methods in the records: a resumed run finds its answers by them.
FULL, WITHOUT = "full", "without"
AT_ONCE = "no_redundant"  # the full graph without all of its redundant edges
ROUNDING = 1e-9  # a mean of scores that is zero but for its last bits counts as zero


class Edge(NamedTuple):
    """One edge, in all rounds that have it. Agents are indices; the decision agent's is the number of others."""

    kind: str
    sender: int
    receiver: int

    def name(self, agents: Sequence[str]) -> str:
        """Names the edge, in characters that a method's name may have."""
        # The decision agent comes after the others, so its index finds its name.
        return ".".join((self.kind, agents[self.sender], (*agents, DECISION_AGENT)[self.receiver]))


def edges_of(wiring: Wiring) -> tuple[Edge, ...]:
    """Lists spatial, temporal and decision edges of any round. Each kind is by sender, then receiver."""
    agents = len(wiring.decision)
    in_rounds = [
        Edge(kind, sender, receiver)
        for kind, present in (("spatial", wiring.spatial), ("temporal", wiring.temporal))
        for sender, receiver in np.unique(present[:, 1:], axis=0).tolist()
    ]
    return (*in_rounds, *(Edge("decision", sender, agents) for sender in np.flatnonzero(wiring.decision).tolist()))


def without(wiring: Wiring, edges: Iterable[Edge]) -> Wiring:
    """Removes edges from a graph, in every round. Only the remaining edges could have been drawn."""
    # A copy: the full graph is used again for every other edge.
    left = {"spatial": wiring.spatial, "temporal": wiring.temporal}
    decision = wiring.decision.copy()
    for edge in edges:
        if edge.kind == "decision":
            decision[edge.sender] = False
        else:
            present = left[edge.kind]
            left[edge.kind] = present[(present[:, 1] != edge.sender) | (present[:, 2] != edge.receiver)]
    # None as candidates: exactly the edges present could have been drawn.
    return Wiring(wiring.rounds, left["spatial"], left["temporal"], decision, speaks=wiring.speaks)


def by_kind(edges: Sequence[Edge]) -> dict[str, list[int]]:
    """Maps each kind to the positions of its edges, after `all`. Kinds without edges are left out."""
    groups = {kind: [i for i, edge in enumerate(edges) if edge.kind == kind] for kind in KINDS}
    return {"all": list(range(len(edges))), **{kind: members for kind, members in groups.items() if members}}


@dataclass(frozen=True)
class Pruned:
    """A learner's graph, and for all edges [edges] of the full one: cut, and score (NaN for one that it lacks)."""

    wiring: Wiring
    cut: Bools
    scores: Floats


def redundant(effects: Floats) -> Bools:
    """Tests for Definition 1 (Eq. 2), [edges, questions] to bool [edges]: without the edge the score is no less."""
    no_less: Bools = effects.mean(1) <= ROUNDING
    return no_less


class Redundancy:
    """The job, on launched agents and learners, and what `run` has measured.

    effects: [edges, questions], the score with an edge minus the score without it; positive where the edge helps.
    saved: mean tokens that go without the edge. redundant: bool, both [edges].
    readers: the number of agents that the decision agent reads, by graph that answered the held-out questions too.
    """

    def __init__(self, discussions: Discussions, questions: int) -> None:
        """Raises UserError when no question is left to check the measurements on."""
        self._discussions = discussions
        self._context = context = discussions.context
        self._agents = context.agents
        # The first ones are measured, the rest are held out: edges chosen on some questions look too good on these.
        items = list(context.dataset.evaluate())
        if not 2 <= questions < len(items):
            raise UserError(
                f"redundancy.questions={questions}: expected 2 at least, and fewer than the {len(items)} evaluated "
                "ones (data.limit), for graphs are checked on the others"
            )
        self._items, self._measured = items, items[:questions]
        ids = tuple(item.question.id for item in items)
        self.questions, self.held_out = ids[:questions], ids[questions:]
        self._graph = complete_wiring(len(self._agents), context.config.topology.rounds)
        self.edges = edges_of(self._graph)
        # The methods of the records that are the graphs without one edge each.
        self._without = [f"{WITHOUT}.{edge.name(self._agents)}" for edge in self.edges]
        self.scores: dict[str, dict[str, Scored]] = {}

    async def run(self) -> "Redundancy":
        """Learns, removes each edge, and evaluates remaining graphs on held-out questions. Keeps recorded answers."""
        # Answers of an earlier start of this run; `_phase` skips them.
        for scored in self._context.recorder.run.scores():
            self.scores.setdefault(scored.method, {})[scored.question] = scored
        await self._discussions.learn()
        self.pruned = dict[str, Pruned]()
        learning, learners = self._discussions.learning, self._context.plan.learners
        for method, learner in learning.learners.items():
            spatial, temporal = await learner.edge_scores()
            decision = await learner.decision_probabilities()
            # This decision agent reads everyone: none of its edges could be cut, and none has a score.
            if learners[method].reads_everyone:
                decision = np.full(len(self._agents), np.nan)
            ranked = {"spatial": spatial, "temporal": temporal, "decision": decision[:, None]}
            places = [(edge, 0 if edge.kind == "decision" else edge.receiver) for edge in self.edges]
            scores = np.array([ranked[edge.kind][edge.sender, receiver] for edge, receiver in places])
            # Minus infinity marks pairs that the learner has no edge for.
            scores[np.isneginf(scores)] = np.nan
            # A pruned edge ranks below zero; the decision agent reads one that was pruned with probability zero.
            cut = np.where([edge.kind == "decision" for edge in self.edges], scores <= 0, scores < 0)
            self.pruned[method] = Pruned(learning.graphs[method].common, cut, scores)
        singles = {method: without(self._graph, [edge]) for method, edge in zip(self._without, self.edges, strict=True)}
        await self._phase("taking edges away", {FULL: self._graph, **singles}, self._measured)
        rows = [[self.scores[method][item.question.id] for item in self._measured] for method in [FULL, *self._without]]
        utility = np.array([[scored.utility for scored in row] for row in rows])
        tokens = np.array([[float(scored.tokens) for scored in row] for row in rows])
        self.effects, self.saved = utility[:1] - utility[1:], (tokens[:1] - tokens[1:]).mean(1)
        self.redundant = redundant(self.effects)
        graphs = {
            FULL: self._graph,
            AT_ONCE: without(self._graph, compress(self.edges, self.redundant)),
            **{method: learned.wiring for method, learned in self.pruned.items()},
        }
        await self._phase("evaluating what is left", graphs, self._items)
        self.readers = {method: int(graph.decision.sum()) for method, graph in graphs.items()}
        return self

    async def _phase(self, name: str, graphs: Mapping[str, Wiring], items: Sequence[Item]) -> None:
        """Asks every question along every graph, unless its answer is recorded already."""
        context = self._context
        done = sum(item.question.id in self.scores.get(method, {}) for method in graphs for item in items)
        bar = context.progress.phase(name, total=len(graphs) * len(items), completed=done)
        wired = {method: Wired(method, self._agents, wiring) for method, wiring in graphs.items()}
        speaker = context.counted(context.speaker, bar)

        async def answer(request: tuple[str, int, Item]) -> Trace:
            method, number, item = request
            return await discuss(context, wired[method], item, speaker, phase="evaluate", number=number)

        # A generator: requests are made as discussions finish, and `scores` is read at that time.
        missing = (
            (method, number, item)
            for method in graphs
            for number, item in enumerate(items)
            if item.question.id not in self.scores.get(method, {})
        )
        with context.usage.phase(name):
            async for (method, _, item), trace in in_order(missing, answer, context.config.concurrency):
                # An edge's effect is a difference: a turn that failed on one side alone would be taken for one.
                context.breaker.check(f"{method}, question {item.question.id}", [trace])
                score = context.dataset.score(item, trace.answer)
                harm = Harm.of(trace, item, context.dataset)
                scored = context.recorder.evaluated(trace, item, score, harm)
                self.scores.setdefault(method, {})[item.question.id] = scored
                bar.advance()
