"""Gains of methods over their controls, and each method's number of independent agents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.analysis.findings import differences
from experiments.analysis.result_table import Cell, ResultTable, number
from experiments.analysis.scores import answers, by_method, scorer, sound
from experiments.analysis.summary import Metrics, RunFacts, paired_tests, rounded
from experiments.datasets.item import Dataset
from experiments.records.recorder import RunFolder

SAME_TOKENS = 0.02  # largest relative difference between a method's tokens and its twin's that allows a comparison
SPARE = ("twin", "placebo", "hearing\np", "coord.\np", "tokens\nof twin")
NOTES = (
    "Coordination gain: the method minus its twin, a vote of one agent's samples with the same tokens. Hearing gain: "
    "minus its placebo, whose agents hear messages of another question. Independent: agents whose errors, if "
    "independent, would cancel as the team's do, by last answers.",
)


def summarise(run: RunFolder, about: RunFacts, controls: Mapping[str, Mapping[Any, str]], dataset: Dataset) -> Metrics:
    """Returns each method's gains and how independent its agents are, for metrics.json.

    - `tokens_ratio`: the twin's tokens over the method's, on questions that both answered without failure. Beyond 2% of
      difference there is no coordination gain: the method is cheaper than one sample, or the questions are few.
    - A method that hears nothing has no hearing gain.
    - `first`, `last`: `independent_agents`, by agents' first and last answers.
    - `paired`: the tests of all gains, adjusted for their number together.
    """
    kept = sound(by_method(run, failed=True), about.failures)
    rows: dict[str, Metrics] = {}
    pairs: list[tuple[str, str]] = []
    score = scorer({item.question.id: item for item in dataset.evaluate()}, dataset.score)
    for method, of in controls.items():
        shared = kept[method].keys() & kept[of["twin"]].keys()
        spent, own = (sum(kept[name][id].tokens for id in shared) for name in (of["twin"], method))
        if own and abs(spent / own - 1) <= SAME_TOKENS:
            pairs.append((method, of["twin"]))
        traces = list(run.traces(f"evaluate-{method}"))
        if any(id.partition("/")[2] != turn.agent for trace in traces for turn in trace.turns for id in turn.heard):
            pairs.append((method, of["placebo"]))
        independent = {}
        for name, order in (("first", -1), ("last", 1)):
            # In this order a later answer of an agent takes the place of an earlier one.
            right = []
            for trace in traces:
                given = {turn.agent: turn.answer for turn in trace.turns[::order] if answers(turn)}
                right.append([score(trace.question, given[agent]) for agent in given if agent in trace.agents])
            independent[name] = independent_agents(right)
        rows[method] = {**of, "tokens_ratio": spent / own if own else None, **independent}
    return {"methods": rounded(rows), "paired": paired_tests(kept, pairs, about.seed, "gains", about.margin)}


def control_names(metrics: Metrics) -> Iterator[str]:
    """Yields the names of all twins and placebos in metrics.json."""
    for of in metrics.get("gains", {"methods": {}})["methods"].values():
        yield from (of["twin"], of["placebo"])


def independent_agents(scores: Sequence[Sequence[float]]) -> dict[str, float | None]:
    """The mean number n of `agents`, the `correlation` rho of their scores, and the number of `independent` ones. That
    is n / (1 + (n - 1) rho), n over the design effect (Kish 1965).

    The mean score of so many independent agents would vary as much as that of these n. rho is Fisher's intraclass
    correlation (1925): the mean product of two agents' deviations from the mean of all, over their mean square. It
    counts 0 below 0. None where no question has two agents, or all scores are equal.

    scores: of the agents of each question, which may differ in number.
    """
    everything = np.array([score for of in scores for score in of])
    deviations = [np.array(of) - everything.mean() for of in scores if of]
    n = len(everything) / len(deviations) if deviations else None
    squares = sum((len(of) - 1) * (of**2).sum() for of in deviations)
    if n is None or squares < 1e-9:
        return {"agents": n, "correlation": None, "independent": None}
    rho = float(sum(of.sum() ** 2 - (of**2).sum() for of in deviations) / squares)
    return {"agents": n, "correlation": rho, "independent": n / (1 + (n - 1) * max(0.0, rho))}


def gains_table(metrics: Metrics) -> ResultTable:
    """Makes a row for each method that has controls."""
    found, utility = metrics["gains"], {name: row["utility"] for name, row in metrics["methods"].items()}
    rows: dict[str, Metrics] = {}
    for method, of in found["methods"].items():
        gains = {kind: found["paired"].get(f"{method} vs {of[kind]}") for kind in ("twin", "placebo")}
        scores = {f"{kind}_score": utility[of[kind]] for kind in gains}
        rows[method] = {**of["last"], **scores, **gains, "tokens_ratio": of["tokens_ratio"]}

    def gain(kind: str, form: str = "{difference:+.3f} ({ci95[0]:+.3f} to {ci95[1]:+.3f})") -> Cell:
        return lambda row: form.format(**row[kind]) if row[kind] else "-"

    cells = {
        "tokens\nof twin": number("tokens_ratio", ".3f", "-"),
        "twin": number("twin_score"),
        "coordination gain\n(95% interval)": gain("twin"),
        "coord.\np": gain("twin", "{p_holm:.2g}"),
        "placebo": number("placebo_score"),
        "hearing gain\n(95% interval)": gain("placebo"),
        "hearing\np": gain("placebo", "{p_holm:.2g}"),
        "agents": number("agents", ".3g", "-"),
        "inde-\npendent": number("independent", ".1f", "-"),
    }
    unequal = (name for name, row in rows.items() if row["twin"] is None)
    unlike = (f"{name} has no coordination gain: its twin has not the same tokens within 2%." for name in unequal)
    notes = (*NOTES, *differences(found["paired"], rows), *unlike)
    return ResultTable.of("method", rows, cells, notes, f"Gains in {metrics['metric']}", spare=SPARE)
