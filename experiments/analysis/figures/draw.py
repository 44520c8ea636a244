"""Draws the figures of a run and of a sweep, from their records."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from experiments.analysis.compare import KIND, POSITION, UNATTACKED, arms_of, arms_of_trials, merge, varied
from experiments.analysis.embedded import attacked_agents
from experiments.analysis.figures.learned import edge_heatmaps, learned_graph, learning_curves
from experiments.analysis.figures.style import save
from experiments.analysis.figures.sweeps import by_position, by_setting, utility_against_tokens, utility_and_seconds
from experiments.analysis.figures.systems import DEBATE, PATHS, by_paths, condensation, f1_by_supporting, path_arms
from experiments.analysis.gains import control_names
from experiments.analysis.scores import FinishedRun
from experiments.analysis.summary import Metrics, metric_of
from experiments.records.recorder import RunFolder
from experiments.records.trials import TrialResult


def draw_run(run: RunFolder, metrics: Metrics, timed: bool = False) -> list[Path]:
    """Draws every figure of a run into its folder, as PDF, SVG and PNG. Returns the PNGs' paths.

    timed: the run had one discussion at a time and used no completion cache, so seconds can be compared.
    """
    figures: dict[str, Figure] = {}
    metric = metric_of(metrics)
    for graph in run.all_learned():
        figures |= {f"{graph.name}-{name}": figure for name, figure in edge_heatmaps(graph).items()}
        if drawn := learned_graph(graph, attacked_agents(run, graph.name)):
            figures[f"{graph.name}-learned-graph"] = drawn
        if curves := learning_curves(graph):
            figures[f"{graph.name}-learning-curves"] = curves
    if DEBATE in metrics["methods"] and (blueprints := condensation(run)):
        figures["blueprint-changes"] = blueprints
    hidden, rows = list(control_names(metrics)), metrics["methods"]
    concluded = {
        arm.method: arm
        for arm in arms_of_trials([FinishedRun(run, metrics=metrics)])
        if rows[arm.method]["utility"] is not None and arm.method not in hidden
    }
    clean = {method: concluded.pop(twin) for method, twin in metrics.get("clean", {}).items() if twin in concluded}
    arms = list(concluded.values())
    if clean:
        under = [replace(arm, values={KIND: "attacked"}) for arm in arms]
        under += [replace(arm, method=name, values={KIND: UNATTACKED[0]}) for name, arm in clean.items()]
        figures["attacked-and-clean"] = by_setting(under, {KIND: [UNATTACKED[0], "attacked"]}, metric)
    if arms:
        figures["utility-against-tokens"] = utility_against_tokens(arms, metric)
        if timed:
            figures["utility-and-seconds"] = utility_and_seconds(arms, metric)
    return [save(figure, run.figures, name) for name, figure in figures.items()]


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
    figures: dict[str, Figure] = {}
    if KIND in keys:
        # The position has its own figure; elsewhere its trials count as repetitions, as seeds do.
        if POSITION in keys:
            figures["attackers-position"] = by_position(arms, keys, metric)
            arms = merge(arms, over=[POSITION])
        kinds_first = {KIND: sorted(keys.pop(KIND), key=lambda kind: kind not in UNATTACKED)}
        figures["attacks"] = by_setting(arms, kinds_first | {key: keys[key] for key in keys if key != POSITION}, metric)
    # Without any axis there is one setting only, which the figure of costs shows.
    elif keys:
        figures["settings"] = by_setting(arms, keys, metric)
    of_data = all(key.partition(".")[0] == "data" for key in keys)
    if of_data and (supporting := f1_by_supporting([trial.answers for trial in trials])):
        figures["f1-by-supporting"] = supporting
    if PATHS in keys and (followed := path_arms(trials))[0]:
        figures["paths"] = by_paths(*followed, metric)
    figures["utility-against-tokens"] = utility_against_tokens(arms, metric)
    if timed:
        figures["utility-and-seconds"] = utility_and_seconds(arms, metric)
    return [save(figure, folder / "figures", name) for name, figure in figures.items()]
