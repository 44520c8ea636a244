"""Reports of runs and sweeps: pages with settings, tables, figures, and discussions turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from experiments.analysis import html_page, turn_counts
from experiments.analysis.compare import varied
from experiments.analysis.embedded import LIMIT_TURNS, Embedded, embed
from experiments.analysis.result_table import ResultTable, plain, tenths, with_interval
from experiments.analysis.run_table import run_table
from experiments.analysis.summary import EMBEDDED_NOTE, STRICT, Metrics, model_notes
from experiments.analysis.tables.formats import html
from experiments.analysis.tables.layout import Layout
from experiments.records import usage
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS, TrialResult

# In this order: later scripts use the functions of earlier ones.
SCRIPTS = ("tables.js", "data.js", "wiring.js", "discussion.js", "browse.js")
REPORT = "report.html"
INTERVALS = "Tokens and edges are per question; intervals are over questions and seeds, both resampled."
LABELS = {"experiment": "Experiment", "model": "Model", "dataset": "Data set"}
# Measures that only some data sets and attacks have, by name: their headers.
MEASURES = {STRICT: "strict EM", "attack_success": "attack success"}


def write_run_report(
    run: RunFolder,
    metrics: Metrics,
    metric: str,
    shown: str,
    drawn: Sequence[Path],
    limit_turns: int = LIMIT_TURNS,
) -> Path:
    """Writes the report of a run from its records and traces. Every message is shown as text.

    Args:
        metric: the name of the data set's utility.
        shown: the method whose discussions are listed at first.
        limit_turns: most turns that are embedded; the page names what is left out.
    """
    embedded = embed(run, tuple(metrics["methods"]), limit_turns)
    sections = (
        ("Summary", _run_summary(metrics, embedded)),
        ("Results", _run_results(run, metrics, metric)),
        ("Figures", html_page.figures(drawn)),
        ("Discussions", _discussions(embedded, metric, shown)),
        ("Configuration", (f'<pre tabindex="0">{escape(run.config.read_text(encoding="utf-8"))}</pre>',)),
    )
    return html_page.write(run.report, f"{metrics['experiment']}: {run.path.name}", sections, SCRIPTS)


def _run_summary(metrics: Metrics, embedded: Embedded) -> Iterator[str]:
    yield from html_page.paragraphs(model_notes(metrics["model"]), "note")
    # From the discussions, because metrics.json does not name the attack.
    attacks = sorted({entry["attack"] for entry in embedded.entries if "attack" in entry})
    pairs = [
        *((label, metrics[name]) for name, label in LABELS.items()),
        ("Questions", f"{metrics['questions']:,}"),
        ("Methods", ", ".join(metrics["methods"])),
        *([("Attack", ", ".join(attacks))] if attacks else []),
    ]
    yield from html_page.facts(pairs)


def _run_results(run: RunFolder, metrics: Metrics, metric: str) -> Iterator[str]:
    caption = f"Methods on {metrics['questions']:,} questions of {metrics['dataset']}"
    table = run_table(metrics, metric)
    yield from html_page.table(caption, table, sortable=True)
    # The summary shows the note on the reader already.
    yield from html_page.paragraphs(note for note in table.notes if note != EMBEDDED_NOTE)
    ended = turn_counts.by_phase(run, metrics["methods"])
    if ended:
        yield from html_page.table("How turns ended", turn_counts.turns_table(ended))
    reasons = turn_counts.reasons_table(ended)
    if reasons.rows:
        yield from html_page.table("Why turns were not read or failed", reasons)
    phases = usage.by_phase(run)
    if phases:
        rows = [usage.cells(phase, metrics["questions"]) for phase in phases.values()]
        yield from html_page.table("Usage", ResultTable(usage.HEADERS, rows))
        yield from html_page.paragraphs([*usage.notes(usage.total(run)), usage.TIMES])


def _discussions(embedded: Embedded, metric: str, shown: str) -> Iterator[str]:
    """Yields the browser of discussions, which the scripts fill, with the data that they read."""
    partial = [group for group in embedded.groups if group.shown < group.recorded]
    if partial:
        parts = "; ".join(f"{g.shown:,} of {g.recorded:,} of {g.label} (all: {g.file})" for g in partial)
        note = f"The run has too many discussions for one page. This is a sample, drawn by ids alone: {parts}."
        yield from html_page.paragraphs([note], "note")
    yield html_page.asset("browse.html")
    for number, chunk in enumerate(embedded.chunks):
        # A browser does not run a script of an unknown type: it is only a place to keep data.
        yield f'<script type="application/gzip" id="chunk-{number}">{chunk}</script>'
    data = f'data-metric="{escape(metric)}" data-shown="{escape(shown)}"'
    yield f'<script type="application/gzip" id="index" {data}>{embedded.index()}</script>'


def write_sweep_report(
    folder: Path,
    results: Sequence[TrialResult],
    metric: str,
    drawn: Sequence[Path],
    settings: ResultTable,
    compared: Sequence[str] = (),
    papers: Sequence[Layout] = (),
) -> None:
    """Writes the report of a sweep's trials, each with a link to its own report.

    Args:
        metric: the name of the data set's utility.
        settings: the sweep's table, a row per setting and method.
        compared: the sweep's comparisons in words.
        papers: tables in the form of the papers.
    """
    tables: Iterator[str] = iter(())
    if settings.rows:
        shown = html_page.table("Settings and methods", settings, sortable=True)
        tables = chain(shown, html_page.paragraphs([INTERVALS]))
    sections = (
        ("Summary", _sweep_summary(results)),
        ("Results", chain(tables, html_page.paragraphs(compared))),
        ("Papers", chain.from_iterable(map(html, papers))),
        ("Figures", html_page.figures(drawn)),
        ("Trials", _trials(folder, results, metric)),
    )
    html_page.write(folder / REPORT, f"sweep: {folder.name}", sections, ("tables.js",))


def _sweep_summary(results: Sequence[TrialResult]) -> Iterator[str]:
    # Trials may differ in model or data set, and one that was stopped early has no metrics.
    common = {name: sorted({result.metrics[name] for result in results if name in result.metrics}) for name in LABELS}
    if any(map(model_notes, common["model"])):
        yield from html_page.paragraphs([EMBEDDED_NOTE], "note")
    stopped = sum(bool(result.stopped) for result in results)
    pairs = [
        *((label, ", ".join(common[name])) for name, label in LABELS.items() if common[name]),
        ("Seeds", ", ".join(str(seed) for seed in sorted({result.seed for result in results}))),
        ("Trials", f"{len(results):,}" + (f", {stopped:,} of them stopped early" if stopped else "")),
    ]
    yield from html_page.facts(pairs)
    axes = varied(results)
    if axes:
        rows = [(key, ", ".join(map(_value, values))) for key, values in axes.items()]
        yield from html_page.table("What was varied", ResultTable(("setting", "values"), rows))


def _trials(folder: Path, results: Sequence[TrialResult], metric: str) -> Iterator[str]:
    axes = tuple(varied(results))
    # All rows get the column if one trial has the measure: a table needs as many cells in each row.
    rows_of = [row for result in results for row in result.metrics.get("methods", {}).values()]
    measures = [name for name in MEASURES if any(name in row for row in rows_of)]
    shown = [MEASURES[name] for name in measures]
    headers = ("trial", *axes, "seed", "method", f"{metric} (95% interval)", *shown, "tokens", "edges", "failed turns")
    rows = []
    for result in results:
        name = result.name
        if (folder / TRIALS / name / REPORT).exists():
            # Quoted for the address and escaped for the page: a name holds values of settings.
            name = html_page.Html(f'<a href="{TRIALS}/{escape(quote(name))}/{REPORT}">{escape(name)}</a>')
        trial = (name, *(_value(result.values.get(key)) for key in axes), str(result.seed))
        methods = result.metrics.get("methods", {})
        for method, row in methods.items():
            cells = [f"{row[measure]:.3f}" if measure in row else "" for measure in measures]
            tokens = f"{row['prompt_tokens'] + row['completion_tokens']:,.0f}"
            costs = (tokens, tenths(row["edges"]), f"{row['failed_turns']:,}")
            rows.append((*trial, method, with_interval(row["utility"], row["ci95"]), *cells, *costs))
        if not methods:
            ended = f"stopped after {result.stopped:,} steps" if result.stopped else ""
            # Blank cells up to the width of the table.
            rows.append((*trial, ended, *[""] * (len(headers) - len(trial) - 1)))
    yield from html_page.table(f"{len(results):,} trials", ResultTable(headers, rows), sortable=True)


def _value(value: Any) -> str:
    return "default" if value is None else plain(value)
