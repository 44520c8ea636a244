"""Watches unlabelled discussions before the evaluation, from which some defences choose whom to silence."""

from collections.abc import Sequence

from actors.messages import Question, Trace
from experiments.datasets.item import Dataset, Item
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder
from experiments.running.discussing import discuss, discuss_all
from experiments.running.inputs import watched_items
from experiments.running.run_context import RunContext
from topologies.baselines import complete_wiring
from topologies.topology import Speaker, Topology, Wired

CALIBRATION = "calibrate"
WATCHING = "watching unlabelled discussions"  # the phase


def watched_topology(agents: Sequence[str], rounds: int) -> Topology:
    """Makes the complete graph, in which every agent hears all others."""
    return Wired(CALIBRATION, agents, complete_wiring(len(agents), rounds))


async def calibrate(context: RunContext) -> Sequence[tuple[Question, Trace]]:
    """Holds the discussions of a run's calibration, attacked as in training. Records and returns all at once.

    A run that was killed in between repeats them, from the completion cache. Raises TooManyFailures.
    """
    recorder = context.recorder
    items = watched_items(context.dataset, context.plan)
    if not recorder.run.count(CALIBRATION):
        traces: list[Trace] = []
        topology = watched_topology(context.agents, context.config.topology.rounds)

        async def hold(numbered: tuple[int, Item], speaker: Speaker) -> Trace:
            number, item = numbered
            return await discuss(context, topology, item, speaker, phase="train", number=number)

        await discuss_all(
            context,
            [enumerate(items)],
            hold,
            lambda numbered, trace: traces.append(trace),
            name=WATCHING,
            total=len(items),
            usage_name=WATCHING,
        )
        context.breaker.check(WATCHING, traces)
        recorder.calibrated(traces)
    return recorded_calibration(context.dataset, context.plan, recorder.run)


def recorded_calibration(dataset: Dataset, plan: Plan, run: RunFolder) -> list[tuple[Question, Trace]]:
    """Reads the recorded discussions of a run's calibration, with their questions."""
    questions = {item.question.id: item.question for item in watched_items(dataset, plan)}
    return [(questions[trace.question], trace) for trace in run.traces(CALIBRATION)]
