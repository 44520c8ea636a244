"""Draws the figures of a run and of a sweep, from their records."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, Arm, arms_of, arms_of_trials, merge, varied
from experiments.analysis.embedded import attacked_agents
from experiments.analysis.figures.learned import edge_heatmaps, learned_graph, learning_curves
from experiments.analysis.figures.style import save
from experiments.analysis.figures.sweeps import by_position, by_setting, utility_against_tokens, utility_and_seconds
from experiments.analysis.figures.systems import DEBATE, PATHS, by_paths, condensation, f1_by_supporting, path_arms
from experiments.analysis.gains import control_names
from experiments.analysis.run_facts import Metrics, metric_of
from experiments.analysis.scores import FinishedRun
from experiments.records.recorder import RunFolder
from experiments.records.trials import TrialResult

Figures = dict[str, Figure | None]  # by name; None is not drawn


def draw_run(run: RunFolder, metrics: Metrics, timed: bool = False) -> list[Path]:
    """Draws every figure of a run into its folder, as PDF, SVG and PNG. Returns the PNGs' paths.

    timed: the run had one discussion at a time and used no completion cache, so seconds can be compared.
    """
    figures: Figures = {}
    metric = metric_of(metrics)
    for graph in run.all_learned():
        figures |= {f"{graph.name}-{name}": figure for name, figure in edge_heatmaps(graph).items()}
        figures[f"{graph.name}-learned-graph"] = learned_graph(graph, attacked_agents(run, graph.name))
        figures[f"{graph.name}-learning-curves"] = learning_curves(graph)
    rows = metrics["methods"]
    if DEBATE in rows:
        figures["blueprint-changes"] = condensation(run)
    hidden = list(control_names(metrics))
    concluded = {
        arm.method: arm
        for arm in arms_of_trials([FinishedRun(run, metrics=metrics)])
        if rows[arm.method]["utility"] is not None and arm.method not in hidden
    }
    twins = metrics.get("clean", {})
    clean = [replace(concluded.pop(twin), method=name) for name, twin in twins.items() if twin in concluded]
    arms = list(concluded.values())
    if clean:
        attacks = [UNATTACKED[0], "attacked"]
        both = [replace(arm, values={KIND: "attacked"}) for arm in arms]
        both += [replace(arm, values={KIND: UNATTACKED[0]}) for arm in clean]
        figures["attacked-and-clean"] = by_setting(both, {KIND: attacks}, metric)
    figures |= _costs(arms, metric, timed)
    return _saved(figures, run.figures)


def draw_sweep(
    folder: Path, results: Sequence[TrialResult], trials: Sequence[FinishedRun], metric: str, timed: bool = False
) -> list[Path]:
    """Draws every figure that a sweep has results for, below `figures/`. Returns the PNGs' paths.

    Intervals are over questions and trials; each trial is a faint point. Trials without an evaluation are left out.
    """
    arms = arms_of(arms_of_trials(trials), results)
    if not arms:
        return []
    keys = varied(results)
    figures: Figures = {}
    if KIND in keys:
        # The position has its own figure; elsewhere its trials count as repetitions, as seeds do.
        if POSITION in keys:
            figures["attackers-position"] = by_position(arms, keys, metric)
            arms = merge(arms, over=[POSITION])
        kinds = sorted(keys.pop(KIND), key=lambda kind: kind not in UNATTACKED)
        others = {key: values for key, values in keys.items() if key != POSITION}
        figures["attacks"] = by_setting(arms, {KIND: kinds, **others}, metric)
    # Without any axis there is one setting only, which the figure of costs shows.
    elif keys:
        figures["settings"] = by_setting(arms, keys, metric)
    if all(key.partition(".")[0] == "data" for key in keys):
        figures["f1-by-supporting"] = f1_by_supporting([trial.answers for trial in trials])
    if PATHS in keys:
        following, reached = path_arms(trials)
        if following:
            figures["paths"] = by_paths(following, reached, metric)
    figures |= _costs(arms, metric, timed)
    return _saved(figures, folder / "figures")


def _costs(arms: Sequence[Arm], metric: str, timed: bool) -> Figures:
    figures: Figures = {}
    if arms:
        figures["utility-against-tokens"] = utility_against_tokens(arms, metric)
        if timed:
            figures["utility-and-seconds"] = utility_and_seconds(arms, metric)
    return figures


def _saved(figures: Mapping[str, Figure | None], folder: Path) -> list[Path]:
    return [save(figure, folder, name) for name, figure in figures.items() if figure is not None]
