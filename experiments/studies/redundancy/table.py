"""Printed tables, figure and W&B summary of `job: redundancy`, all from redundancy.json."""

from __future__ import annotations

import json
from collections.abc import Iterator

from experiments.analysis.result_table import ResultTable, with_interval
from experiments.analysis.summary import Metrics, model_notes, verdicts
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.records.usage import by_phase, total
from experiments.studies.redundancy.measure import AT_ONCE, FULL, GREEDY
from experiments.studies.redundancy.statistics import LEVEL
from experiments.studies.redundancy.summary import FILE

COMPARED = ("precision", "by chance (95%)", "recall")
SPENT = ("tokens", "saved")


def conclude(run: RunFolder, tracker: Tracker) -> None:
    """The figure, the W&B summary and the tables, from redundancy.json."""
    from experiments.studies.redundancy.figure import draw  # imports matplotlib

    metrics = json.loads((run.path / FILE).read_text())
    drawn = draw(run, metrics)
    # Put among the paired tests, which the tracker logs as they are.
    groups = {f"redundancy/{kind}": row for kind, row in metrics["kinds"].items()}
    for estimator, kinds in metrics["learners"].items():
        groups |= {f"redundancy/{estimator}/{kind}": row for kind, row in kinds.items()}
    tracker.summary({**metrics, "paired": {**metrics["paired"], **groups}}, drawn, total(run))
    print()
    # Costs belong below the last table, after its notes.
    *before, last = tables(metrics)
    for table in before:
        table.print()
    last.print(further=spent(run))


def tables(metrics: Metrics) -> tuple[ResultTable, ...]:
    """Shares by kind, learners against them, and the graphs that are left, with what stands below them all."""
    metric = metrics["metric"]
    learners = [
        (f"{estimator}, {kind}", row) for estimator, kinds in metrics["learners"].items() for kind, row in kinds.items()
    ]
    return (
        ResultTable(
            ("edges", "number", "redundant", "share", "no answer\nchanged", "harmful", "useful", "largest\neffect"),
            [_share(kind, row) for kind, row in metrics["kinds"].items()],
            title="Redundant edges (Definition 1)",
        ),
        ResultTable(
            ("learner", "edges", "cut", *COMPARED, "rank\ncorr.", "rank corr.,\nreceiver"),
            [(name, *_counts(row, "edges", "cut"), *_compared(row, ""), *_ranks(row)) for name, row in learners],
            title="Pruning against them",
        ),
        ResultTable(
            ("learner", "edges", "cut", "removed", *COMPARED),
            [
                (name, *_counts(row, "edges", "cut", "greedy_redundant"), *_compared(row, "greedy_"))
                for name, row in learners
            ],
            title="Pruning against greedy removal",
        ),
        ResultTable(
            ("graph", "edges", "readers", f"{metric} (95% interval)", f"{metric}, measured\nquestions", *SPENT),
            [_graph(metrics, method) for method in metrics["methods"]],
            tuple(_notes(metrics)),
            title=f"What is left, on {metrics['held_out']:,} held-out questions",
        ),
    )


def _share(kind: str, row: Metrics) -> tuple[str, ...]:
    counts = _counts(row, "no_answer_changed", "harmful", "useful")
    return kind, *_counts(row, "edges", "redundant"), f"{row['share']:.0%}", *counts, f"{row['largest']:.3f}"


def _counts(row: Metrics, *names: str) -> tuple[str, ...]:
    return tuple(f"{row[name]:,}" for name in names)


def _ranks(row: Metrics) -> tuple[str, str]:
    return _number(row["rank_correlation"]), _number(row["receiver_rank_correlation"])


def _graph(metrics: Metrics, method: str) -> tuple[str, ...]:
    row = metrics["methods"][method]
    return (
        method,
        f"{row['edges']:,.0f}",
        f"{row['readers']}",
        with_interval(row["utility"], row["ci95"]),
        f"{row['measured_utility']:.3f}",
        f"{row['tokens']:,.0f}",
        "" if method == FULL else f"{metrics['paired'][f'{method} vs {FULL}']['tokens_saved']:.0%}",
    )


def _notes(metrics: Metrics) -> Iterator[str]:
    """Notes below the tables."""
    n, every = metrics["questions"], metrics["kinds"]["all"]
    yield (
        f"Measured on {n:,} questions of {metrics['dataset']}, against the complete graph in the team's order: each "
        "agent hears all before it, and everyone's previous round; the decision agent reads everyone. Redundant: "
        f"without the edge {metrics['metric']} is as high or higher. Harmful: higher. Useful: lower."
    )
    answer, receiver = (
        [every[f"{name}_{side}_shown"] for side in ("useful", "harmful")] for name in ("answer", "receiver")
    )
    yield (
        f"After Holm's correction for {every['edges']:,} edges (p < {LEVEL}), {answer[0]} edges are shown to help the "
        f"final answer and {answer[1]} to harm it; {receiver[0]} to help their receiver's own answers, "
        f"{receiver[1]} to harm them. To be shown on the final answer, an edge must change it the same way on "
        f"{metrics['least_questions']} questions of {n:,}."
    )
    half = metrics["reliability"]["answer"]
    yield (
        f"Two halves of the questions rank the edges' effects on the final answer with a correlation of "
        f"{_number(half['rank_correlation'])} ({_number(metrics['reliability']['receiver']['rank_correlation'])} for "
        "effects on the receiver). What is redundant in one half is so in the other for "
        f"{_percent(half['redundant_again'])} of the edges (of all edges {_percent(half['redundant'])} are), what is "
        f"useful for {_percent(half['useful_again'])} (of all {_percent(half['useful'])}): no learner can be expected "
        "to agree with the measurement more than the measurement does with itself."
    )
    at_once, greedy = (metrics["paired"][f"{method} vs {FULL}"] for method in (AT_ONCE, GREEDY))
    metric = metrics["metric"]
    yield (
        f"Without all redundant edges at once {at_once['tokens_saved']:.0%} of tokens go, and {metric} changes by "
        f"{at_once['difference']:+.3f}; with edges taken away one after another while {metric} on the measured "
        f"questions does not fall, {greedy['tokens_saved']:.0%} and {greedy['difference']:+.3f} (held-out questions)."
    )
    yield from verdicts(metrics["paired"], metric)
    yield from model_notes(metrics["model"])


def spent(run: RunFolder) -> Iterator[str]:
    """Calls of each phase, and how many of them had to be computed."""
    for phase, used in by_phase(run).items():
        total = used.total
        calls = total.calls + total.reused
        share = f" ({total.reused / calls:.1%} answered from the completion cache)" if calls else ""
        yield f"{phase}: {calls:,} calls held, {total.calls:,} computed{share}, {used.seconds:,.1f} s."


def _compared(row: Metrics, prefix: str) -> tuple[str, ...]:
    """The cells below `COMPARED`."""
    chance = "-"
    if row[f"{prefix}chance"] is not None:
        low, high = row[f"{prefix}chance95"]
        chance = f"{row[f'{prefix}chance']:.2f} ({low:.2f}-{high:.2f})"
    return _number(row[f"{prefix}precision"]), chance, _number(row[f"{prefix}recall"])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
