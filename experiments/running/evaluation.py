"""Evaluates the methods of a run."""

from collections.abc import Iterable, Iterator, Sequence

from actors.messages import Trace
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item
from experiments.records.usage import EVALUATING
from experiments.running.discussing import DiscussionLog, discuss, discuss_all
from experiments.running.run_context import RunContext
from topologies.topology import InBlocks, Speaker, Suspicion, Topology


async def evaluate(topology: Topology, context: RunContext, items: Sequence[Item], counted: bool = True) -> None:
    """Answers every question once along a topology, unless its answer is recorded.

    counted: the usage is recorded as a phase; False within a phase of several evaluations.
    """
    recorder = context.recorder
    method = topology.method
    phase = f"evaluate-{method}"
    recorded_ids = recorder.done(method)
    log = DiscussionLog(recorder.run)
    # A killed run has the discussions of earlier blocks in its records.
    block_size = topology.block if isinstance(topology, InBlocks) else 0
    suspicion: dict[str, Suspicion] = {}
    if block_size:
        suspicion = {trace.question: trace.suspicion for trace in recorder.run.traces(phase)}

    def blocks() -> Iterator[list[tuple[int, Item]]]:
        """Yields the numbers and items that are left of each block, while `topology` is that of the block."""
        nonlocal topology
        size = block_size or max(1, len(items))
        for start in range(0, len(items), size):
            block = items[start : start + size]
            # Numbered before the filter: a resumed run must give a question the number that it had.
            numbered = enumerate(block, start)
            yield [(number, item) for number, item in numbered if item.question.id not in recorded_ids]
            if isinstance(topology, InBlocks) and block_size:
                topology = topology.after([suspicion[item.question.id] for item in block])

    async def answer(numbered: tuple[int, Item], speaker: Speaker) -> Trace:
        number, item = numbered
        # The slot first, so that discussions begin in the questions' order: a twin's wait for those before them.
        async with context.slots.slot(learning=False):
            return await discuss(context, topology, item, speaker, phase="evaluate", number=number)

    def record(numbered: tuple[int, Item], trace: Trace) -> None:
        _, item = numbered
        score = context.dataset.score(item, trace.answer)
        recorder.evaluated(trace, item, score, Harm.of(trace, item, context.dataset))
        log.ended(phase, trace)
        suspicion[item.question.id] = trace.suspicion

    name = f"{EVALUATING}{method}"
    await discuss_all(
        context,
        blocks(),
        answer,
        record,
        name=name,
        total=len(items),
        done=len(recorded_ids),
        usage_name=name if counted else None,
        log=log,
    )


def at_question(topology: Topology, number: int, ids: Sequence[str], traces: Iterable[Trace]) -> Topology:
    """Returns the topology that discussed question `number` (from 0) of `ids`. traces: its recorded discussions."""
    if not (isinstance(topology, InBlocks) and topology.block):
        return topology
    suspicion = {trace.question: trace.suspicion for trace in traces}
    size = topology.block
    for end in range(size, number + 1, size):
        topology = topology.after([suspicion[id] for id in ids[end - size : end]])
        assert isinstance(topology, InBlocks)
    return topology
