"""Sums up a run in a few lines: edges cut, differences shown, failures."""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.analysis.statistics import least_clusters
from experiments.analysis.summary import NOT_WORSE, UNKNOWN, Metrics, failure_notes, verdict, verdict_text
from experiments.attacks.attack_metrics import surrogate_text


def in_short(metrics: Metrics) -> Iterator[str]:
    """Yields the findings, for a terminal and the first notes of a report."""
    rows = metrics["methods"]
    yield from attackers_found(metrics)
    for method, row in rows.items():
        for agent, (since, shown) in row.get("monitor", {}).items():
            what = f"{agent} is worse than in training since question {since}"
            yield f"Warning: {method}: {what}, as the first {shown} evaluated questions show."
        doubts = row.get("doubts", ())
        yield from (f"Warning: {method}: {doubt}." for doubt in doubts)
        if "confirmed" in row and row["confirmed"] not in doubts:
            yield f"{method}: {row['confirmed']}."
    yield from (f"{name}: {surrogate_text(row['surrogate'])}." for name, row in rows.items() if "surrogate" in row)
    yield from looked_at(metrics)
    yield from differences(metrics["paired"], rows)
    if "judged" in metrics:
        yield from (f"Acc*: {line}" for line in differences(metrics["judged"]["paired"], rows))
    compared = {method for pair in metrics["paired"] for method in pair.split(" vs ")}
    if learned := [method for method, row in rows.items() if "training_tokens" in row and method in compared]:
        graphs = f"the graph{'s' if len(learned) > 1 else ''} of {', '.join(learned)}"
        yield f"This holds for {graphs} that this run learned; sweep.seeds=5 tests the methods."
    yield from failure_notes(metrics)


def attackers_found(metrics: Metrics) -> Iterator[str]:
    """Yields a line on the edges that learned methods cut, from attackers and between honest agents."""
    cut = {
        method: (row["attackers_edges_cut"], row["honest_edges_cut"])
        for method, row in metrics["methods"].items()
        if {"attackers_edges_cut", "honest_edges_cut"} <= row.keys()
    }
    if not cut:
        return
    # The method that tells attackers best from honest agents comes first.
    (best, (sent, between)), *others = sorted(cut.items(), key=lambda one: one[1][1] - one[1][0])
    rest = "".join(f"; {method} cut {sent:.0%} and {between:.0%}" for method, (sent, between) in others)
    yield (
        f"{best} cut {sent:.0%} of the edges from the attackers ({', '.join(metrics['attackers'])}) and {between:.0%} "
        f"of those between honest agents{rest}. A method that finds nothing cuts equal shares."
    )
    if "clean" in metrics:
        yield "Clean: the same graphs and questions, with every agent honest."


def differences(paired: Mapping[str, Mapping[str, Any]], rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields a line on the differences that paired tests show. It also names methods that are not worse.

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
    """Yields lines on the plan stated before (`compare.plan`), and on where and why an evaluation stopped."""
    if plan := metrics.get("plan"):
        differs = "; ".join(plan["differs"])
        yield f"Plan {plan['sha256'][:12]}: " + (f"differs in {differs}." if differs else "as planned.")
    found = metrics.get("sequential", {})
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
