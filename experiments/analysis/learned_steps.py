"""Learned graphs over the steps of their training, for a page: thinned, and in whole per cent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep

MOST_VALUES = 60_000  # probabilities in one page, which compress to some 150 kB


def learned_graphs(run: RunFolder) -> list[dict[str, Any]]:
    """Returns each learned graph of a run: `name`, `agents`, `attacked` agents, and `steps`.

    A step has its `stage` and `step`, the number of `edges` left, and `probabilities` in per cent by kind, as matrices
    [sender, receiver] with None where there is no edge. Steps are left out evenly where a run has too many.
    """
    graphs = [(folder, list(folder.learning())) for folder in run.all_learned()]
    graphs = [(folder, steps) for folder, steps in graphs if steps]
    return [
        {
            "name": folder.path.name,
            "agents": steps[0].agents,
            "attacked": _attacked(run, folder.path.name),
            "steps": [_step(step) for step in _thinned(steps, MOST_VALUES // len(graphs))],
        }
        for folder, steps in graphs
    ]


def _attacked(run: RunFolder, method: str) -> tuple[str, ...]:
    """The compromised agents of the first attacked discussion in training, which learners may share, or evaluation."""
    phases = [(folder, path.stem) for folder in run.all_learned() for path in folder.training_traces()]
    first = (next(folder.traces(phase, only={0}), None) for folder, phase in [*phases, (run, f"evaluate-{method}")])
    return next((trace.attacked for trace in first if trace and trace.attacked), ())


def _thinned(steps: list[LearningStep], values: int) -> list[LearningStep]:
    """Keeps the first and last step of each stage, and as many of the others as have so many values together."""
    of_step = len(steps[0].agents) ** 2 * len(steps[0].probabilities)
    every = -(-len(steps) * of_step // values)
    ends = {(one.stage, one.step) for one, after in pairwise(steps) if one.stage != after.stage}
    ends.add((steps[-1].stage, steps[-1].step))
    return [one for one in steps if one.step % every == 0 or (one.stage, one.step) in ends]


def _step(step: LearningStep) -> dict[str, Any]:
    matrices = {
        kind: [[None if p is None else round(100 * p) for p in row] for row in rows]
        for kind, rows in step.probabilities.items()
    }
    return {"stage": step.stage, "step": step.step, "edges": sum(step.edges.values()), "probabilities": matrices}
