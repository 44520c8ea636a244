"""Evaluates the full graph without each of its edges, and the graphs that are left.

Every edge is removed in turn, and the same questions are asked again. A turn's seed depends on the question, round
and agent alone, so discussions differ by what the missing edge changes and by nothing else; turns that read the same
as before are answered from the completion cache.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from actors.errors import UserError
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import by_method
from experiments.datasets.item import Item
from experiments.running.discussions import Discussions
from experiments.running.evaluation import evaluate
from experiments.running.run_context import RunContext
from experiments.studies.redundancy.edges import Edge, edges_of, without
from experiments.studies.redundancy.redundancy_summary import (
    AT_ONCE,
    FULL,
    Cuts,
    Removals,
    redundant,
    summarise_removals,
)
from topologies.baselines import complete_wiring
from topologies.topology import Wired
from topologies.wiring import Wiring


async def measure_redundancy(discussions: Discussions) -> Metrics:
    """Learns, removes each edge, evaluates the graphs that are left, and returns the content of redundancy.json.

    Answers of an earlier start are not asked for again. Raises UserError when no question is left to check the
    measurements on, and TooManyFailures.
    """
    await discussions.prepare()
    context = discussions.context
    config = context.config
    # The first ones are measured, the rest are for the test: edges chosen on some questions look too good on these.
    items = list(context.dataset.evaluate())
    questions = config.redundancy.questions
    if not 2 <= questions < len(items):
        raise UserError(
            f"redundancy.questions={questions}: expected 2 at least, and fewer than the {len(items)} evaluated "
            "ones (data.limit), for graphs are checked on the others"
        )
    await discussions.learn()

    full = complete_wiring(len(context.agents), config.topology.rounds)
    edges = edges_of(full)
    # The methods of the records that are the graphs without one edge each.
    names = [f"without.{edge.name(context.agents)}" for edge in edges]
    singles = {name: without(full, [edge]) for name, edge in zip(names, edges, strict=True)}
    measured = items[:questions]
    await evaluate_graphs("taking edges away", {FULL: full, **singles}, measured, context)
    run = context.recorder.run
    removals = Removals.of(by_method(run), names, [item.question.id for item in measured])

    graphs = {FULL: full, AT_ONCE: without(full, compress(edges, redundant(removals.effects)))}
    cuts = {}
    for method, learner in discussions.learning.learners.items():
        cuts[method] = await read_cuts(learner, edges, context.plan.learners[method].reads_everyone)
        graphs[method] = discussions.learning.graphs[method].common
    await evaluate_graphs("evaluating what is left", graphs, items, context)

    summary = summarise_removals(
        edges,
        context.agents,
        removals,
        cuts,
        answers=by_method(run),
        readers={method: int(graph.decision.sum()) for method, graph in graphs.items()},
        seed=config.seed,
        margin=config.compare.margin,
    )
    return {
        "experiment": config.experiment,
        "model": config.models_named,
        "dataset": context.dataset.name,
        "metric": context.dataset.metric,
        "agents": list(context.agents),
        **summary,
    }


async def evaluate_graphs(phase: str, graphs: Mapping[str, Wiring], items: Sequence[Item], context: RunContext) -> None:
    """Asks every question along every graph, unless its answer is recorded already. Raises TooManyFailures."""
    with context.usage.phase(phase):
        for method, wiring in graphs.items():
            await evaluate(Wired(method, context.agents, wiring), context, items, counted=False)
            context.breaker.check(method, context.recorder.run.traces(f"evaluate-{method}"))


async def read_cuts(learner: Any, edges: Sequence[Edge], reads_everyone: bool) -> Cuts:
    """Reads how a learner ranks the edges of the full graph, and which of them it cut."""
    spatial, temporal = await learner.edge_scores()
    decision = await learner.decision_probabilities()
    # This decision agent reads everyone: none of its edges could be cut, and none has a score.
    if reads_everyone:
        decision = np.full(len(decision), np.nan)
    # The decision agent comes after the others.
    spatial, temporal = (np.column_stack([matrix, decision]) for matrix in (spatial, temporal))
    by_kind = {"spatial": spatial, "temporal": temporal, "decision": spatial}
    scores = np.array([by_kind[edge.kind][edge.sender, edge.receiver] for edge in edges])
    # Minus infinity marks pairs that the learner has no edge for.
    scores[np.isneginf(scores)] = np.nan
    # A pruned edge ranks below zero; the decision agent reads one that was pruned with probability zero.
    is_decision = np.array([edge.kind == "decision" for edge in edges])
    return Cuts(scores, cut=(scores < 0) | (is_decision & (scores == 0)))
