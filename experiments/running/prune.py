"""`job=prune`: learns and prunes communication graphs, evaluates every method, and judges the answers."""

from experiments.analysis.gains import gains_table
from experiments.analysis.run_table import run_table
from experiments.analysis.scores import FinishedRun
from experiments.analysis.tables.formats import write_tables
from experiments.datasets.item import Dataset
from experiments.planning.plan import Plan
from experiments.records import sinks, usage
from experiments.records.recorder import Recorder
from experiments.running.conclude import RecordedRun, conclude
from experiments.running.discussion_job import DiscussionJob


class Prune(DiscussionJob):
    """The job of most experiments."""

    name = "prune"
    reads = (
        *DiscussionJob.reads,
        "figures",
        "ablation",
        "topology",
        "learner",
        "judge",
        "judge_rubric",
        "explain",
        "attack.clean",
        "compare.plan",
        "compare.stop",
        "compare.twins",
    )
    searches = True
    is_counted = True

    def has_all_records(self, plan: Plan, recorder: Recorder, dataset: Dataset) -> bool:
        config = plan.config
        # A judge's records are counted as they are read, and looks decide on the way how many questions are asked.
        if not config.resume or config.compare.stop or plan.models.judge or not recorder.run.metrics.is_file():
            return False
        ids = {item.question.id for item in dataset.evaluate()}
        return all(ids <= recorder.done(evaluation.name) for evaluation in plan.evaluations)

    def conclude(self, recorded: RecordedRun) -> bool:
        config = recorded.plan.config
        folder = recorded.folder
        metrics, total_usage, lacking = conclude(recorded)
        print()
        run_table(metrics).print(further=usage.notes(total_usage))
        if "gains" in metrics:
            print()
            gains_table(metrics).print()
        finished_run = FinishedRun(folder, {}, config.seed, metrics)
        with sinks.beside("the tables", folder.path):
            write_tables(folder.path, config.experiment, [finished_run], config.seed)
        return not lacking
