"""Summary of a run's judgements: Acc* with intervals and paired tests."""

from collections.abc import Iterator

from actors.messages import derive_seed
from actors.prompting.form import in_lines
from experiments.analysis.paired import paired_tests
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import EMBEDDED, Metrics, RunFacts
from experiments.analysis.scores import mean_and_interval, read_judgements, read_scores
from experiments.judging.rubric import CORRECT, GRADED, Rubric
from experiments.records.recorder import RunFolder

EMBEDDED_JUDGE_NOTE = "The judge is the embedded reader: it compares words and numbers and knows nothing of meaning."


def summarise(
    run: RunFolder,
    facts: RunFacts,
    judge: str,
    rubric: Rubric = GRADED,
) -> Metrics:
    """Returns the judgements for metrics.json. It names the judge, its rubric, Acc* of every method and paired tests.

    Answers whose judgement failed, and questions that failed, are in no mean; beyond the run's share of failures a
    method has no Acc* (None) and is in no pair.

    Raises ValueError unless the same questions, one at least, are judged for all of `methods`.
    """
    scores = read_scores(run)
    scores = scores[scores["method"].isin(facts.methods)]
    # The file may hold methods that this table does not compare.
    judgements = read_judgements(run).merge(scores[["method", "question", "cluster", "failed_calls"]])
    judgements = judgements.sort_values("question")
    questions = judgements["question"][judgements["method"] == facts.methods[0]].tolist()
    answers = {}
    rows = {}
    for method in facts.methods:
        method_judgements = judgements[judgements["method"] == method].set_index("question")
        # Paired tests need the same questions, and a run killed while judging lacks some of one method.
        if not questions or method_judgements.index.tolist() != questions:
            raise ValueError(
                f"{len(method_judgements)} answers of {method} are judged, {len(questions)} of {facts.methods[0]}"
            )
        # The questions of a group count one by one.
        graded = method_judgements[method_judgements["grade"].notna() & (method_judgements["failed_calls"] == 0)]
        if len(method_judgements) - len(graded) > facts.failures * len(method_judgements):
            graded = graded[:0]
        answers[method] = graded[["acc_star", "cluster"]].rename(columns={"acc_star": "utility"})

        row: Metrics = {"acc_star": None, "ci95": None, "grade": None}
        if len(graded):
            draws = derive_seed(facts.seed, "bootstrap acc*", method)
            row["acc_star"], row["ci95"] = mean_and_interval(graded, draws, "acc_star")
            row["grade"] = method_judgements["grade"].mean()
        row["grades"] = [int((method_judgements["grade"] == grade).sum()) for grade in range(1, 6)]
        row["failed"] = int(method_judgements["grade"].isna().sum())
        row |= method_judgements[["calls", "prompt_tokens", "completion_tokens"]].mean()
        rows[method] = rounded(row)

    summary = {
        "judge": judge,
        "digest": ", ".join(sorted(set(judgements["judge"]))),
        # Acc* by another rubric is another measure, so the rubric is recorded with the figures.
        "rubric": f"{rubric.text}\n\n{in_lines(rubric.form)}",
        "right": rubric.right,
        "correct_from": CORRECT,
        "methods": rows,
        "paired": paired_tests(
            answers,
            facts.pairs,
            facts.seed,
            purpose="paired acc*",
            margin=facts.margin,
        ),
    }
    similarities = scores.groupby("method", sort=False)["caption_similarity"].mean().dropna()
    if len(similarities):
        summary["caption_similarity"] = rounded(similarities.to_dict())
    return summary


def notes(summary: Metrics) -> Iterator[str]:
    """Yields notes on Acc*: the judge, failed judgements, and methods without it."""
    # Without `right`: a file that was written when there was one rubric.
    yield f"Acc* is the share of answers that {summary['judge']} {summary.get('right', GRADED.right)}."
    if summary["judge"] == EMBEDDED:
        yield EMBEDDED_JUDGE_NOTE
    if "caption_similarity" in summary:
        shares = ", ".join(f"{method} {share:.3f}" for method, share in summary["caption_similarity"].items())
        yield f"Share of the descriptions of the graph's pictures that the judge finds the same as people's: {shares}."
    rows = summary["methods"]
    failures = sum(row["failed"] for row in rows.values())
    if failures:
        yield f"{failures:,} of its judgements failed: these answers are not in Acc*; a resumed run judges them again."
    lacking = [method for method, row in rows.items() if row["acc_star"] is None]
    if lacking:
        yield f"Too few answers were judged for an Acc* of {', '.join(lacking)} (failures.share)."
