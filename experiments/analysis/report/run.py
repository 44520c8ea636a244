"""The report of a run: its settings, tables and figures, and its discussions turn by turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from experiments.analysis import page, turn_counts
from experiments.analysis.report.embedded import LIMIT_TURNS, Embedded, embed
from experiments.analysis.run_table import run_table
from experiments.analysis.summary import EMBEDDED, EMBEDDED_NOTE, MODELS, Metrics
from experiments.analysis.table import Table
from experiments.records import usage
from experiments.records.recorder import RunFolder

# In this order: later scripts use the functions of earlier ones.
SCRIPTS = ("tables.js", "data.js", "wiring.js", "discussion.js", "browse.js")


def write(
    run: RunFolder,
    metrics: Metrics,
    metric: str,
    shown: str,
    drawn: Sequence[Path],
    limit_turns: int = LIMIT_TURNS,
    facts: Sequence[tuple[str, str]] = (),
) -> Path:
    """Writes the report from the run's records and traces. Every message is shown as text.

    Args:
        metric: the name of the data set's utility.
        shown: the method to list discussions of at first.
        drawn: figures; the PNG and SVG files among them are shown.
        facts: further lines of the summary, each a name and what it is.
        limit_turns: discussions with about so many turns are carried along, and the page says which were left out.
    """
    embedded = embed(run, tuple(metrics["methods"]), limit_turns)
    sections = (
        ("Summary", _summary(metrics, embedded, facts)),
        ("Results", _results(run, metrics, metric)),
        ("Figures", page.figures(drawn)),
        ("Discussions", _discussions(embedded, metric, shown)),
        ("Configuration", (f'<pre tabindex="0">{escape(run.config.read_text(encoding="utf-8"))}</pre>',)),
    )
    return page.write(run.report, f"{metrics['experiment']}: {run.path.name}", sections, SCRIPTS)


def _summary(metrics: Metrics, embedded: Embedded, facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    if EMBEDDED in metrics["model"].split(MODELS):
        yield from page.paragraphs([EMBEDDED_NOTE], "note")
    # From the discussions, because metrics.json does not name the attack.
    attacks = sorted({entry["attack"] for entry in embedded.entries if "attack" in entry})
    pairs = [
        ("Experiment", metrics["experiment"]),
        ("Model", metrics["model"]),
        ("Data set", metrics["dataset"]),
        ("Questions", f"{metrics['questions']:,}"),
        ("Methods", ", ".join(metrics["methods"])),
        *([("Attack", ", ".join(attacks))] if attacks else []),
        *facts,
    ]
    yield from page.facts(pairs)


def _results(run: RunFolder, metrics: Metrics, metric: str) -> Iterator[str]:
    caption = f"Methods on {metrics['questions']:,} questions of {metrics['dataset']}"
    table = run_table(metrics, metric)
    yield from page.table(caption, table, sortable=True)
    # The summary above shows this note already.
    yield from page.paragraphs(note for note in table.notes if note != EMBEDDED_NOTE)
    yield from _turns(run, metrics)
    phases = usage.by_phase(run)
    if phases:
        spent = Table(usage.HEADERS, [usage.cells(phase, metrics["questions"]) for phase in phases.values()])
        yield from page.table("What was really spent", spent)
        yield from page.paragraphs([*usage.notes(usage.total(run)), usage.TIMES])


def _turns(run: RunFolder, metrics: Metrics) -> Iterator[str]:
    """How turns ended, of every method and training stage, and why some of them cannot be heard."""
    ended = turn_counts.by_phase(run, metrics["methods"])
    if ended:
        yield from page.table("How turns ended", turn_counts.turns_table(ended))
    reasons = turn_counts.reasons_table(ended)
    if reasons.rows:
        yield from page.table("Why turns were not read or failed", reasons)


def _discussions(embedded: Embedded, metric: str, shown: str) -> Iterable[str]:
    """The browser of discussions, which the scripts fill, with the data that they read."""
    yield from page.paragraphs(_left_out(embedded), "note")
    yield page.asset("browse.html")
    for number, chunk in enumerate(embedded.chunks):
        # A browser does not run a script of an unknown type: it is only a place to keep data.
        yield f'<script type="application/gzip" id="chunk-{number}">{chunk}</script>'
    about = f'data-metric="{escape(metric)}" data-shown="{escape(shown)}"'
    yield f'<script type="application/gzip" id="index" {about}>{embedded.index()}</script>'


def _left_out(embedded: Embedded) -> Iterator[str]:
    partial = [group for group in embedded.groups if group.shown < group.recorded]
    if partial:
        parts = "; ".join(f"{g.shown:,} of {g.recorded:,} of {g.label} (all: {g.file})" for g in partial)
        yield f"The discussions of this run are too many for one page. A sample, drawn by ids alone, is here: {parts}."
