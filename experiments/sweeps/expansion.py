"""Plans a sweep: its trials, points x axes x seeds. Each is a whole configuration that is checked beforehand."""

import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from actors.errors import UserError
from actors.messages import derive_seed
from actors.settings import shown
from experiments.analysis.result_table import plain, short_keys
from experiments.config.config import MOST_SEED, Config, flat
from experiments.config.keys import check_key, set_by
from experiments.config.loading import Overrides, varied
from experiments.config.setting_groups import MOST_TRIALS, SweepSettings
from experiments.jobs import plan_of
from experiments.planning.plan import Plan
from experiments.planning.topologies import compared_pairs
from experiments.unused import check_used
from topologies.catalogue import find_methods

Values = dict[str, Any]

# Groups and keys that all trials share, so they cannot be axes.
FIXED = ("experiment", "job", "output", "cache", "resume", "dry_run", "runtime", "ray", "sweep", "wandb")
MOST_COMBINATIONS = 1_000_000  # that a sample may be drawn from
LONGEST = 100  # characters of settings in a name; file systems allow 255 bytes, and tables less


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    values: the varied settings by dotted key, without the seed.
    plan: with the trial's configuration. All else is that of the sweep's first seed, as seeds differ in what is drawn.
    """

    name: str
    values: Mapping[str, Any]
    plan: Plan

    @property
    def config(self) -> Config:
        return self.plan.config

    @property
    def seed(self) -> int:
        return self.config.seed


@dataclass(frozen=True)
class Sweep:
    """A sweep's configuration, its trials, and the study of `sweep.planted` with the sweep's learners, if any."""

    config: Config
    trials: tuple[Trial, ...]
    planted: Config | None

    @property
    def combinations(self) -> list[Trial]:
        """Trials with the first seed, one of each combination of values."""
        return [trial for trial in self.trials if trial.seed == self.config.seed]

    def rivals(self, values: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
        """Lists the pairs of methods that are tested within each setting, as a run does. `values` are of its trials."""
        names: list[str] = []
        for trial_values in values:
            names += trial_values.get("methods", ())
        methods = find_methods(list(dict.fromkeys(names)) or self.config.methods)
        pairs = list(compared_pairs(methods))
        if self.config.compare.twins:
            for method in methods:
                if not method.alone:
                    pairs += [(method.name, f"{method.name}-twin"), (method.name, f"{method.name}-placebo")]
        return tuple(pairs)


def plan_sweep(config: Config, overrides: Overrides | None = None) -> Sweep:
    """Plans a sweep before any process is started. One that fails after an hour wastes that hour.

    Prints what has no effect in some trials of a new sweep. Raises UserError as `expand` and `check_used`, for trials
    that cannot be stopped early, and for wrong settings of planted worlds.
    """
    sweep = Sweep(config, tuple(expand(config)), planted_of(config))
    if config.sweep.stop == "asha":
        if not any(trial.plan.learners for trial in sweep.trials):
            raise UserError(
                "sweep.stop=asha ends trials that fall behind in training, and none of the methods learns a graph; "
                "leave it out, or name one that learns"
            )
        steps = max(trial.plan.training_steps for trial in sweep.trials)
        grace = config.sweep.grace
        if grace > steps:
            raise UserError(f"sweep.grace={grace}: no trial has more than {steps} training steps to stop in")
    if overrides is not None:
        first_plan = replace(sweep.trials[0].plan, config=config)
        check_used(overrides, first_plan, [(trial.values, trial.plan) for trial in sweep.combinations])
    return sweep


def planted_of(config: Config) -> Config | None:
    """Returns the study of `sweep.planted` with the sweep's learners; None without. Raises UserError for mistakes."""
    if not config.sweep.planted:
        return None
    learners = [method.name for method in find_methods(config.methods) if method.learner]
    settings = {"learners": learners, **config.sweep.planted}
    planted = varied(Config(), {"job": "planted", "planted": settings})
    return replace(planted, seed=config.seed, learner=config.learner, pruning=config.pruning, training=config.training)


def expand(config: Config) -> list[Trial]:
    """Makes all trials. Their order and names depend on the configuration only.

    Raises UserError for a job that cannot be swept, an axis without values, and an invalid trial, by name.
    """
    if config.job != "prune":
        raise UserError(f"a sweep is of experiments that learn, prune and evaluate, not of job={config.job}")
    settings = combinations(config.sweep, config.seed)
    seeds = range(config.seed, config.seed + config.sweep.seeds)
    total = len(settings) * len(seeds)
    if total > MOST_TRIALS:
        raise UserError(f"the sweep has {total:,} trials: expected at most {MOST_TRIALS:,}; try fewer values or seeds")
    if seeds[-1] > MOST_SEED:
        raise UserError(f"seed={config.seed} sweep.seeds={len(seeds)}: the last seed is {seeds[-1]}: lower seed=")

    short_names = short_keys(list(dict.fromkeys(key for values in settings for key in values)))
    # Without settings of the sweep: a trial is an ordinary run, must not expand again, and resumes no other folder.
    single = replace(config, sweep=SweepSettings(), resume=None)
    trials: list[Trial] = []
    names_by_config: dict[str, str] = {}
    for values in settings:
        described = {short_names[key]: value for key, value in values.items()}
        first_name = _trial_name(len(trials), described, config.seed)
        # No value is right with one seed and wrong with another, and a check takes a tenth of a second.
        plan = _plan(single, {**values, "seed": config.seed}, first_name)
        # Values that are written otherwise, or that an axis takes the place of, may be the same.
        name = names_by_config.setdefault(repr(plan.config), first_name)
        if name != first_name:
            raise UserError(f"trial {first_name} is the same as trial {name}: name each setting of a sweep once")

        # Figures and tests find attacked trials by `attack.kind`, also where the sweep gives the group.
        varied_values = {set_by(key, value): value for key, value in flat(values)}
        for seed in seeds:
            # The number identifies finished trials when a sweep is resumed, and keeps names unique that were cut.
            name = _trial_name(len(trials), described, seed)
            plan_of_seed = replace(plan, config=replace(deepcopy(plan.config), seed=seed))
            trials.append(Trial(name, varied_values, plan_of_seed))
    return trials


def _trial_name(number: int, values: Mapping[str, Any], seed: int) -> str:
    """Names a trial by its values; the name is valid for a folder on any file system."""
    settings = ",".join(f"{key}={plain(value)}" for key, value in values.items())
    settings = re.sub(r"[^\w.,=+-]+", "_", settings)[:LONGEST].rstrip(",")
    return f"{number:04}-{settings},seed={seed}" if settings else f"{number:04}-seed={seed}"


def _plan(config: Config, values: Values, trial: str) -> Plan:
    """Plans a trial. Raises UserError for an invalid one, by its name."""
    try:
        changed = varied(config, values)
        if changed.replays:
            raise UserError("model=replay answers for one recorded run; start it without sweep")
        return plan_of(changed)
    except UserError as error:
        raise UserError(f"trial {trial}: {error}") from error


def combinations(sweep: SweepSettings, seed: int) -> list[Values]:
    """Combines every point with all values of the axes, the last axis fastest. A random search takes a sample."""
    points = [_by_key(point, "sweep.points") for point in sweep.points] or [{}]
    axes = _by_key(sweep.axes, "sweep.axes")
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            raise UserError(f"sweep.axes.{key}={shown(values)}: expected a list of values to try, such as [1,2]")
        different = {json.dumps(value, sort_keys=True) for value in values}
        if len(different) < len(values):
            raise UserError(f"sweep.axes.{key}={shown(values)}: a value is there twice; name each once")

    number = math.prod(map(len, [points, *axes.values()]))
    if number > MOST_COMBINATIONS:
        raise UserError(f"the sweep has {number:,} combinations of values: expected at most {MOST_COMBINATIONS:,}")
    grid = []
    for point, *choice in itertools.product(points, *axes.values()):
        # Where both set a key, the axis wins.
        grid.append({**point, **dict(zip(axes, choice, strict=True))})
    if sweep.search == "grid":
        return grid

    if sweep.samples is None or not 1 <= sweep.samples <= len(grid):
        raise UserError(
            f"sweep.search=random needs sweep.samples=<1 to {len(grid)}>, for there are {len(grid)} combinations to "
            f"draw from; got {sweep.samples}"
        )
    places = Random(derive_seed(seed, "sweep")).sample(range(len(grid)), sweep.samples)
    # Back in the grid's order, so that tables of a sample read like those of a grid.
    return [grid[place] for place in sorted(places)]


def _by_key(tree: Mapping[str, Any], where: str) -> Values:
    """Returns values by dotted key, each a key that may be varied."""
    values = dict(flat(tree))
    for key in values:
        check_key(key, where)
        group = key.partition(".")[0]
        if group == "seed":
            raise UserError(f"{where}: seed is not an axis; say sweep.seeds=<how many>, from seed= on")
        if group in FIXED:
            raise UserError(f"{where}: {key} is the same for the whole sweep; set it outside of sweep")
    return values


def groups(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Groups of trials that the same agents, replicas and judge can serve."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        plan = trial.plan
        judge = plan.models.judge
        role_models = [(role, backend.settings, backend.reader) for role, backend in plan.models.of_roles.items()]
        shared_processes = (
            plan.roles.launched,
            plan.config.model,
            judge and judge.settings,
            plan.config.reader,
            plan.config.agents,
            plan.config.completions,
            role_models,
        )
        groups.setdefault(repr(shared_processes), []).append(trial)
    return list(groups.values())
