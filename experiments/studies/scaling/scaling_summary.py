"""Discussions by size of the team: medians, fitted exponents, and how close learners come to the law."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.intervals import Interval, bootstrap_interval
from experiments.analysis.result_table import ResultTable
from experiments.config.study_settings import ScalingSettings
from experiments.studies.scaling.scaled_team import FINAL_LAW, LAWS, OWN_LAW, Reached

NOTES = (
    "Discussions until the edges of a liar rank below the others for good: the median over teams.",
    "Exponent b: discussions grow like N^b, fitted over the sizes at which all teams got there; 95% interval.",
    "Share of law: the law's discussions divided by the learner's, over the same teams. The law of own answers is for "
    "learners that see the answers of all agents, that of the final answer for learners that see its score alone.",
)


@dataclass(frozen=True)
class ScalingSummary:
    """One learner, or one law, over all teams.

    medians: discussions by number of agents, without the sizes at which half of the teams or more needed more than were
        tried, or the law is unknown.
    reached: numbers of teams that got there.
    exponent, of_own_law, of_final_law: None where too few did.
    """

    learner: str
    medians: dict[int, float]
    reached: dict[int, int]
    exponent: float | None
    ci95: Interval | None
    of_own_law: float | None
    of_final_law: float | None


def summarise(outcomes: Sequence[Reached], settings: ScalingSettings, seed: int) -> list[ScalingSummary]:
    """Summarises the outcomes by learner, in the order of the settings, the laws first."""
    tables = pd.DataFrame([{**asdict(outcome.world), **asdict(outcome)} for outcome in outcomes])
    by_learner = {}
    for learner, rows in tables.groupby("learner", sort=False):
        # A row for each size and a column for each team; missing where the team needed more than were tried.
        by_learner[learner] = rows.pivot(index="agents", columns="number", values="discussions").astype(float)

    summaries = []
    for learner in (*LAWS, *settings.learners):
        discussions = by_learner[learner]
        medians = discussions.fillna(np.inf).median(axis=1)
        exponent = None
        ci95 = None
        whole_sizes = discussions.dropna()
        if len(whole_sizes) > 1:
            # A line for each team: the same questions at all sizes make a team's numbers go up and down together.
            slopes, _ = np.polyfit(np.log(whole_sizes.index), np.log(whole_sizes), deg=1)
            exponent = float(np.mean(slopes))
            ci95 = bootstrap_interval(slopes, seed)
        summaries.append(
            ScalingSummary(
                learner=learner,
                medians={size: float(medians[size]) for size in settings.agents if np.isfinite(medians[size])},
                reached={size: int(discussions.loc[size].count()) for size in settings.agents},
                exponent=exponent,
                ci95=ci95,
                of_own_law=known_median(by_learner[OWN_LAW] / discussions),
                of_final_law=known_median(by_learner[FINAL_LAW] / discussions),
            )
        )
    return summaries


def known_median(ratios: pd.DataFrame) -> float | None:
    """Median of the known values. None without any."""
    known_ratios = ratios.stack().dropna()
    return float(known_ratios.median()) if len(known_ratios) else None


def scaling_table(summaries: Sequence[ScalingSummary], settings: ScalingSettings) -> ResultTable:
    """Makes the table: a row for each law and learner, a column for each size."""
    rows = []
    for summary in summaries:
        cells = []
        for size in settings.agents:
            if size in summary.medians:
                cells.append(f"{summary.medians[size]:,.0f}")
            elif summary.learner in LAWS:
                cells.append("unknown")
            else:
                cells.append(f"> {settings.discussions:,}")
        exponent = "-"
        if summary.exponent is not None and summary.ci95 is not None:
            exponent = f"{summary.exponent:.2f} ({summary.ci95[0]:.2f} to {summary.ci95[1]:.2f})"
        shares = []
        for share in (summary.of_own_law, summary.of_final_law):
            shares.append("-" if share is None or summary.learner in LAWS else f"{share:.3g}")
        rows.append((summary.learner, *cells, exponent, *shares))
    sizes = [f"{size}\nagents" for size in settings.agents]
    return ResultTable(("learner", *sizes, "exponent", "share of\nown law", "share of\nfinal law"), rows, NOTES)


def scaling_metrics(summaries: Sequence[ScalingSummary]) -> dict[str, Any]:
    """Measures as in a run's metrics.json, one row for each learner."""
    methods = {}
    for summary in summaries:
        row = asdict(summary)
        for size, median in row.pop("medians").items():
            row[f"discussions, {size} agents"] = median
        for size, teams in row.pop("reached").items():
            row[f"reached, {size} agents"] = teams
        methods[row.pop("learner")] = row
    return {"methods": methods, "paired": {}}
