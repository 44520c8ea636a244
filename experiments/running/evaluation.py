"""Evaluates the methods of a run."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import cast

from actors.messages import Trace
from actors.runtime.in_order import in_order
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item
from experiments.records.timings import TimingLog
from experiments.records.usage import EVALUATING
from experiments.running.discussing import discuss
from experiments.running.run_context import RunContext
from topologies.topology import InBlocks, Topology


async def evaluate(topology: Topology, context: RunContext, items: Sequence[Item], counted: bool = True) -> None:
    """Answers every question once along a topology, unless its answer is recorded.

    counted: the usage is recorded as a phase; False within a phase of several evaluations.
    """
    config, recorder = context.config, context.recorder
    done = recorder.done(topology.method)
    bar = context.progress.phase(f"evaluating {topology.method}", total=len(items), done=len(done))
    timings, phase = TimingLog(recorder.run), f"evaluate-{topology.method}"
    # A killed run has the discussions of earlier blocks in its records.
    size = topology.block if isinstance(topology, InBlocks) else 0
    suspicion = {trace.question: trace.suspicion for trace in recorder.run.traces(phase)} if size else {}
    metered = context.metered(timings.turn)
    speaker = context.counted(metered, bar)

    async def answer(numbered: tuple[int, Item]) -> Trace:
        number, item = numbered
        # The slot first, so that discussions begin in the questions' order: a twin's wait for those before them.
        async with context.slots.slot(learning=False):
            return await discuss(context, topology, item, speaker, phase="evaluate", number=number)

    name = f"{EVALUATING}{topology.method}"
    with context.usage.phase(name, lambda: metered.usage) if counted else nullcontext():
        # Numbered before the filter: a resumed run must give a question the number that it had.
        for place, block in groupby(enumerate(items), lambda pair: pair[0] // (size or len(items))):
            left = (pair for pair in block if pair[1].question.id not in done)
            # In the questions' order: traces and scores of a method are in one order in their files.
            async for (_, item), trace in in_order(left, answer, config.concurrency):
                score, harm = context.dataset.score(item, trace.answer), Harm.of(trace, item, context.dataset)
                recorder.evaluated(trace, item, score, harm)
                timings.ended(phase, trace)
                bar.advance()
                if size:
                    suspicion[item.question.id] = trace.suspicion
            if size and isinstance(topology, InBlocks):
                of_block = items[place * size : (place + 1) * size]
                topology = topology.after([suspicion[item.question.id] for item in of_block])


def at_question(topology: Topology, number: int, ids: Sequence[str], traces: Iterable[Trace]) -> Topology:
    """Returns the topology that held question `number` (from 0) of `ids`. traces: its recorded discussions."""
    size = topology.block if isinstance(topology, InBlocks) else 0
    suspicion = {trace.question: trace.suspicion for trace in traces} if size else {}
    for end in range(size, number + 1, size) if size else ():
        topology = cast(InBlocks, topology).after([suspicion[id] for id in ids[end - size : end]])
    return topology
