"""Figures of the systems' papers: BDoG's Fig. 4 (blueprint changes), MH-MMKG's Fig. 6a (paths), MMAPG's Fig. 4 (F1)."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from actors.messages import FieldKind, Trace
from experiments.analysis.compare import Arm, arms_by_method, merge, trial_arm
from experiments.analysis.figures import style
from experiments.analysis.figures.sweeps import over, over_keys
from experiments.analysis.scores import Answers, FinishedRun
from experiments.records.recorder import RunFolder
from topologies.systems.bdog import MODERATOR, OPPONENTS, PROPONENTS
from topologies.systems.bdog_graph import Blueprint, Change, change, read_triples

DEBATE = "bdog"  # the method whose debaters state graphs
SUPPORTERS = frozenset(role.name for role in PROPONENTS)
CHALLENGERS = frozenset(role.name for role in OPPONENTS)
PATHS = "systems.paths"
SUPPORTING = "supporting"  # the tag of questions whose data set names the documents that they rest on
CHANGES = {"updated": "attributes updated", "pruned": "pruned", "added": "added"}

Changes = dict[int, list[Change]]  # of all discussions, by round


def condensation(run: RunFolder) -> Figure | None:
    """Draws changes of debates' blueprint graphs, within a round and between rounds.

    Bars are mean numbers of attributes updated, and of entities and relations pruned and added; a discussion counts in
    the rounds that it had, within a round once for each pair of debaters. None where there was no debate on a graph.
    """
    within, between = changes(run.traces(f"evaluate-{DEBATE}"))
    if not within:
        return None
    figure, panels = style.panels(2, 2, height=2.1, sharey=True)
    panels[0].set_title("from the proponent's graph to the opponent's")
    panels[1].set_title("from the round before")
    for axes, by_round in zip(panels, (within, between), strict=True):
        rounds = sorted(by_round)
        for place, (measure, label) in enumerate(CHANGES.items()):
            means = [float(np.mean(list(map(attrgetter(measure), by_round[number])))) for number in rounds]
            xs = [number + 0.26 * (place - 1) for number in rounds]
            style.bars(axes, place, xs, heights=means, width=0.24, label=label)
        axes.set_xlabel("round")
        axes.set_xticks(rounds)
        style.plain(axes)
    panels[0].set_ylabel("changes per discussion")
    style.legend_above(figure, panels[0], columns=3)
    return figure


def changes(traces: Iterable[Trace]) -> tuple[Changes, Changes]:
    """Returns the changes within each round, and those from the round before."""
    within: Changes = {}
    between: Changes = {}
    for trace in traces:
        graph = Blueprint()
        before = graph  # the graph with which the round began
        number = 1
        for turn in trace.turns:
            stated_graph = read_triples(turn.values(FieldKind.TRIPLE))
            # A side that stated no graph left it as it was.
            if turn.agent in SUPPORTERS:
                affirmative = stated_graph or graph
            elif turn.agent in CHALLENGERS:
                graph = stated_graph or affirmative
                within.setdefault(number, []).append(change(affirmative, graph))
            elif turn.agent == MODERATOR.name:
                if number > 1:
                    between.setdefault(number, []).append(change(before, graph))
                before = graph
                number += 1
            else:
                graph = stated_graph
    return within, between


def path_arms(trials: Sequence[FinishedRun]) -> tuple[list[Arm], dict[tuple[str, int], list[int]]]:
    """Reads the answers of all methods that follow paths, in a sweep's trials.

    Scores are 1 where the judge accepted the answer, or the data set's utility without a judge. The second value has
    the questions for which a method found as many paths as it may rest on, of each trial, by method and that number.
    """
    arms = []
    reached: dict[tuple[str, int], list[int]] = {}
    for trial in trials:
        limit = int(trial.values[PATHS])
        for method, answers in trial.answers.items():
            if answers["path_count"].notna().any():
                questions = int((answers["path_count"] >= limit).sum())
                reached.setdefault((method, limit), []).append(questions)
                scores = answers["acc_star"].fillna(answers["utility"])
                arms.append(
                    trial_arm(
                        method,
                        {PATHS: limit},
                        trial.seed,
                        scores=scores,
                        clusters=scores.index,
                    )
                )
    return merge(arms), reached


def by_paths(arms: Sequence[Arm], reached: Mapping[tuple[str, int], Sequence[int]], metric: str) -> Figure:
    """Draws accuracy by the most paths that an answer may rest on. Bars count the questions with so many paths."""
    limits = sorted({limit for _, limit in reached})
    methods = list(arms_by_method(arms))
    figure = Figure(figsize=(style.COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.twinx()
    for (method, limit), counts in reached.items():
        place = methods.index(method)
        x = limit + style.offset(place, len(methods), 0.6)
        style.bars(
            bars,
            place,
            [x],
            heights=[float(np.mean(counts))],
            width=0.6 / len(methods),
        )
    over(axes, arms, PATHS, values=limits, with_lines=True)

    # The lines in front of the bars, which belong to the other axis.
    axes.set_zorder(bars.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.set_xlabel("most paths that an answer rests on")
    axes.set_ylabel(f"{metric}, judged where there is a judge\n(lines, 95% interval)")
    bars.set_ylabel("questions with so many paths (bars)")
    axes.legend(loc="best")
    return figure


def f1_by_supporting(trials: Sequence[Answers]) -> Figure | None:
    """Draws each method's mean F1 by the number of documents behind a question.

    trials: answers by method and question; intervals are over both. None where there are not two numbers to compare.
    """
    name = "supporting documents of a question"
    arms = []
    for place, trial in enumerate(trials):
        for method, answers in trial.items():
            supporting = pd.Series([dict(tags).get(SUPPORTING) for tags in answers["tags"]], answers.index)
            for number, scores in answers["f1"].groupby(supporting):
                arms.append(
                    trial_arm(
                        method,
                        {name: number},
                        place,
                        scores=scores,
                        clusters=scores.index,
                    )
                )
    numbers = sorted({arm.values[name] for arm in arms})
    if len(numbers) < 2:
        return None
    return over_keys(merge(arms), {name: numbers}, "F1")
