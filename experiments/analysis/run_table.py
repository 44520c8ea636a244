"""The table of a run's metrics.json, printed at its end and shown in its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from experiments.analysis import judged
from experiments.analysis.summary import (
    CUT,
    EMBEDDED,
    EMBEDDED_NOTE,
    MODELS,
    SILENT,
    STRICT,
    TRAINING_TOKENS,
    TROUBLES,
    Metrics,
    verdicts,
)
from experiments.analysis.table import Table, tenths, with_interval
from experiments.records.trials import LEARNED_FROM


def run_table(metrics: Metrics, metric: str) -> Table:
    """A row per method; tokens and calls are per question. `metric` names the data set's utility (EM, accuracy)."""
    columns = _columns(metrics, metric)
    return Table(
        columns=("method", *columns),
        rows=[
            # A cell sees its method's name too: judged figures are stored by method in another part of metrics.json.
            (method, *(cell(row | {"method": method}) for cell in columns.values()))
            for method, row in metrics["methods"].items()
        ],
        notes=tuple(_notes(metrics, metric)),
    )


def _columns(metrics: Metrics, metric: str) -> dict[str, Callable[[Metrics], str]]:
    """Functions from a method's row to its cell, by header; columns that no method has are left out."""
    columns: dict[str, Callable[[Metrics], str]] = {
        f"{metric} (95% interval)": lambda row: with_interval(row["utility"], row["ci95"]),
    }
    if _any(metrics, STRICT):
        # Per row: a method that was evaluated before this was recorded has none.
        columns["strict\nEM"] = lambda row: f"{row[STRICT]:.3f}" if STRICT in row else ""
    columns["F1"] = lambda row: f"{row['f1']:.3f}"
    if "judged" in metrics:
        grades = metrics["judged"]["methods"]
        columns["Acc*"] = lambda row: f"{grades[row['method']]['acc_star']:.3f}"
    if _any(metrics, "attack_success"):
        # Per row: an attack with a target may apply to some methods only.
        columns["attack\nsuccess"] = lambda row: f"{row['attack_success']:.3f}" if "attack_success" in row else ""
    if _any(metrics, "path_recall"):
        columns["path\nP/R"] = lambda row: _precision_recall(row, "path")
        columns["edge\nP/R"] = lambda row: _precision_recall(row, "edge")
    columns |= {
        "prompt\ntokens": lambda row: f"{row['prompt_tokens']:,.0f}",
        "reply\ntokens": lambda row: f"{row['completion_tokens']:,.0f}",
        "calls": lambda row: tenths(row["calls"]),
        "edges": lambda row: tenths(row["edges"]),
    }
    if _any(metrics, TRAINING_TOKENS):
        columns["train\nMtok"] = _training
    for name in TROUBLES:
        if _any(metrics, name):
            # The default binds this turn's `name`; a plain closure would see the last one in every column.
            columns[name.replace("_", "\n")] = lambda row, name=name: f"{row[name]:,}"  # type: ignore[misc]
    if _any(metrics, SILENT):
        columns["silent\nturns"] = lambda row: f"{row.get(SILENT, 0) / max(1, row['turns']):.1%}"
    if any(row.get("repairs") for row in metrics["methods"].values()):
        columns["repairs\n(tokens)"] = _repairs
    return columns


def _any(metrics: Metrics, name: str) -> bool:
    return any(name in row for row in metrics["methods"].values())


def _repairs(row: Metrics) -> str:
    """Repairs as a share of the turns, and their tokens as a share of all tokens where they are known."""
    share = f" ({row['repair_share']:.1%})" if "repair_share" in row else ""
    return f"{row['repairs'] / max(1, row['turns']):.1%}{share}"


def _training(row: Metrics) -> str:
    """Tokens of all discussions that were held to learn a graph, in millions."""
    return f"{row[TRAINING_TOKENS] / 1e6:.2f}" if TRAINING_TOKENS in row else ""


def shared_notes(runs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Says of each graph that was learned from another's discussions where their tokens are counted."""
    rows = [(method, row) for metrics in runs for method, row in metrics["methods"].items() if LEARNED_FROM in row]
    for method, source in dict.fromkeys((method, row[LEARNED_FROM]) for method, row in rows):
        yield f"{method} was learned from the discussions of {source}, whose tokens are counted there, once."


def _precision_recall(row: Metrics, prefix: str) -> str:
    return "/".join(f"{row[name]:.2f}" for name in (f"{prefix}_precision", f"{prefix}_recall") if name in row)


def _notes(metrics: Metrics, metric: str) -> Iterator[str]:
    """Notes below the table: its questions and model, the paired tests in words, and the notes on the judge."""
    yield f"{metrics['questions']:,} questions of {metrics['dataset']}; tokens and calls are per question."
    if _any(metrics, TRAINING_TOKENS):
        yield "Train: millions of tokens of all discussions that were held to learn a graph."
    yield from shared_notes([metrics])
    cut = sum(row.get(CUT, 0) for row in metrics["methods"].values())
    if cut:
        yield f"{cut:,} turns were asked without some of their evidence, which did not fit the model's context."
    if _any(metrics, SILENT):
        yield "Silent: turns whose reply was read and stated nothing, as a share of all turns."
    if any(row.get("repairs") for row in metrics["methods"].values()):
        yield (
            "Repairs: turns asked a second time for what could not be read of their reply, as a share of all turns, "
            "and in brackets what that cost, as a share of all tokens."
        )
    if _any(metrics, STRICT):
        yield (
            f"{metric} counts an answer that contains the gold one; strict EM, by MultimodalQA's official script, only "
            "one that is the same after normalisation."
        )
    if _any(metrics, "path_recall"):
        yield "P/R: precision and recall of the paths that were found in the knowledge graph, and of their edges."
    yield from verdicts(metrics["paired"], metric)
    if EMBEDDED in metrics["model"].split(MODELS):
        yield EMBEDDED_NOTE
    if "judged" in metrics:
        yield from judged.notes(metrics["judged"])
