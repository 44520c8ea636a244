"""Summarises one agent's answers under every condition, and makes their table."""

import pandas as pd

from actors.messages import derive_seed
from experiments.analysis.paired import verdicts
from experiments.analysis.result_table import ResultTable, with_interval
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics, model_notes
from experiments.analysis.run_notes import broken, failure_notes, in_short
from experiments.analysis.scores import by_method, mean_and_interval
from experiments.records.recorder import RunFolder
from experiments.studies.behaviour.measure import RELEVANT

HOP = "hop"  # the tag with the number of hops, in data sets that have it
COLUMNS = ("condition", "single hop", "several hops", "gives the wrong\nanswer named", "turned from\nright to it")


def behaviour(run: RunFolder, metrics: Metrics, seed: int) -> Metrics:
    """Returns the content of behaviour.json. Each condition has mean, 95% interval and number of questions of

    utility: in all and by number of hops;
    taken_over: share of answers that equal the wrong one, which colleagues give in the conditions with colleagues;
    turned: the same, among questions that are answered right without colleagues.
    """
    left_out = broken(metrics)
    concluded = {name: answers for name, answers in by_method(run).items() if name not in left_out}
    no_answers = pd.DataFrame({"utility": [], "tags": []})
    relevant = concluded.get(RELEVANT, no_answers)
    right_alone = relevant.index[relevant["utility"] > 0]
    rows: dict[str, dict[str, Metrics | None]] = {}
    for condition in metrics["methods"]:
        answers = concluded.get(condition, no_answers)
        hops = answers["tags"].map(lambda tags: dict(tags).get(HOP))

        def measured(
            answers: pd.DataFrame, purpose: str, measure: str = "utility", condition: str = condition
        ) -> Metrics | None:
            if answers.empty:
                return None
            mean, ci95 = mean_and_interval(answers, derive_seed(seed, "behaviour", purpose, condition), measure)
            return {"mean": mean, "ci95": ci95, "questions": len(answers)}

        row = {}
        for hop in ("single", "multi"):
            if (hops == hop).any():
                row[f"utility_{hop}"] = measured(answers[hops == hop], hop)
        row["utility"] = measured(answers, "all")
        row["taken_over"] = measured(answers, "taken over", "attack_success")
        row["turned"] = measured(answers[answers.index.isin(right_alone)], "turned", "attack_success")
        rows[condition] = row
    return {"model": metrics["model"], "dataset": metrics["dataset"], "conditions": rounded(rows)}


def behaviour_table(summary: Metrics, metrics: Metrics, metric: str) -> ResultTable:
    """Returns a row per condition, with the paired tests as notes."""
    rows = []
    for condition, measures in summary["conditions"].items():
        cells = []
        for name in ("utility", "utility_single", "utility_multi", "taken_over", "turned"):
            measure = measures.get(name)
            cells.append(with_interval(measure["mean"], measure["ci95"]) if measure else "")
        rows.append((condition, *cells))
    notes = [
        f"{metrics['questions']:,} questions of {metrics['dataset']}, asked of one agent under every condition: "
        "without evidence; with the relevant documents; with so many irrelevant passages and rows among them; and told "
        "the same wrong answer by so many colleagues.",
        "Turned: of the questions that are answered right with the relevant documents alone.",
        *failure_notes(metrics),
        *verdicts(metrics["paired"], metric),
        *model_notes(metrics["model"]),
    ]
    return ResultTable(
        columns=(COLUMNS[0], f"{metric} (95% interval)", *COLUMNS[1:]),
        rows=rows,
        notes=notes,
        spare=COLUMNS[1:3],
        brief=(*in_short(metrics), *model_notes(metrics["model"])),
    )
