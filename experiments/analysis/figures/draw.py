"""Draws the figures of a run and of a sweep, from their records."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

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

# Where a run with an attack is evaluated without it as well.
EVALUATION = "evaluation"
ATTACKED = "attacked"
CLEAN = "not attacked"

Figures = dict[str, Figure | Path | None]  # by name: drawn, or saved already; None is not drawn


def draw_training(run: RunFolder, method: str) -> Figures:
    """Draws the figures of a learned graph's training into the run's folder, and returns the PNGs' paths."""
    return _saved(_training_figures(run.learned(method)), run.figures)


def draw_graph(run: RunFolder, method: str) -> Figures:
    """Draws a learned graph into the run's folder, as `draw_training`, once all discussions are recorded."""
    return _saved(_graph_figure(run, run.learned(method)), run.figures)


def draw_run(
    run: RunFolder, metrics: Metrics, timed: bool = False, drawn: Mapping[str, Figures] = MappingProxyType({})
) -> list[Path]:
    """Draws every figure of a run into its folder, as PDF, SVG and PNG. Returns the PNGs' paths.

    timed: the run had one discussion at a time and used no completion cache, so seconds can be compared.
    drawn: what `draw_training` and `draw_graph` have drawn, by method.
    """
    figures: Figures = {}
    metric = metric_of(metrics)
    for graph in run.all_learned():
        figures |= drawn.get(graph.name) or (_training_figures(graph) | _graph_figure(run, graph))
    rows = metrics["methods"]
    if DEBATE in rows:
        figures["blueprint-changes"] = condensation(run)

    # Methods about which nothing is concluded have no utility.
    controls = list(control_names(metrics))
    arms = {}
    for arm in arms_of_trials([FinishedRun(run, metrics=metrics)]):
        if rows[arm.method]["utility"] is not None and arm.method not in controls:
            arms[arm.method] = replace(arm, group=arm.method)
    clean_arms = []
    for method, twin in metrics.get("clean", {}).items():
        if twin in arms:
            clean_arms.append(replace(arms.pop(twin), method=method, values={EVALUATION: CLEAN}))
    if clean_arms:
        attacked_arms = [replace(arm, values={EVALUATION: ATTACKED}) for arm in arms.values()]
        figures["attacked-and-clean"] = by_setting(attacked_arms + clean_arms, {EVALUATION: [CLEAN, ATTACKED]}, metric)
    figures |= _costs(list(arms.values()), metric, timed)
    return _paths(figures, run.figures)


def draw_sweep(
    folder: Path,
    results: Sequence[TrialResult],
    trials: Sequence[FinishedRun],
    metric: str,
    timed: bool = False,
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
        other_keys = {key: values for key, values in keys.items() if key != POSITION}
        figures["attacks"] = by_setting(arms, {KIND: kinds, **other_keys}, metric)
    # Without any axis there is one setting only, which the figure of costs shows.
    elif keys:
        figures["settings"] = by_setting(arms, keys, metric)
    if all(key.startswith("data.") for key in keys):
        figures["f1-by-supporting"] = f1_by_supporting([trial.answers for trial in trials])
    if PATHS in keys:
        following, reached = path_arms(trials)
        if following:
            figures["paths"] = by_paths(following, reached, metric)
    figures |= _costs(arms, metric, timed)
    return _paths(figures, folder / "figures")


def _training_figures(graph: RunFolder) -> Figures:
    figures: Figures = {}
    for name, figure in edge_heatmaps(graph).items():
        figures[f"{graph.name}-{name}"] = figure
    # Its place in the report: evaluations may be the first to tell which agents are attacked.
    figures[f"{graph.name}-learned-graph"] = None
    figures[f"{graph.name}-learning-curves"] = learning_curves(graph)
    return figures


def _graph_figure(run: RunFolder, graph: RunFolder) -> Figures:
    return {f"{graph.name}-learned-graph": learned_graph(graph, attacked_agents(run, graph.name))}


def _costs(arms: Sequence[Arm], metric: str, timed: bool) -> Figures:
    figures: Figures = {}
    if arms:
        figures["utility-against-tokens"] = utility_against_tokens(arms, metric)
        if timed:
            figures["utility-and-seconds"] = utility_and_seconds(arms, metric)
    return figures


def _saved(figures: Figures, folder: Path) -> Figures:
    saved: Figures = {}
    for name, figure in figures.items():
        saved[name] = save(figure, folder, name) if isinstance(figure, Figure) else figure
    return saved


def _paths(figures: Figures, folder: Path) -> list[Path]:
    """Saves figures that are not saved yet, and returns the paths of all."""
    return [path for path in _saved(figures, folder).values() if isinstance(path, Path)]
