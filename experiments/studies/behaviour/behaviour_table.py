"""Summarises what one agent answered under every condition, and makes the table of it."""

from collections.abc import Iterator, Mapping

from actors.messages import derive_seed
from experiments.analysis.findings import in_short
from experiments.analysis.result_table import ResultTable, with_interval
from experiments.analysis.scores import by_method
from experiments.analysis.statistics import score_interval
from experiments.analysis.summary import Metrics, broken, failure_notes, model_notes, rounded, verdicts
from experiments.records.recorder import RunFolder
from experiments.studies.behaviour.measure import RELEVANT

HOP = "hop"  # the tag with the number of hops, in data sets that have it
COLUMNS = ("condition", "single hop", "several hops", "gives the wrong\nanswer named", "turned from\nright to it")


def behaviour(run: RunFolder, metrics: Metrics, seed: int) -> Metrics:
    """Returns the content of behaviour.json: for each condition mean, 95% interval and number of questions of

    utility: in all and by number of hops;
    taken_over: share of answers that equal the wrong one, which colleagues give in the conditions with colleagues;
    turned: the same, among questions that are answered right without colleagues.
    """
    lacking, recorded = broken(metrics), by_method(run)
    answers = {name: {} if name in lacking else recorded.get(name, {}) for name in metrics["methods"]}
    alone = {scored.question for scored in answers[RELEVANT].values() if scored.utility > 0}
    rows = {}
    for condition in metrics["methods"]:
        scored = list(answers[condition].values())
        clusters = {s.question: s.cluster or s.question for s in scored}
        utility = {s.question: s.utility for s in scored}
        wrong = {s.question: s.attack_success or 0.0 for s in scored}
        hops = {hop: {s.question: s.utility for s in scored if s.tags.get(HOP) == hop} for hop in ("single", "multi")}
        turned = {question: share for question, share in wrong.items() if question in alone}
        rows[condition] = {
            **{f"utility_{hop}": _mean(of, clusters, seed, hop, condition) for hop, of in hops.items() if of},
            "utility": _mean(utility, clusters, seed, "all", condition),
            "taken_over": _mean(wrong, clusters, seed, "taken over", condition),
            "turned": _mean(turned, clusters, seed, "turned", condition),
        }
    return {"model": metrics["model"], "dataset": metrics["dataset"], "conditions": rounded(rows)}


def behaviour_table(found: Metrics, metrics: Metrics, metric: str) -> ResultTable:
    """Returns a row per condition, with the paired tests as notes."""
    names = ("utility", "utility_single", "utility_multi", "taken_over", "turned")
    return ResultTable(
        columns=(COLUMNS[0], f"{metric} (95% interval)", *COLUMNS[1:]),
        rows=[
            (condition, *(with_interval(of["mean"], of["ci95"]) if (of := row.get(name)) else "" for name in names))
            for condition, row in found["conditions"].items()
        ],
        notes=tuple(_notes(metrics, metric)),
        spare=COLUMNS[1:3],
        brief=(*in_short(metrics), *model_notes(metrics["model"])),
    )


def _notes(metrics: Metrics, metric: str) -> Iterator[str]:
    yield (
        f"{metrics['questions']:,} questions of {metrics['dataset']}, asked of one agent under every condition: "
        "without evidence; with the relevant documents; with so many irrelevant passages and rows among them; and told "
        "the same wrong answer by so many colleagues."
    )
    yield "Turned: of the questions that are answered right with the relevant documents alone."
    yield from failure_notes(metrics)
    yield from verdicts(metrics["paired"], metric)
    yield from model_notes(metrics["model"])


def _mean(scores: Mapping[str, float], clusters: Mapping[str, str], seed: int, *purpose: str) -> Metrics | None:
    if not scores:
        return None
    values, own = [*scores.values()], [clusters[question] for question in scores]
    interval = score_interval(values, derive_seed(seed, "behaviour", *purpose), own)
    return {"mean": sum(values) / len(values), "ci95": interval, "questions": len(values)}
