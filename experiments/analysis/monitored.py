"""The monitor's finding about each learned method, from records of training and evaluation."""

from collections.abc import Iterable, Mapping
from functools import cache
from math import nan

import pandas as pd

from actors.messages import Status, Trace
from experiments.analysis.scores import answers, scorer
from experiments.analysis.summary import Metrics
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
    """Finds who answers worse in the evaluation, by learned method. An agent has [since which question, after which it
    showed].

    A method without records of both, as in a replayed run, has none. train: the items of training.
    """
    items = {item.question.id: item for item in train}
    asked = {item.question.id: item for item in dataset.evaluate()} if learners else {}

    @cache
    def trained(graph: str) -> pd.DataFrame:
        """The scores in a graph's training, from which several methods may have learned."""
        folder = run.learned(graph)
        traces = (trace for path in folder.training_traces() for trace in folder.traces(path.stem))
        return scores_of(traces, items, dataset)

    found: dict[str, Metrics] = {}
    for method, spec in learners.items():
        of_graphs = map(trained, dict.fromkeys((shared_from.get(method, method), method)))
        before = [scores for scores in of_graphs if len(scores)]
        evaluated = scores_of(run.traces(f"evaluate-{method}"), asked, dataset)
        if before and len(evaluated):
            worse = fallen(pd.concat(before), evaluated, spec.modalities, spec.settings.error_rate)
            names = (*next(run.traces(f"evaluate-{method}")).agents, "the final answer")
            found[method] = {"monitor": {names[column]: list(shown) for column, shown in worse.items()}}
    return found


def scores_of(traces: Iterable[Trace], items: Mapping[str, Item], dataset: Dataset) -> pd.DataFrame:
    """Scores discussions, by question: each agent's mean, and last the final answer.

    Failed turns are left out; so are discussions with a turn whose model or agent failed, and of unknown questions.
    """
    utility, rows, questions = scorer(items, dataset.score), [], []
    for trace in traces:
        if trace.question in items and all(turn.status is not Status.FAILED for turn in trace.turns):
            own: dict[str, list[float]] = {name: [] for name in trace.agents}
            for turn in trace.turns:
                if turn.agent in own and answers(turn):
                    own[turn.agent].append(utility(trace.question, turn.answer))
            means = (sum(scores) / len(scores) if scores else nan for scores in own.values())
            rows.append([*means, utility(trace.question, trace.answer)])
            # Variants of a question count as one.
            questions.append(items[trace.question].group or trace.question)
    return pd.DataFrame(rows, questions)
