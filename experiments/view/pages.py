"""Pages of the viewer, made of the same sections as reports."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from actors.errors import UserError, visible
from experiments.analysis.discussion_records import read_turn_counts
from experiments.analysis.embedded import Embedded
from experiments.analysis.page import SCRIPTS, Section, figures_section, page
from experiments.analysis.reports import run_sections
from experiments.analysis.result_table import ResultTable
from experiments.analysis.scores import by_method
from experiments.analysis.turn_counts import TurnCounts
from experiments.records.recorder import RunFolder
from experiments.view.folders import FileState, files_of
from experiments.view.overview import Overviews
from experiments.view.saved_overview import Overview
from experiments.view.sweep_page import sweep_results

MOST_CHARACTERS = 1_000_000  # of a study's result, which is shown as it is
MOST_COUNTED = 8  # runs whose turns are counted by agent
FIRST_PAGE_S = 0.5  # for reading the runs of a list; the page follows with the others
STYLES = {"running": "warn", "finished": "right", "failed": "wrong", "stopped": "plain"}
COLUMNS = ("run", "state", "kind", "started", "answers", "learning steps", "tokens", "price", "to stop or resume")


def list_page(overviews: Overviews) -> str:
    sections = [_listed("Runs", overviews.all(within_s=FIRST_PAGE_S), "run/", "run")]
    return page(overviews.root.path.name, sections, ("tables.js", "live.js"), served=True)


def run_page(overviews: Overviews, name: str, all_tables: bool) -> str:
    """Shows a run, a sweep or a study so far, and its discussions.

    all_tables: with the tables for which every trace is read.
    Raises UserError where it cannot be shown.
    """
    run = overviews.root.run(name)
    overview, *trials = overviews.all(name, within_s=FIRST_PAGE_S)
    if overview.problem:
        raise UserError(overview.problem)

    up = "../" * (2 + name.count("/"))
    facts = {"Folder": _link(up, "all runs"), **_facts(overview)}
    try:
        if trials:
            results = [Section("State", facts=facts), *sweep_results(run, _drawn(run))]
        else:
            results = list(_run_results(run, overview, facts, all_tables))
    # A damaged file of results fails in many ways where it is read.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{run.path}: its results cannot be read ({error!r}); restore them from a copy") from error

    sections = [*results, _listed("Trials of this sweep", trials, f"{up}run/", "trial")]
    # Before tables of agents and figures, which are many screens long.
    further = [section.heading for section in sections].index("Results") + 1
    if not trials:
        sections.insert(further, Section("Discussions", discussions=Embedded()))
    if overview.steps:
        sections.insert(further, Section("Learning", learned="served"))
    sections.append(Section("Configuration", text=run.text("config.yaml")))
    return page(run.name, sections, (*SCRIPTS, "live.js"), served=True, listed="")


def _run_results(run: RunFolder, overview: Overview, facts: dict[str, str], all_tables: bool) -> Iterator[Section]:
    if run.metrics.is_file():
        metrics = run.json("metrics.json")
        counts = _turn_counts(run.path, tuple(metrics["methods"]), tuple(files_of(run))) if all_tables else None
        yield from run_sections(run, metrics, _drawn(run), facts, counts)
        return
    # The result of a study as it is written, at its end.
    study = f"{overview.kind}.json"
    text = ""
    if (run.path / study).is_file():
        text = run.text(study)[:MOST_CHARACTERS]
    yield Section("Summary", facts=facts)
    yield Section("Results", tables=_answers_so_far(run), text=text)
    yield figures_section(_drawn(run))


@lru_cache(MOST_COUNTED)
def _turn_counts(folder: Path, methods: tuple[str, ...], files: tuple[FileState, ...]) -> dict[str, TurnCounts]:
    """Reads every trace. files: part of the key alone; traces change with scores."""
    return read_turn_counts(RunFolder(folder), methods)


def _answers_so_far(run: RunFolder) -> list[ResultTable]:
    """Makes the table of a run that goes on. None before its first answer."""
    rows = {}
    for method, answers in by_method(run).items():
        rows[method] = {"answers": len(answers), **answers[["utility", "tokens"]].mean()}
    if not rows:
        return []
    cells = {
        "answers": "{answers:,}",
        "utility": "{utility:.3f}",
        "tokens per question": "{tokens:tenths}",
    }
    return [ResultTable.of("method", rows, cells, title="Answers so far")]


def _drawn(run: RunFolder) -> list[Path]:
    return sorted(run.figures.glob("*.png"))


def _listed(heading: str, overviews: list[Overview], below: str, noun: str) -> Section:
    """Lists runs in a table. Links are `below` an address; runs that cannot be read become warnings.

    noun: names one of them. Two that are ticked can be compared.
    """
    tick = Markup('<input type="checkbox" name="run" value="{}" aria-label="compare {}"> ')
    rows: list[list[str]] = []
    for overview in overviews:
        link = _link(f"{below}{quote(overview.name)}/", overview.name)
        cells = {"run": tick.format(overview.name, overview.name) + link, "state": _state(overview)}
        cells |= _measures(overview)
        cells["to stop or resume"] = _command(overview.stop or overview.resume)
        rows.append([cells.get(column, "") for column in COLUMNS])
    problems = [visible(overview.problem) for overview in overviews if overview.problem]
    tables = []
    if rows:
        tables.append(ResultTable(COLUMNS, rows, title=f"{len(rows):,} {noun if len(rows) == 1 else noun + 's'}"))
    return Section(heading, problems, tables=tables)


def _facts(overview: Overview) -> dict[str, str]:
    """Returns the facts on a run's page."""
    facts = {"State": _state(overview)}
    for name, cell in _measures(overview).items():
        if cell:
            facts[name.capitalize()] = cell
    if overview.stop:
        facts["To stop"] = _command(overview.stop)
    if overview.resume:
        facts["To resume"] = _command(overview.resume)
    return facts


def _measures(overview: Overview) -> dict[str, str]:
    """Returns kind, time and progress of a run. Nothing of one that cannot be read."""
    if not overview.kind:
        return {}
    # A finished run may have had fewer questions than it was to ask, or stopped early.
    is_open = overview.expected and overview.state != "finished"
    expected = f" of {overview.expected:,}" if is_open else ""
    return {
        "kind": overview.kind,
        "started": overview.started[:16].replace("T", " "),
        "answers": f"{overview.completed:,}{expected}",
        "learning steps": f"{overview.steps:,}" if overview.steps else "",
        "tokens": f"{overview.tokens:,}",
        "price": "" if overview.price is None else f"{overview.price:,.2f}",
    }


def _state(overview: Overview) -> str:
    style = STYLES.get(overview.state, "bad")
    return Markup('<span class="badge {}">{}</span>').format(style, overview.state or "not readable")


def _link(address: str, text: str) -> str:
    return Markup('<a href="{}">{}</a>').format(address, text)


def _command(line: str) -> str:
    if not line:
        return ""
    # It may come from a received folder: signs that a terminal obeys are shown instead.
    return Markup('<button type="button" class="command" title="copy">{}</button>').format(visible(line))
