"""Summary of a run's judgements: Acc* with intervals and paired tests."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from actors.messages import derive_seed
from actors.prompting.form import in_lines
from experiments.analysis.paired import paired_tests
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import EMBEDDED, RunFacts
from experiments.analysis.scores import mean_and_interval, read_judgements, read_scores
from experiments.judging.rubric import CORRECT, GRADED, Rubric
from experiments.records.recorder import RunFolder

EMBEDDED_JUDGE_NOTE = "The judge is the embedded reader: it compares words and numbers and knows nothing of meaning."


def summarise(run: RunFolder, facts: RunFacts, judge: str, rubric: Rubric = GRADED) -> dict[str, Any]:
    """Returns the judgements for metrics.json. It names the judge, its rubric, Acc* of every method and paired tests.

    Answers whose judgement failed, and questions that failed, are in no mean; beyond the run's share of failures a
    method has no Acc* (None) and is in no pair.

    Raises ValueError unless the same questions, one at least, are judged for all of `methods`.
    """
    scores = read_scores(run)
    judgements = read_judgements(run)
    # The file may hold methods that this table does not compare.
    judgements = judgements[judgements["method"].isin(facts.methods)].sort_values("question")
    first = judgements["question"][judgements["method"] == facts.methods[0]].tolist()
    answers: dict[str, pd.DataFrame] = {}
    rows: dict[str, dict[str, Any]] = {}
    for method in facts.methods:
        of_method = judgements[judgements["method"] == method]
        # Paired tests need the same questions, and a run killed while judging lacks some of one method.
        if not first or of_method["question"].tolist() != first:
            raise ValueError(f"{len(of_method)} answers of {method} are judged, {len(first)} of {facts.methods[0]}")
        # The questions of a group count one by one.
        sound = scores[(scores["method"] == method) & (scores["failed_calls"] == 0)].set_index("question")
        graded = of_method[of_method["grade"].notna() & of_method["question"].isin(sound.index)].set_index("question")
        if len(first) - len(graded) > facts.failures * len(first):
            graded = graded[:0]
        answers[method] = pd.DataFrame({"utility": graded["acc_star"], "cluster": sound["cluster"]}, graded.index)
        grades = of_method["grade"].dropna()
        row: dict[str, Any] = {"acc_star": None, "ci95": None, "grade": None}
        if len(graded):
            draws = derive_seed(facts.seed, "bootstrap acc*", method)
            row["acc_star"], row["ci95"] = mean_and_interval(answers[method], draws)
            row["grade"] = grades.mean()
        row["grades"] = [int((grades == grade).sum()) for grade in range(1, 6)]
        row["failed"] = len(of_method) - len(grades)
        row |= of_method[["calls", "prompt_tokens", "completion_tokens"]].mean()
        rows[method] = rounded(row)
    similarity = scores[scores["method"].isin(facts.methods)].groupby("method", sort=False)["caption_similarity"]
    captions = rounded(similarity.mean().dropna().to_dict())
    summary = {
        "judge": judge,
        "digest": ", ".join(sorted(set(judgements["judge"]))),
        # Acc* by another rubric is another measure, so the rubric is recorded with the figures.
        "rubric": f"{rubric.text}\n\n{in_lines(rubric.form)}",
        "right": rubric.right,
        "correct_from": CORRECT,
        "methods": rows,
        "paired": paired_tests(answers, facts.pairs, facts.seed, "paired acc*", facts.margin),
    }
    return summary | ({"caption_similarity": captions} if captions else {})


def notes(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yields notes on Acc*: the judge, failed judgements, and methods without it."""
    # Without `right`: a file that was written when there was one rubric.
    yield f"Acc* is the share of answers that {summary['judge']} {summary.get('right', GRADED.right)}."
    if summary["judge"] == EMBEDDED:
        yield EMBEDDED_JUDGE_NOTE
    if "caption_similarity" in summary:
        shares = ", ".join(f"{method} {share:.3f}" for method, share in summary["caption_similarity"].items())
        yield f"Share of the descriptions of the graph's pictures that the judge finds the same as people's: {shares}."
    rows = summary["methods"]
    failed = sum(row["failed"] for row in rows.values())
    if failed:
        yield f"{failed:,} of its judgements failed: these answers are not in Acc*; a resumed run judges them again."
    lacking = [method for method, row in rows.items() if row["acc_star"] is None]
    if lacking:
        yield f"Too few answers were judged for an Acc* of {', '.join(lacking)} (failures.share)."
