"""Measures of channels by risk."""

import numpy as np
import pytest

from tests.instruments.benchmarks.edge_risk import AGENTS, DECISION, GRAPHS, flows, intercepted, metrics


def test_the_decision_agent_reads_all_or_those_whom_no_other_hears() -> None:
    last = {graph.name: graph for graph in GRAPHS["last"]}
    assert np.flatnonzero(last["chain"].readers).tolist() == [AGENTS - 1]
    assert np.flatnonzero(last["star"].readers).tolist() == [0]
    assert all(graph.readers.all() for graph in GRAPHS["all"])
    # Every pair of agents, and every agent to the decision agent.
    assert [len(graph.channels) for graph in GRAPHS["all"] if graph.name == "complete"] == [AGENTS * AGENTS]


def test_flow_and_metrics_favour_the_only_channel_to_the_decision() -> None:
    [chain] = [graph for graph in GRAPHS["last"] if graph.name == "chain"]
    channels = chain.channels
    rankings = metrics(channels)
    place = channels.index((AGENTS - 1, DECISION))
    for name in ("betweenness", "closeness", "attention", "flow"):
        assert rankings[name][place] == rankings[name].max()
    assert rankings["reach"].tolist() == [AGENTS - 1] * len(channels)
    # An agent gives half of its weight to what it hears, at each step.
    assert flows(channels)[AGENTS - 1] == pytest.approx(0.5)
    assert flows(channels)[AGENTS - 2] == pytest.approx(0.25)


def test_ties_intercept_as_many_attacks_as_chance() -> None:
    risk = np.array([0.9] + [0.1] * 19)
    assert intercepted(np.zeros(20), risk) == pytest.approx(1)
    assert intercepted(-risk, risk) == pytest.approx(0.1 / risk.mean())
    # Two channels of twenty: the riskiest and one of the others.
    assert intercepted(risk, risk) == pytest.approx((0.9 + 0.1) / risk.sum() * 10)
