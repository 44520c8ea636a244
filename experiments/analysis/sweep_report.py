"""Reports of sweeps: pages with settings, tables, figures and links to the trials."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from experiments.analysis.compare import varied
from experiments.analysis.page import LABELS, REPORT, Section, page, pictures
from experiments.analysis.result_table import ResultTable, shown, tenths, with_interval
from experiments.analysis.summary import EMBEDDED_NOTE, model_notes
from experiments.analysis.tables.formats import ShownTable
from experiments.records import start
from experiments.records.run_files import write_atomically
from experiments.records.trials import TRIALS, TrialResult


def write_sweep_report(folder: Path, sections: Iterable[Section]) -> None:
    """Writes the report of a sweep from its `sweep_sections`."""
    write_atomically(folder / REPORT, page(f"sweep: {folder.name}", sections, ("tables.js",)).encode())


def sweep_sections(
    folder: Path,
    results: Sequence[TrialResult],
    metric: str,
    drawn: Sequence[Path],
    settings: ResultTable,
    papers: Sequence[ShownTable] = (),
    attacks: Sequence[ResultTable] = (),
    page_of_trial: str = REPORT,
) -> Iterator[Section]:
    """Yields the sections of a sweep's page. Each trial has a link to its page.

    metric: the name of the data set's utility.
    settings: the sweep's table, a row per setting and method.
    papers: tables in the form of the papers. attacks: the `attack_tables`.
    page_of_trial: the address of a trial's page below its folder.
    """
    # Trials may differ in model or data set, and one that was stopped early has no metrics.
    common = {name: sorted({result.metrics[name] for result in results if name in result.metrics}) for name in LABELS}
    stopped = sum(bool(result.stopped) for result in results)
    facts = {label: ", ".join(common[name]) for name, label in LABELS.items() if common[name]}
    facts["Seeds"] = ", ".join(str(seed) for seed in sorted({result.seed for result in results}))
    facts["Trials"] = f"{len(results):,}" + (f", {stopped:,} of them stopped early" if stopped else "")
    facts |= start.facts(folder)
    axes = varied(results)
    settings_varied = [(key, ", ".join(map(shown, values))) for key, values in axes.items()]
    tables = [ResultTable(("setting", "values"), settings_varied, title="What was varied")] if axes else []
    yield Section("Summary", [EMBEDDED_NOTE] if any(map(model_notes, common["model"])) else [], facts, tables)
    yield Section("Results", tables=[replace(settings, title="Settings and methods")] if settings.rows else [])
    yield Section("Attacks", tables=attacks)
    yield Section("Papers", papers=papers)
    yield Section("Figures", pictures=tuple(pictures(drawn)))
    headers = ("trial", *axes, "seed", "method", f"{metric} (95% interval)", "tokens", "edges", "failed turns")
    rows = []
    for result in results:
        name = result.name
        if page_of_trial != REPORT or (folder / TRIALS / name / REPORT).exists():
            # Quoted for the address; `format` escapes for the page. A name holds values of settings.
            name = Markup('<a href="{}/{}/{}">{}</a>').format(TRIALS, quote(name), page_of_trial, name)
        trial = (name, *(shown(result.values.get(key)) for key in axes), str(result.seed))
        methods = result.metrics.get("methods", {})
        for method, row in methods.items():
            tokens = f"{row['prompt_tokens'] + row['completion_tokens']:,.0f}"
            costs = (tokens, tenths(row["edges"]), f"{row['failed_turns']:,}")
            rows.append((*trial, method, with_interval(row["utility"], row["ci95"]), *costs))
        if not methods:
            ended = f"stopped after {result.stopped:,} steps" if result.stopped else ""
            # Blank cells up to the width of the table.
            rows.append((*trial, ended, *[""] * (len(headers) - len(trial) - 1)))
    yield Section("Trials", tables=[ResultTable(headers, rows, title=f"{len(results):,} trials")])
