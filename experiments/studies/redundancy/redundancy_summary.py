"""redundancy.json, from the recorded answers.

An effect is the score with an edge minus the score without it, of one question: positive where the edge helps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from actors.messages import derive_seed
from experiments.analysis.intervals import Clusters
from experiments.analysis.paired import paired_tests
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import Answers, mean_and_interval
from experiments.analysis.statistics import holm, known_mean, least_clusters, paired_test
from experiments.studies.redundancy.edges import Edge, by_kind
from topologies.wiring import Bools, Floats

# Names of methods in the records: a resumed run finds its answers by them.
FULL = "full"
AT_ONCE = "no_redundant"  # the full graph without all of its redundant edges
ROUNDING = 1e-9  # a mean of scores that is zero but for its last bits counts as zero
SPLITS = 400  # random halvings of the questions
LEVEL = 0.05  # of tests, after correction


@dataclass(frozen=True)
class Cuts:
    """A learner's ranking of the full graph's edges, NaN for one that it lacks, and the edges it cut, both [edges]."""

    scores: Floats
    cut: Bools


@dataclass(frozen=True)
class Removals:
    """The effect of each edge's absence on the measured questions.

    effects: [edges, questions], the score with an edge minus the score without it.
    saved: [edges], mean tokens that go without the edge. clusters: of the questions.
    """

    questions: Sequence[str]
    effects: Floats
    saved: Floats
    clusters: Clusters

    @classmethod
    def of(cls, answers: Answers, names: Sequence[str], questions: Sequence[str]) -> Self:
        """Compares the full graph with those of `names`. A question on which any of them failed is left out."""
        full = answers[FULL].reindex(questions).dropna(subset="utility")
        effects = []
        saved = []
        for name in names:
            graph = answers[name].reindex(full.index)
            effects.append(full["utility"] - graph["utility"])
            saved.append((full["tokens"] - graph["tokens"]).mean())
        matrix = np.array(effects)
        answered = np.isfinite(matrix).all(axis=0)
        clusters = full["cluster"].to_numpy()[answered]
        return cls(list(full.index[answered]), matrix[:, answered], np.array(saved), clusters)


def redundant(effects: Floats) -> Bools:
    """Tests for Definition 1 (Eq. 2), [edges, questions] to bool [edges]: without the edge the score is no less."""
    no_less: Bools = effects.mean(1) <= ROUNDING
    return no_less


def summarise_removals(
    edges: Sequence[Edge],
    agents: Sequence[str],
    removals: Removals,
    cuts: Mapping[str, Cuts],
    answers: Answers,
    readers: Mapping[str, int],
    seed: int,
    margin: float,
) -> Metrics:
    """Returns what redundancy.json has of edges, learners and graphs. It has no times: one seed gives one file.

    cuts: by learner. answers: by graph and question. readers: the number of agents that the decision agent reads, by
        graph that answered the test questions too.
    """
    effects = removals.effects
    can_go = redundant(effects)
    tested = measured_effects(effects, removals.clusters)
    rows = []
    for place, edge in enumerate(edges):
        row = {
            **edge._asdict(),
            "name": edge.name(agents),
            "redundant": bool(can_go[place]),
            "tokens_saved": rounded(removals.saved[place]),
            "answer_effect": rounded(tested[place]),
        }
        rows.append(row)

    kinds: dict[str, Metrics] = {}
    learners: dict[str, dict[str, Metrics]] = {learner: {} for learner in cuts}
    for kind, places in by_kind(edges).items():
        kinds[kind] = rounded(_counts(effects[places], can_go[places], [tested[place] for place in places]))
        for learner, learner_cuts in cuts.items():
            # Edges that it could have cut: its cuts are compared with Definition 1, and its scores with the effects.
            candidates = [place for place in places if not np.isnan(learner_cuts.scores[place])]
            if candidates:
                candidate_kinds = [edges[place].kind for place in candidates]
                draws = derive_seed(seed, "chance", learner, kind)
                row = agreement(learner_cuts.cut[candidates], can_go[candidates], candidate_kinds, draws)
                mean_effects = effects[candidates].mean(1)
                row["rank_correlation"] = rank_correlation(learner_cuts.scores[candidates], mean_effects)
                learners[learner][kind] = rounded(row)

    held_out = answers[FULL].index.difference(removals.questions)
    return {
        "questions": len(removals.questions),
        "held_out": len(held_out),
        "calls": int(sum(graph_answers["calls"].sum() for graph_answers in answers.values())),
        "least_questions": least_clusters(len(edges)),
        "edges": rows,
        "kinds": kinds,
        "reliability": rounded(split_half(effects, derive_seed(seed, "halves"))),
        "learners": learners,
        **graphs_left(answers, removals.questions, readers, seed, margin),
    }


def _counts(effects: Floats, can_go: Bools, tested: Sequence[Metrics]) -> Metrics:
    """Counts the edges of a kind by their effects."""
    means = effects.mean(1)
    shown = np.array([effect["mean"] for effect in tested if effect["shown"]])
    return {
        "edges": len(effects),
        "redundant": int(can_go.sum()),
        "share": float(can_go.mean()),
        "no_answer_changed": int((effects == 0).all(1).sum()),
        "harmful": int((can_go & (means < -ROUNDING)).sum()),
        "useful": int((~can_go).sum()),
        "largest": float(np.abs(means).max()),
        "harmful_shown": int((shown < 0).sum()),
        "useful_shown": int((shown > 0).sum()),
    }


def measured_effects(effects: Floats, clusters: Clusters = None) -> list[Metrics]:
    """Tests the mean effect of each edge of `effects` [edges, questions]. `clusters` are the questions'.

    Each has its `mean`, its paired bootstrap interval `ci95`, the `p_value` of a sign-flip test, `adjusted_p` by Holm's
    correction for the number of edges, and `shown`: whether that is below LEVEL.
    """
    # A sign-flip test of d draws gives no p below 1 / (d + 1), which must still be far below LEVEL after correction.
    draws = max(10_000, 200 * len(effects))
    # One seed for all edges, so that equal rows give equal results.
    tests = [paired_test(row, np.zeros_like(row), derive_seed("effect"), draws, clusters) for row in effects]
    adjusted = holm([test["p_value"] for test in tests])
    return [
        {
            "mean": test["difference"],
            "ci95": test["ci95"],
            "p_value": test["p_value"],
            "adjusted_p": adjusted_p,
            "shown": adjusted_p < LEVEL,
        }
        for test, adjusted_p in zip(tests, adjusted, strict=True)
    ]


def split_half(effects: Floats, seed: int) -> Metrics:
    """Measures how far two halves of the questions agree on `effects` [edges, questions].

    All are means over random halvings, None where no halving has a value:

    - rank_correlation: Spearman's, of the edges' effects in both halves.
    - whole: what it would be between two sets of all the questions (Spearman and Brown).
    - redundant_again, useful_again: the share of one half's redundant (useful) edges that are so in the other.
    - redundant, useful: the share of all edges.
    """
    questions = effects.shape[1]
    draw = np.random.default_rng(seed)
    splits = []
    for _ in range(SPLITS):
        order = draw.permutation(questions)
        first_half = effects[:, order[: questions // 2]]
        second_half = effects[:, order[questions // 2 :]]
        first = redundant(first_half)
        second = redundant(second_half)
        splits.append(
            {
                "rank_correlation": rank_correlation(first_half.mean(1), second_half.mean(1)),
                "redundant_again": known_mean(second[first]),
                "redundant": known_mean(second),
                "useful_again": known_mean(~second[~first]),
                "useful": known_mean(~second),
            }
        )
    means = {name: known_mean([split[name] for split in splits]) for name in splits[0]}
    half = means.pop("rank_correlation")
    # Spearman and Brown's formula for twice the length, which is for halves that measure the same.
    whole = None if half is None or half < 0 else 2 * half / (1 + half)
    return {"rank_correlation": half, "whole": whole, **means}


def rank_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's, with mean ranks for ties. None where either is constant or has fewer than two values."""
    # Rounded, or sums that differ in their last bit would not tie.
    first, second = (np.asarray(values, dtype=np.float64).round(9) for values in (a, b))
    if len(first) < 2 or not np.ptp(first) or not np.ptp(second):
        return None
    from scipy.stats import spearmanr  # scipy.stats is slow to import, and every program imports this file

    return float(spearmanr(first, second).statistic)


def agreement(cut: Bools, is_redundant: Bools, kinds: Sequence[str], seed: int) -> Metrics:
    """Compares the cut edges with the redundant ones. Both are among the edges [n] that could be cut.

    precision: the share of the cut edges that are redundant, None if none was cut.
    recall: the share of the redundant edges that were cut, None if none is redundant.
    chance, chance95: the precision of as many random cuts of each kind, and the range of 95% of them.
    """
    edges = pd.DataFrame({"cut": cut, "redundant": is_redundant, "kind": kinds})
    total = int(cut.sum())
    hits = int((cut & is_redundant).sum())
    can_go = int(is_redundant.sum())
    precision = chance = chance95 = None
    if total:
        precision = hits / total
        draw = np.random.default_rng(seed)
        random_hits = np.zeros(10_000)
        expected = 0.0
        # By kind: a learner that cuts mostly temporal edges must not gain from there being more redundant ones.
        for _, kind_edges in edges.groupby("kind", sort=False):
            good = int(kind_edges["redundant"].sum())
            cuts = int(kind_edges["cut"].sum())
            # The number of redundant ones among `cuts` drawn without replacement.
            random_hits += draw.hypergeometric(good, len(kind_edges) - good, cuts, size=len(random_hits))
            expected += cuts * good / len(kind_edges)
        chance = expected / total
        chance95 = np.quantile(random_hits / total, [0.025, 0.975]).tolist()
    return {
        "edges": len(edges),
        "cut": total,
        "redundant": can_go,
        "precision": precision,
        "recall": hits / can_go if can_go else None,
        "chance": chance,
        "chance95": chance95,
    }


def graphs_left(
    answers: Answers, measured: Sequence[str], readers: Mapping[str, int], seed: int, margin: float
) -> Metrics:
    """Measures every graph on the test questions. Each is tested against the full one."""
    held_out = {name: answers[name].drop(list(measured), errors="ignore") for name in readers}
    rows = {}
    for name, graph_answers in held_out.items():
        utility, ci95 = mean_and_interval(graph_answers, derive_seed(seed, "bootstrap", name))
        row = {
            "utility": utility,
            "ci95": ci95,
            # Too high for graphs that these questions chose: the difference shows by how much.
            "measured_utility": answers[name]["utility"].reindex(measured).mean(),
            "tokens": graph_answers["tokens"].mean(),
            "edges": graph_answers["edges"].mean(),
            "readers": readers[name],
        }
        rows[name] = rounded(row)
    pairs = [(name, FULL) for name in held_out if name != FULL]
    tests = paired_tests(held_out, pairs, seed, "paired", margin)
    tokens = {name: graph_answers["tokens"].sum() for name, graph_answers in held_out.items()}
    for pair, test in tests.items():
        test["tokens_saved"] = rounded(1 - tokens[pair.removesuffix(f" vs {FULL}")] / tokens[FULL])
    return {"methods": rows, "paired": tests}
