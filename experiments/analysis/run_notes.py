"""Sums up a run in a few lines: edges cut, differences shown, failures."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from experiments.analysis.paired import claim, differences

Metrics = Mapping[str, Any]  # the content of metrics.json

FELL = (
    "Warning: {method}: {agent} is worse than in training since question {since}, as the first {shown} evaluated "
    "questions show."
)
LOOKED_AT = (
    "{pair[0]} minus {pair[1]}, looked at during the run: {test[difference]:+.3f} (anytime-valid 95% interval "
    "{test[ci95][0]:+.3f} to {test[ci95][1]:+.3f}, each cluster alike): {claim}, after {questions:,} of {planned:,} "
    "questions."
)
FIXED_BEFORE = "Other intervals and tests are for a number of questions that was fixed before, and claim too much here."
FAILED = "{phase}: {failed:,} of {turns:,} turns failed, most often: {reason}."
LOST = " {questions:,} of its {evaluated:,} questions failed by it and are in no mean and no comparison."
INCONCLUSIVE = " These are too many for a conclusion (failures.share); a resumed run asks them again."


def in_short(metrics: Metrics) -> Iterator[str]:
    """Yields the findings, for a terminal and the first notes of a report."""
    rows = metrics["methods"]
    yield from edges_cut(metrics)
    for method, row in rows.items():
        for agent, (since, question) in row.get("monitor", {}).items():
            yield FELL.format(method=method, agent=agent, since=since, shown=question)
        for doubt in row.get("doubts", ()):
            yield f"Warning: {method}: {doubt}."

    yield from looked_at(metrics)
    yield from differences(metrics["paired"], rows)
    if "judged" in metrics:
        for line in differences(metrics["judged"]["paired"], rows):
            yield f"Acc*: {line}"
    compared = set(chain.from_iterable(pair.split(" vs ") for pair in metrics["paired"]))
    learners = [method for method, row in rows.items() if "training_tokens" in row and method in compared]
    if learners:
        graphs = "the graphs" if len(learners) > 1 else "the graph"
        names = ", ".join(learners)
        yield f"This holds for {graphs} of {names} that this run learned; sweep.seeds=5 tests the methods."
    yield from failure_notes(metrics)


def edges_cut(metrics: Metrics) -> Iterator[str]:
    """Yields a line on the edges that learned methods cut, from attackers and between honest agents."""
    shares = []
    for method, row in metrics["methods"].items():
        if "attackers_edges_cut" in row and "honest_edges_cut" in row:
            shares.append((method, row["attackers_edges_cut"], row["honest_edges_cut"]))
    if not shares:
        return
    # The method that tells attackers best from honest agents comes first.
    shares.sort(key=lambda share: share[2] - share[1])
    method, from_attackers, between_honest = shares.pop(0)
    text = (
        f"{method} cut {from_attackers:.0%} of the edges from the attackers ({', '.join(metrics['attackers'])}) and "
        f"{between_honest:.0%} of those between honest agents"
    )
    for method, from_attackers, between_honest in shares:
        text += f"; {method} cut {from_attackers:.0%} and {between_honest:.0%}"
    yield f"{text}. A method that finds nothing cuts equal shares."
    if "clean" in metrics:
        yield "Clean: the same graphs and questions, with every agent honest."


def looked_at(metrics: Metrics) -> Iterator[str]:
    """Yields lines on the plan stated before (`compare.plan`), and on where and why an evaluation stopped."""
    if "plan" in metrics:
        plan = metrics["plan"]
        departures = "; ".join(plan["differs"])
        outcome = f"differs in {departures}" if departures else "as planned"
        yield f"Plan {plan['sha256'][:12]}: {outcome}."
    looks = metrics.get("sequential", {})
    if looks.get("test"):
        yield LOOKED_AT.format(claim=claim(looks["pair"][0], looks["test"]), **looks)
        if looks["questions"] < looks["planned"]:
            yield FIXED_BEFORE


def failure_notes(metrics: Metrics) -> Iterator[str]:
    """Yields a line for each phase in which turns failed."""
    for phase, failure in metrics.get("failures", {}).items():
        line = FAILED.format(phase=phase, **failure)
        if "questions" in failure:
            line += LOST.format(evaluated=metrics["questions"], **failure)
        if not failure.get("concluded", True):
            line += INCONCLUSIVE
        yield line


def broken(metrics: Metrics) -> list[str]:
    """Returns the methods with too many failed questions for any conclusion."""
    failures = metrics.get("failures", {})
    return [method for method, failure in failures.items() if not failure.get("concluded", True)]


def inconclusive(metrics: Metrics) -> str:
    """Names the methods about which nothing is concluded, and why; empty without any."""
    methods = broken(metrics)
    notes = [note for note in failure_notes(metrics) if note.partition(":")[0] in methods]
    judgements = metrics.get("judged", {}).get("methods", {})
    unjudged = [method for method, row in judgements.items() if row["acc_star"] is None]
    if unjudged:
        notes.append(f"too few answers were judged for an Acc* of {', '.join(unjudged)}")
    return " ".join(notes)
