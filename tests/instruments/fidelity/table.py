"""The table of steps: for every system of a paper what its authors' code does, what ours does, and whether that is
the same.

One YAML file a system lies in `steps/`. It is written by hand, from reading the authors' code at the commit named and,
where that runs, from running it with scripted replies beside ours; nothing of theirs is copied into it. Who changes a
step of a system changes its row, and the test that the row names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "steps"


class Same(StrEnum):
    """The verdict on a step. `paper`: ours follows the paper where the authors' code does not."""

    EQUAL = "equal"
    DIFFERENT = "different"
    PAPER = "paper"


class Ran(StrEnum):
    """What the comparison rests on."""

    BOTH = "theirs and ours"
    THEIRS = "theirs alone"
    READ = "read only"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a system.

    theirs, where: what the authors' code does (or, where there is none, the paper), and in which files and lines.
    ours, file: what ours does, and in which file.
    same, why: the verdict, and the reason for a difference.
    test: the test of ours that holds it, as pytest names it; None where none does.
    """

    step: str
    theirs: str
    ours: str
    file: str
    same: Same
    test: str | None
    where: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One case that theirs and ours were run on, and what each did."""

    case: str
    theirs: str
    ours: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One system.

    methods: the names of its methods here.
    repository, commit, files, also: the code that was read; empty where none is public, and then:
    searched, against: how it was looked for, and what ours was compared with instead.
    ran, how, runs: whether theirs was run, how, and what came of it.
    does_not_run: what of the published code does not run, is missing, or contradicts the paper.
    """

    name: str
    methods: tuple[str, ...]
    paper: str
    ran: Ran
    how: str
    steps: tuple[Step, ...]
    does_not_run: tuple[str, ...]
    runs: tuple[Run, ...] = ()
    repository: str = ""
    commit: str = ""
    also: str = ""
    files: tuple[str, ...] = ()
    searched: str = ""
    against: str = ""

    def count(self, same: Same) -> int:
        """The number of steps with a verdict."""
        return Counter(step.same for step in self.steps)[same]


def compared() -> tuple[Compared, ...]:
    """All systems, those with public code first, each kind by name.

    Raises TypeError for a key that is missing or unknown, and ValueError for a verdict that is none.
    """
    systems = [_system(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.yaml"))]
    return tuple(sorted(systems, key=lambda system: (not system.repository, system.name.lower())))


def _system(record: Mapping[str, Any]) -> Compared:
    lists = {key: tuple(record.get(key, ())) for key in ("methods", "files", "does_not_run")}
    steps = tuple(Step(**{**step, "same": Same(step["same"])}) for step in record["steps"])
    runs = tuple(Run(**run) for run in record.get("runs", ()))
    return Compared(**{**record, **lists, "ran": Ran(record["ran"]), "steps": steps, "runs": runs})


def markdown(systems: Sequence[Compared]) -> str:
    """The whole table: a summary, then each system's steps."""
    parts = [_summary(systems), *(part for system in systems for part in _parts(system))]
    return "\n\n".join(parts) + "\n"


def _summary(systems: Sequence[Compared]) -> str:
    def row(name: str, of: Sequence[Compared], *rest: str) -> tuple[str, ...]:
        steps = [str(sum(system.count(same) for system in of)) for same in Same]
        held = sum(step.test is not None for system in of for step in system.steps)
        return (name, *steps, str(held), *rest)

    rows = [
        row(system.name, [system], system.ran, f"{system.repository}@{system.commit[:7]}" if system.repository else "-")
        for system in systems
    ]
    heads = ("System", "equal", "different", "ours as the paper", "held by a test", "compared", "authors' code")
    return "\n\n".join(
        [
            "# Steps of the papers' systems beside their authors' code",
            "*Different*: why is said with the step. *Ours as the paper*: the authors' code does otherwise than their "
            "paper. Where no code is public, steps are compared with what is named there.",
            _table(heads, [*rows, row("all", systems, "", "")]),
        ]
    )


def _parts(system: Compared) -> Iterator[str]:
    yield f"## {system.name}"
    about = [f"Methods: {', '.join(f'`{name}`' for name in system.methods)}.", f"{system.paper}."]
    if system.repository:
        about.append(f"Code: {system.repository} at {system.commit}{f'; also {system.also}' if system.also else '.'}")
        about.append(f"Read: {', '.join(system.files)}.")
    else:
        about += [system.searched, f"Compared with: {system.against}"]
    yield "\n".join((*about, f"Compared: {system.ran}. {system.how}"))
    if system.runs:
        yield _table(("Case that was run", "Theirs", "Ours"), [(run.case, run.theirs, run.ours) for run in system.runs])
    rows = [
        (
            step.step,
            f"{step.theirs} ({step.where})" if step.where else step.theirs,
            f"{step.ours} (`{step.file}`)",
            f"{step.same}: {step.why}" if step.why else step.same,
            f"`{step.test.split('::')[1]}`" if step.test else "",
        )
        for step in system.steps
    ]
    yield _table(("Step", "Theirs", "Ours", "", "Held by"), rows)
    if system.does_not_run:
        yield "What of the published code does not run, or is not as the paper says:"
        yield "\n".join(f"- {line}" for line in system.does_not_run)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
