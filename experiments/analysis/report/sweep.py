"""The report of a sweep: its settings, results and figures, and every trial with a link to its own report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from experiments.analysis import page
from experiments.analysis.compare import varied
from experiments.analysis.setting_names import plain
from experiments.analysis.summary import EMBEDDED, EMBEDDED_NOTE, MODELS, STRICT
from experiments.analysis.table import Table, tenths, with_interval
from experiments.analysis.tables.formats import html
from experiments.analysis.tables.layout import Layout
from experiments.records.trials import TRIALS, TrialResult

REPORT = "report.html"
INTERVALS = "Tokens and edges are per question; intervals are over questions and seeds, both resampled."


def write(
    folder: Path,
    results: Sequence[TrialResult],
    metric: str,
    drawn: Sequence[Path],
    settings: Table,
    compared: Sequence[str] = (),
    papers: Sequence[Layout] = (),
) -> None:
    """Writes the report of the trials that have ended; written again as more do.

    Args:
        folder: the sweep's folder, with its trials' folders below `trials/`.
        metric: the name of the data set's utility.
        drawn: figures; the PNG and SVG files among them are shown.
        settings: the sweep's table, a row per setting and method.
        compared: the sweep's comparisons in words.
        papers: tables in the form of the papers.
    """
    sections = (
        ("Summary", _summary(results)),
        ("Results", chain(_results(settings), page.paragraphs(compared))),
        ("Papers", chain.from_iterable(map(html, papers))),
        ("Figures", page.figures(drawn)),
        ("Trials", _trials(folder, results, metric)),
    )
    page.write(folder / REPORT, f"sweep: {folder.name}", sections, ("tables.js",))


def _summary(results: Sequence[TrialResult]) -> Iterator[str]:
    # Trials may differ in model or data set, and one that was stopped early has no metrics.
    common = {name: sorted({result.metrics[name] for result in results if name in result.metrics}) for name in _LABELS}
    if any(EMBEDDED in name.split(MODELS) for name in common["model"]):
        yield from page.paragraphs([EMBEDDED_NOTE], "note")
    stopped = sum(bool(result.stopped) for result in results)
    pairs = [
        *((label, ", ".join(common[name])) for name, label in _LABELS.items() if common[name]),
        ("Seeds", ", ".join(str(seed) for seed in sorted({result.seed for result in results}))),
        ("Trials", f"{len(results):,}" + (f", {stopped:,} of them stopped early" if stopped else "")),
    ]
    yield from page.facts(pairs)
    axes = varied(results)
    if axes:
        rows = [(key, ", ".join(map(_shown, values))) for key, values in axes.items()]
        yield from page.table("What was varied", Table(("setting", "values"), rows))


_LABELS = {"experiment": "Experiment", "model": "Model", "dataset": "Data set"}
# Measures that only some data sets and attacks have, by their headers.
_MEASURES = {STRICT: "strict EM", "attack_success": "attack success"}


def _results(settings: Table) -> Iterator[str]:
    if settings.rows:
        yield from page.table("Settings and methods", settings, sortable=True)
        yield from page.paragraphs([INTERVALS])


def _trials(folder: Path, results: Sequence[TrialResult], metric: str) -> Iterator[str]:
    axes = tuple(varied(results))
    # All rows get the column if one trial has the measure: a table needs as many cells in each row.
    rows_of = [row for result in results for row in result.metrics.get("methods", {}).values()]
    measures = [name for name in _MEASURES if any(name in row for row in rows_of)]
    shown = [_MEASURES[name] for name in measures]
    headers = ("trial", *axes, "seed", "method", f"{metric} (95% interval)", *shown, "tokens", "edges", "failed turns")
    rows = []
    for result in results:
        trial = (_link(folder, result.name), *(_shown(result.values.get(key)) for key in axes), str(result.seed))
        methods = result.metrics.get("methods", {})
        rows += [(*trial, *_row(name, methods[name], measures)) for name in methods]
        if not methods:
            ended = f"stopped after {result.stopped:,} steps" if result.stopped else ""
            # Blank cells up to the width of the table.
            rows.append((*trial, ended, *[""] * (len(headers) - len(trial) - 1)))
    yield from page.table(f"{len(results):,} trials", Table(headers, rows), sortable=True)


def _row(method: str, row: Mapping[str, Any], measures: Sequence[str]) -> tuple[str, ...]:
    shown = (f"{row[name]:.3f}" if name in row else "" for name in measures)
    tokens = f"{row['prompt_tokens'] + row['completion_tokens']:,.0f}"
    utility = with_interval(row["utility"], row["ci95"])
    return (method, utility, *shown, tokens, tenths(row["edges"]), f"{row['failed_turns']:,}")


def _shown(value: Any) -> str:
    return "default" if value is None else str(plain(value))


def _link(folder: Path, name: str) -> str:
    """A relative link to the trial's report, or its bare name where it has none."""
    if not (folder / TRIALS / name / REPORT).exists():
        return name
    # Quoted for the address and escaped for the page: a name holds values of settings.
    return page.Html(f'<a href="{TRIALS}/{escape(quote(name))}/{REPORT}">{escape(name)}</a>')
