"""Ends a run: metrics, figures and report, all from its records."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from actors.messages import Usage
from experiments.analysis import agents, defended, gains, judged, looks, monitored, reports, run_notes, scores, summary
from experiments.analysis.discussion_records import read_discussions
from experiments.analysis.run_facts import Metrics, RunFacts
from experiments.config.config import Config
from experiments.config.saved import answered_by, read
from experiments.datasets.item import Dataset, TitlesOf
from experiments.planning.lock import departures, plan_lock, read_lock
from experiments.planning.plan import Plan
from experiments.planning.topologies import compared_pairs
from experiments.records import sinks, usage
from experiments.records.recorder import OVERVIEW, RunFolder
from experiments.records.tracking import Tracker
from experiments.running.figure_process import FigureProcess

Compared = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class RecordedRun:
    """A plan, the records of its run, with their data set and sinks.

    dataset: scores the answers of agents. titles_of: finds titles of sources.
    drawing: the process that has drawn the training of graphs; None where none was learned in this run.
    """

    plan: Plan
    folder: RunFolder
    dataset: Dataset
    titles_of: TitlesOf
    tracker: Tracker
    drawing: FigureProcess | None = None


def timed(config: Config) -> bool:
    """True if seconds per question are comparable: one discussion at a time, each call computed."""
    return config.concurrency == 1 and not config.completions.reuse


def _is_sent(config: Config, saved: Config, folder: RunFolder) -> bool:
    """True for a run that ended well once, with the same settings of W&B, which has all of it then."""
    return saved.wandb == config.wandb and (folder.path / "wandb").is_dir() and (folder.path / OVERVIEW).is_file()


def conclude(
    recorded: RecordedRun, compared: Compared | None = None, *, trial: bool = False, further: Metrics | None = None
) -> tuple[Metrics, Usage, str]:
    """Writes metrics.json, agents.jsonl, figures and the report, all from the records.

    Returns the metrics, the run's usage, and why nothing is concluded about some methods ("": something about all).

    compared: methods, and pairs of them to test, where these are not the plan's.
    trial: it is a trial of a sweep, which draws figures with `figures=true` only. further: parts of metrics.json.
    """
    plan = recorded.plan
    folder = recorded.folder
    dataset = recorded.dataset
    tracker = recorded.tracker
    config = plan.config
    margin = config.compare.margin
    has_figures = config.figures.kind or (config.figures.kind is None and not trial)
    if has_figures and recorded.drawing:
        recorded.drawing.draw_graphs()
    methods, pairs = compared or (plan.evaluated, compared_pairs(plan.methods, plan.clean))
    about = RunFacts(
        experiment=config.experiment,
        model=answered_by(config).models_named,
        dataset=config.data.kind,
        metric=dataset.metric,
        methods=methods,
        pairs=pairs,
        clean=plan.clean,
        attackers=plan.attackers,
        seed=config.seed,
        failures=config.failures.share,
        margin=margin,
    )
    trained_on = islice(dataset.train(), plan.training_questions)
    discussions = read_discussions(folder, methods, dataset, trained_on)
    metrics = summary.summarise(folder, about, discussions) | (further or {})
    if plan.models.judge:
        metrics["judged"] = judged.summarise(folder, about, plan.models.judge_name, plan.rubric)
    learners = {name: spec for name, spec in plan.learners.items() if name in methods}
    detections = defended.summarise(about, scores.by_method(folder), discussions.detections)
    monitors = monitored.summarise(learners, plan.shared_from, discussions.trained, discussions.evaluated)
    for rows in (detections, monitors):
        for name, row in rows.items():
            metrics["methods"][name] |= row
    if plan.controls and not compared:
        metrics["gains"] = gains.summarise(
            folder, about, plan.controls, independent=discussions.independent, hearing=discussions.hearing
        )
    if config.compare.stop and not compared:
        metrics["sequential"] = looks.summarise(folder, config.compare.stop, dataset, seed=config.seed, margin=margin)
    if config.compare.plan and not trial:
        locked_plan, digest = read_lock(Path(config.compare.plan))
        metrics["plan"] = {"sha256": digest, "differs": departures(locked_plan, plan_lock(config, dataset))}
    # Before figures and report, so that a failure of theirs loses no numbers.
    is_new = summary.write(folder, metrics)
    agents.write(folder, discussions.agents)
    total_usage = usage.total(folder)
    figures = sorted(folder.figures.glob("*.png"))
    # A resumed run that asked nothing has them: `report=` makes them again. The report is the last to be written.
    is_drawn = bool(figures) or not has_figures
    if config.resume and not is_new and is_drawn and folder.report.is_file():
        saved = read(folder.config)
        if saved.figures == config.figures:
            if not _is_sent(config, saved, folder):
                tracker.summary(metrics, figures, total_usage)
            return metrics, total_usage, run_notes.inconclusive(metrics)

    figures = []
    if has_figures:
        with sinks.beside("the figures", folder.path):
            drawing = recorded.drawing or FigureProcess(folder, config.figures.style)
            figures = drawing.draw_run(metrics, timed(config))
    tracker.summary(metrics, figures, total_usage)
    # Without its controls and the evaluations without the attack.
    last_method = methods[-1] if compared else methods[len(plan.methods) - 1]
    with sinks.beside("the report", folder.path):
        reports.write_run_report(
            folder,
            metrics,
            last_method,
            figures,
            counts=discussions.counts,
            titles_of=recorded.titles_of,
            seed=config.seed,
            margin=margin,
        )
    return metrics, total_usage, run_notes.inconclusive(metrics)
