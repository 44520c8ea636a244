"""Evaluates the methods of a run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeGuard

from actors.messages import Trace
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.clusters import clusters_at_random
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
    suspicion: dict[str, Suspicion] = {}
    if learns_between_blocks(topology):
        suspicion = {trace.question: trace.suspicion for trace in recorder.run.traces(phase)}

    def blocks() -> Iterator[list[tuple[int, Item]]]:
        """Yields the numbers and items that are left of each block, while `topology` is that of the block."""
        nonlocal topology
        start = 0
        for block in evaluation_blocks(topology, items, context.config.seed):
            # Numbered before the filter: a resumed run must give a question the number that it had.
            numbered = list(enumerate(chain.from_iterable(block), start))
            start += len(numbered)
            yield [(number, item) for number, item in numbered if item.question.id not in recorded_ids]
            topology = after_block(topology, block, suspicion)

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


def at_question(
    topology: Topology, question: str, items: Sequence[Item], seed: int, traces: Iterable[Trace]
) -> tuple[Topology, int]:
    """Returns the topology that discussed a question, and the question's number (from 0) in its evaluation.

    question: its id, one of the items'. traces: the recorded discussions of the evaluation.
    """
    suspicion: dict[str, Suspicion] = {}
    if learns_between_blocks(topology):
        suspicion = {trace.question: trace.suspicion for trace in traces}

    start = 0
    for block in evaluation_blocks(topology, items, seed):
        ids = [item.question.id for item in chain.from_iterable(block)]
        if question in ids:
            return topology, start + ids.index(question)
        start += len(ids)
        topology = after_block(topology, block, suspicion)
    raise ValueError(f"no question {question!r} is evaluated")


def learns_between_blocks(topology: Topology) -> TypeGuard[InBlocks]:
    return isinstance(topology, InBlocks) and topology.block > 0


def evaluation_blocks(topology: Topology, items: Sequence[Item], seed: int) -> list[list[list[Item]]]:
    """Divides the questions of an evaluation into blocks of clusters.

    A topology that learns between blocks discusses whole clusters in a random order, so that questions on one document
    are one piece of evidence and no block depends on a document's place in the data set. Any other one has a
    single block, with the questions in their own order.
    """
    if not learns_between_blocks(topology):
        return [[list(items)]]
    blocks: list[list[list[Item]]] = []
    free_places = 0
    for cluster in clusters_at_random(items, seed):
        if free_places <= 0:
            blocks.append([])
            free_places = topology.block
        blocks[-1].append(cluster)
        free_places -= len(cluster)
    return blocks


def after_block(topology: Topology, block: Sequence[Sequence[Item]], suspicion: Mapping[str, Suspicion]) -> Topology:
    """Returns the topology of the next block; suspicion: by question, of at least this block's discussions."""
    if not learns_between_blocks(topology):
        return topology
    return topology.after([[suspicion[item.question.id] for item in cluster] for cluster in block])
