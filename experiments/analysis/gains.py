"""Gains of methods over their controls: over one agent with the same tokens, and over messages of other questions.

Correlated agents repeat each other, so the number of independent agents is measured with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from actors.messages import Message, Status, Trace
from experiments.analysis.findings import differences
from experiments.analysis.result_table import ResultTable, number, tenths
from experiments.analysis.scores import by_method, sound
from experiments.analysis.summary import GAINS, Metrics, RunFacts, paired_tests, rounded
from experiments.datasets.item import Dataset
from experiments.records.recorder import RunFolder

SAME_TOKENS = 0.02  # largest relative difference between a method's tokens and its twin's that allows a comparison
SPARE = ("twin", "placebo", "hearing\np", "coord.\np", "tokens\nof twin")
NOTES = (
    "Coordination gain: the method minus its twin, a vote of one agent's samples with the same tokens. Hearing gain: "
    "minus its placebo, whose agents hear messages of another question. Independent: agents whose errors, if "
    "independent, would cancel as these do, of those in the last round.",
)


def summarise(run: RunFolder, controls: Mapping[str, Mapping[Any, str]], dataset: Dataset, about: RunFacts) -> Metrics:
    """Returns the gains of each method as metrics.json has them, and how independent its agents are.

    - `tokens_ratio`: the twin's tokens over the method's, on the questions that both have answered without failure. A
      method whose twin has not the same tokens within 2% has no coordination gain: it is cheaper than one sample.
    - A method that hears nothing has no hearing gain.
    - `agents`, `correlation` and `independent` are by `first` and `last` turn (`independent_agents`).
    - `paired`: the tests of all gains, adjusted for their number together.
    """
    kept = sound(by_method(run, failed=True), about.failures)
    rows: dict[str, Metrics] = {}
    pairs: list[tuple[str, str]] = []
    items = {item.question.id: item for item in dataset.evaluate()}
    score = cache(lambda question, answer: dataset.score(items[question], answer).utility)
    for method, of in controls.items():
        twin, placebo = of["twin"], of["placebo"]
        shared = kept[method].keys() & kept[twin].keys()
        spent = {
            name: sum(kept[name][id].prompt_tokens + kept[name][id].completion_tokens for id in shared)
            for name in (method, twin)
        }
        ratio = spent[twin] / spent[method] if spent[method] else math.inf
        pairs += [(method, twin)] if abs(ratio - 1) <= SAME_TOKENS else []
        traces = list(run.traces(f"evaluate-{method}"))
        pairs += [(method, placebo)] if any(map(_hears, traces)) else []
        rows[method] = {**of, "tokens_ratio": ratio if shared and spent[method] else None}
        for turn, place in (("first", 0), ("last", -1)):
            agents, correlation, independent = independent_agents(list(_right(traces, place, score)))
            rows[method] |= {turn: {"agents": agents, "correlation": correlation, "independent": independent}}
    scores = {method: {id: one.utility for id, one in of.items()} for method, of in kept.items()}
    return {
        "methods": rounded(rows),
        "controls": [name for of in controls.values() for name in of.values()],
        "paired": paired_tests(scores, pairs, about.seed, GAINS, about.margin),
    }


def independent_agents(scores: Sequence[Sequence[float]]) -> tuple[float | None, float | None, float | None]:
    """The mean number n of agents, the correlation of their scores within a question, and n / (1 + (n - 1) rho).

    scores: of the agents of each question, which may have different numbers of them. rho is the intraclass correlation
    of a one-way analysis of variance, ICC(1) of Shrout and Fleiss (1979), with the mean group size of Donner and Koval
    (1980) where these differ; n over the design effect is Kish's effective sample size (1965). A negative rho counts as
    0. The mean score of so many independent agents would vary as much as that of these n. None where no question has
    two agents, or all scores are equal.
    """
    groups = [np.asarray(of, dtype=np.float64) for of in scores if len(of)]
    sizes = np.array([len(of) for of in groups])
    if len(groups) < 2 or sizes.sum() == len(groups):
        return (float(sizes.mean()) if len(groups) else None), None, None
    k, total, everything = len(groups), sizes.sum(), np.concatenate(groups)
    means = np.array([of.mean() for of in groups])
    between = (sizes * (means - everything.mean()) ** 2).sum() / (k - 1)
    within = ((everything - np.repeat(means, sizes)) ** 2).sum() / (total - k)
    n, size = total / k, (total - (sizes**2).sum() / total) / (k - 1)
    if not between + (size - 1) * within:
        return float(n), None, None
    rho = (between - within) / (between + (size - 1) * within)
    return float(n), float(rho), float(n / (1 + (n - 1) * max(0.0, rho)))


def _right(traces: Iterable[Trace], place: int, score: Callable[[str, str | None], float]) -> Iterator[list[float]]:
    """Yields the scores of the first (0) or last (-1) answers of each discussion's agents, without failed ones."""
    for trace in traces:
        answers: dict[str, list[Message]] = {}
        for turn in trace.turns:
            # A step of a system has fields and no answer.
            if turn.agent in trace.agents and turn.status is Status.OK and (turn.answer is not None or not turn.fields):
                answers.setdefault(turn.agent, []).append(turn)
        yield [score(trace.question, turns[place].answer) for turns in answers.values()]


def _hears(trace: Trace) -> bool:
    return any(id.partition("/")[2] != turn.agent for turn in trace.turns for id in turn.heard)


def gains_table(metrics: Metrics) -> ResultTable:
    """A row for each method that has controls."""
    found, rows = metrics[GAINS], metrics["methods"]
    body = {
        method: {
            **of,
            **{kind: rows[of[kind]]["utility"] for kind in ("twin", "placebo")},
            "coordination": found["paired"].get(f"{method} vs {of['twin']}"),
            "hearing": found["paired"].get(f"{method} vs {of['placebo']}"),
        }
        for method, of in found["methods"].items()
    }

    def gain(name: str) -> Callable[[Mapping[str, Any]], str]:
        form = "{difference:+.3f} ({ci95[0]:+.3f} to {ci95[1]:+.3f})"
        return lambda row: form.format(**row[name]) if row[name] else "-"

    def p(name: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda row: f"{row[name]['p_holm']:.2g}" if row[name] else "-"

    def independent(row: Mapping[str, Any]) -> str:
        last = row["last"]
        return "-" if last["independent"] is None else f"{last['independent']:.1f} of {tenths(last['agents'])}"

    cells = {
        "tokens\nof twin": number("tokens_ratio", ".3f", "-"),
        "twin": number("twin"),
        "coordination gain\n(95% interval)": gain("coordination"),
        "coord.\np": p("coordination"),
        "placebo": number("placebo"),
        "hearing gain\n(95% interval)": gain("hearing"),
        "hearing\np": p("hearing"),
        "independent\nagents": independent,
    }
    unequal = [name for name, of in body.items() if of["coordination"] is None]
    notes = (
        *NOTES,
        *differences(found["paired"]),
        *(f"{name} has no coordination gain: its twin has not the same tokens." for name in unequal),
    )
    return replace(ResultTable.of("method", body, cells, notes, f"Gains in {metrics['metric']}"), spare=SPARE)
