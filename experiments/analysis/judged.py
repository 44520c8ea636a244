"""Summary of a run's judgements: Acc* with intervals and paired tests."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actors.messages import derive_seed
from experiments.analysis.statistics import score_interval
from experiments.analysis.summary import EMBEDDED, RunFacts, paired_tests, rounded
from experiments.judging.judge import Judgement
from experiments.judging.judgements import judged, similarities
from experiments.judging.rubric import CORRECT, GRADED, Rubric
from experiments.records.recorder import RunFolder

EMBEDDED_JUDGE_NOTE = "The judge is the embedded reader: it compares words and numbers and knows nothing of meaning."


def summarise(folder: RunFolder, about: RunFacts, judge: str, rubric: Rubric = GRADED) -> dict[str, Any]:
    """Returns the judgements for metrics.json. It names the judge, its rubric, Acc* of every method and paired tests.

    Answers whose judgement failed, and questions that failed, are in no mean; beyond the run's share of failures a
    method has no Acc* (None) and is in no pair.

    Raises ValueError unless the same questions, one at least, are judged for all of `methods`.
    """
    methods = about.methods
    judgements: dict[str, dict[str, Judgement]] = {method: {} for method in methods}
    digests: set[str] = set()
    for line in judged(folder):
        # The file may hold methods that this table does not compare.
        if line.method in judgements:
            judgements[line.method][line.question] = line.judgement
            digests.add(line.judge)
    questions = judgements[methods[0]].keys()
    for method, of_method in judgements.items():
        # Paired tests need the same questions, and a run killed while judging lacks some of one method.
        if not questions or of_method.keys() != questions:
            raise ValueError(f"{len(of_method)} answers of {method} are judged, {len(questions)} of {methods[0]}")
    scores = list(folder.scores())
    failed = {(scored.method, scored.question) for scored in scores if scored.failed_calls}
    clusters = {scored.question: scored.cluster or scored.group or scored.question for scored in scores}
    correct: dict[str, dict[str, float]] = {}
    # Sorted by question id: order must not change a file.
    for method, of_method in judgements.items():
        graded = [id for id in sorted(questions) if of_method[id].grade is not None and (method, id) not in failed]
        enough = len(questions) - len(graded) <= about.failures * len(questions)
        correct[method] = {id: float(of_method[id].correct) for id in graded} if enough else {}
    similar = similarities(folder)
    shares = {method: [share for (name, _), share in similar.items() if name == method] for method in methods}
    means = {method: rounded(math.fsum(of) / len(of)) for method, of in shares.items() if of}
    return {
        "judge": judge,
        "digest": ", ".join(sorted(digests)),
        # Acc* by another rubric is another measure, so the rubric is recorded with the figures.
        "rubric": rubric.written,
        "right": rubric.right,
        "correct_from": CORRECT,
        "methods": {
            method: _row(
                [*judgements[method].values()],
                [*correct[method].values()],
                [clusters[id] for id in correct[method]],
                derive_seed(about.seed, "bootstrap acc*", method),
            )
            for method in methods
        },
        "paired": paired_tests(correct, about.pairs, about.seed, "paired acc*", about.margin, clusters),
        **({"caption_similarity": means} if means else {}),
    }


def _row(
    judgements: Sequence[Judgement], correct: Sequence[float], clusters: Sequence[str], seed: int
) -> dict[str, Any]:
    n = len(judgements)
    grades = [judgement.grade for judgement in judgements if judgement.grade is not None]
    costs = {
        name: rounded(sum(getattr(judgement, name) for judgement in judgements) / n)
        for name in ("calls", "prompt_tokens", "completion_tokens")
    }
    return {
        "acc_star": rounded(math.fsum(correct) / len(correct)) if correct else None,
        "ci95": rounded(score_interval(correct, seed, clusters)) if correct else None,
        "grade": rounded(sum(grades) / len(grades)) if grades and correct else None,
        # Counts of the grades 1 to 5.
        "grades": [grades.count(grade) for grade in range(1, 6)],
        "failed": n - len(grades),
        **costs,
    }


def notes(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yields notes on Acc*: the judge, failed judgements, and methods without it."""
    # Without `right`: a file that was written when there was one rubric.
    yield f"Acc* is the share of answers that {summary['judge']} {summary.get('right', GRADED.right)}."
    if summary["judge"] == EMBEDDED:
        yield EMBEDDED_JUDGE_NOTE
    if "caption_similarity" in summary:
        shares = ", ".join(f"{method} {share:.3f}" for method, share in summary["caption_similarity"].items())
        yield f"Share of the descriptions of the graph's pictures that the judge finds the same as people's: {shares}."
    failed = sum(row["failed"] for row in summary["methods"].values())
    if failed:
        yield f"{failed:,} of its judgements failed: these answers are not in Acc*; a resumed run judges them again."
    lacking = [method for method, row in summary["methods"].items() if row["acc_star"] is None]
    if lacking:
        yield f"Too few answers were judged for an Acc* of {', '.join(lacking)} (failures.share)."
