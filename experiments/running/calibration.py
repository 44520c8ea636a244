"""Unlabelled discussions before the evaluation, by which some defences choose the agents that they silence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from actors.errors import UserError
from actors.messages import Trace
from actors.runtime.in_order import in_order
from experiments.attacks.attack import Attack
from experiments.config.config import Config
from experiments.datasets.item import Dataset, Item
from experiments.running.context import RunContext
from experiments.running.counted import CountedTeam
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.topology import Team, Topology, Wired

CALIBRATION = "calibrate"


def watched_items(config: Config, dataset: Dataset) -> list[Item]:
    """The first `defence.calibration` training questions; their labels are not used.

    Raises UserError when there are fewer.
    """
    needed = config.defence.calibration
    items = list(islice(dataset.train(), needed))
    if len(items) < needed:
        raise UserError(
            f"defence.calibration={needed}: {dataset.name} has only {len(items)} training questions; lower it"
        )
    return items


def watched_topology(agents: Sequence[str], rounds: int) -> Topology:
    """The complete graph, in which everybody is heard by everybody."""
    return Wired(CALIBRATION, agents, constant_wiring(complete(len(agents)), len(agents), rounds))


async def calibrate(context: RunContext, team: Team, attack: Attack) -> Sequence[Trace]:
    """The discussions of a run's calibration, attacked as those of its training are; recorded once, all together.

    A run that was killed in between holds them again, from the completion cache.
    """
    config, recorder = context.config, context.recorder
    # Written all at once, so what is there is complete.
    recorded = list(recorder.run.traces(CALIBRATION))
    if recorded:
        return recorded
    topology = watched_topology(context.agents, config.topology.rounds)
    items = watched_items(config, context.dataset)

    bar = context.progress.phase("watching unlabelled discussions", total=len(items))
    team = CountedTeam(team, bar)

    async def discuss(numbered: tuple[int, Item]) -> Trace:
        number, item = numbered
        question = await context.evidence.question(item)
        return await attack.run_discussion(topology, item, question, team, config.seed, phase="train", number=number)

    traces = []
    # In the questions' order, so that the record is the same whatever ends first.
    async for _, trace in in_order(enumerate(items), discuss, config.concurrency):
        traces.append(trace)
        bar.advance()
    recorder.calibrated(traces)
    return traces
