"""One trial of a sweep: an ordinary run in its own folder. A process runs one trial after another.

A trial leaves behind only things that no answer depends on: open data sets, indexes and evidence, and the connection
to the judge's model.
"""

import asyncio
import logging
import re
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import asdict, replace
from pathlib import Path

from actors.completions.cache import CachedModel
from actors.runtime.remote import reason
from experiments.config.saved import read
from experiments.jobs import plan_of
from experiments.records import sinks, tracking
from experiments.records.progress import silent
from experiments.records.recorder import Recorder, RunFolder, Scoring
from experiments.running import inputs
from experiments.running.conclude import RecordedRun, conclude
from experiments.running.discussions import Discussions
from experiments.running.launching import Shared
from experiments.running.learned_graphs import learner_makers
from experiments.running.run_context import RunContext
from experiments.sweeps.trial_steps import Report, Steps, Stepwise

log = logging.getLogger(__name__)


class TrialInputs:
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


async def run_trial(folder: Path, trial_inputs: TrialInputs, each_step: bool) -> AsyncGenerator[Report, None]:
    """Runs the folder's configuration from where its records end. Reports at the end.

    With `each_step` it reports after every training step too, and waits. Closing the iterator stops the trial.
    """
    run = RunFolder.open(folder, checks=False)  # the sweep has checked it
    handler = run.keep_log()
    latest = Report()
    failed_outputs = sinks.Failures()
    logging.getLogger().addHandler(failed_outputs)
    try:
        # Closed with this iterator, and not when garbage is collected: it holds the trial's records open.
        async with aclosing(_reports(run, trial_inputs, each_step)) as reports:
            async for report in reports:
                latest = report
                yield replace(report, untracked="; ".join(failed_outputs.lines))
    # Reported and not raised: Tune would try again, and an error of the run itself would recur every time.
    except Exception as error:
        log.exception("the trial failed")
        yield Report(latest.steps, latest.utility, failed=reason(error))
    finally:
        # The next trial in this process logs elsewhere.
        logging.getLogger().removeHandler(handler)
        logging.getLogger().removeHandler(failed_outputs)
        handler.close()


async def _reports(run: RunFolder, trial_inputs: TrialInputs, each_step: bool) -> AsyncGenerator[Report, None]:
    config = read(run.config)
    plan = plan_of(config)
    dataset, evidence = trial_inputs.data.of(plan)
    # A new id for every attempt: agents may still hold half a discussion of an earlier one.
    speaker = trial_inputs.shared.agents.speaker(uuid.uuid4().hex)
    with Recorder(run, Scoring(dataset)) as recorder:
        steps = Steps(run, plan, gated=each_step)
        # The trial's name is not unique in a W&B project, so the sweep's comes first; ids have 128 characters at most.
        wandb_id = re.sub(r"[^\w.-]", "-", f"{run.path.parent.parent.name}-{run.path.name}")[:128]
        tracker = tracking.Tracker(run.path, asdict(config), config.wandb, wandb_id, steps.note)
        # Silent: the sweep's driver shows the progress of all trials.
        progress = silent()
        work = None
        try:
            context = RunContext.of(plan, dataset, evidence, recorder, tracker, progress, speaker, trial_inputs.judge)
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
            recorded_run = RecordedRun(plan, run, dataset, evidence.store.titles, tracker)
            _, _, lacking = conclude(recorded_run, trial=True)
            tracker.finish()
            if lacking:
                # No result, so nothing is ranked by it, and resuming the sweep asks the failed questions again.
                yield replace(steps.report, utility=0.0, failed=lacking)
            else:
                yield replace(steps.report, finished=True)
        finally:
            # Stopped early, or closed with the process: no turn of this trial may outlive it.
            if work is not None and not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await work
            await speaker.part()
            # Does nothing after the `finish` of a trial that succeeded.
            tracker.finish(exit_code=1)
