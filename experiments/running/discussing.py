"""Holds the discussions of a run, under the run's attack."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from typing import TypeVar

from actors.messages import Question, Trace, Turn, TurnResult
from actors.runtime.in_order import in_order
from experiments.attacks.kind import Phase
from experiments.datasets.item import Item
from experiments.records.recorder import RunFolder
from experiments.records.timings import TimingLog
from experiments.records.turn_log import TurnLog
from experiments.running.run_context import RunContext
from experiments.running.speakers import attacked_discussion
from topologies.topology import Speaker, Topology

T = TypeVar("T")


class DiscussionLog:
    """Records the turns of discussions and their times in a folder, that of a run or of a learned graph."""

    def __init__(self, folder: RunFolder) -> None:
        self._turns = TurnLog(folder)
        self._timings = TimingLog(folder)

    def turn(self, turn: Turn, result: TurnResult, asked_s: float) -> None:
        """Notes a turn that was asked at a time of the monotonic clock, and is answered now."""
        self._turns.turn(turn, result)
        self._timings.turn(turn, result, asked_s)

    def ended(self, phase: str, trace: Trace) -> None:
        """Records a discussion. Raises UserError where it cannot be written."""
        self._turns.ended(phase, trace)
        self._timings.ended(phase, trace)


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


async def discuss_all(
    context: RunContext,
    batches: Iterable[Iterable[T]],
    hold: Callable[[T, Speaker], Awaitable[Trace]],
    record: Callable[[T, Trace], None],
    *,
    name: str,
    total: int,
    done: int = 0,
    usage_name: str | None = None,
    log: DiscussionLog | None = None,
) -> None:
    """Holds a discussion of each subject, as many at once as the run may, and records them in the subjects' order.

    So the records are the same whichever discussion ends first.

    batches: of subjects; each begins when the discussions of the one before are recorded.
    name: of the phase, in its progress. total, done: numbers of all discussions, and of those recorded before.
    usage_name: of the phase in usage.jsonl; None within a phase of several. log: of turns and times.
    """
    bar = context.progress.phase(name, total=total, completed=done)
    metered = context.metered(log.turn if log else None)
    speaker = context.counted(metered, bar)
    with context.usage.phase(usage_name, lambda: metered.usage) if usage_name else nullcontext():
        for subjects in batches:
            async for subject, trace in in_order(
                subjects, lambda subject: hold(subject, speaker), context.config.concurrency
            ):
                record(subject, trace)
                bar.advance()
