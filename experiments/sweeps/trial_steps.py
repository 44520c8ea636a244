"""Training steps of a trial: what Tune hears of each, and the gate at which learners wait while it decides."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from actors.runtime.inline import Local
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder


@dataclass(frozen=True)
class Report:
    """Steps and mean utility of a trial so far.

    finished: the folder is complete. failed: the reason why it never will be, or empty. untracked: the reason why W&B
    lacks a part of it, or empty.
    """

    steps: int = 0
    utility: float = 0.0
    finished: bool = False
    failed: str = ""
    untracked: str = ""


class Steps:
    """Utilities of a trial's training steps. Where a scheduler decides after each, a learner waits at the gate."""

    def __init__(self, run: RunFolder, plan: Plan, gated: bool) -> None:
        # Discussions that two methods learned from count once.
        self._measures = [f"{method}/utility" for method in plan.learners if method not in plan.shared_from]
        self._gated = gated
        self._reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        # A resumed trial reports the mean over all its steps, those before the interruption too. Step 0 has no terms.
        self.utilities = []
        for graph in run.all_learned():
            if graph.path.name not in plan.shared_from:
                self.utilities += [step.terms["utility"] for step in graph.learning() if step.terms]

    @property
    def report(self) -> Report:
        return Report(len(self.utilities), sum(self.utilities) / max(1, len(self.utilities)))

    def note(self, measures: Mapping[str, Any]) -> None:
        """Notes a step by its measures, which have the names of learned methods in front: `m3prune/utility`."""
        utilities = [value for name, value in measures.items() if name in self._measures]
        if utilities:
            self.utilities += utilities
            self._reached.set()
            if self._gated:
                # Closed in the step's own callback: after an await, the next step could already have begun.
                self.gate.clear()

    async def reports(self, work: asyncio.Task[None]) -> AsyncGenerator[Report, None]:
        """Yields a report after each step, and opens the gate when it is asked for the next. Ends with the work."""
        while not work.done():
            # Waits for whichever comes first: without the work, a failure in it would never be noticed here.
            waiting = asyncio.create_task(self._reached.wait())
            await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            # After the last step there is nothing to decide: the final report follows.
            if self._reached.is_set() and not work.done():
                self._reached.clear()
                yield self.report
                self.gate.set()


class Stepwise(Local):
    """Learner that waits at a gate before each step. Discussions of later steps may finish long before."""

    def __init__(self, learner: object, gate: asyncio.Event) -> None:
        super().__init__(learner)
        self._gate = gate

    async def learn(self, *scored: Any) -> Any:
        await self._gate.wait()
        return self._thing.learn(*scored)
