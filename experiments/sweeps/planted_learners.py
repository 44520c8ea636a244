"""Planted worlds of a sweep of learners. They are tested, and drawn next to the live team's results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import ttest_1samp

from experiments.analysis.compare import KIND, UNATTACKED
from experiments.analysis.figures import style
from experiments.analysis.paired import UNKNOWN, adjusted_tests, verdict, verdict_text
from experiments.analysis.result_table import ResultTable
from experiments.analysis.run_facts import Metrics, metric_of
from experiments.config.config import Config
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker, WandbSettings
from experiments.records.trials import TrialResult, read_results
from experiments.studies.planted import testbed
from experiments.studies.planted.worlds import Outcome

FOLDER = "planted"  # in the folder of the sweep: the files of `job=planted`
TESTED = (
    "Utility of {name} minus full: {difference:+.3f} (95% interval {ci95[0]:+.3f} to {ci95[1]:+.3f}, p = {p_holm:.2g} "
    "adjusted; {n} teams): {found}."
)
PLANTED_MEASURES = ("AUC", "utility", "clean", "tokens")
LIVE_MEASURES = ("live AUC", "live utility", "live clean", "live tokens")

Means = dict[str, dict[str, float]]
"""Measures of each learner, NaN for unknown ones."""


def explore_planted(planted: Config, folder: Path) -> list[Outcome]:
    """Explores the worlds that are not recorded yet; returns the outcomes of all."""
    run = RunFolder(folder / FOLDER)
    run.path.mkdir(exist_ok=True)
    return testbed.run(run, planted, Tracker(folder, {}, WandbSettings(mode="disabled")))


def conclude_learners(
    config: Config, folder: Path, outcomes: Sequence[Outcome]
) -> tuple[Sequence[Path], Sequence[ResultTable]]:
    """Draws a sweep's learners and makes their table. Neither without outcomes or finished trials."""
    results = []
    for result in read_results(folder):
        # A sweep that does not vary the attack has the configuration's in each trial.
        results.append(replace(result, values={KIND: config.attack.kind, **result.values}))
    if not outcomes or not results:
        return [], []

    metric = metric_of(results[0].metrics)
    with style.drawing(config.figures.style):
        figure = draw_learners(outcomes, results, metric)
        figure_file = style.save(figure, folder / "figures", "learners")
    return [figure_file], [learners_table(outcomes, results, metric, config.compare.margin)]


def learners_table(
    outcomes: Sequence[Outcome], results: Sequence[TrialResult], metric: str, margin: float
) -> ResultTable:
    """Makes a row for each learner, with paired tests. It has means over planted teams and over trials, clean and
    attacked.

    The tests compare utilities of each kind of team with `full` by Student's t over teams, adjusted by Holm's method.
    """
    rows = _planted_means(outcomes)
    for name, live_measures in _live_means(results).items():
        rows[name] = rows.get(name, {}) | live_measures
    cells = {
        "AUC,\nplanted": "{AUC:.3f}|-",
        "utility,\nattacked": "{utility:.3f}|-",
        "\nclean": "{clean:.3f}|-",
        "thousands\nof messages": "{tokens:,.0f}|-",
        "AUC,\nlive": "{live AUC:.3f}|-",
        f"{metric},\nattacked": "{live utility:.3f}|-",
        "live,\nclean": "{live clean:.3f}|-",
        "million\ntokens": "{live tokens:.2f}|-",
    }

    tests = _tests(outcomes, margin)
    findings = []
    notes = []
    for name, test in tests.items():
        finding = verdict_text(test)
        if verdict(test) != UNKNOWN:
            findings.append(f"{name} is {finding}")
        notes.append(TESTED.format(name=name, found=finding, **test))
    worlds = len({outcome.world for outcome in outcomes})
    brief = [
        f"Planted: means of {worlds} worlds; live: of {len(results)} trials.",
        f"On planted worlds {len(tests)} paired tests against full, over teams, adjusted, show: "
        f"{'; '.join(findings) or 'no difference'}.",
    ]
    title = "Learners on planted worlds and on the team"
    return ResultTable.of("learner", rows, cells, [*brief, *notes], title, brief=brief)


def draw_learners(outcomes: Sequence[Outcome], results: Sequence[TrialResult], metric: str) -> Figure:
    """Draws AUC above, utility below, by training tokens. Attacked planted worlds are left, the live team right."""
    figure = Figure(figsize=(style.PAGE, 5.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", sharey="row")
    live_means = _live_means(results)
    learners = dict.fromkeys(outcome.learner for outcome in outcomes if outcome.spent)
    for number, learner in enumerate(learners):
        look = style.line_look(number)
        # Some scenarios have no adversary.
        attacked = [row for row in outcomes if row.learner == learner and row.world.adversary is not None]
        tokens = _mean_curve([row.spent for row in attacked])
        for axes, curve in zip(panels[:, 0], ("ranked", "reached"), strict=True):
            means = _mean_curve([getattr(row, curve) for row in attacked]).reindex(tokens.index)
            axes.plot(tokens / 1000, means, markersize=3, label=learner, **look)

        live_measures = live_means.get(learner, {})
        for axes, measure in zip(panels[:, 1], ("live AUC", "live utility"), strict=True):
            if pd.notna(live_measures.get(measure)):
                axes.plot([live_measures["live tokens"]], [live_measures[measure]], markersize=5, **look)

    for axes in panels[0]:
        axes.axhline(0.5, color="black", linewidth=0.6, linestyle=":")  # by chance alone
    for axes in panels.flat:
        style.plain(axes)
    panels[0, 0].set_title("planted worlds under attack")
    panels[0, 1].set_title("live team under attack")
    panels[0, 0].set_ylabel("AUC of the attackers' edges")
    panels[1, 0].set_ylabel(f"utility, {metric}")
    panels[1, 0].set_xlabel("training tokens (thousands of messages)")
    panels[1, 1].set_xlabel("training tokens (millions)")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _mean_curve(curves: Sequence[Mapping[int, float]]) -> "pd.Series[float]":
    """Averages curves at the checkpoints that all of them have."""
    frame = pd.DataFrame(curves).dropna(axis="columns")
    return frame.sort_index(axis="columns").mean()


def _tests(outcomes: Sequence[Outcome], margin: float) -> dict[str, Metrics]:
    """Tests each learner, on each kind of team, against `full` on the same teams."""
    utility_of_full = {outcome.world: outcome.utility for outcome in outcomes if outcome.learner == "full"}
    differences: dict[str, list[float]] = {}
    for outcome in outcomes:
        if outcome.spent:
            clean = ", clean" if outcome.world.adversary is None else ""
            name = f"{outcome.learner} ({outcome.world.influence}{clean})"
            differences.setdefault(name, []).append(outcome.utility - utility_of_full[outcome.world])

    tests = {}
    for name, values in differences.items():
        # Differences that do not vary have no t.
        if len(set(values)) > 1:
            difference_test = ttest_1samp(values, 0)
            margin_test = ttest_1samp(values, -margin, alternative="greater")
            tests[name] = {
                "difference": float(np.mean(values)),
                "n": len(values),
                "p_value": float(difference_test.pvalue),
                "p_margin": min(1.0, 2 * float(margin_test.pvalue)),
                "ci95": tuple(map(float, difference_test.confidence_interval())),
            }
    return dict(zip(tests, adjusted_tests([*tests.values()], margin), strict=True))


def _planted_means(outcomes: Sequence[Outcome]) -> Means:
    """Averages each learner's measures over planted teams, clean and attacked."""
    rows = []
    for outcome in outcomes:
        row: dict[str, Any] = {"learner": outcome.learner}
        if outcome.spent:
            row["tokens"] = max(outcome.spent.values()) / 1000
        if outcome.world.adversary is None:
            row["clean"] = outcome.utility
        else:
            row["AUC"] = outcome.auc_adversary
            row["utility"] = outcome.utility
        rows.append(row)
    return _means(rows, PLANTED_MEASURES)


def _live_means(results: Sequence[TrialResult]) -> Means:
    """Averages each learner's measures over trials, clean and attacked."""
    rows = []
    for result in results:
        is_clean = result.values.get(KIND) in UNATTACKED
        for name, measures in result.metrics["methods"].items():
            row: dict[str, Any] = {"learner": name}
            if is_clean:
                row["live clean"] = measures.get("utility")
            else:
                row["live AUC"] = measures.get("auc_attacker")
                row["live utility"] = measures.get("utility")
                row["live tokens"] = (measures.get("training_tokens") or 0) / 1e6
            rows.append(row)
    return _means(rows, LIVE_MEASURES)


def _means(rows: Sequence[dict[str, Any]], measures: Sequence[str]) -> Means:
    frame = pd.DataFrame(rows, columns=["learner", *measures]).set_index("learner").astype(float)
    means: Means = frame.groupby(level="learner", sort=False).mean().to_dict("index")
    return means
