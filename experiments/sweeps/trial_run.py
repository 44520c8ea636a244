"""One trial of a sweep: an ordinary run in its own folder. A process runs one trial after another.

A trial leaves behind only things that no answer depends on: open data sets, indexes and evidence, and the connection
to the judge's model.
"""

import asyncio
import io
import logging
import re
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from actors.completions.cache import CachedModel
from actors.runtime.inline import Local
from actors.runtime.remote import reason
from experiments.config.saved import read
from experiments.jobs import plan_of
from experiments.planning.plan import Plan
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder, Scoring
from experiments.records.tracking import Tracker
from experiments.running import inputs
from experiments.running.conclude import conclude
from experiments.running.discussions import Discussions
from experiments.running.launching import Shared
from experiments.running.learned_graphs import learner_makers
from experiments.running.run_context import RunContext

log = logging.getLogger(__name__)


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


class Opened:
    """Data and judge shared by the trials of one process. The first trial opens them."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        # Its sender's name is one that no other process has.
        self.judge = shared.judge[0].model(shared.judge[1]) if shared.judge else None
        self.data = inputs.OpenData()

    async def close(self) -> None:
        await self.shared.agents.close()
        if isinstance(self.judge, CachedModel):
            self.judge.close()


async def run_trial(folder: Path, opened: Opened, each_step: bool) -> AsyncGenerator[Report, None]:
    """Runs the folder's configuration from where its records end. Reports at the end.

    With `each_step` it reports after every training step too, and waits. Closing the iterator stops the trial.
    """
    run = RunFolder.open(folder)
    handler = run.keep_log()
    last = Report()
    try:
        # Closed with this iterator, and not when garbage is collected: it holds the trial's records open.
        async with aclosing(_reports(run, opened, each_step)) as reports:
            async for report in reports:
                last = report
                yield report
    # Reported and not raised: Tune would try again, and an error of the run itself would recur every time.
    except Exception as error:
        log.exception("the trial failed")
        yield Report(last.steps, last.utility, failed=reason(error))
    finally:
        # The next trial in this process logs elsewhere.
        logging.getLogger().removeHandler(handler)
        handler.close()


async def _reports(run: RunFolder, opened: Opened, each_step: bool) -> AsyncGenerator[Report, None]:
    config = read(run.config)
    plan = plan_of(config)
    dataset, evidence = opened.data.of(plan)
    # A new id for every attempt: agents may still hold half a discussion of an earlier one.
    speaker = opened.shared.agents.speaker(uuid.uuid4().hex)
    with Recorder(run, Scoring(dataset)) as recorder:
        steps = Steps(run, plan, gated=each_step)
        # The trial's name is not unique in a W&B project, so the sweep's comes first; ids have 128 characters at most.
        wandb_id = re.sub(r"[^\w.-]", "-", f"{run.path.parent.parent.name}-{run.path.name}")[:128]
        tracker = Tracker(run.path, asdict(config), config.wandb, wandb_id, steps.note)
        # Silent: the sweep's driver shows the progress of all trials.
        progress = Progress(Console(file=io.StringIO(), quiet=True))
        work = None
        try:
            context = RunContext.of(plan, dataset, evidence, recorder, tracker, progress, speaker, opened.judge)
            makers = learner_makers(plan, evidence.store.encoder)
            learners = {method: Stepwise(make(), steps.gate) for method, make in makers.items()}
            # One after another where a trial may be ended after any step, or what it evaluates would be in vain.
            discussions = Discussions(context, learners, side_by_side=not each_step)
            work = asyncio.create_task(discussions.run())
            if each_step:
                async with aclosing(steps.reports(work)) as reports:
                    async for report in reports:
                        yield report
            await work
            # Reached only when all went well; `await work` raises what the job raised.
            _, _, lacking = conclude(plan, run, dataset, tracker, trial=True)
            tracker.finish()
            if lacking:
                # No result, so nothing is ranked by it, and resuming the sweep asks the failed questions again.
                yield replace(steps.report, utility=0.0, failed=lacking)
            else:
                yield replace(steps.report, finished=True, untracked=tracker.problem)
        finally:
            # Stopped early, or closed with the process: no turn of this trial may outlive it.
            if work is not None and not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await work
            await speaker.part()
            # Does nothing after the `finish` of a trial that succeeded.
            tracker.finish(exit_code=1)
