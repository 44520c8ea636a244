"""Reports of runs and sweeps: pages with settings, tables, figures, and discussions turn by turn.

A page is one file that needs no network. Its template, style and scripts are in `assets/`. The template escapes every
text, and the page's content security policy lets a browser run these scripts and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from actors.messages import Source
from experiments.analysis import agents, turn_counts
from experiments.analysis.agreement import agreement, concluded, every_two
from experiments.analysis.compare import varied
from experiments.analysis.embedded import LIMIT_TURNS, Embedded, embed, packed
from experiments.analysis.learned_steps import learned_graphs
from experiments.analysis.result_table import ResultTable, shown, tenths, with_interval
from experiments.analysis.run_table import paired_table, run_table
from experiments.analysis.summary import EMBEDDED_NOTE, Metrics, broken, model_notes
from experiments.analysis.tables.formats import Layout
from experiments.records import start, usage
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically
from experiments.records.trials import TRIALS, TrialResult

# In this order: later scripts use the functions of earlier ones.
SCRIPTS = (
    "tables.js",
    "data.js",
    "conversation.js",
    "wiring.js",
    "sources.js",
    "methods.js",
    "discussion.js",
    "filters.js",
    "learned.js",
    "browse.js",
)
REPORT = "report.html"
LABELS = {"experiment": "Experiment", "model": "Model", "dataset": "Data set"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report, shown in the order of its fields."""

    heading: str
    warnings: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[ResultTable] = ()
    papers: Sequence[Layout] = ()
    pictures: Sequence[tuple[str, str]] = ()  # captions, and addresses of data without their scheme
    text: str = ""
    discussions: Embedded | None = None
    learned: str = ""  # packed graphs over the steps of their training

    @property
    def is_empty(self) -> bool:
        shown = (
            self.warnings,
            self.facts,
            self.tables,
            self.papers,
            self.pictures,
            self.text,
            self.discussions,
            self.learned,
        )
        return not any(shown)


def write_run_report(
    run: RunFolder,
    metrics: Metrics,
    metric: str,
    listed: str,
    drawn: Sequence[Path],
    limit_turns: int = LIMIT_TURNS,
    *,
    corpus: Iterable[Source] = (),
    seed: int = 0,
) -> Path:
    """Writes the report of a run from its records and traces. Every message is shown as text.

    Args:
        metric: the name of the data set's utility.
        listed: the method whose discussions are listed at first.
        limit_turns: most turns that are embedded; the page names what is left out.
        corpus: the data set's sources, of which messages and searches are given titles.
        seed: the run's.
    """
    embedded = embed(run, tuple(metrics["methods"]), limit_turns)
    embedded.name_sources(corpus)
    utilities = concluded(run, failures=1)
    compared = [one for one in metrics["methods"] if one in utilities and one not in broken(metrics)]
    pairs = every_two(compared, metrics["paired"])
    embedded.pairs = agreement(utilities, pairs, seed, metric)
    graphs = learned_graphs(run)
    # From the discussions, because metrics.json does not name the attack.
    attacks = sorted({entry["attack"] for entry in embedded.entries if "attack" in entry})
    facts = {label: metrics[name] for name, label in LABELS.items()}
    facts |= {"Questions": f"{metrics['questions']:,}", "Methods": ", ".join(metrics["methods"]), "Seed": str(seed)}
    facts |= {"Attack": ", ".join(attacks)} if attacks else {}
    facts |= start.facts(run.path)
    partial = [group for group in embedded.groups if group.shown < group.recorded]
    parts = "; ".join(f"{g.shown:,} of {g.recorded:,} of {g.label} (all: {g.file})" for g in partial)
    note = f"The run has too many discussions for one page. This is a sample, drawn by ids alone: {parts}."
    sections = (
        Section("Summary", model_notes(metrics["model"]), facts),
        Section("Results", tables=tuple(_run_tables(run, metrics, metric))),
        Section("Agents", tables=agents.agent_tables(agents.read(run))),
        Section("Figures", pictures=tuple(_pictures(drawn))),
        Section("Learning", learned=packed(graphs) if graphs else ""),
        Section("Discussions", [note] if partial else [], discussions=embedded),
        Section("Configuration", text=run.config.read_text(encoding="utf-8")),
    )
    text = page(f"{metrics['experiment']}: {run.path.name}", sections, SCRIPTS, listed=listed)
    write_atomically(run.report, text.encode())
    return run.report


def _run_tables(run: RunFolder, metrics: Metrics, metric: str) -> Iterator[ResultTable]:
    yield _titled(f"Methods on {metrics['questions']:,} questions of {metrics['dataset']}", run_table(metrics, metric))
    judged = metrics.get("judged", {"paired": {}})["paired"]
    yield from (paired_table(*tests) for tests in ((metrics["paired"], metric), (judged, "Acc*")) if tests[0])
    ended = turn_counts.by_phase(run, metrics["methods"])
    if ended:
        yield _titled("How turns ended", turn_counts.turns_table(ended))
    reasons = turn_counts.reasons_table(ended)
    if reasons.rows:
        yield _titled("Why turns were not read or failed", reasons)
    if phases := usage.by_phase(run):
        rows = [usage.cells(phase, metrics["questions"]) for phase in phases.values()]
        yield ResultTable(usage.HEADERS, rows, [*usage.notes(usage.total(run)), usage.TIMES], "Usage")


def write_sweep_report(
    folder: Path,
    results: Sequence[TrialResult],
    metric: str,
    drawn: Sequence[Path],
    settings: ResultTable,
    papers: Sequence[Layout] = (),
) -> None:
    """Writes the report of a sweep's trials, each with a link to its own report.

    Args:
        metric: the name of the data set's utility.
        settings: the sweep's table, a row per setting and method.
        papers: tables in the form of the papers.
    """
    # Trials may differ in model or data set, and one that was stopped early has no metrics.
    common = {name: sorted({result.metrics[name] for result in results if name in result.metrics}) for name in LABELS}
    stopped = sum(bool(result.stopped) for result in results)
    facts = {label: ", ".join(common[name]) for name, label in LABELS.items() if common[name]}
    facts["Seeds"] = ", ".join(str(seed) for seed in sorted({result.seed for result in results}))
    facts["Trials"] = f"{len(results):,}" + (f", {stopped:,} of them stopped early" if stopped else "")
    facts |= start.facts(folder)
    rows = [(key, ", ".join(map(shown, values))) for key, values in varied(results).items()]
    axes = [ResultTable(("setting", "values"), rows, title="What was varied")] if rows else []
    sections = (
        Section("Summary", [EMBEDDED_NOTE] if any(map(model_notes, common["model"])) else [], facts, axes),
        Section("Results", tables=[_titled("Settings and methods", settings)] if settings.rows else []),
        Section("Papers", papers=papers),
        Section("Figures", pictures=tuple(_pictures(drawn))),
        Section("Trials", tables=[_trials(folder, results, metric)]),
    )
    write_atomically(folder / REPORT, page(f"sweep: {folder.name}", sections, ("tables.js",)).encode())


def _trials(folder: Path, results: Sequence[TrialResult], metric: str) -> ResultTable:
    axes = tuple(varied(results))
    headers = ("trial", *axes, "seed", "method", f"{metric} (95% interval)", "tokens", "edges", "failed turns")
    rows = []
    for result in results:
        name = result.name
        if (folder / TRIALS / name / REPORT).exists():
            # Quoted for the address; `format` escapes for the page. A name holds values of settings.
            name = Markup('<a href="{}/{}/{}">{}</a>').format(TRIALS, quote(name), REPORT, name)
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
    return ResultTable(headers, rows, title=f"{len(results):,} trials")


def _titled(title: str, table: ResultTable) -> ResultTable:
    # The summary shows the note on the reader already.
    return replace(table, title=title, notes=[note for note in table.notes if note != EMBEDDED_NOTE])


def _pictures(drawn: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yields captions and data of the PNGs among `drawn`, as SVG where there is one."""
    for path in drawn:
        # An SVG stays sharp at any zoom. It is embedded as an image, where a browser runs no script of it.
        path, kind = (svg, "svg+xml") if (svg := path.with_suffix(".svg")).exists() else (path, "png")
        yield path.stem.replace("-", " "), f"image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def page(title: str, sections: Iterable[Section], scripts: Sequence[str], *, served: bool = False, **named: str) -> str:
    """Fills the template of all pages, without empty sections.

    Args:
        scripts: files of `assets/` that run once the page is loaded.
        served: the page may ask the server that it comes from.
        named: further values of the template.
    """
    loader = PackageLoader("experiments.analysis", "assets")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters["digest"] = _digest
    style, *code = (loader.get_source(pages, name)[0] for name in ("page.css", *scripts))
    filled = [section for section in sections if not section.is_empty]
    values = {"title": title, "sections": filled, "style": style, "script": "\n".join(code), "served": served}
    return pages.get_template("page.html").render(**values, **named)


def _digest(text: str) -> str:
    """Names an inline block in the page's policy: a script that got in with a message does not run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
