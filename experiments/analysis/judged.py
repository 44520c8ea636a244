"""Summary of a run's judgements: Acc* with intervals and paired tests."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from actors.messages import derive_seed
from actors.prompting.form import in_lines
from experiments.analysis.summary import EMBEDDED, RunFacts, mean_and_interval, paired_tests, rounded
from experiments.judging.judge import Judgement
from experiments.judging.judgements import judged, similarities
from experiments.judging.rubric import CORRECT, GRADED, Rubric
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored

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
    scores = {(scored.method, scored.question): scored for scored in folder.scores()}
    answers: dict[str, dict[str, Scored]] = {}
    rows: dict[str, dict[str, Any]] = {}
    # Sorted by question id: order must not change a file.
    for method, of_method in judgements.items():
        # The questions of a group count one by one.
        graded = {
            id: replace(one, utility=float(of_method[id].correct), cluster=one.cluster or one.group)
            for id in sorted(questions)
            for one in [scores[method, id]]
            if of_method[id].grade is not None and not one.failed_calls
        }
        enough = len(questions) - len(graded) <= about.failures * len(questions)
        answers[method] = graded if enough else {}
        grades = [judgement.grade for judgement in of_method.values() if judgement.grade is not None]
        draws, kept = derive_seed(about.seed, "bootstrap acc*", method), answers[method].values()
        mean, ci95 = mean_and_interval(kept, draws) if kept else (None, None)
        rows[method] = {
            "acc_star": rounded(mean),
            "ci95": rounded(ci95),
            "grade": rounded(sum(grades) / len(grades)) if grades and kept else None,
            # Counts of the grades 1 to 5.
            "grades": [grades.count(grade) for grade in range(1, 6)],
            "failed": len(of_method) - len(grades),
        }
        for name in ("calls", "prompt_tokens", "completion_tokens"):
            rows[method][name] = rounded(sum(getattr(one, name) for one in of_method.values()) / len(of_method))
    similar = similarities(folder)
    shares = {method: [share for (name, _), share in similar.items() if name == method] for method in methods}
    means = {method: rounded(math.fsum(of) / len(of)) for method, of in shares.items() if of}
    return {
        "judge": judge,
        "digest": ", ".join(sorted(digests)),
        # Acc* by another rubric is another measure, so the rubric is recorded with the figures.
        "rubric": f"{rubric.text}\n\n{in_lines(rubric.form)}",
        "right": rubric.right,
        "correct_from": CORRECT,
        "methods": rows,
        "paired": paired_tests(answers, about.pairs, about.seed, "paired acc*", about.margin),
        **({"caption_similarity": means} if means else {}),
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
