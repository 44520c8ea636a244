"""Writes the table, figures and report of a sweep's finished trials."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.analysis.compare import POSITION, arms_of, arms_of_trials, compare_pairs, merge, natural_pairs
from experiments.analysis.figures import draw, style
from experiments.analysis.paired import verdict, verdicts
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
from experiments.records.trials import read_results
from experiments.running.conclude import timed
from experiments.sweeps.expansion import Sweep


def conclude_sweep(
    sweep: Sweep,
    folder: Path,
    failed: Mapping[str, str],
    figures: Sequence[Path] = (),
    tables: Sequence[Any] = (),
) -> None:
    """Writes everything that sums up a sweep. `failed` has the reasons by trial.

    figures, tables: further ones, which come first.
    """
    config = sweep.config
    results = read_results(folder, stopped=True)
    if not results:
        return
    finished = [result for result in results if not result.stopped]
    # First, since it names a trial whose records are not there.
    trials = read_trials(folder, finished)
    of_trials = arms_of_trials(trials)
    metric = metric_of(next((result.metrics for result in finished), {}))
    rows = sweep_rows(of_trials, results, config.seed)
    write(folder, rows, failed, config.experiment)
    alone = config.sweep.parallel == 1 and timed(sweep.trials[0].config)
    with style.drawing(config.figures.style):
        drawn = [*figures, *draw.draw_sweep(folder, finished, trials, metric, alone)]
    # An attacker's positions are repetitions of one setting, as seeds are; sweep.csv keeps them apart.
    arms = merge(arms_of(of_trials, results), over=[POSITION])
    pairs = natural_pairs(arms, sweep.rivals(result.values for result in finished))
    comparisons = compare_pairs(pairs, config.seed, config.compare.margin)
    pooled = any(POSITION in row.values for row in rows)
    shown = sweep_rows(of_trials, results, config.seed, over=[POSITION]) if pooled else rows
    laid_out = write_tables(folder, config.experiment, trials, config.seed)
    notes = [*verdicts(comparisons, metric), *shared_notes(result.metrics for result in finished)]
    if len(shown) < len(rows):
        notes.append(f"Here trials that differ in {POSITION} alone are one row; {folder / 'sweep.csv'} has each.")
    attacks = [*tables, *attack_tables(arms, finished, metric, config.seed)]
    settings = sweep_table(shown, metric, config.models_named, notes)
    write_sweep_report(folder, sweep_sections(folder, results, metric, drawn, settings, laid_out, attacks))
    print()
    shown_by = Counter(map(verdict, comparisons.values()))
    counts = ", ".join(f"{number} {found}" for found, number in sorted(shown_by.items()))
    brief = [f"Of {len(comparisons)} paired tests, adjusted: {counts}; the report has each."] if comparisons else []
    replace(settings, brief=[*brief, *settings.brief]).print()
    for table in attacks:
        print()
        table.print()
