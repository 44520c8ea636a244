"""One trial under way in the process that it shares with others before and after: an ordinary run, in its own folder.

What outlives a trial there is what no answer depends on: data sets, indexes and evidence that were read once, and
the way to the judge's model.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from actors.backends.settings import model_name
from actors.completions.cache import CachedModel
from actors.errors import UserError, first_of
from experiments.config.config import Config
from experiments.config.loading import read
from experiments.datasets.item import Dataset
from experiments.evidence.evidence import Evidence
from experiments.judging.judge import Judge
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.tracking import Tracker
from experiments.running.conclude import conclude
from experiments.running.context import RunContext
from experiments.running.job import Job
from experiments.running.launch import team_roles
from experiments.running.launched import Launched, Shared, check_learner
from experiments.running.local import Local
from experiments.running.methods import methods_of
from experiments.running.opening import open_cache, open_dataset, open_store
from topologies.learning.learner import Learner
from topologies.learning.step_report import StepReport

KEPT = 8  # data sets that are open at once, each with its index

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """Progress of a trial: `steps` of training, with the mean `utility` of their discussions.

    `finished` when its folder is complete; `failed` is in one line the reason that it never will be.
    """

    steps: int = 0
    utility: float = 0.0
    finished: bool = False
    failed: str = ""


class Stepwise(Local):
    """A learner that learns a step only while it may `go` on: discussions of later steps may be over long before."""

    def __init__(self, learner: Learner, go: asyncio.Event) -> None:
        super().__init__(learner)
        self._go = go

    async def learn(self, *scored: Any) -> StepReport:
        await self._go.wait()
        report: StepReport = self._thing.learn(*scored)
        return report


class Opened:
    """Data and judge that the trials of one process share: opened for the first, kept for the others."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.judge = shared.judge_model(uuid.uuid4().hex)
        self._data: OrderedDict[str, tuple[Dataset, Evidence]] = OrderedDict()

    def data(self, config: Config) -> tuple[Dataset, Evidence]:
        key = data_key(config)
        if key not in self._data:
            cache = open_cache(config)
            dataset = open_dataset(config, cache)
            self._data[key] = dataset, Evidence(open_store(config, dataset, cache), config.retrieval)
            if len(self._data) > KEPT:
                self._data.popitem(last=False)
        self._data.move_to_end(key)
        return self._data[key]

    def close(self) -> None:
        if isinstance(self.judge, CachedModel):
            self.judge.close()


def data_key(config: Config) -> str:
    """All on which a data set and the evidence for its questions depend."""
    training = config.pruning.steps, config.training.questions_per_step, config.defence.calibration
    watches = any(method.needs_calibration for method in methods_of(config))
    return json.dumps([config.seed, training, watches, asdict(config.data), asdict(config.retrieval), config.cache])


async def run_trial(
    folder: Path, opened: Opened, each_step: bool, started: Callable[[], None] = lambda: None
) -> AsyncIterator[Report]:
    """Run the folder's configuration from wherever the folder is, and report at the end; with `each_step`, after every
    training step as well, and go on when asked for the next report. Closing it stops the trial.

    Args:
        started: called just before the first question.
    """
    run = RunFolder.open(folder)
    with _logging_to(run.log):
        steps, utility = 0, 0.0
        try:
            async for report in _reports(run, opened, each_step, started):
                steps, utility = report.steps, report.utility
                yield report
        except Exception as error:
            log.exception("the trial failed")
            yield Report(steps, utility, failed=reason(error))


async def _reports(
    run: RunFolder, opened: Opened, each_step: bool, started: Callable[[], None]
) -> AsyncIterator[Report]:
    config = read(run.config)
    roles = team_roles(config)
    dataset, evidence = opened.data(config)
    # Its own at every attempt: of an earlier one, agents may hold half a discussion.
    team = opened.shared.agents.team(uuid.uuid4().hex)
    judge = Judge(opened.judge, model_name(config.judge)) if opened.judge else None
    with Recorder(run) as recorder:
        utilities = [step.terms["utility"] for step in run.learning() if step.terms]
        learned, go = asyncio.Event(), asyncio.Event()
        go.set()  # open unless a scheduler decides after each step

        def on_step(step: Mapping[str, Any]) -> None:
            if "utility" in step:
                utilities.append(step["utility"])
                learned.set()
                if each_step:
                    go.clear()

        wandb = config.wandb
        # A trial's name alone is not the only one of its project; W&B allows few characters and 128 of them.
        of_all = re.sub(r"[^\w.-]", "-", f"{run.path.parent.parent.name}-{run.path.name}")[:128]
        tracker = Tracker(run.path, asdict(config), wandb.mode, wandb.project, wandb.group, of_all, on_step=on_step)
        work = None
        try:
            progress = Progress(Console(file=io.StringIO(), quiet=True))
            context = RunContext(config, roles, dataset, evidence, recorder, tracker, progress)
            job = Job(context, Launched(team, judge), Stepwise(check_learner(config, roles), go))
            started()
            work = asyncio.create_task(job.run())
            while not work.done():
                waiting = asyncio.create_task(learned.wait())
                await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if learned.is_set() and not work.done():
                    learned.clear()
                    if each_step:
                        yield Report(len(utilities), sum(utilities) / len(utilities))
                        go.set()
            await work
            conclude(config, run, dataset, tracker, model_name(config.model))
            tracker.finish()
            yield Report(len(utilities), sum(utilities) / len(utilities) if utilities else 0.0, finished=True)
        finally:
            if work is not None and not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await work
            await team.part()
            tracker.finish(exit_code=1)


def reason(error: BaseException) -> str:
    """In one line. What goes wrong in one of many discussions comes wrapped."""
    if isinstance(error, BaseExceptionGroup):
        error = first_of(UserError, error) or first_of(Exception, error) or error
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Sends the log of this process to a file meanwhile, as a run does."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for talker in ("wandb", "fontTools"):
        logging.getLogger(talker).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        handler.close()
