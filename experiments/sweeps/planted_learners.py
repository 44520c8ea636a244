"""Planted worlds of a sweep of learners. They are tested, and drawn next to the live team's results."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ttest_1samp

from experiments.analysis.compare import KIND, UNATTACKED
from experiments.analysis.figures import style
from experiments.analysis.paired import UNKNOWN, adjusted_tests, verdict, verdict_text
from experiments.analysis.result_table import ResultTable
from experiments.analysis.run_facts import Metrics, metric_of
from experiments.analysis.statistics import known_mean
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


def explore_planted(planted: Config, folder: Path) -> list[Outcome]:
    """Explores the worlds that are not recorded yet; returns the outcomes of all."""
    (folder / FOLDER).mkdir(exist_ok=True)
    return testbed.run(RunFolder(folder / FOLDER), planted, Tracker(folder, {}, WandbSettings(mode="disabled")))


def conclude_learners(
    config: Config, folder: Path, outcomes: Sequence[Outcome]
) -> tuple[Sequence[Path], Sequence[ResultTable]]:
    """Draws a sweep's learners and makes their table. Neither without outcomes or finished trials."""
    # A sweep that does not vary the attack has the configuration's in each trial.
    results = [replace(one, values={KIND: config.attack.kind, **one.values}) for one in read_results(folder)]
    if not outcomes or not results:
        return [], []
    metric = metric_of(results[0].metrics)
    with style.drawing(config.figures.style):
        drawn = style.save(draw_learners(outcomes, results, metric), folder / "figures", "learners")
    return [drawn], [learners_table(outcomes, results, metric, config.compare.margin)]


def learners_table(
    outcomes: Sequence[Outcome], results: Sequence[TrialResult], metric: str, margin: float
) -> ResultTable:
    """Makes a row for each learner, with paired tests. It has means over planted teams and over trials, clean and
    attacked.

    The tests compare utilities of each kind of team with `full` by Student's t over teams, adjusted by Holm's method.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(outcome.learner for outcome in outcomes):
        of_learner = [outcome for outcome in outcomes if outcome.learner == name]
        attacked = [outcome for outcome in of_learner if outcome.world.adversary is not None]
        clean = [outcome for outcome in of_learner if outcome.world.adversary is None]
        rows[name] = {
            "AUC": known_mean([outcome.auc_adversary for outcome in attacked]),
            "utility": known_mean([outcome.utility for outcome in attacked]),
            "clean": known_mean([outcome.utility for outcome in clean]),
            "tokens": known_mean([max(outcome.spent.values()) / 1000 for outcome in of_learner if outcome.spent]),
        }
    for name, measures in _live(results).items():
        rows[name] = rows.get(name, {}) | measures
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
    findings = [f"{name} is {verdict_text(test)}" for name, test in tests.items() if verdict(test) != UNKNOWN]
    worlds = len({outcome.world for outcome in outcomes})
    brief = [
        f"Planted: means of {worlds} worlds; live: of {len(results)} trials.",
        f"On planted worlds {len(tests)} paired tests against full, over teams, adjusted, show: "
        f"{'; '.join(findings) or 'no difference'}.",
    ]
    notes = [TESTED.format(name=name, found=verdict_text(test), **test) for name, test in tests.items()]
    title = "Learners on planted worlds and on the team"
    return ResultTable.of("learner", rows, cells, [*brief, *notes], title, brief=brief)


def draw_learners(outcomes: Sequence[Outcome], results: Sequence[TrialResult], metric: str) -> Figure:
    """Draws AUC above, utility below, by training tokens. Attacked planted worlds are left, the live team right."""
    figure = Figure(figsize=(style.PAGE, 5.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", sharey="row")
    live = _live(results)
    names = dict.fromkeys(outcome.learner for outcome in outcomes if outcome.spent)
    for number, name in enumerate(names):
        look = style.line_look(number)
        attacked = [row for row in outcomes if row.learner == name and row.world.adversary is not None]
        # Some scenarios have no adversary.
        checkpoints = sorted(set.intersection(*(set(row.spent) for row in attacked))) if attacked else []
        spent = [np.mean([row.spent[checkpoint] for row in attacked]) / 1000 for checkpoint in checkpoints]
        for axes, curve in zip(panels[:, 0], ("ranked", "reached"), strict=True):
            curves = [getattr(row, curve) for row in attacked]
            means = [np.mean([values.get(checkpoint, np.nan) for values in curves]) for checkpoint in checkpoints]
            axes.plot(spent, means, markersize=3, label=name, **look)
        measures = live.get(name, {})
        for axes, measure in zip(panels[:, 1], ("live AUC", "live utility"), strict=True):
            if measures.get(measure) is not None:
                axes.plot([measures["live tokens"]], [measures[measure]], markersize=5, **look)
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


def _tests(outcomes: Sequence[Outcome], margin: float) -> dict[str, Metrics]:
    """Tests each learner, on each kind of team, against `full` on the same teams."""
    full = {outcome.world: outcome.utility for outcome in outcomes if outcome.learner == "full"}
    differences: dict[str, list[float]] = {}
    for outcome in outcomes:
        if outcome.spent:
            clean = ", clean" if outcome.world.adversary is None else ""
            name = f"{outcome.learner} ({outcome.world.influence}{clean})"
            differences.setdefault(name, []).append(outcome.utility - full[outcome.world])
    tests = {}
    for name, values in differences.items():
        # Differences that do not vary have no t.
        if len(set(values)) > 1:
            different = ttest_1samp(values, 0)
            above = ttest_1samp(values, -margin, alternative="greater")
            tests[name] = {
                "difference": float(np.mean(values)),
                "n": len(values),
                "p_value": float(different.pvalue),
                "p_margin": min(1.0, 2 * float(above.pvalue)),
                "ci95": tuple(map(float, different.confidence_interval())),
            }
    return dict(zip(tests, adjusted_tests([*tests.values()], margin), strict=True))


def _live(results: Sequence[TrialResult]) -> dict[str, dict[str, Any]]:
    """Averages each learner's measures over trials, clean and attacked."""
    clean = [result.metrics["methods"] for result in results if result.values.get(KIND) in UNATTACKED]
    attacked = [result.metrics["methods"] for result in results if result.values.get(KIND) not in UNATTACKED]

    def mean(trials: Sequence[Metrics], name: str, measure: str) -> float | None:
        return known_mean([methods.get(name, {}).get(measure) for methods in trials])

    names = dict.fromkeys(name for result in results for name in result.metrics["methods"])
    return {
        name: {
            "live AUC": mean(attacked, name, "auc_attacker"),
            "live utility": mean(attacked, name, "utility"),
            "live clean": mean(clean, name, "utility"),
            "live tokens": (mean(attacked, name, "training_tokens") or 0) / 1e6,
        }
        for name in names
    }
