"""Counts and means of a run's discussions, for summaries. Each file of traces is read once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pandas as pd

from experiments.analysis.agents import AgentRow, agent_rows
from experiments.analysis.defended import detected
from experiments.analysis.gains import hears, independence
from experiments.analysis.monitored import agent_scores
from experiments.analysis.phase_tables import phase_tables
from experiments.analysis.run_facts import Metrics
from experiments.analysis.turn_counts import TurnCounts, count_turns
from experiments.attacks.attack_metrics import attack_cost
from experiments.datasets.item import Dataset, Item
from experiments.records.recorder import RunFolder
from topologies.wiring import Floats


@dataclass(frozen=True, slots=True)
class DiscussionRecords:
    """Findings in the evaluated discussions, by method, and in those of training.

    counts: of turns, by method and then by stage of learning. costs: of the attack. agents: rows of agents.jsonl.
    detections: measures of defences. independent: of agents, by first and last answers. hearing: methods with an agent
    that read another one's message. trained, evaluated: `agent_scores` by graph, of each stage, and by method.
    """

    counts: dict[str, TurnCounts] = field(default_factory=dict)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    agents: list[AgentRow] = field(default_factory=list)
    detections: dict[str, dict[str, Floats]] = field(default_factory=dict)
    independent: dict[str, Metrics] = field(default_factory=dict)
    hearing: set[str] = field(default_factory=set)
    trained: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
    evaluated: dict[str, pd.DataFrame] = field(default_factory=dict)


def read_discussions(
    run: RunFolder,
    methods: Iterable[str],
    dataset: Dataset | None = None,
    trained_on: Iterable[Item] = (),
) -> DiscussionRecords:
    """Reads the evaluated discussions of some methods, then those of training. Raises UserError for damaged ones.

    dataset: scores the answers of agents; without it no utility is known. trained_on: the items of training.
    """
    records = DiscussionRecords()
    score = None if dataset is None else dataset.score
    items = {} if dataset is None else {item.question.id: item for item in dataset.evaluate()}
    for method in methods:
        traces = list(run.traces(f"evaluate-{method}"))
        tables = phase_tables(traces, items, score)
        records.counts[method] = count_turns(tables.turns)
        records.costs[method] = attack_cost(traces)
        records.agents.extend(agent_rows(method, tables))
        records.detections[method] = detected(tables)
        records.independent[method] = independence(tables)
        records.evaluated[method] = agent_scores(tables)
        if hears(tables):
            records.hearing.add(method)
    items = {item.question.id: item for item in trained_on}
    for label, graph, phase in learning_stages(run):
        tables = phase_tables(graph.traces(phase), items, score)
        records.counts[label] = count_turns(tables.turns)
        records.trained.setdefault(graph.name, []).append(agent_scores(tables))
    return records


def read_turn_counts(run: RunFolder, methods: Iterable[str]) -> dict[str, TurnCounts]:
    """Counts the turns of some methods, then those of each stage of learning, and reads nothing else of them."""
    phases = [(method, run, f"evaluate-{method}") for method in methods]
    return {
        label: count_turns(phase_tables(folder.traces(phase)).turns)
        for label, folder, phase in (*phases, *learning_stages(run))
    }


def learning_stages(run: RunFolder) -> Iterator[tuple[str, RunFolder, str]]:
    """Yields a label for each stage of learning, the folder of the graph, and the phase of the stage's traces."""
    for graph in run.all_learned():
        for path in graph.training_traces():
            yield f"learning {graph.name}, stage {path.stem.removeprefix('train-')}", graph, path.stem
