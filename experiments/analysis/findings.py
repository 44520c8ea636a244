"""Sums up a run in a few lines below its table: edges cut, differences shown, failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.analysis.summary import ATTACKERS, CLEAN, Metrics, failure_notes, model_notes, shown_difference


def in_short(metrics: Metrics) -> Iterator[str]:
    """Yields the lines that a terminal shows; the report has all tests and notes."""
    yield from attackers_found(metrics)
    yield from differences(metrics["paired"])
    if "judged" in metrics:
        yield from (f"Acc*: {line}" for line in differences(metrics["judged"]["paired"]))
    yield from failure_notes(metrics)
    yield from model_notes(metrics["model"])


def attackers_found(metrics: Metrics) -> Iterator[str]:
    """Yields a line on the edges that each learned method cut, from attackers and between honest agents."""
    cut = {
        method: (row["attackers_edges_cut"], row["honest_edges_cut"])
        for method, row in metrics["methods"].items()
        if "attackers_edges_cut" in row and "honest_edges_cut" in row
    }
    if not cut:
        return
    # The method that tells attackers best from honest agents comes first.
    (best, (sent, between)), *others = sorted(cut.items(), key=lambda one: one[1][1] - one[1][0])
    rest = "".join(f"; {method} cut {sent:.0%} and {between:.0%}" for method, (sent, between) in others)
    yield (
        f"{best} cut {sent:.0%} of the edges from the attackers ({', '.join(metrics[ATTACKERS])}) and {between:.0%} of "
        f"those between honest agents{rest}. A method that finds nothing cuts equal shares."
    )
    if CLEAN in metrics:
        yield "Clean: the same graphs and questions, with every agent honest."


def differences(paired: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields a line that names the differences which paired tests show."""
    if not paired:
        return
    shown: dict[str, list[str]] = {}
    for pair, test in paired.items():
        ours, rival = pair.split(" vs ")
        if verdict := shown_difference(test):
            shown.setdefault(f"{ours} is {verdict} than", []).append(rival)
    # Claims of `better` come first.
    claims = [f"{claim} {', '.join(shown[claim])}" for claim in sorted(shown, key=lambda one: " is worse " in one)]
    tests = f"{len(paired)} paired tests, adjusted" if len(paired) > 1 else "a paired test"
    yield f"Shown by {tests}: {'; '.join(claims) or 'no difference'}."
