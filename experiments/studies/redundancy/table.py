"""What `job: redundancy` prints, and its figure and W&B summary, all from redundancy.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table

from experiments.analysis.summary import EMBEDDED, EMBEDDED_NOTE, Metrics, plain_console, verdicts
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.records.usage import by_phase, total
from experiments.studies.redundancy.figure import draw
from experiments.studies.redundancy.measure import AT_ONCE, FULL, GREEDY
from experiments.studies.redundancy.statistics import LEVEL
from experiments.studies.redundancy.summary import FILE

COMPARED = ("precision", "by chance (95%)", "recall")


def conclude(run: RunFolder, tracker: Tracker) -> None:
    """The figure, the W&B summary and the tables, from redundancy.json."""
    findings = json.loads((run.path / FILE).read_text())
    drawn = draw(run, findings)
    groups = {f"redundancy/{kind}": row for kind, row in findings["kinds"].items()}
    for estimator, kinds in findings["learners"].items():
        groups |= {f"redundancy/{estimator}/{kind}": row for kind, row in kinds.items()}
    tracker.summary({**findings, "paired": {**findings["paired"], **groups}}, drawn, total(run))
    print()
    show(findings, further=spent(run))


def tables(findings: Metrics) -> Iterator[tuple[str, Table]]:
    """Title and table: shares by kind, learners against them, and the graphs that are left."""
    shown = _table(
        "edges", "number", "redundant", "share", "no answer\nchanged", "harmful", "useful", "largest\neffect"
    )
    for kind, row in findings["kinds"].items():
        counts = [f"{row[name]:,}" for name in ("no_answer_changed", "harmful", "useful")]
        shown.add_row(
            kind, f"{row['edges']:,}", f"{row['redundant']:,}", f"{row['share']:.0%}", *counts, f"{row['largest']:.3f}"
        )
    yield "Redundant edges (Definition 1)", shown

    shown = _table("learner", "edges", "cut", *COMPARED, "rank\ncorr.", "rank corr.,\nreceiver")
    for name, row in _by_learner(findings):
        ranks = (_number(row[of]) for of in ("rank_correlation", "receiver_rank_correlation"))
        shown.add_row(name, f"{row['edges']:,}", f"{row['cut']:,}", *_compared(row, ""), *ranks)
    yield "Pruning against them", shown

    shown = _table("learner", "edges", "cut", "removed", *COMPARED)
    for name, row in _by_learner(findings):
        counts = [f"{row[of]:,}" for of in ("edges", "cut", "greedy_redundant")]
        shown.add_row(name, *counts, *_compared(row, "greedy_"))
    yield "Pruning against greedy removal", shown

    metric = findings["metric"]
    shown = _table(
        "graph", "edges", "readers", f"{metric} (95% interval)", f"{metric}, measured\nquestions", "tokens", "saved"
    )
    for method, row in findings["methods"].items():
        low, high = row["ci95"]
        saved = "" if method == FULL else f"{findings['paired'][f'{method} vs {FULL}']['tokens_saved']:.0%}"
        shown.add_row(
            method,
            f"{row['edges']:,.0f}",
            f"{row['readers']}",
            f"{row['utility']:.3f} ({low:.3f}-{high:.3f})",
            f"{row['measured_utility']:.3f}",
            f"{row['tokens']:,.0f}",
            saved,
        )
    yield f"What is left, on {findings['held_out']:,} held-out questions", shown


def notes(findings: Metrics) -> Iterator[str]:
    """What stands below the tables."""
    n, every = findings["questions"], findings["kinds"]["all"]
    yield (
        f"Measured on {n:,} questions of {findings['dataset']}, against the complete graph in the team's order: each "
        "agent hears all before it, and everyone's previous round; the decision agent reads everyone. Redundant: "
        f"without the edge {findings['metric']} is as high or higher. Harmful: higher. Useful: lower."
    )
    answer, receiver = (
        [every[f"{name}_{side}_shown"] for side in ("useful", "harmful")] for name in ("answer", "receiver")
    )
    yield (
        f"After Holm's correction for {every['edges']:,} edges (p < {LEVEL}), {answer[0]} edges are shown to help the "
        f"final answer and {answer[1]} to harm it; {receiver[0]} to help their receiver's own answers, "
        f"{receiver[1]} to harm them. To be shown on the final answer, an edge must change it the same way on "
        f"{findings['least_questions']} questions of {n:,}."
    )
    half = findings["reliability"]["answer"]
    yield (
        f"Two halves of the questions rank the edges' effects on the final answer with a correlation of "
        f"{_number(half['rank_correlation'])} ({_number(findings['reliability']['receiver']['rank_correlation'])} for "
        "effects on the receiver). What is redundant in one half is so in the other for "
        f"{_percent(half['redundant_again'])} of the edges (of all edges {_percent(half['redundant'])} are), what is "
        f"useful for {_percent(half['useful_again'])} (of all {_percent(half['useful'])}): no learner can be expected "
        "to agree with the measurement more than the measurement does with itself."
    )
    at_once, greedy = (findings["paired"][f"{method} vs {FULL}"] for method in (AT_ONCE, GREEDY))
    metric = findings["metric"]
    yield (
        f"Without all redundant edges at once {at_once['tokens_saved']:.0%} of tokens go, and {metric} changes by "
        f"{at_once['difference']:+.3f}; with edges taken away one after another while {metric} on the measured "
        f"questions does not fall, {greedy['tokens_saved']:.0%} and {greedy['difference']:+.3f} (held-out questions)."
    )
    yield from verdicts(findings["paired"], metric)
    if findings["model"] == EMBEDDED:
        yield EMBEDDED_NOTE


def spent(run: RunFolder) -> Iterator[str]:
    """How many turns were held and how many of them had to be computed, by phase."""
    for phase, used in by_phase(run).items():
        total = used.total
        held = total.calls + total.reused
        share = f" ({total.reused / held:.1%} answered from the completion cache)" if held else ""
        yield f"{phase}: {held:,} calls held, {total.calls:,} computed{share}, {used.seconds:,.1f} s."


def show(findings: Metrics, console: Console | None = None, further: Iterable[str] = ()) -> None:
    """Prints tables, notes and `further` ones."""
    console = plain_console(console)
    for title, table in tables(findings):
        console.print(title, style="bold")
        console.print(table)
        console.print()
    for note in (*notes(findings), *further):
        console.print(note, markup=False, highlight=False)


def _by_learner(findings: Metrics) -> Iterator[tuple[str, Metrics]]:
    for estimator, kinds in findings["learners"].items():
        yield from ((f"{estimator}, {kind}", row) for kind, row in kinds.items())


def _compared(row: Metrics, prefix: str) -> tuple[str, ...]:
    """The cells below `COMPARED`."""
    chance = "-"
    if row[f"{prefix}chance"] is not None:
        low, high = row[f"{prefix}chance95"]
        chance = f"{row[f'{prefix}chance']:.2f} ({low:.2f}-{high:.2f})"
    return _number(row[f"{prefix}precision"]), chance, _number(row[f"{prefix}recall"])


def _table(*headers: str) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for i, name in enumerate(headers):
        shown.add_column(name, justify="right" if i else "left", no_wrap=True, vertical="bottom")
    return shown


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
