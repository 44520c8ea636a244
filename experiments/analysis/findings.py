"""Sums up a run in a few lines below its table: edges cut, differences shown, failures."""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.analysis.statistics import least_clusters
from experiments.analysis.summary import (
    ATTACKERS,
    CLEAN,
    CONFIRMED,
    DOUBTS,
    MONITOR,
    NOT_WORSE,
    PLAN,
    SEQUENTIAL,
    TRAINING_TOKENS,
    UNKNOWN,
    Metrics,
    failure_notes,
    verdict,
    verdict_text,
)
from experiments.attacks.attack_metrics import surrogate_text


def in_short(metrics: Metrics) -> Iterator[str]:
    """Yields what was found, as a terminal and the first notes of a report have it."""
    yield from attackers_found(metrics)
    yield from learned_notes(metrics)
    rows = metrics["methods"].items()
    yield from (f"{name}: {surrogate_text(row['surrogate'])}." for name, row in rows if "surrogate" in row)
    yield from looked_at(metrics)
    yield from differences(metrics["paired"], metrics["methods"])
    if "judged" in metrics:
        yield from (f"Acc*: {line}" for line in differences(metrics["judged"]["paired"], metrics["methods"]))
    yield from of_one_graph(metrics)
    yield from failure_notes(metrics)


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


def differences(paired: Mapping[str, Mapping[str, Any]], rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields a line that names the differences which paired tests show, and methods that are not worse.

    rows: the methods' measures, of which a method that is not worse is said to save tokens.
    """
    if not paired:
        return
    shown: dict[str, list[str]] = {}
    for pair, test in paired.items():
        ours, rival = pair.split(" vs ")
        found = verdict(test)
        if found == NOT_WORSE:
            spent, theirs = (rows[name]["prompt_tokens"] + rows[name]["completion_tokens"] for name in (ours, rival))
            saved = f" ({1 - spent / theirs:.0%} fewer tokens)" if spent < theirs else ""
            shown.setdefault(f"{ours} is {verdict_text(test)} than", []).append(f"{rival}{saved}")
        elif found != UNKNOWN:
            shown.setdefault(f"{ours} is {found} than", []).append(rival)
    # Claims of `better` come first, then those of `not worse`.
    order = sorted(shown, key=lambda claim: (" is worse " in claim, " is not worse " in claim))
    claims = [f"{claim} {', '.join(shown[claim])}" for claim in order]
    tests = f"{len(paired)} paired tests, adjusted" if len(paired) > 1 else "a paired test"
    yield f"Shown by {tests}: {'; '.join(claims) or 'no difference'}."
    least, clusters = least_clusters(len(paired)), min(test.get("clusters", test["n"]) for test in paired.values())
    if clusters < least:
        yield f"{clusters} independent questions are too few for a verdict of {tests}: {least} are needed."


def looked_at(metrics: Metrics) -> Iterator[str]:
    """Yields lines on the plan that was stated before (`compare.plan`) and on where an evaluation stopped, and why."""
    if plan := metrics.get(PLAN):
        differs = "; ".join(plan["differs"])
        yield f"Plan {plan['sha256'][:12]}: " + (f"differs in {differs}." if differs else "as planned.")
    found = metrics.get(SEQUENTIAL, {})
    if not found.get("test"):
        return
    (first, second), test, asked, planned = (found[name] for name in ("pair", "test", "questions", "planned"))
    low, high = test["ci95"]
    claim = f"{first} is {verdict_text(test)}" if test["verdict"] != UNKNOWN else "not known which is better"
    yield (
        f"{first} minus {second}, looked at during the run: {test['difference']:+.3f} (anytime-valid 95% interval "
        f"{low:+.3f} to {high:+.3f}, each cluster alike): {claim}, after {asked:,} of {planned:,} questions."
    )
    if asked < planned:
        yield "Other intervals and tests are for a number of questions that was fixed before, and claim too much here."


def learned_notes(metrics: Metrics) -> Iterator[str]:
    """Yields what the confirmation of each learned graph chose, the reasons to doubt it, and what the monitor found."""
    for method, row in metrics["methods"].items():
        for agent, (since, shown) in row.get(MONITOR, {}).items():
            what = f"{agent} is worse than in training since question {since}"
            yield f"Warning: {method}: {what}, as the first {shown} evaluated questions show."
        yield from (f"Warning: {method}: {doubt}." for doubt in row.get(DOUBTS, ()))
        if CONFIRMED in row and row[CONFIRMED] not in row.get(DOUBTS, ()):
            yield f"{method}: {row[CONFIRMED]}."


def of_one_graph(metrics: Metrics) -> Iterator[str]:
    """Yields a line on the learned methods that are compared: the tests hold for the graphs that this run learned."""
    compared = {method for pair in metrics["paired"] for method in pair.split(" vs ")}
    learned = [method for method, row in metrics["methods"].items() if TRAINING_TOKENS in row and method in compared]
    if learned:
        graphs = f"the graph{'s' if len(learned) > 1 else ''} of {', '.join(learned)}"
        yield f"This holds for {graphs} that this run learned; sweep.seeds=5 tests the methods."
