"""The monitor's finding about each learned method of a run, from the records of training and evaluation."""

from collections.abc import Iterable, Mapping
from functools import cache
from math import nan

import pandas as pd

from actors.messages import Status, Trace
from experiments.analysis.summary import MONITOR, Metrics
from experiments.datasets.item import Dataset, Item
from experiments.metrics.monitor import fallen
from experiments.records.recorder import RunFolder
from topologies.learning.spec import LearnerSpec


def summarise(
    run: RunFolder,
    learners: Mapping[str, LearnerSpec],
    shared_from: Mapping[str, str],
    train: Iterable[Item],
    dataset: Dataset,
) -> dict[str, Metrics]:
    """Returns, by learned method, who answers worse in the evaluation: [since which question, after which it showed].

    A method without records of both, as in a replayed run, has none. train: the items of training.
    """
    items = {item.question.id: item for item in train}
    asked = {item.question.id: item for item in dataset.evaluate()} if learners else {}
    found: dict[str, Metrics] = {}
    for method, spec in learners.items():
        graphs = [run.learned(name) for name in dict.fromkeys((shared_from.get(method, method), method))]
        before = (trace for graph in graphs for path in graph.training_traces() for trace in graph.traces(path.stem))
        trained = scores_of(before, items, dataset)
        evaluated = scores_of(run.traces(f"evaluate-{method}"), asked, dataset)
        if len(trained) and len(evaluated):
            worse = fallen(trained, evaluated, spec.modalities, spec.settings.error_rate)
            names = (*next(run.traces(f"evaluate-{method}")).agents, "the final answer")
            found[method] = {MONITOR: {names[column]: list(shown) for column, shown in worse.items()}}
    return found


def scores_of(traces: Iterable[Trace], items: Mapping[str, Item], dataset: Dataset) -> pd.DataFrame:
    """Mean scores of each agent's own answers in a discussion and the score of its final one, by number of question.

    Failed turns are left out; so are discussions with a turn whose model or agent failed, and of unknown questions.
    """

    @cache
    def utility(question: str, answer: str | None) -> float:
        return dataset.score(items[question], answer).utility

    rows, numbers, places = [], [], dict[str, int]()
    for trace in traces:
        if trace.question in items and all(turn.status is not Status.FAILED for turn in trace.turns):
            own: dict[str, list[float]] = {name: [] for name in trace.agents}
            for turn in trace.turns:
                # An agent that knows no answer has its reasons alone.
                if turn.agent in own and turn.status is Status.OK and (turn.answer is not None or turn.content):
                    own[turn.agent].append(utility(trace.question, turn.answer))
            rows.append([*(sum(scores) / len(scores) if scores else nan for scores in own.values())])
            rows[-1].append(utility(trace.question, trace.answer))
            # Variants of a question count as one.
            numbers.append(places.setdefault(items[trace.question].group or trace.question, len(places)))
    return pd.DataFrame(rows, numbers)
