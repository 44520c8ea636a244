"""Printed tables, figure and W&B summary of `job: redundancy`, all from redundancy.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from experiments.analysis.result_table import ResultTable, with_interval
from experiments.analysis.summary import Metrics, model_notes, verdicts
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.records.usage import by_phase, total
from experiments.studies.redundancy.redundancy_summary import FILE, LEVEL
from experiments.studies.redundancy.removal import AT_ONCE, FULL, GREEDY

COMPARED = ("precision", "by chance (95%)", "recall")


def conclude(run: RunFolder, tracker: Tracker) -> None:
    """Draws the figure, logs the W&B summary and prints the tables, from redundancy.json."""
    from experiments.studies.redundancy.redundancy_figure import draw  # imports matplotlib

    metrics = json.loads((run.path / FILE).read_text())
    drawn: list[Path] = draw(run, metrics)
    # Put among the paired tests, which the tracker logs unchanged.
    groups = {f"redundancy/{kind}": row for kind, row in metrics["kinds"].items()}
    for learner, kinds in metrics["learners"].items():
        groups |= {f"redundancy/{learner}/{kind}": row for kind, row in kinds.items()}
    tracker.summary({**metrics, "paired": {**metrics["paired"], **groups}}, drawn, total(run))
    print()
    # Costs belong below the last table, after its notes.
    *before, last = tables(metrics)
    for table in before:
        table.print()
    last.print(further=usage_lines(run))


def tables(metrics: Metrics) -> tuple[ResultTable, ...]:
    """Makes the tables: redundant edges by kind, learners' cuts against them, and the graphs that are left."""
    metric = metrics["metric"]
    learners = [
        (f"{learner}, {kind}", row) for learner, kinds in metrics["learners"].items() for kind, row in kinds.items()
    ]
    return (
        ResultTable(
            ("edges", "number", "redundant", "share", "no answer\nchanged", "harmful", "useful", "largest\neffect"),
            [
                (
                    *(kind, *_counts(row, "edges", "redundant"), f"{row['share']:.0%}"),
                    *(*_counts(row, "no_answer_changed", "harmful", "useful"), f"{row['largest']:.3f}"),
                )
                for kind, row in metrics["kinds"].items()
            ],
            title="Redundant edges (Definition 1)",
        ),
        ResultTable(
            ("learner", "edges", "cut", *COMPARED, "rank\ncorr.", "rank corr.,\nreceiver"),
            [
                (
                    *(name, *_counts(row, "edges", "cut"), *_compared(row, "")),
                    *(_number(row[f"{of}rank_correlation"]) for of in ("", "receiver_")),
                )
                for name, row in learners
            ],
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
            (
                "graph",
                "edges",
                "readers",
                f"{metric} (95% interval)",
                f"{metric}, measured\nquestions",
                "tokens",
                "saved",
            ),
            [_graph(metrics, method) for method in metrics["methods"]],
            tuple(_notes(metrics)),
            title=f"What is left, on {metrics['held_out']:,} held-out questions",
        ),
    )


def _counts(row: Metrics, *names: str) -> tuple[str, ...]:
    return tuple(f"{row[name]:,}" for name in names)


def _compared(row: Metrics, prefix: str) -> tuple[str, ...]:
    """The cells below `COMPARED`."""
    chance = "-"
    if row[f"{prefix}chance"] is not None:
        low, high = row[f"{prefix}chance95"]
        chance = f"{row[f'{prefix}chance']:.2f} ({low:.2f}-{high:.2f})"
    return _number(row[f"{prefix}precision"]), chance, _number(row[f"{prefix}recall"])


def _number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else f"{value:{form}}"


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
    n, every, metric = metrics["questions"], metrics["kinds"]["all"], metrics["metric"]
    yield (
        f"Measured on {n:,} questions of {metrics['dataset']}, against the complete graph in the team's order: each "
        "agent hears all before it, and everyone's previous round; the decision agent reads everyone. Redundant: "
        f"without the edge {metric} is as high or higher. Harmful: higher. Useful: lower."
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
    share = {name: _number(value, ".1%") for name, value in half.items()}
    yield (
        f"Two halves of the questions rank the edges' effects on the final answer with a correlation of "
        f"{_number(half['rank_correlation'])} ({_number(metrics['reliability']['receiver']['rank_correlation'])} for "
        f"effects on the receiver). Of the edges that are redundant in one half, {share['redundant_again']} are so in "
        f"the other (of all edges {share['redundant']}); of the useful ones, {share['useful_again']} (of all "
        f"{share['useful']}). No learner can be expected to agree with the measurement more than its halves do."
    )
    at_once, greedy = (metrics["paired"][f"{method} vs {FULL}"] for method in (AT_ONCE, GREEDY))
    yield (
        f"Without all redundant edges at once {at_once['tokens_saved']:.0%} of tokens go, and {metric} changes by "
        f"{at_once['difference']:+.3f}; with edges removed one after another while {metric} on the measured "
        f"questions does not fall, {greedy['tokens_saved']:.0%} and {greedy['difference']:+.3f} (held-out questions)."
    )
    yield from verdicts(metrics["paired"], metric)
    yield from model_notes(metrics["model"])


def usage_lines(run: RunFolder) -> Iterator[str]:
    """Yields the calls of each phase, and how many of them had to be computed."""
    for phase, used in by_phase(run).items():
        calls = used.total.calls + used.total.reused
        share = f" ({used.total.reused / calls:.1%} answered from the completion cache)" if calls else ""
        yield f"{phase}: {calls:,} calls, {used.total.calls:,} computed{share}, {used.seconds:,.1f} s."
