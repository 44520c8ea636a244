"""redundancy.json, from the findings and the recorded discussions.

An effect is the score with an edge minus the score without it, of one question: positive where the edge helps.
"""

import json
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from actors.messages import derive_seed
from experiments.analysis.statistics import Clusters, holm, known_mean, least_clusters, paired_test
from experiments.analysis.summary import Metrics, mean_and_interval, paired_tests, rounded
from experiments.records.run_files import write_atomically
from experiments.running.run_context import RunContext
from experiments.studies.redundancy.removal import FULL, ROUNDING, Redundancy, by_kind, redundant
from topologies.wiring import Bools, Floats

FILE = "redundancy.json"
SPLITS = 400  # random halvings of the questions
LEVEL = 0.05  # of tests, after correction


def write(context: RunContext, findings: Redundancy) -> None:
    """Writes redundancy.json. It has no times: one seed gives one file."""
    config, dataset, agents, edges = context.config, context.dataset, context.agents, findings.edges
    seed, effects, can_go, full = config.seed, findings.effects, findings.redundant, findings.scores[FULL]
    tested = measured_effects(effects, [full[question].cluster or question for question in findings.questions])
    rows = [
        {
            **edge._asdict(),
            "name": edge.name(agents),
            "redundant": bool(can_go[i]),
            "tokens_saved": rounded(findings.saved[i]),
            "answer_effect": rounded(tested[i]),
        }
        for i, edge in enumerate(edges)
    ]
    kinds: dict[str, Metrics] = {}
    learners: dict[str, dict[str, Metrics]] = {learner: {} for learner in findings.pruned}
    for kind, members in by_kind(edges).items():
        mean, n, gone = effects[members].mean(1), len(members), int(can_go[members].sum())
        shown = [tested[i]["mean"] for i in members if tested[i]["shown"]]
        kinds[kind] = {
            "edges": n,
            "redundant": gone,
            "share": rounded(gone / n),
            "no_answer_changed": int((effects[members] == 0).all(1).sum()),
            "harmful": int((can_go[members] & (mean < -ROUNDING)).sum()),
            "useful": n - gone,
            "largest": rounded(np.abs(mean).max()),
            "harmful_shown": sum(effect < 0 for effect in shown),
            "useful_shown": sum(effect > 0 for effect in shown),
        }
        for learner, learned in findings.pruned.items():
            # Edges that it could have cut: its cuts are compared with Definition 1, and its scores with the effects.
            candidates = np.array([i for i in members if not np.isnan(learned.scores[i])], dtype=np.int64)
            if len(candidates):
                names, drawn = [edges[i].kind for i in candidates], derive_seed(seed, "chance", learner, kind)
                agreed = agreement(learned.cut[candidates], can_go[candidates], names, drawn)
                ranked = rank_correlation(learned.scores[candidates], effects[candidates].mean(1))
                learners[learner][kind] = rounded({**agreed, "rank_correlation": ranked})
    content = {
        "experiment": config.experiment,
        "model": config.models_named,
        "dataset": dataset.name,
        "metric": dataset.metric,
        "agents": list(agents),
        "questions": len(findings.questions),
        "held_out": len(findings.held_out),
        "calls": sum(record.calls for scored in findings.scores.values() for record in scored.values()),
        "least_questions": least_clusters(len(edges)),
        "edges": rows,
        "kinds": kinds,
        "reliability": rounded(split_half(effects, derive_seed(seed, "halves"))),
        "learners": learners,
        **graphs_left(findings, seed, config.compare.margin),
    }
    write_atomically(context.recorder.run.path / FILE, (json.dumps(content, indent=1) + "\n").encode())


def measured_effects(effects: Floats, clusters: Clusters = ()) -> list[Metrics]:
    """Tests the mean effect of each edge of `effects` [edges, questions]. `clusters` are the questions'.

    Each has its `mean`, its paired bootstrap interval `ci95`, the `p_value` of a sign-flip test, `adjusted_p` by Holm's
    correction for the number of edges, and `shown`: whether that is below LEVEL.
    """
    # A sign-flip test of d draws gives no p below 1 / (d + 1), which must still be far below LEVEL after correction.
    draws = max(10_000, 200 * len(effects))
    # One seed for all edges, so that equal rows give equal results.
    tests = [paired_test(row, np.zeros_like(row), derive_seed("effect"), draws, clusters) for row in effects]
    adjusted = holm([test["p_value"] for test in tests])
    effect = ({"mean": test["difference"], "ci95": test["ci95"], "p_value": test["p_value"]} for test in tests)
    return [{**row, "adjusted_p": p, "shown": p < LEVEL} for row, p in zip(effect, adjusted, strict=True)]


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
    rows: list[dict[str, float | None]] = []
    for _ in range(SPLITS):
        order = draw.permutation(questions)
        halves = effects[:, order[: questions // 2]], effects[:, order[questions // 2 :]]
        first, second = (redundant(half) for half in halves)
        row = {
            "rank_correlation": rank_correlation(*(half.mean(1) for half in halves)),
            "redundant_again": known_mean(second[first]),
            "redundant": known_mean(second),
            "useful_again": known_mean(~second[~first]),
            "useful": known_mean(~second),
        }
        rows.append(row)
    means = {name: known_mean(row[name] for row in rows) for name in rows[0]}
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
    return float(spearmanr(first, second).statistic)


def agreement(cut: Bools, is_redundant: Bools, kinds: Sequence[str], seed: int) -> Metrics:
    """Compares the cut edges with the redundant ones. Both are among the edges [n] that could be cut.

    precision: the share of the cut edges that are redundant, None if none was cut.
    recall: the share of the redundant edges that were cut, None if none is redundant.
    chance, chance95: the precision of as many random cuts of each kind, and the range of 95% of them.
    """
    total, hits = int(cut.sum()), int((cut & is_redundant).sum())
    chance, chance95 = None, None
    if total:
        draw, drawn, expected = np.random.default_rng(seed), np.zeros(10_000), 0.0
        # By kind: a learner that cuts mostly temporal edges must not gain from there being more redundant ones.
        for kind in dict.fromkeys(kinds):
            members = np.array([k == kind for k in kinds])
            good, cuts = int(is_redundant[members].sum()), int(cut[members].sum())
            # The number of redundant ones among `cuts` drawn without replacement.
            drawn += draw.hypergeometric(good, int(members.sum()) - good, cuts, size=len(drawn))
            expected += cuts * float(is_redundant[members].mean())
        low, high = np.quantile(drawn / total, [0.025, 0.975])
        chance, chance95 = expected / total, (float(low), float(high))
    return {
        "edges": len(cut),
        "cut": total,
        "redundant": int(is_redundant.sum()),
        "precision": hits / total if total else None,
        "recall": hits / int(is_redundant.sum()) if is_redundant.any() else None,
        "chance": chance,
        "chance95": chance95,
    }


def graphs_left(findings: Redundancy, seed: int, margin: float) -> Metrics:
    """Measures every graph on the held-out questions. Each is tested against the full one."""
    held_out = {name: {id: findings.scores[name][id] for id in findings.held_out} for name in findings.readers}
    rows = {}
    for name, answers in held_out.items():
        scored = answers.values()
        utility, ci95 = mean_and_interval(scored, derive_seed(seed, "bootstrap", name))
        row = {
            "utility": utility,
            "ci95": ci95,
            # Too high for graphs that these questions chose: the difference shows by how much.
            "measured_utility": fmean(findings.scores[name][id].utility for id in findings.questions),
            "tokens": fmean(one.tokens for one in scored),
            "edges": fmean(one.edges for one in scored),
            "readers": findings.readers[name],
        }
        rows[name] = rounded(row)
    pairs = [(name, FULL) for name in held_out if name != FULL]
    tests = paired_tests(held_out, pairs, seed, "paired", margin)
    for (name, _), test in zip(pairs, tests.values(), strict=True):
        spent, full = (sum(one.tokens for one in held_out[graph].values()) for graph in (name, FULL))
        test["tokens_saved"] = rounded(1 - spent / full)
    return {"methods": rows, "paired": tests}
