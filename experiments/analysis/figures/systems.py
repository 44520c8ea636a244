"""Figures of the systems' papers: BDoG's Fig. 4 (blueprint changes), MH-MMKG's Fig. 6a (paths), MMAPG's Fig. 4 (F1)."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from actors.messages import FieldKind, Trace
from experiments.analysis.compare import Arm, arms_of_scores, merge, methods_in
from experiments.analysis.figures import style
from experiments.analysis.figures.sweeps import over, over_keys
from experiments.analysis.scores import FinishedRun
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
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
    for axes, rounds, title in zip(panels, (within, between), titles, strict=True):
        for i, (name, label) in enumerate(names.items()):
            means = [float(np.mean([getattr(one, name) for one in rounds[number]])) for number in sorted(rounds)]
            x = np.array(sorted(rounds)) + 0.26 * (i - 1)
            style.bars(axes, i, x, means, 0.24, label)
        axes.set_title(title)
        axes.set_xlabel("round")
        axes.set_xticks(sorted(rounds))
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
        stated = {turn.id: read_triples(turn.values(FieldKind.TRIPLE)) for turn in trace.turns}
        first = (stated[turn.id] for turn in trace.turns if turn.agent not in debaters)
        now = next(first, Blueprint())
        sides = [stated[turn.id] for turn in trace.turns if turn.agent in debaters]
        for number, (support, challenge) in enumerate(zip(sides[::2], sides[1::2], strict=False), 1):
            # A side that stated no graph left it as it was.
            before, affirmative = now, support or now
            now = challenge or affirmative
            within.setdefault(number, []).append(change(affirmative, now))
            if number > 1:
                between.setdefault(number, []).append(change(before, now))
    return within, between


def path_arms(trials: Sequence[FinishedRun]) -> tuple[list[Arm], dict[tuple[str, int], list[int]]]:
    """Reads the answers of all methods that follow paths, in a sweep's trials.

    Scores are 1 where the judge accepted the answer, or the data set's utility without a judge. The second value has
    the questions for which a method found as many paths as it may rest on, of each trial, by method and that number.
    """
    scored = []
    reached: dict[tuple[str, int], list[int]] = {}
    for trial in trials:
        most, verdicts = int(trial.values[PATHS]), trial.judged["acc_star"]
        for method, answers in trial.answers.items():
            if counts := [one.path_count for one in answers.values() if one.path_count is not None]:
                reached.setdefault((method, most), []).append(sum(count >= most for count in counts))
                scores = {id: verdicts.get((method, id), one.utility) for id, one in answers.items()}
                scored.append((method, {PATHS: most}, trial.seed, scores))
    return merge(arms_of_scores(scored)), reached


def by_paths(arms: Sequence[Arm], reached: Mapping[tuple[str, int], Sequence[int]], metric: str) -> Figure:
    """Draws accuracy by the most paths that an answer may rest on. Bars count the questions with so many paths."""
    numbers, methods = sorted({most for _, most in reached}), methods_in(arms)
    figure = Figure(figsize=(style.COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.twinx()
    for (method, most), counts in reached.items():
        i = methods.index(method)
        place = most + style.offset(i, len(methods), 0.6)
        style.bars(bars, i, place, float(np.mean(counts)), 0.6 / len(methods))
    over(axes, arms, PATHS, numbers, joined=True)
    # The lines in front of the bars, which belong to the other axis.
    axes.set_zorder(bars.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.set_xlabel("most paths that an answer rests on")
    axes.set_ylabel(f"{metric}, judged where there is a judge\n(lines, 95% interval)")
    bars.set_ylabel("questions with so many paths (bars)")
    axes.legend(loc="best")
    return figure


def f1_by_supporting(trials: Sequence[Mapping[str, Mapping[str, Scored]]]) -> Figure | None:
    """Draws each method's mean F1 by the number of documents behind a question.

    trials: answers by method and question; intervals are over both. None where there are not two numbers to compare.
    """
    f1: dict[tuple[str, str, int], dict[str, float]] = {}
    for n, trial in enumerate(trials):
        for method, answers in trial.items():
            for question, scored in answers.items():
                if number := scored.tags.get(SUPPORTING):
                    f1.setdefault((method, number, n), {})[question] = scored.f1
    numbers = sorted({number for _, number, _ in f1})
    if len(numbers) < 2:
        return None
    name = "supporting documents of a question"
    arms = arms_of_scores([(method, {name: number}, n, scores) for (method, number, n), scores in f1.items()])
    return over_keys(merge(arms), {name: numbers}, "F1")
