"""Watches unlabelled discussions before the evaluation, from which some defences choose whom to silence."""

from collections.abc import Sequence

from actors.messages import Question, Trace
from actors.runtime.in_order import in_order
from experiments.datasets.item import Item
from experiments.running.discussing import discuss
from experiments.running.inputs import watched_items
from experiments.running.run_context import RunContext
from topologies.baselines import complete_wiring
from topologies.topology import Topology, Wired

CALIBRATION = "calibrate"


def watched_topology(agents: Sequence[str], rounds: int) -> Topology:
    """Makes the complete graph, in which every agent hears all others."""
    return Wired(CALIBRATION, agents, complete_wiring(len(agents), rounds))


async def calibrate(context: RunContext) -> Sequence[tuple[Question, Trace]]:
    """Holds the discussions of a run's calibration, attacked as in training. Records and returns all at once.

    A run that was killed in between repeats them, from the completion cache. Raises TooManyFailures.
    """
    config, recorder = context.config, context.recorder
    items = watched_items(context.dataset, context.plan.watched_questions)
    traces = list(recorder.run.traces(CALIBRATION))
    if not traces:
        topology = watched_topology(context.agents, config.topology.rounds)
        bar = context.progress.phase("watching unlabelled discussions", total=len(items))
        speaker = context.counted(context.speaker, bar)

        async def hold(numbered: tuple[int, Item]) -> Trace:
            number, item = numbered
            return await discuss(context, topology, item, speaker, phase="train", number=number)

        # In the questions' order, so that the record is the same whichever ends first.
        async for _, trace in in_order(enumerate(items), hold, config.concurrency):
            traces.append(trace)
            bar.advance()
        context.breaker.check("watching unlabelled discussions", traces)
        recorder.calibrated(traces)
    questions = {item.question.id: item.question for item in items}
    return [(questions[trace.question], trace) for trace in traces]
