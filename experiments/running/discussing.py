"""Holds one discussion of a run, under the run's attack."""

from actors.messages import Question, Trace
from experiments.attacks.kind import Phase
from experiments.datasets.item import Item
from experiments.running.run_context import RunContext
from experiments.running.speakers import attacked_discussion
from topologies.topology import Speaker, Topology


async def discuss(
    context: RunContext,
    topology: Topology,
    item: Item,
    speaker: Speaker,
    *,
    phase: Phase,
    number: int,
    sample: int = 0,
    question: Question | None = None,
) -> Trace:
    """Holds a discussion of an item, number `number` (from 0) of the phase.

    question: the item's, with its evidence, where that is retrieved already.
    """
    return await attacked_discussion(
        context.attack,
        topology,
        item,
        question or await context.evidence.question(item),
        speaker,
        context.config.seed,
        phase=phase,
        number=number,
        sample=sample,
    )
