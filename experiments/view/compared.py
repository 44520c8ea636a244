"""Two runs side by side: methods on shared questions, settings that differ, and every discussion."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self
from urllib.parse import quote

from markupsafe import Markup

from actors.errors import UserError
from experiments.analysis.agreement import agreement, concluded
from experiments.analysis.embedded import Embedded
from experiments.analysis.page import SCRIPTS, Section, page
from experiments.analysis.result_table import ResultTable, shown
from experiments.analysis.run_table import paired_table
from experiments.analysis.summary import paired_tests
from experiments.config.saved import read
from experiments.records.records import Scored
from experiments.view.folders import Root
from experiments.view.live import LiveRun

SIDES = ("A", "B")


@dataclass(frozen=True)
class Compared:
    """Two runs by their names below the folder that is shown. A method is called after its run: `A.full`, `B.full`."""

    names: tuple[str, ...]
    runs: tuple[LiveRun, ...]

    @classmethod
    def open(cls, root: Root, names: Sequence[str]) -> Self:
        """Raises UserError unless two different runs are named."""
        if len(names) != len(SIDES) or len(set(names)) != len(SIDES):
            raise UserError("compare: expected two different runs, as compare?run=<name>&run=<name>")
        return cls(tuple(names), tuple(LiveRun(root.run(name)) for name in names))

    def index(self) -> dict[str, Any]:
        """Returns `{groups, entries}` of both runs. An entry names its `run`, and its method there as `of`."""
        found: dict[str, Any] = {"groups": [], "entries": []}
        for side, run_name, run in zip(SIDES, self.names, self.runs, strict=True):
            index = run.index()
            for group in index["groups"]:
                name, label = f"{side}.{group['name']}", f"{side}: {group['label']}"
                found["groups"].append({**group, "name": name, "label": label})
            for entry in index["entries"]:
                of = entry["group"]
                found["entries"].append({**entry, "group": f"{side}.{of}", "run": run_name, "of": of})
        return found

    def pairs(self) -> list[dict[str, Any]]:
        """Returns the `agreement` of every two methods, of one run or of both."""
        answers, margin = self.answers
        return agreement(answers, 0, "utility", margin)

    @cached_property
    def answers(self) -> tuple[dict[str, dict[str, Scored]], float]:
        """Answers by method and question, and the smaller of the runs' margins."""
        found: dict[str, dict[str, Scored]] = {}
        margins = []
        for side, live in zip(SIDES, self.runs, strict=True):
            config = read(live.run.config)
            found |= {f"{side}.{method}": of for method, of in concluded(live.run, config.failures.share).items()}
            margins.append(config.compare.margin)
        return found, min(margins)

    def page(self) -> str:
        """Makes the page: tests of shared methods, the settings that differ, the discussions."""
        links = [Markup('<a href="run/{}/">{}</a>').format(quote(name), name) for name in self.names]
        answers, margin = self.answers
        alike = [(a, b) for a, b in combinations(answers, 2) if a[2:] == b[2:]]
        tests = paired_tests(answers, alike, 0, "paired", margin)
        # The methods' names have their run in front.
        title = "Methods of both runs, on the questions that both asked"
        methods = replace(paired_table(tests, "utility"), title=title)
        nothing = [] if tests else ["The runs have no method and question in common."]
        a, b = (read(live.run.config).by_key for live in self.runs)
        rows = [(key, shown(a.get(key)), shown(b.get(key))) for key in {**a, **b} if a.get(key) != b.get(key)]
        settings = ResultTable(("setting", *SIDES), rows, [] if rows else ["None differs."], "Settings that differ")
        sections = [
            Section("Runs", facts=dict(zip(SIDES, links, strict=True))),
            Section("Methods", nothing, tables=[methods] if tests else []),
            Section("Settings", tables=[settings]),
            Section("Discussions", discussions=Embedded()),
        ]
        listed, versus = next(reversed(alike), ("", ""))
        return page("Two runs", sections, SCRIPTS, served=True, listed=listed, versus=versus)


def others(root: Root, name: str) -> ResultTable:
    """Links from a run's page to comparisons with the folder's other runs."""
    link = Markup('<a href="{}compare?run={}&amp;run={}">{}</a>')
    up = "../" * (2 + name.count("/"))
    rows = [(link.format(up, quote(name), quote(other), other),) for other in root.names() if other != name]
    return ResultTable(("run",), rows, title="Compare with another run")
