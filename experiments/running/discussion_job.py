"""Jobs that hold discussions: open everything, launch agents and learners, discuss, and conclude from the records."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from experiments.config.references import resumption_line
from experiments.datasets.item import Dataset, TitlesOf
from experiments.planning.plan import Job, Plan
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder, Scoring
from experiments.records.tracking import Tracker
from experiments.running import inputs, launching, replayed_run, runtime_start
from experiments.running.conclude import RecordedRun
from experiments.running.discussions import Discussions
from experiments.running.figure_process import FigureProcess
from experiments.running.learned_graphs import learner_makers
from experiments.running.model_record import check_models
from experiments.running.recorded_speaker import RecordedSpeaker
from experiments.running.run_context import RunContext


class DiscussionJob(Job):
    """A job whose agents discuss. A subclass has the subject and the conclusion."""

    reads: ClassVar[tuple[str, ...]] = (
        "concurrency",
        "methods",
        "data",
        "retrieval",
        "model",
        "replay",
        "reader",
        "roles",
        "agents",
        "attack",
        "defence",
        "systems",
        "compare",
        "failures",
    )

    async def discuss(self, discussions: Discussions) -> None:
        """Learns and evaluates, once all are up. Another job may do else. Raises UserError as `Job.run`."""
        await discussions.run()

    def scoring(self, plan: Plan, dataset: Dataset) -> Scoring:
        """Returns the scores that the recorded discussions get."""
        return Scoring(dataset)

    def conclude(self, recorded: RecordedRun) -> bool:
        """Sums up the records. Returns False where too much has failed for that."""
        raise NotImplementedError

    def run(self, plan: Plan, folder: RunFolder) -> bool:
        config = plan.config
        recorded_speaker = None
        # A resumed run may have its figures already.
        draws = "figures" in self.reads and config.figures.kind is not False and not config.resume
        with Progress() as progress:
            # First of all: reading a large release takes minutes.
            progress.print(resumption_line(config, folder.path))
            cache = inputs.open_cache(config.cache_folder)
            if config.replays:
                recorded_speaker, recorded_config = replayed_run.open_recorded(plan)
                # Before a recorder opens, which looks for a checkpoint and goes on from it.
                replayed_run.copy_learning(recorded_speaker.folder, folder)
                dataset = replayed_run.replayed_dataset(plan, recorded_config, cache)
            else:
                with progress.waiting(f"reading the questions of data={config.data.kind}"):
                    dataset = inputs.open_dataset(plan, cache)
                    inputs.check_questions(plan, dataset)
                inputs.check_room([Path(config.output), cache], plan.processes + bool(plan.learners))
        with (
            Tracker(folder.path, asdict(config), config.wandb, waits=bool(config.resume)) as tracker,
            FigureProcess(folder, config.figures.style) as drawing,
        ):
            # The recorder first: a folder that is in use is refused before any process is started.
            with Recorder(folder, self.scoring(plan, dataset)) as recorder, Progress() as progress:
                if self.has_all_records(plan, recorder, dataset):
                    titles_of = self._titles_of(plan, dataset, cache)
                else:
                    titles_of = self._hold(
                        plan,
                        dataset,
                        cache,
                        recorder,
                        tracker,
                        progress,
                        recorded_speaker=recorded_speaker,
                        on_learned=drawing.draw_training if draws else None,
                    )
            is_conclusive = self.conclude(RecordedRun(plan, folder, dataset, titles_of, tracker, drawing))
        return is_conclusive

    def has_all_records(self, plan: Plan, recorder: Recorder, dataset: Dataset) -> bool:
        """True for a resumed run that has nothing left to ask, so that no process is started. Never by default."""
        return False

    def _titles_of(self, plan: Plan, dataset: Dataset, cache: Path) -> TitlesOf:
        """Returns a look-up of titles that opens the index at its first use, which takes seconds."""
        return lambda ids: inputs.open_evidence(plan, dataset, cache).store.titles(ids)

    def _hold(
        self,
        plan: Plan,
        dataset: Dataset,
        cache: Path,
        recorder: Recorder,
        tracker: Tracker,
        progress: Progress,
        *,
        recorded_speaker: RecordedSpeaker | None,
        on_learned: Callable[[str], None] | None,
    ) -> TitlesOf:
        """Starts all processes and holds the discussions. Returns a look-up of their sources' titles."""
        with runtime_start.runtime_started(plan.config, progress) as runtime:
            # All processes start side by side, and while an index is opened or built here; the slowest come first:
            # all learners in one actor, most of which is PyTorch.
            by_question = any(spec.variant.by_question for spec in plan.learners.values())
            early = inputs.open_evidence(plan, dataset, cache, progress) if by_question else None
            makers = learner_makers(plan, early.store.encoder if early else None)
            learners = runtime.launch("the topology actor", makers) if makers else {}
            shared = launching.launch_shared(plan, runtime, progress.print)
            judging = launching.judging_model(runtime, shared)
            speaker = recorded_speaker or shared.agents.speaker()
            evidence = early or inputs.open_evidence(plan, dataset, cache, progress)
            context = RunContext.of(
                plan,
                dataset,
                evidence,
                recorder,
                tracker,
                progress,
                speaker,
                judging,
                recorded=recorded_speaker is not None,
                on_learned=on_learned,
            )
            discussions = Discussions(context, learners)

            async def discuss() -> None:
                async with runtime_start.ready(runtime, progress):
                    if not recorded_speaker:
                        await check_models(plan, runtime, [recorder.run], progress)
                    for note in inputs.notes_of(dataset):
                        progress.print(f"note: {note}")
                    await self.discuss(discussions)

            asyncio.run(discuss())
        return evidence.store.titles
