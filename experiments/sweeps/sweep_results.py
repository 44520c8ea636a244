"""Writes the table, figures and report of a sweep's finished trials."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.analysis.compare import POSITION, arms_of, arms_of_trials, compare_pairs, merge, natural_pairs
from experiments.analysis.figures import draw, style
from experiments.analysis.paired import verdict, verdicts
from experiments.analysis.result_table import ResultTable
from experiments.analysis.run_facts import metric_of
from experiments.analysis.run_table import shared_notes
from experiments.analysis.scores import read_trials
from experiments.analysis.sweep_report import (
    attack_tables,
    sweep_rows,
    sweep_sections,
    sweep_table,
    write,
    write_sweep_report,
)
from experiments.analysis.tables.formats import write_tables
from experiments.records import sinks
from experiments.records.trials import read_results
from experiments.running.conclude import timed
from experiments.sweeps.expansion import Sweep


def conclude_sweep(
    sweep: Sweep,
    folder: Path,
    failed: Mapping[str, str],
    figures: Sequence[Path] = (),
    tables: Sequence[ResultTable] = (),
) -> None:
    """Writes everything that sums up a sweep. `failed` has the reasons by trial.

    figures, tables: further ones, which come first.
    """
    config = sweep.config
    results = read_results(folder, stopped=True)
    if not results:
        return
    finished = [result for result in results if not result.stopped]
    metrics = finished[0].metrics if finished else {}
    metric = metric_of(metrics)

    # First, since it names a trial whose records are not there.
    trials = read_trials(folder, finished)
    trial_arms = arms_of_trials(trials)
    rows = sweep_rows(trial_arms, results, config.seed)
    write(folder, rows, failed, config.experiment)
    has_times = config.sweep.parallel == 1 and timed(sweep.trials[0].config)
    with sinks.beside("the figures", folder, "resume"), style.drawing(config.figures.style):
        figures = [*figures, *draw.draw_sweep(folder, finished, trials, metric, has_times)]

    # An attacker's positions are repetitions of one setting, as seeds are; sweep.csv keeps them apart.
    arms = merge(arms_of(trial_arms, results), over=[POSITION])
    pairs = natural_pairs(arms, sweep.rivals(result.values for result in finished))
    comparisons = compare_pairs(pairs, config.seed, config.compare.margin)
    notes = [*verdicts(comparisons, metric), *shared_notes(result.metrics for result in finished)]
    table_rows = rows
    if any(POSITION in row.values for row in rows):
        table_rows = sweep_rows(trial_arms, results, config.seed, over=[POSITION])
    if len(table_rows) < len(rows):
        notes.append(f"Here trials that differ in {POSITION} alone are one row; {folder / 'sweep.csv'} has each.")

    table_files = write_tables(folder, config.experiment, trials, config.seed)
    tables = [*tables, *attack_tables(arms, finished, metric, config.seed)]
    settings_table = sweep_table(table_rows, metric, config.models_named, notes)
    with sinks.beside("the report", folder, "resume"):
        sections = sweep_sections(folder, results, metric, figures, settings_table, table_files, tables)
        write_sweep_report(folder, sections)

    print()
    brief = list(settings_table.brief)
    if comparisons:
        verdict_counts = Counter(map(verdict, comparisons.values()))
        counts = ", ".join(f"{number} {name}" for name, number in sorted(verdict_counts.items()))
        brief.insert(0, f"Of {len(comparisons)} paired tests, adjusted: {counts}; the report has each.")
    replace(settings_table, brief=brief).print()
    for table in tables:
        print()
        table.print()
