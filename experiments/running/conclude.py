"""The end of a run: metrics, figures and report, all from its records."""

from __future__ import annotations

from pathlib import Path

from actors.backends.model_settings import model_name
from actors.messages import Usage
from experiments.analysis import judged, summary
from experiments.analysis.reports import write_run_report
from experiments.analysis.run_table import run_table
from experiments.config.config import Config
from experiments.datasets.item import Dataset
from experiments.records import usage
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.running.methods import methods_of, pairs
from experiments.running.models import answer_rubric


def about_methods(config: Config, dataset: Dataset, answering: str) -> summary.RunFacts:
    """What a run of methods compared; `answering` is the model's name."""
    methods = methods_of(config)
    return summary.RunFacts(
        experiment=config.experiment,
        model=answering,
        dataset=config.data.kind,
        metric=dataset.metric,
        methods=tuple(method.name for method in methods),
        pairs=pairs(methods),
        seed=config.seed,
    )


def timed(config: Config) -> bool:
    """Whether seconds per question can be compared: one discussion at a time, each of its calls made."""
    return config.concurrency == 1 and not config.completions.reuse


def draws_figures(config: Config) -> bool:
    """Whether a run by itself does, which draws them unless told otherwise; a trial of a sweep has to be told to."""
    return config.figures is not False


def conclude(
    config: Config, folder: RunFolder, about: summary.RunFacts, tracker: Tracker, draw_at_once: int
) -> tuple[summary.Metrics, Usage]:
    """Writes metrics.json, figures (so many of them at the same time; 0 draws none) and the report, all from the
    records.

    Returns the metrics and what the run has spent.
    """
    metrics = summary.summarise(folder, about)
    if config.judge.kind != "none":
        metrics["judged"] = judged.summarise(
            folder, model_name(config.judge), about.methods, about.pairs, config.seed, answer_rubric(config)
        )
    # Before figures and report, so that a failure of theirs loses no numbers.
    summary.write(folder, metrics)
    drawn = _draw(config, folder, metrics, about, draw_at_once) if draw_at_once else []
    spent = usage.total(folder)
    tracker.summary(metrics, drawn, spent)
    write_run_report(folder, metrics, about.metric, about.methods[-1], drawn, facts=_searched(config))
    return metrics, spent


def _draw(
    config: Config, folder: RunFolder, metrics: summary.Metrics, about: summary.RunFacts, at_once: int
) -> list[Path]:
    from experiments.analysis.figures.draw import draw_run  # imports matplotlib

    return draw_run(folder, metrics, about.metric, timed(config), at_once)


def _searched(config: Config) -> list[tuple[str, str]]:
    """What the report's summary says of the knowledge graph and the captions, in a run of systems that search."""
    if not any(method.needs_library for method in methods_of(config)):
        return []
    by_rules = "the data set's own, or read off the sources by rules, without a model"
    return [
        ("Knowledge graph", "extracted by the run's model" if config.retrieval.graph == "model" else by_rules),
        *([("Captions", "written by the run's model")] if config.retrieval.captions == "model" else []),
    ]


def show(metrics: summary.Metrics, metric: str, spent: Usage) -> None:
    """Prints the table of results and the run's cost."""
    print()
    run_table(metrics, metric).print(further=usage.notes(spent))
