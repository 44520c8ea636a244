"""Learned graphs over the steps of their training, for a page. They are thinned, and in whole per cent."""

from typing import Any

from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep

MOST_VALUES = 60_000  # probabilities in one page, which compress to some 150 kB


def learned_graphs(run: RunFolder) -> list[dict[str, Any]]:
    """Returns each learned graph of a run: `name`, `agents`, `attacked` agents, and `steps`.

    A step has its `stage` and `step`, the number of `edges` left, and `probabilities` in per cent by kind, as matrices
    [sender, receiver] with None where there is no edge. Where a run has too many steps, each n-th one is kept, and the
    last of each stage.
    """
    folders = run.all_learned()
    graphs = []
    for folder in folders:
        if not (steps := list(folder.learning())):
            continue
        values = len(steps) * len(steps[0].agents) ** 2 * len(steps[0].probabilities)
        every = -(-values * len(folders) // MOST_VALUES)
        last = {one.stage: one for one in steps}
        kept = [in_per_cent(one) for one in steps if one.step % every == 0 or one is last[one.stage]]
        name, agents = folder.path.name, steps[0].agents
        graphs.append({"name": name, "agents": agents, "attacked": attacked_agents(run, name), "steps": kept})
    return graphs


def attacked_agents(run: RunFolder, method: str) -> tuple[str, ...]:
    """The compromised agents of the first attacked discussion, of training (which learners may share) or evaluation."""
    phases = [(folder, path.stem) for folder in run.all_learned() for path in folder.training_traces()]
    first = (next(folder.traces(phase, only={0}), None) for folder, phase in [*phases, (run, f"evaluate-{method}")])
    return next((trace.attacked for trace in first if trace and trace.attacked), ())


def in_per_cent(step: LearningStep) -> dict[str, Any]:
    """Returns a step as a page has it."""
    matrices = {
        kind: [[None if p is None else round(100 * p) for p in row] for row in rows]
        for kind, rows in step.probabilities.items()
    }
    return {"stage": step.stage, "step": step.step, "edges": sum(step.edges.values()), "probabilities": matrices}
