"""Two runs side by side: methods on shared questions, settings that differ, and every discussion."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from actors.errors import UserError
from experiments.analysis.agreement import agreement, concluded
from experiments.analysis.embedded import Embedded
from experiments.analysis.page import SCRIPTS, Section, page
from experiments.analysis.paired import paired_table, paired_tests
from experiments.analysis.result_table import ResultTable, shown
from experiments.config.config import Config
from experiments.config.saved import read
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
        groups: list[dict[str, Any]] = []
        entries: list[dict[str, Any]] = []
        for side, run_name, run in zip(SIDES, self.names, self.runs, strict=True):
            index = run.index()
            for group in index["groups"]:
                name = f"{side}.{group['name']}"
                label = f"{side}: {group['label']}"
                groups.append({**group, "name": name, "label": label})
            for entry in index["entries"]:
                method = entry["group"]
                entries.append({**entry, "group": f"{side}.{method}", "run": run_name, "of": method})

        return {"groups": groups, "entries": entries}

    def pairs(self) -> list[dict[str, Any]]:
        """Returns the `agreement` of every two methods, of one run or of both."""
        return agreement(self.answers, 0, "utility", self.margin)

    @cached_property
    def configs(self) -> list[Config]:
        return [read(live.run.config) for live in self.runs]

    @property
    def margin(self) -> float:
        """The smaller of the runs' margins."""
        return min(config.compare.margin for config in self.configs)

    @cached_property
    def answers(self) -> dict[str, pd.DataFrame]:
        """Answers by method and question."""
        answers: dict[str, pd.DataFrame] = {}
        for side, live, config in zip(SIDES, self.runs, self.configs, strict=True):
            for method, method_answers in concluded(live.run, config.failures.share).items():
                answers[f"{side}.{method}"] = method_answers
        return answers

    def page(self) -> str:
        """Makes the page: tests of shared methods, the settings that differ, the discussions."""
        links = [Markup('<a href="run/{}/">{}</a>').format(quote(name), name) for name in self.names]
        # The methods' names have their run in front.
        shared: list[tuple[str, str]] = []
        for a, b in combinations(self.answers, 2):
            if a[2:] == b[2:]:
                shared.append((a, b))
        tests = paired_tests(self.answers, shared, 0, "paired", self.margin)
        methods = Section("Methods", ["The runs have no method and question in common."])
        if tests:
            title = "Methods of both runs, on the questions that both asked"
            methods = Section("Methods", tables=[replace(paired_table(tests, "utility"), title=title)])

        sections = [
            Section("Runs", facts=dict(zip(SIDES, links, strict=True))),
            methods,
            Section("Settings", tables=[self._different_settings()]),
            Section("Discussions", discussions=Embedded()),
        ]
        listed, versus = shared[-1] if shared else ("", "")
        return page("Two runs", sections, SCRIPTS, served=True, listed=listed, versus=versus)

    def _different_settings(self) -> ResultTable:
        settings_a, settings_b = [config.by_key for config in self.configs]
        rows: list[tuple[str, ...]] = []
        for key in {**settings_a, **settings_b}:
            value_a = settings_a.get(key)
            value_b = settings_b.get(key)
            if value_a != value_b:
                rows.append((key, shown(value_a), shown(value_b)))
        notes = [] if rows else ["None differs."]
        return ResultTable(("setting", *SIDES), rows, notes, "Settings that differ")
