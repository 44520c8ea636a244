"""Pages of the viewer, made of the same sections as reports."""

import json
from collections.abc import Iterator
from statistics import fmean
from urllib.parse import quote

from markupsafe import Markup

from actors.errors import UserError, visible
from experiments.analysis.embedded import Embedded
from experiments.analysis.page import SCRIPTS, Section, page, pictures
from experiments.analysis.reports import run_sections
from experiments.analysis.result_table import ResultTable, number, tenths
from experiments.analysis.scores import by_method
from experiments.analysis.summary import metric_of
from experiments.analysis.sweep_report import recorded_rows, sweep_sections, sweep_table
from experiments.config.saved import read
from experiments.records.recorder import RunFolder
from experiments.records.trials import read_results
from experiments.view.compared import others
from experiments.view.overview import Overview, Overviews

MOST_CHARACTERS = 1_000_000  # of a study's result, which is shown as it is
STYLES = {"running": "warn", "finished": "right", "failed": "wrong", "stopped": "plain"}
COLUMNS = ("run", "state", "kind", "started", "answers", "learning steps", "tokens", "price", "to stop or resume")


def list_page(runs: Overviews) -> str:
    sections = [_listed("Runs", runs.all(), "run/")]
    return page(runs.root.path.name, sections, ("tables.js", "live.js"), served=True)


def run_page(runs: Overviews, name: str, whole: bool) -> str:
    """Shows a run, a sweep or a study so far, and its discussions.

    whole: with the tables for which every trace is read.
    Raises UserError where it cannot be shown.
    """
    run, (seen, *trials) = runs.root.run(name), runs.all(name)
    if seen.problem:
        raise UserError(seen.problem)
    try:
        found = list(_results(run, seen, bool(trials), whole))
    # A damaged file of results fails in many ways where it is read.
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{run.path}: its results cannot be read ({error!r}); restore them from a copy") from error
    sections = [
        *found,
        _listed("Trials of this sweep", trials, "../" * (2 + name.count("/")) + "run/"),
        Section("Learning", learned="served" if seen.steps else ""),
        Section("Discussions", discussions=None if trials else Embedded()),
        Section("Compare", tables=[table] if (table := others(runs.root, name)).rows else []),
        Section("Configuration", text=run.config.read_text(encoding="utf-8", errors="replace")),
    ]
    return page(run.name, sections, (*SCRIPTS, "live.js"), served=True, listed="")


def _results(run: RunFolder, seen: Overview, sweep: bool, whole: bool) -> Iterator[Section]:
    names = ("State", "Kind", "Started", "Answers", "Learning steps", "Tokens", "Price", "")
    up = Markup('<a href="{}">all runs</a>').format("../" * (2 + seen.name.count("/")))
    facts = {"Folder": up} | {name: cell for name, cell in zip(names, _cells(seen), strict=True) if name and cell}
    facts |= {name: _command(line) for name, line in (("To stop", seen.stop), ("To resume", seen.resume)) if line}
    drawn = sorted(run.figures.glob("*.png"))
    if sweep:
        config, results = read(run.config), read_results(run.path, stopped=True)
        yield Section("State", facts=facts)
        if results:
            metric, model = metric_of(results[0].metrics), results[0].metrics.get("model", "")
            table = sweep_table(recorded_rows(run.path, config.seed), metric, model)
            yield from sweep_sections(run.path, results, metric, drawn, table, page_of_trial="")
    elif run.metrics.is_file():
        metrics = json.loads(run.metrics.read_bytes())
        yield from run_sections(run, metrics, drawn, facts, whole)
    else:
        # The result of a study as it is written, at its end.
        study = run.path / f"{seen.kind}.json"
        text = study.read_text(encoding="utf-8", errors="replace")[:MOST_CHARACTERS] if study.is_file() else ""
        means = {}
        for method, answers in by_method(run).items():
            utility, tokens = (fmean(getattr(one, of) for one in answers.values()) for of in ("utility", "tokens"))
            means[method] = {"answers": len(answers), "utility": utility, "tokens": tokens}
        cells = {
            "answers": number("answers", ",d"),
            "utility": number("utility"),
            "tokens per question": lambda row: tenths(row["tokens"]),
        }
        so_far = ResultTable.of("method", means, cells, title="Answers so far")
        yield Section("Summary", facts=facts)
        yield Section("Results", tables=[so_far] if means else [], text=text)
        yield Section("Figures", pictures=tuple(pictures(drawn)))


def _listed(heading: str, runs: list[Overview], below: str) -> Section:
    """Lists runs in a table. Links are `below` an address; runs that cannot be read become warnings."""
    rows = [(Markup('<a href="{}{}/">{}</a>').format(below, quote(one.name), one.name), *_cells(one)) for one in runs]
    table = ResultTable(COLUMNS, rows, title=f"{len(rows):,} {heading.lower()}")
    return Section(heading, [visible(one.problem) for one in runs if one.problem], tables=[table] if rows else [])


def _cells(one: Overview) -> Iterator[str]:
    yield Markup('<span class="badge {}">{}</span>').format(STYLES.get(one.state, "bad"), one.state or "not readable")
    yield one.kind
    yield one.started[:16].replace("T", " ")
    yield f"{one.done:,}" + (f" of {one.planned:,}" if one.planned else "") if one.kind else ""
    yield f"{one.steps:,}" if one.steps else ""
    yield f"{one.tokens:,}" if one.kind else ""
    yield "" if one.price is None else f"{one.price:,.2f}"
    yield _command(one.stop or one.resume)


def _command(line: str) -> str:
    # It may come from a received folder: signs that a terminal obeys are shown instead.
    button = Markup('<button type="button" class="command" title="copy">{}</button>')
    return button.format(visible(line)) if line else ""
