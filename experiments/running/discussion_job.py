"""Jobs that hold discussions: open everything, launch agents and learners, discuss, and conclude from the records."""

import asyncio
from dataclasses import asdict
from pathlib import Path

from actors.runtime.runtime import Runtime
from experiments.config.references import resumption_line
from experiments.datasets.item import Dataset
from experiments.planning.learners import learner_makers
from experiments.planning.models import models_named
from experiments.planning.plan import Job, Plan
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.tracking import Tracker
from experiments.running import inputs, launching, model_record, replayed_run, runtime_start
from experiments.running.discussions import Discussions
from experiments.running.inputs import RunContext
from experiments.running.left_to_extract import check_extraction


class DiscussionJob(Job):
    """A job whose agents discuss; a subclass has the subject and the conclusion."""

    searches = False

    async def discuss(self, discussions: Discussions) -> None:
        """Learns and evaluates, once all are up; another job may do else. Raises UserError as `Job.run`."""
        await discussions.run()

    def conclude(self, plan: Plan, folder: RunFolder, dataset: Dataset, answering: str, tracker: Tracker) -> bool:
        """Sums up the records; `answering` is the model's name. Returns False where too much has failed for that."""
        raise NotImplementedError

    def run(self, plan: Plan, folder: RunFolder) -> bool:
        config = plan.config
        config.wandb.check_key()
        cache = inputs.open_cache(config)
        for method in plan.learners:
            # For its errors alone: the learner that goes on from it is launched much later.
            folder.learned(method).checkpoint()
        dataset, recorded, answering = self._open(plan, folder, cache)
        with Tracker(folder.path, asdict(config), config.wandb) as tracker:
            # The recorder first: a folder that is in use is refused before any process is started.
            with (
                Recorder(folder) as recorder,
                Progress() as progress,
                runtime_start.runtime_started(config, progress) as runtime,
            ):
                # All processes start side by side, and while an index is opened or built here; the slowest
                # come first: all learners in one actor, most of which is PyTorch.
                sees = any(spec.variant.by_question for spec in plan.learners.values())
                early = inputs.open_evidence(plan, dataset, cache) if sees else None
                made = learner_makers(plan.learners, plan.roles.team, early.store.encoder if early else None)
                learners = runtime.launch("the topology actor", made) if made else {}
                agents = launching.launch_agents(plan, runtime, cache, recorded, say=progress.print)
                evidence = early or inputs.open_evidence(plan, dataset, cache)
                context = RunContext(plan, dataset, evidence, recorder, tracker, progress)
                discussions = Discussions(context, agents, learners)
                asyncio.run(self._discuss(discussions, runtime, replayed=recorded is not None))
            return self.conclude(plan, folder, dataset, answering, tracker)

    def _open(self, plan: Plan, folder: RunFolder, cache: Path) -> tuple[Dataset, launching.MeteredTeam | None, str]:
        """The data set, the recorded team of a replay, and the name of the model that answers."""
        config = plan.config
        if config.model.kind == "replay":
            team, recorded = replayed_run.open_recorded(plan)
            # Before a recorder opens, which looks for a checkpoint and goes on from it.
            replayed_run.copy_learning(team.folder, folder)
            dataset = replayed_run.replayed_dataset(plan, recorded, cache)
            return dataset, team, replayed_run.answering(recorded)
        dataset = inputs.open_dataset(plan, cache)
        check_extraction(plan, dataset)
        inputs.check_questions(plan, dataset)
        inputs.check_room([Path(config.output), cache], launching.processes(plan) + bool(plan.learners))
        launching.check_completions(config, cache)
        return dataset, None, models_named(config)

    async def _discuss(self, discussions: Discussions, runtime: Runtime, replayed: bool) -> None:
        context = discussions.context
        plan, progress, folder = context.plan, context.progress, context.recorder.run
        await runtime_start.wait(runtime, progress)
        if not replayed:
            await model_record.check_models(plan, runtime, [folder], progress)
        progress.print(resumption_line(plan.config, folder.path))
        for note in inputs.notes_of(context.dataset):
            progress.print(f"note: {note}")
        await self.discuss(discussions)
