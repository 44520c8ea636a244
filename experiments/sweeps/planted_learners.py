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
from experiments.analysis.paired import UNKNOWN, adjusted_tests, verdict_text
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
    tests, rows = _tests(outcomes, margin), dict[str, dict[str, Any]]()
    for name in dict.fromkeys(outcome.learner for outcome in outcomes):
        own = [row for row in outcomes if row.learner == name]
        attacked = [row for row in own if row.world.adversary is not None]
        rows[name] = {
            "AUC": known_mean([row.auc_adversary for row in attacked]),
            "utility": known_mean([row.utility for row in attacked]),
            "clean": known_mean([row.utility for row in own if row.world.adversary is None]),
            "tokens": known_mean([max(row.spent.values()) / 1000 for row in own if row.spent]),
        }
    for name, live in _live(results).items():
        rows[name] = rows.get(name, {}) | live
    columns = {
        "AUC,\nplanted": "{AUC:.3f}|-",
        "utility,\nattacked": "{utility:.3f}|-",
        "\nclean": "{clean:.3f}|-",
        "thousands\nof messages": "{tokens:,.0f}|-",
        "AUC,\nlive": "{live AUC:.3f}|-",
        f"{metric},\nattacked": "{live utility:.3f}|-",
        "live,\nclean": "{live clean:.3f}|-",
        "million\ntokens": "{live tokens:.2f}|-",
    }
    known = [f"{name} is {found}" for name, test in tests.items() if (found := verdict_text(test)) != UNKNOWN]
    brief = [
        f"Planted: means of {len({outcome.world for outcome in outcomes})} worlds; live: of {len(results)} trials.",
        f"On planted worlds {len(tests)} paired tests against full, over teams, adjusted, show: "
        f"{'; '.join(known) or 'no difference'}.",
    ]
    notes = [
        f"Utility of {name} minus full: {test['difference']:+.3f} (95% interval {test['ci95'][0]:+.3f} to "
        f"{test['ci95'][1]:+.3f}, p = {test['p_holm']:.2g} adjusted; {test['n']} teams): {verdict_text(test)}."
        for name, test in tests.items()
    ]
    title = "Learners on planted worlds and on the team"
    return ResultTable.of("learner", rows, columns, [*brief, *notes], title, brief=brief)


def draw_learners(outcomes: Sequence[Outcome], results: Sequence[TrialResult], metric: str) -> Figure:
    """Draws AUC above, utility below, by training tokens. Attacked planted worlds are left, the live team right."""
    figure = Figure(figsize=(style.PAGE, 5.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", sharey="row")
    live, names = _live(results), dict.fromkeys(outcome.learner for outcome in outcomes if outcome.spent)
    for i, name in enumerate(names):
        look = style.line_look(i)
        rows = [row for row in outcomes if row.learner == name and row.world.adversary is not None]
        # Some scenarios have no adversary.
        used = sorted(set.intersection(*(set(row.spent) for row in rows))) if rows else []
        spent = [np.mean([row.spent[at] for row in rows]) / 1000 for at in used]
        for axes, curve in zip(panels[:, 0], ("ranked", "reached"), strict=True):
            means = [np.mean([getattr(row, curve).get(at, np.nan) for row in rows]) for at in used]
            axes.plot(spent, means, markersize=3, label=name, **look)
        for axes, measure in zip(panels[:, 1], ("AUC", "utility"), strict=True):
            if (point := live.get(name, {})).get(f"live {measure}") is not None:
                axes.plot([point["live tokens"]], [point[f"live {measure}"]], markersize=5, **look)
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
    full = {row.world: row.utility for row in outcomes if row.learner == "full"}
    groups: dict[str, list[float]] = {}
    for row in outcomes:
        if row.spent:
            team = f"{row.world.influence}{'' if row.world.adversary is not None else ', clean'}"
            groups.setdefault(f"{row.learner} ({team})", []).append(row.utility - full[row.world])
    # Differences that do not vary have no t.
    groups = {name: values for name, values in groups.items() if len(set(values)) > 1}
    tests = []
    for values in groups.values():
        found, above = ttest_1samp(values, 0), ttest_1samp(values, -margin, alternative="greater")
        test = {"difference": float(np.mean(values)), "n": len(values), "p_value": float(found.pvalue)}
        p_margin, ci95 = min(1.0, 2 * float(above.pvalue)), tuple(map(float, found.confidence_interval()))
        tests.append({**test, "p_margin": p_margin, "ci95": ci95})
    return dict(zip(groups, adjusted_tests(tests, margin), strict=True))


def _live(results: Sequence[TrialResult]) -> dict[str, dict[str, Any]]:
    def mean(name: str, measure: str, clean: bool) -> float | None:
        trials = [result for result in results if (result.values.get(KIND) in UNATTACKED) == clean]
        return known_mean([result.metrics["methods"].get(name, {}).get(measure) for result in trials])

    names = dict.fromkeys(name for result in results for name in result.metrics["methods"])
    return {
        name: {
            "live AUC": mean(name, "auc_attacker", False),
            "live utility": mean(name, "utility", False),
            "live clean": mean(name, "utility", True),
            "live tokens": (mean(name, "training_tokens", False) or 0) / 1e6,
        }
        for name in names
    }
