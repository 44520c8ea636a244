"""Figures of the systems' papers: BDoG's Fig. 4 (blueprint changes), MH-MMKG's Fig. 6a (paths), MMAPG's Fig. 4 (F1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from actors.messages import FieldKind, Message, Trace, derive_seed
from experiments.analysis.figures import style
from experiments.analysis.scores import as_matrix, by_method
from experiments.analysis.statistics import ScoreGroup, crossed_interval, mean_interval
from experiments.judging.judgements import judged
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.trials import TRIALS, TrialResult
from topologies.systems.bdog import OPPONENT, PROPONENT
from topologies.systems.bdog_graph import Blueprint, Change, change, read_triples

DEBATE = "bdog"  # the method whose debaters state graphs
PATHS = "systems.paths"
SUPPORTING = "supporting"  # the tag of questions whose data set names the documents that they rest on

Changes = dict[int, list[Change]]  # of all discussions, by round


@style.styled
def condensation(run: RunFolder) -> Figure | None:
    """Draws changes of debates' blueprint graphs, within a round and between rounds.

    Bars are mean numbers of attributes updated, and of entities and relations pruned and added; a discussion counts in
    the rounds that it had. None where there was no debate on a graph.
    """
    within, between = changes(run.traces(f"evaluate-{DEBATE}"))
    if not within:
        return None
    figure = Figure(figsize=(2 * style.COLUMN, 2.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("from the proponent's graph to the opponent's", "from the round before")
    names = {"updated": "attributes updated", "pruned": "pruned", "added": "added"}
    for axes, rounds, title in zip(panels, (within, between), titles, strict=True):
        for i, (name, label) in enumerate(names.items()):
            means = [float(np.mean([getattr(one, name) for one in rounds[number]])) for number in sorted(rounds)]
            x = np.array(sorted(rounds)) + 0.26 * (i - 1)
            look: Any = {"color": style.nth(style.COLOURS, i), "hatch": style.nth(style.HATCHES, i)}
            axes.bar(x, means, 0.24, label=label, edgecolor="white", **look)
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
    for trace in traces:
        before: Blueprint | None = None
        for number, (affirmative, negative) in enumerate(_graphs(trace), 1):
            within.setdefault(number, []).append(change(affirmative, negative))
            if before is not None:
                between.setdefault(number, []).append(change(before, negative))
            before = negative
    return within, between


def _graphs(trace: Trace) -> Iterator[tuple[Blueprint, Blueprint]]:
    """Yields the graphs of both sides by round. A side that stated none left the graph as it was."""

    def stated(turn: Message | None) -> Blueprint:
        return read_triples(turn.said(FieldKind.TRIPLE)) if turn else Blueprint()

    debaters = (PROPONENT.name, OPPONENT.name)
    now = stated(next((turn for turn in trace.turns if turn.agent not in debaters), None))
    sides = [turn for turn in trace.turns if turn.agent in debaters]
    for support, challenge in zip(sides[::2], sides[1::2], strict=False):
        affirmative = stated(support) or now
        now = stated(challenge) or affirmative
        yield affirmative, now


@dataclass(frozen=True, slots=True)
class PathAnswers:
    """A method's answers in one trial, with at most `most` paths each.

    scores: by question, 1 where the judge accepted the answer, or the data set's utility without a judge.
    reached: the questions for which the method found `most` paths.
    """

    method: str
    most: int
    judged: bool
    scores: Mapping[str, float]
    reached: int


def path_answers(folder: Path, results: Sequence[TrialResult]) -> list[PathAnswers]:
    """Reads the answers of all methods that follow paths, in a sweep's trials."""
    found = []
    for result in results:
        run, most = RunFolder(folder / TRIALS / result.name), int(result.values[PATHS])
        verdicts = {(line.method, line.question): float(line.judgement.correct) for line in judged(run)}
        for method, answers in by_method(run).items():
            counts = [scored.path_count for scored in answers.values() if scored.path_count is not None]
            if counts:
                scores = {id: verdicts.get((method, id), scored.utility) for id, scored in answers.items()}
                reached = sum(count >= most for count in counts)
                found.append(PathAnswers(method, most, bool(verdicts), scores, reached))
    return found


@style.styled
def by_paths(answers: Sequence[PathAnswers], metric: str) -> Figure:
    """Draws accuracy and questions by the most paths that an answer may rest on.

    Lines are judged accuracy, or else `metric`; bars are questions with so many paths, means over trials.
    """
    numbers = sorted({answered.most for answered in answers})
    methods = list(dict.fromkeys(answered.method for answered in answers))
    figure = Figure(figsize=(style.COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.twinx()
    for i, method in enumerate(methods):
        means, intervals = [], []
        for number in numbers:
            own = [answered for answered in answers if (answered.method, answered.most) == (method, number)]
            group = ScoreGroup("", as_matrix([answered.scores for answered in own]))
            means.append(group.mean)
            intervals.append(mean_interval([group], derive_seed("paths", method, number)))
            place, height = number + style.offset(i, len(methods), 0.6), float(np.mean([one.reached for one in own]))
            hatch = style.nth(style.HATCHES, i)
            bars.bar(place, height, 0.6 / len(methods), color="none", edgecolor=style.GREY, hatch=hatch)
        style.points(axes, i, numbers, means, intervals, label=method, line=style.nth(style.LINES, i))
    # The lines in front of the bars, which belong to the other axis.
    axes.set_zorder(bars.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.set_xticks(numbers)
    axes.set_xlabel("most paths that an answer rests on")
    what = "judged accuracy" if all(answered.judged for answered in answers) else metric
    axes.set_ylabel(f"{what} (lines, 95% interval)")
    bars.set_ylabel("questions with so many paths (bars)")
    style.plain(axes, "y")
    bars.spines["top"].set_visible(False)
    axes.legend(loc="best")
    return figure


@style.styled
def f1_by_supporting(trials: Sequence[Mapping[str, Mapping[str, Scored]]]) -> Figure | None:
    """Draws each method's mean F1 by the number of documents that a question rests on.

    trials: answers by method and question; intervals are over both. None where there are not two numbers to compare.
    """
    tagged = {
        question: scored.tags[SUPPORTING]
        for trial in trials
        for answers in trial.values()
        for question, scored in answers.items()
        if SUPPORTING in scored.tags
    }
    numbers = sorted(set(tagged.values()))
    if len(numbers) < 2:
        return None
    figure = Figure(figsize=(style.COLUMN, 2.6), layout="constrained")
    axes = figure.add_subplot()
    methods = list(dict.fromkeys(method for trial in trials for method in trial))
    for i, method in enumerate(methods):
        drawn: list[tuple[float, float, tuple[float, float]]] = []
        for place, number in enumerate(numbers):
            of_number = [{q: s.f1 for q, s in t.get(method, {}).items() if tagged.get(q) == number} for t in trials]
            # A trial of another data set, or without this method, asked none of these questions.
            if asked := [f1 for f1 in of_number if f1]:
                matrix = as_matrix(asked)
                interval = crossed_interval(matrix, derive_seed(0, "interval", SUPPORTING, method, number))
                x = place + style.offset(i, len(methods), 0.08 * len(methods))
                drawn.append((x, float(np.nanmean(matrix)), interval))
        if drawn:
            xs, means, intervals = zip(*drawn, strict=True)
            style.points(axes, i, xs, means, intervals, label=method, line=style.nth(style.LINES, i))
    axes.set_xticks(range(len(numbers)), numbers)
    axes.set_xlabel("supporting documents of a question")
    axes.set_ylabel("F1 (bars: 95% interval)")
    style.plain(axes)
    figure.legend(loc="outside upper center", ncols=2)
    return figure
