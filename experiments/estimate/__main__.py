"""Fits a cost model on run folders, or holds predictions against what runs took.

    python -m experiments.estimate fit <run folder> ... <mine.yaml>
    python -m experiments.estimate check <run folder> ... [key=value ...]

The first writes what `costs.model=mine.yaml` reads; give runs of one model and one runtime on one machine, of different
sizes. The second plans each run anew from its configuration, as a dry run before it would have, and prints that beside
what the run has recorded, for a machine as fast as it was during the run; its times are without (and as `disturbed`
with) those in which other programs had the cores.
What a folder's configuration names outside of it is to be named again, as for resuming it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from actors.errors import UserError
from actors.visible import visible
from experiments.analysis.table import Table
from experiments.config.loading import load
from experiments.cost.file import write_model
from experiments.cost.fit import fit
from experiments.cost.model import linear
from experiments.cost.observed import Observed, observe
from experiments.estimate.dry_run import plan_of
from experiments.estimate.predicted import duration

USAGE = "usage: python -m experiments.estimate fit <run folder> ... <mine.yaml>, or check <run folder> ..."


def main(words: Sequence[str]) -> int:
    """The exit code: 0, or 2 for bad input (one line says what)."""
    try:
        match list(words):
            case ["fit", *folders, file] if folders and file.endswith((".yaml", ".yml")):
                model = fit([observe(Path(folder)) for folder in folders])
                write_model(model, Path(file))
                print(visible(f"fitted on {model.runs} runs: costs.model={file}"))
            case ["check", first, *others]:
                folders = [word for word in (first, *others) if "=" not in word]
                again = [word for word in (first, *others) if "=" in word]
                _check(folders, again)
            case _:
                raise UserError(USAGE)
    except UserError as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        return 2
    return 0


def _check(folders: Sequence[str], again: Sequence[str]) -> None:
    """Prints a row for each run and quantity; the last line is one JSON object of relative errors."""
    rows: list[tuple[str, ...]] = []
    errors: dict[str, list[float]] = {}
    for folder in folders:
        run = observe(Path(folder))
        for name, (told, took) in compared(run, again).items():
            error = told / took - 1 if took else 0.0
            errors.setdefault(name, []).append(round(error, 4))
            shown = duration if name.endswith("time") else lambda value: f"{value:,.0f}"
            rows.append((Path(folder).name, name, shown(told), shown(took), f"{error:+.1%}"))
    Table(("run", "", "predicted", "measured", "error"), rows, names=2).print()
    print(json.dumps(errors))


def compared(run: Observed, again: Sequence[str] = ()) -> Mapping[str, tuple[float, float]]:
    """What a plan predicts of a run, and what the run took, by name.

    Raises:
        UserError: the run's configuration cannot be planned, or no cost model is chosen.
    """
    config = load([f"resume={run.path}", *again])
    # A plan of the whole run, and not of what is left of it, on the machine as fast as it was.
    plan = plan_of(replace(config, resume=None, costs=replace(config.costs, speed=run.speed)))
    if plan.predicted is None:
        raise UserError("costs.model=none predicts nothing: name another one")
    found = plan.predicted
    memory_mb = sum(taken.memory_mb for taken in run.start.taken.values())
    told, took = found.demand, run.demand
    return {
        "calls": (told.calls, took.calls),
        "calls made": (told.made, took.made),
        "prompt tokens": (told.prompt, took.prompt),
        "completion tokens": (told.completion, took.completion),
        "training steps": (told.steps, took.steps),
        "processor time": (
            sum(linear(work, told) for work in found.model.work.values()),
            sum(taken.cpu_s for taken in run.start.taken.values()),
        ),
        "discussing time": (found.cost.discussing_s, run.undisturbed[1]),
        "whole time": (found.cost.total_s, sum(run.undisturbed)),
        "disturbed time": (found.cost.total_s, run.start.total_s),
        "memory MB": (found.cost.memory_mb, memory_mb),
        "disk kB": (found.cost.disk_mb * 1000, run.disk_kb),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
