"""Figures of the systems' papers: BDoG's Fig. 4 (blueprint changes), MH-MMKG's Fig. 6a (paths), MMAPG's Fig. 4 (F1)."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from actors.messages import FieldKind, Trace
from experiments.analysis.compare import Arm, merge, methods_in, trial_arm
from experiments.analysis.figures import style
from experiments.analysis.figures.sweeps import over, over_keys
from experiments.analysis.scores import Answers, FinishedRun
from experiments.records.recorder import RunFolder
from topologies.systems.bdog import OPPONENT, PROPONENT
from topologies.systems.bdog_graph import Blueprint, Change, change, read_triples

DEBATE = "bdog"  # the method whose debaters state graphs
PATHS = "systems.paths"
SUPPORTING = "supporting"  # the tag of questions whose data set names the documents that they rest on

Changes = dict[int, list[Change]]  # of all discussions, by round


def condensation(run: RunFolder) -> Figure | None:
    """Draws changes of debates' blueprint graphs, within a round and between rounds.

    Bars are mean numbers of attributes updated, and of entities and relations pruned and added; a discussion counts in
    the rounds that it had. None where there was no debate on a graph.
    """
    within, between = changes(run.traces(f"evaluate-{DEBATE}"))
    if not within:
        return None
    figure, panels = style.panels(2, 2, 2.1, sharey=True)
    titles = ("from the proponent's graph to the opponent's", "from the round before")
    names = {"updated": "attributes updated", "pruned": "pruned", "added": "added"}
    for axes, by_round, title in zip(panels, (within, between), titles, strict=True):
        rounds = sorted(by_round)
        for place, (name, label) in enumerate(names.items()):
            means = [float(np.mean([getattr(change, name) for change in by_round[number]])) for number in rounds]
            style.bars(axes, place, np.array(rounds) + 0.26 * (place - 1), means, 0.24, label)
        axes.set_title(title)
        axes.set_xlabel("round")
        axes.set_xticks(rounds)
        style.plain(axes)
    panels[0].set_ylabel("changes per discussion")
    style.legend_above(figure, panels[0], 3)
    return figure


def changes(traces: Iterable[Trace]) -> tuple[Changes, Changes]:
    """Returns the changes within each round, and those from the round before."""
    within: Changes = {}
    between: Changes = {}
    debaters = (PROPONENT.name, OPPONENT.name)
    for trace in traces:
        graphs = {turn.id: read_triples(turn.values(FieldKind.TRIPLE)) for turn in trace.turns}
        first = (graphs[turn.id] for turn in trace.turns if turn.agent not in debaters)
        last = next(first, Blueprint())
        sides = [graphs[turn.id] for turn in trace.turns if turn.agent in debaters]
        for number, (support, challenge) in enumerate(zip(sides[::2], sides[1::2], strict=False), 1):
            # A side that stated no graph left it as it was.
            before = last
            affirmative = support or before
            last = challenge or affirmative
            within.setdefault(number, []).append(change(affirmative, last))
            if number > 1:
                between.setdefault(number, []).append(change(before, last))
    return within, between


def path_arms(trials: Sequence[FinishedRun]) -> tuple[list[Arm], dict[tuple[str, int], list[int]]]:
    """Reads the answers of all methods that follow paths, in a sweep's trials.

    Scores are 1 where the judge accepted the answer, or the data set's utility without a judge. The second value has
    the questions for which a method found as many paths as it may rest on, of each trial, by method and that number.
    """
    arms = []
    reached: dict[tuple[str, int], list[int]] = {}
    for trial in trials:
        most = int(trial.values[PATHS])
        for method, answers in trial.answers.items():
            if answers["path_count"].notna().any():
                reached.setdefault((method, most), []).append(int((answers["path_count"] >= most).sum()))
                scores = answers["acc_star"].fillna(answers["utility"])
                arms.append(trial_arm(method, {PATHS: most}, trial.seed, scores, scores.index))
    return merge(arms), reached


def by_paths(arms: Sequence[Arm], reached: Mapping[tuple[str, int], Sequence[int]], metric: str) -> Figure:
    """Draws accuracy by the most paths that an answer may rest on. Bars count the questions with so many paths."""
    numbers = sorted({most for _, most in reached})
    methods = methods_in(arms)
    figure = Figure(figsize=(style.COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.twinx()
    for (method, most), counts in reached.items():
        place = methods.index(method)
        x = most + style.offset(place, len(methods), 0.6)
        style.bars(bars, place, x, float(np.mean(counts)), 0.6 / len(methods))
    over(axes, arms, PATHS, numbers, joined=True)
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
    numbers = set()
    for place, trial in enumerate(trials):
        for method, answers in trial.items():
            supporting = answers["tags"].map(lambda tags: dict(tags).get(SUPPORTING))
            for number, scores in answers["f1"].groupby(supporting):
                arms.append(trial_arm(method, {name: number}, place, scores, scores.index))
                numbers.add(number)
    return over_keys(merge(arms), {name: sorted(numbers)}, "F1") if len(numbers) > 1 else None
