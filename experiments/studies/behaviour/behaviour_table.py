"""Summarises one agent's answers under every condition, and makes their table."""

from operator import attrgetter

from actors.messages import derive_seed
from experiments.analysis.findings import in_short
from experiments.analysis.result_table import ResultTable, with_interval
from experiments.analysis.scores import by_method
from experiments.analysis.summary import (
    Metrics,
    broken,
    failure_notes,
    mean_and_interval,
    model_notes,
    rounded,
    verdicts,
)
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
    lacking, recorded = broken(metrics), by_method(run)
    answers = {name: {} if name in lacking else recorded.get(name, {}) for name in metrics["methods"]}
    alone = {scored.question for scored in answers[RELEVANT].values() if scored.utility > 0}
    rows: dict[str, dict[str, Metrics | None]] = {}
    for condition in metrics["methods"]:
        scored = list(answers[condition].values())
        hops = {hop: [one for one in scored if one.tags.get(HOP) == hop] for hop in ("single", "multi")}
        measures = {f"utility_{hop}": (hop, "utility", of) for hop, of in hops.items() if of}
        measures["utility"] = "all", "utility", scored
        measures["taken_over"] = "taken over", "attack_success", scored
        measures["turned"] = "turned", "attack_success", [one for one in scored if one.question in alone]
        rows[condition] = dict.fromkeys(measures)
        for name, (purpose, measure, of) in measures.items():
            if of:
                draws = derive_seed(seed, "behaviour", purpose, condition)
                mean, ci95 = mean_and_interval(of, draws, attrgetter(measure))
                rows[condition][name] = {"mean": mean, "ci95": ci95, "questions": len(of)}
    return {"model": metrics["model"], "dataset": metrics["dataset"], "conditions": rounded(rows)}


def behaviour_table(found: Metrics, metrics: Metrics, metric: str) -> ResultTable:
    """Returns a row per condition, with the paired tests as notes."""
    names = ("utility", "utility_single", "utility_multi", "taken_over", "turned")
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
        rows=[
            (condition, *(with_interval(of["mean"], of["ci95"]) if (of := row.get(name)) else "" for name in names))
            for condition, row in found["conditions"].items()
        ],
        notes=notes,
        spare=COLUMNS[1:3],
        brief=(*in_short(metrics), *model_notes(metrics["model"])),
    )
