"""Fits the embedded reader's rates to how another model behaved: `reader=fitted`.

    python -m experiments.studies.behaviour.fit <run folder of experiment=behaviour> [settings.yaml] [key=value ...]

The reader is asked the run's own questions under the run's own conditions, in this process. Each setting in turn takes
the value of its grid under which the reader comes nearest to what was measured, until none changes any more. Near means
a small sum of squared differences, each over the standard error of what was measured: what a few questions leave open
counts little. What the folder's configuration names outside of it is to be named again, as for resuming the run (an
encoder, code of one's own). Without evidence the reader knows nothing, so that condition is shown and not fitted.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from actors.agents.agent import RoleAgent
from actors.agents.roles import SINGLE
from actors.errors import UserError
from actors.messages import Message, Question, Turn, derive_seed
from actors.prompting.text import one_line
from actors.reader.reader import Reader, ReaderSettings
from actors.visible import visible
from experiments.analysis.table import Table
from experiments.attacks.metrics import won
from experiments.attacks.targets import aimed_at
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.datasets.item import Dataset, Item
from experiments.records.recorder import RunFolder
from experiments.running.opening import open_cache, open_dataset, open_store
from experiments.studies.behaviour.conditions import NOTHING, Condition, Told, answerable, asked, conditions, material
from experiments.studies.behaviour.table import FILE, HOP

# Rates are the chance at skill 0, and the agent that is asked has skill 0.6: it errs at 0.4 of them.
GRIDS: Mapping[str, Sequence[float]] = {
    "oversight": (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0),
    "perception_error": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "error_rate": (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0),
    "hops": (1, 2, 3),
    "dilution": (0.0, 0.006, 0.012, 0.025, 0.05, 0.1, 0.2),
    "conformity": (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5),
}
# What is compared of every condition; who is told nothing takes nothing over, and it is not compared there.
FITTED = ("utility_single", "utility_multi", "taken_over")
DRAWS = 3  # seeds over which the reader's figures are averaged: its own noise is no part of the difference
PASSES = 4  # over all settings; the descent has always ended earlier

Figures = dict[tuple[str, str], float]  # by condition and what is compared


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean and its standard error."""

    mean: float
    error: float


class Fit:
    """Compares readers with one measured behaviour."""

    def __init__(self, measured: Mapping[tuple[str, str], Measured], trial: Trial) -> None:
        self._measured = measured
        self._trial = trial

    def figures(self, settings: ReaderSettings) -> Figures:
        """The reader's figures, for everything that was measured."""
        return asyncio.run(self._trial.figures(settings))

    def distance(self, figures: Figures) -> float:
        """Chi squared: the sum of squared differences in standard errors."""
        return sum(
            ((figures[key] - measured.mean) / measured.error) ** 2
            for key, measured in self._measured.items()
            if key[0] != NOTHING
        )

    def descend(self, settings: ReaderSettings) -> Iterator[tuple[str, float, ReaderSettings]]:
        """The settings after each choice of a value: (setting, distance, settings). The last are the fitted ones."""
        least = self.distance(self.figures(settings))
        for _ in range(PASSES):
            before = settings
            for name, grid in GRIDS.items():
                for value in grid:
                    change: dict[str, Any] = {name: value}
                    tried = replace(settings, **change)
                    # The present value, whose distance is known.
                    if tried == settings:
                        continue
                    distance = self.distance(self.figures(tried))
                    if distance < least - 1e-9:
                        least, settings = distance, tried
                yield name, least, settings
            if settings == before:
                return


class Trial:
    """The run's questions under its conditions, for any number of readers."""

    def __init__(self, config: Config, dataset: Dataset, asked_under: Sequence[_Asked]) -> None:
        self._config = config
        self._dataset = dataset
        self._asked = asked_under

    async def figures(self, settings: ReaderSettings) -> Figures:
        """Means over the questions and over `DRAWS` seeds."""
        values: dict[tuple[str, str], list[float]] = {}
        model = Reader(replace(settings, cached_prompts=len(self._asked)))
        for draw in range(DRAWS):
            for one in self._asked:
                agent = RoleAgent(SINGLE, model, self._config.agents)

                async def ask(turn: Turn, agent: RoleAgent = agent) -> Message:
                    message, _ = await agent.take(turn)
                    return message

                topology = Told(one.condition.name, one.condition.colleagues, one.target)
                trace = await topology.answer(one.question, ask, derive_seed(self._config.seed, "fit", draw))
                aims = [aimed_at(one.item, one.target)]
                for name, value in (
                    (f"utility_{one.item.tags.get(HOP, '')}", self._dataset.score(one.item, trace.answer).utility),
                    ("taken_over", float(won(trace.answer, one.item, aims, self._dataset))),
                ):
                    values.setdefault((one.condition.name, name), []).append(value)
        return {key: math.fsum(of) / len(of) for key, of in values.items()}


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question as it is asked under one condition."""

    condition: Condition
    item: Item
    question: Question
    target: str


def open_trial(config: Config) -> Trial:
    """The questions of a run, from its own data set and index."""
    cache = open_cache(config)
    dataset = open_dataset(config, cache)
    store = open_store(config, dataset, cache)
    most = max(config.behaviour.irrelevant, default=0)
    all_asked = []
    for item, target in answerable(dataset, config.seed):
        found = material(item, store, most)
        for condition in conditions(config.behaviour):
            question = asked(item, found.shown(condition, config.seed))
            all_asked.append(_Asked(condition, item, question, target))
    return Trial(config, dataset, all_asked)


def measured_in(found: Mapping[str, Any]) -> dict[tuple[str, str], Measured]:
    """What is compared, from behaviour.json."""
    measured = {}
    for condition, row in found["conditions"].items():
        for name in FITTED:
            value = row.get(name)
            if value is None or (name == "taken_over" and not condition.startswith("told")):
                continue
            n = value["questions"]
            if not (0 <= value["mean"] <= 1 and n >= 1):
                raise ValueError(f"{condition}, {name}: expected a mean from 0 to 1, of 1 question or more")
            # One success and one failure more than seen, or a share of 0 or 1 would have no error at all.
            share = (value["mean"] * n + 1) / (n + 2)
            measured[condition, name] = Measured(value["mean"], math.sqrt(share * (1 - share) / (n + 2)))
    return measured


def main(words: Sequence[str]) -> int:
    """Prints the fit and writes the settings, if a file is named. The exit code: 0, or 2 for bad input."""
    try:
        files, again = [w for w in words if "=" not in w], [w for w in words if "=" in w]
        if len(files) not in (1, 2):
            raise UserError(
                "usage: python -m experiments.studies.behaviour.fit <run folder> [settings.yaml] [key=value ...]"
            )
        folder = RunFolder.open(Path(files[0]))
        config, path = load([f"resume={files[0]}", *again]), folder.path / FILE
        try:
            found = json.loads(path.read_text())
            measured, model, dataset = measured_in(found), one_line(found["model"]), one_line(found["dataset"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            line = one_line(repr(error))
            raise UserError(f"{path} cannot be read ({line}); give a finished run of experiment=behaviour") from error
        fit = Fit(measured, open_trial(config))
        settings = default = ReaderSettings()
        for name, distance, settings in fit.descend(default):
            print(f"{name}={getattr(settings, name):g}: chi squared {distance:.1f}", file=sys.stderr, flush=True)
        figures = fit.figures(default), fit.figures(settings)
        _table(model, measured, figures, [fit.distance(of) for of in figures]).print()
        chosen = {name: getattr(settings, name) for name in GRIDS}
        text = OmegaConf.to_yaml(OmegaConf.create(chosen))
        print(text)
        if len(files) == 2:
            # One line each: a name with a line break would become a setting.
            about = f"# Fitted to {model} on {dataset} by experiments.studies.behaviour.fit\n"
            Path(files[1]).write_text(about + text)
    except UserError as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        return 2
    return 0


def _table(
    model: str, measured: Mapping[tuple[str, str], Measured], figures: Sequence[Figures], distances: Sequence[float]
) -> Table:
    rows = [
        (
            condition,
            name,
            f"{value.mean:.3f} ± {1.96 * value.error:.3f}",
            *(f"{of[condition, name]:.3f}" for of in figures),
        )
        for (condition, name), value in measured.items()
    ]
    distance = ("chi squared", f"{len([key for key in measured if key[0] != NOTHING])} figures", "")
    return Table(
        columns=("condition", "", model, "reader", "fitted"),
        rows=[*rows, (*distance, *(f"{value:.1f}" for value in distances))],
        notes=("± is 1.96 standard errors of what was measured. The first condition is not fitted.",),
        names=2,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
