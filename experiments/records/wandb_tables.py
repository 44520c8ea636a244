"""Tables, summary values and learned graphs that a finished run sends to W&B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.messages import Usage
from experiments.records.recorder import RunFolder

if TYPE_CHECKING:
    import wandb

MOST_ROWS = 5_000  # of the table of discussions; W&B shows 10,000 rows of a table at most
MOST_CHARACTERS = 500  # of a cell's text
COLUMNS = ("question", "method", "text", "gold", "answer", "utility", "f1", "prompt_tokens", "completion_tokens")
GRAPHS = ("topology.graphml", "topology.json")


def summarise(
    run: wandb.Run, path: Path, metrics: Mapping[str, Any], figures: Sequence[Path], used: Usage | None
) -> None:
    """Logs metrics.json, figures, discussions, usage and learned graphs of the run folder `path`.

    Metrics become the table `methods`, and summary values `<method>/<column>`; the run's usage becomes `usage/<field>`.
    Discussions become the table `discussions`, whose rest is counted in `discussions/left_out`.
    """
    import wandb

    methods: Mapping[str, Mapping[str, Any]] = metrics["methods"]
    # A method may lack columns of others: the success of an attack, or what its older records do not have.
    columns = list(dict.fromkeys(column for row in methods.values() for column in row))
    rows = [[method, *(_cell(row.get(column)) for column in columns)] for method, row in methods.items()]
    images = {f"figures/{path.stem}": wandb.Image(str(path)) for path in figures}
    scores = sorted(RunFolder(path).scores(), key=attrgetter("question", "method"))
    shown = [[_cell(getattr(scored, name)) for name in COLUMNS] for scored in scores[:MOST_ROWS]]
    run.log(
        {
            "methods": wandb.Table(columns=["method", *columns], data=rows),
            "discussions": wandb.Table(columns=list(COLUMNS), data=shown),
            **images,
        }
    )
    groups: dict[str, Mapping[str, Any]] = {**methods, **metrics["paired"], "usage": asdict(used) if used else {}}
    groups["discussions"] = {"shown": len(shown), "left_out": len(scores) - len(shown)}
    for method, row in metrics.get("judged", {"methods": {}})["methods"].items():
        groups[f"judged/{method}"] = row
    run.summary.update({f"{group}/{name}": value for group, row in groups.items() for name, value in row.items()})
    for graph in RunFolder(path).all_learned():
        artifact = wandb.Artifact(f"{run.id[:80]}-{graph.name}"[:128], type="graph")
        for file in (graph.path / name for name in GRAPHS):
            if file.is_file():
                # Immutable: W&B reads the file in the run folder, and leaves no copy in the home folder.
                artifact.add_file(str(file), policy="immutable")
        run.log_artifact(artifact)


def _cell(value: Any) -> Any:
    """A cell of a W&B table, whose columns have one type each: an interval and several gold answers become text."""
    if isinstance(value, list):
        return f"{value[0]} to {value[1]}"
    if isinstance(value, tuple):
        value = " | ".join(value)
    return value[:MOST_CHARACTERS] if isinstance(value, str) else value
