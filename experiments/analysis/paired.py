"""Paired tests of methods: their verdicts, a table, and what they show in words."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from actors.messages import derive_seed
from experiments.analysis.result_table import ResultTable, Row, cell_text
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import Answers
from experiments.analysis.statistics import holm, least_clusters, paired_test

# Largest adjusted p-value of a claim. With few questions the bootstrap interval alone claims too much.
SIGNIFICANT = 0.05
# Verdicts.
BETTER = "better"
NOT_WORSE = "not worse"
WORSE = "worse"
UNKNOWN = "not known"
LINE = (
    "{metric} of {first} minus {second}: {difference:+.3f} (95% interval {ci95[0]:+.3f} to {ci95[1]:+.3f}, "
    "p = {p_value:.2g}{adjusted}; better on {wins:,} and worse on {losses:,} of {n:,} questions{of_seeds}): {claim}."
)
CELLS = {
    "difference": "{difference:+.3f}",
    "95% interval": "{ci95[0]:+.3f} to {ci95[1]:+.3f}",
    "p": "{p_value:.2g}",
    "adjusted p": "{p_holm:.2g}",
    "better on": "{wins:,}",
    "worse on": "{losses:,}",
    "questions": "{n:,}",
    "finding": "{finding}",
}

Test = Mapping[str, Any]  # a `PairedTest`, with what `adjusted_tests` adds


def paired_tests(
    answers: Answers, pairs: Iterable[tuple[str, str]], seed: int, purpose: str, margin: float
) -> dict[str, Metrics]:
    """Returns a `PairedTest` of every pair for metrics.json, with its `margin` and its `verdict`.

    `p_holm` and `p_margin_holm` are adjusted for the number of pairs.

    answers: a pair is compared on the questions that both methods have, if any. purpose: gives these tests draws that
        no others have.
    """
    tests = {}
    for method, rival in pairs:
        rival_scores = answers[rival]["utility"].rename("rival")
        shared = answers[method][["utility", "cluster"]].join(rival_scores, how="inner").sort_index()
        if len(shared):
            draws = derive_seed(seed, purpose, method, rival)
            tests[f"{method} vs {rival}"] = paired_test(
                shared["utility"],
                shared["rival"],
                draws,
                clusters=shared["cluster"],
                margin=margin,
            )
    # All tests of one table are corrected together: a reader picks from all of them.
    adjusted = adjusted_tests([*tests.values()], margin)
    return {pair: rounded({**test, "verdict": verdict(test)}) for pair, test in zip(tests, adjusted, strict=True)}


def adjusted_tests(tests: Sequence[Test], margin: float) -> list[Metrics]:
    """Adds to each test its `margin`, and p-values adjusted for the number of tests."""
    p_values = holm([test["p_value"] for test in tests])
    p_margins = holm([test["p_margin"] for test in tests])
    adjusted = []
    for test, p_value, p_margin in zip(tests, p_values, p_margins, strict=True):
        adjusted.append(
            {
                **test,
                "p_holm": p_value,
                "p_margin_holm": p_margin,
                "margin": margin,
            }
        )
    return adjusted


def verdict(test: Test) -> str:
    """Returns a paired test's `better`, `not worse`, `worse` or `not known`.

    Files of earlier versions have no margin, and so no `not worse`.
    """
    low, high = test["ci95"]
    # The p-value is adjusted for the number of pairs and the interval is not, so both must agree.
    if test["p_holm"] < SIGNIFICANT and not low <= 0 <= high:
        return BETTER if low > 0 else WORSE
    if low > -test.get("margin", -math.inf) and test["p_margin_holm"] < SIGNIFICANT:
        return NOT_WORSE
    return UNKNOWN


def verdict_text(test: Test) -> str:
    """Writes the verdict of a paired test, with the margin of `not worse`."""
    text = verdict(test)
    if text == NOT_WORSE:
        text += f" by {test['margin']:g} or more"
    return text


def claim(method: str, test: Test) -> str:
    """Writes what a test shows of its first method."""
    return "not known which is better" if verdict(test) == UNKNOWN else f"{method} is {verdict_text(test)}"


def verdicts(paired: Mapping[str, Test], metric: str) -> Iterator[str]:
    """Yields a line for each paired test, and a line on their correction.

    A difference is claimed only where both the adjusted p-value and the interval show it.
    """
    several = len(paired) > 1
    for pair, test in paired.items():
        method, rival = pair.split(" vs ")
        yield LINE.format(
            metric=metric,
            first=method,
            second=rival,
            adjusted=cell_text(", {p_holm:.2g} adjusted", test) if several else "",
            of_seeds=cell_text(", {seeds} seeds", test),
            claim=claim(method, test),
            **test,
        )
    if several:
        yield (
            f"P-values are adjusted for the {len(paired)} comparisons by Holm's method; verdicts use the adjusted "
            f"ones, at {SIGNIFICANT}."
        )
    if any(test.get("seeds", 1) > 1 for test in paired.values()):
        yield (
            "Tests of several seeds are over clusters of questions and over seeds (Student's t): they speak of "
            "methods, not only of the graphs that these seeds learned."
        )


def differences(paired: Mapping[str, Test], rows: Mapping[str, Row]) -> Iterator[str]:
    """Yields a line on the differences that paired tests show. It also names methods that are not worse.

    rows: the methods' measures, from which the saved tokens of a method that is not worse are computed.
    """
    if not paired:
        return
    rivals: dict[str, list[str]] = {}  # by claim
    for pair, test in paired.items():
        method, rival = pair.split(" vs ")
        if verdict(test) != UNKNOWN:
            text = rival
            if verdict(test) == NOT_WORSE:
                text += _saving(rows[method], rows[rival])
            rivals.setdefault(f"{claim(method, test)} than", []).append(text)
    # Claims of `better` come first, then those of `not worse`.
    order = sorted(rivals, key=lambda claim: (" is worse " in claim, " is not worse " in claim))
    claims = "; ".join(f"{claim} {', '.join(rivals[claim])}" for claim in order)
    tests = f"{len(paired)} paired tests, adjusted" if len(paired) > 1 else "a paired test"
    yield f"Shown by {tests}: {claims or 'no difference'}."

    clusters_needed = least_clusters(len(paired))
    clusters = min(test.get("clusters", test["n"]) for test in paired.values())
    if clusters < clusters_needed:
        questions = "question is" if clusters == 1 else "questions are"
        yield f"{clusters} independent {questions} too few for a verdict of {tests}: {clusters_needed} are needed."


def _saving(row: Row, rival_row: Row) -> str:
    """Writes how many tokens a method saves in comparison with its rival; empty where it saves none."""
    tokens = row["prompt_tokens"] + row["completion_tokens"]
    rival_tokens = rival_row["prompt_tokens"] + rival_row["completion_tokens"]
    return f" ({1 - tokens / rival_tokens:.0%} fewer tokens)" if tokens < rival_tokens else ""


def paired_table(paired: Mapping[str, Test], metric: str) -> ResultTable:
    """Makes a row per paired test of metrics.json; `metric` names the scores."""
    notes = (
        f"Sign-flip tests on the same questions. P-values are adjusted for {len(paired):,} tests by Holm's method; a "
        f"difference is shown where the interval excludes 0 and the adjusted p-value is below {SIGNIFICANT}; "
        "not worse: the interval lies above minus the margin.",
    )
    rows = {pair.replace(" vs ", " minus "): {**test, "finding": verdict_text(test)} for pair, test in paired.items()}
    return ResultTable.of(
        "methods",
        rows,
        CELLS,
        notes=notes,
        title=f"Paired tests of {metric}",
    )
