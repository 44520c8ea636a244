"""Unlabelled discussions before the evaluation, from which some defences choose the agents that they silence."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages import Trace
from actors.runtime.in_order import in_order
from experiments.attacks.attack import Attack
from experiments.datasets.item import Item
from experiments.running.context import RunContext
from experiments.running.discussion_slots import CountedTeam
from experiments.running.inputs import watched_items
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.topology import Team, Topology, Wired

CALIBRATION = "calibrate"


def watched_topology(agents: Sequence[str], rounds: int) -> Topology:
    """The complete graph, in which every agent hears all others."""
    return Wired(CALIBRATION, agents, constant_wiring(complete(len(agents)), len(agents), rounds))


async def calibrate(context: RunContext, team: Team, attack: Attack) -> Sequence[Trace]:
    """Holds the discussions of a run's calibration, attacked as in training, and records all of them at once.

    A run that was killed in between repeats them, from the completion cache.
    """
    config, recorder = context.config, context.recorder
    recorded = list(recorder.run.traces(CALIBRATION))
    if recorded:
        return recorded
    topology = watched_topology(context.agents, config.topology.rounds)
    items = watched_items(context.dataset, context.plan.watched_questions)

    bar = context.progress.phase("watching unlabelled discussions", total=len(items))
    team = CountedTeam(team, bar)

    async def discuss(numbered: tuple[int, Item]) -> Trace:
        number, item = numbered
        question = await context.evidence.question(item)
        return await attack.run_discussion(topology, item, question, team, config.seed, phase="train", number=number)

    traces = []
    # In the questions' order, so that the record is the same whichever ends first.
    async for _, trace in in_order(enumerate(items), discuss, config.concurrency):
        traces.append(trace)
        bar.advance()
    recorder.calibrated(traces)
    return traces
