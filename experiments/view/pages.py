"""The pages of the viewer, made of the same sections as reports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from markupsafe import Markup

from actors.errors import UserError
from actors.visible import visible
from experiments.analysis.embedded import Embedded
from experiments.analysis.page import SCRIPTS, Section, page
from experiments.analysis.reports import run_sections
from experiments.analysis.result_table import ResultTable, number, tenths
from experiments.analysis.scores import by_method
from experiments.records.jsonl import DAMAGED
from experiments.records.recorder import RunFolder
from experiments.view.compared import others
from experiments.view.overview import Overview, Overviews

MOST_BYTES = 2**24  # of a file that a page shows as it is
STYLES = {"running": "warn", "finished": "right", "failed": "wrong", "stopped": "plain"}
COLUMNS = ("run", "state", "kind", "started", "answers", "learning steps", "tokens", "price", "to stop or resume")


def list_page(runs: Overviews) -> str:
    """Lists the runs of a folder."""
    sections = [_listed("Runs", runs.all(), "run/")]
    return page(runs.root.path.name, sections, ("tables.js", "live.js"), served=True)


def run_page(runs: Overviews, name: str, whole: bool) -> str:
    """Shows a run, a sweep or a study: what is known of it so far, and its discussions.

    Args:
        whole: with the tables for which every trace is read.

    Raises:
        UserError: it cannot be shown.
    """
    run, (seen, *trials) = runs.root.run(name), runs.all(name)
    if seen.problem:
        raise UserError(seen.problem)
    sections = [
        *(_finished(run, _facts(seen), whole) if run.metrics.is_file() else _so_far(run, _facts(seen))),
        _listed("Trials", trials, "../" * (1 + name.count("/"))),
        Section("Learning", learned="served" if run.all_learned() else ""),
        Section("Discussions", discussions=None if trials else Embedded()),
        Section("Compare", tables=[table] if (table := others(runs.root, name)).rows else []),
        Section("Configuration", text=run.config.read_text(encoding="utf-8", errors="replace")),
    ]
    return page(run.name, sections, (*SCRIPTS, "live.js"), served=True, listed="")


def _listed(heading: str, runs: list[Overview], below: str) -> Section:
    """A table of runs whose pages lie `below` an address; those that cannot be read are named above it."""
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
    return (
        Markup('<button type="button" class="command" title="copy">{}</button>').format(visible(line)) if line else ""
    )


def _facts(one: Overview) -> dict[str, str]:
    names = ("State", "Kind", "Started", "Answers", "Learning steps", "Tokens", "Price", "")
    up = Markup('<a href="{}">all runs</a>').format("../" * (2 + one.name.count("/")))
    facts = {"Folder": up} | {name: cell for name, cell in zip(names, _cells(one), strict=True) if name and cell}
    return facts | {name: _command(line) for name, line in (("To stop", one.stop), ("To resume", one.resume)) if line}


def _finished(run: RunFolder, facts: dict[str, str], whole: bool) -> Iterable[Section]:
    try:
        metrics = json.loads(run.metrics.read_bytes())
        drawn = sorted(run.figures.glob("*.png"))
        return list(run_sections(run, metrics, metrics.get("metric", "utility"), drawn, facts, whole))
    # A damaged file fails in many ways where it is read.
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{run.metrics}: not the metrics of a run ({error!r}); {DAMAGED}") from error


def _so_far(run: RunFolder, facts: dict[str, str]) -> Iterable[Section]:
    means = {}
    for method, answers in by_method(run).items():
        found = list(answers.values())
        tokens = sum(one.prompt_tokens + one.completion_tokens for one in found) / len(found)
        utility = math.fsum(one.utility for one in found) / len(found)
        means[method] = {"answers": len(found), "utility": utility, "tokens": tokens}
    cells = {
        "answers": number("answers", ",d"),
        "utility": number("utility"),
        "tokens per question": lambda row: tenths(row["tokens"]),
    }
    yield Section("Summary", facts=facts)
    yield Section("Results", tables=[ResultTable.of("method", means, cells, title="Answers so far")] if means else [])
