"""redundancy.json, from the findings and the recorded discussions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np

from actors.messages import Trace, derive_seed
from experiments.analysis.statistics import bootstrap_interval
from experiments.analysis.summary import Metrics, paired_tests, rounded
from experiments.datasets.item import Dataset, Item
from experiments.records.atomic import write_atomically
from experiments.records.recorder import RunFolder
from experiments.running.context import RunContext
from experiments.running.models import models_named
from experiments.studies.redundancy.edges import Edge, by_kind
from experiments.studies.redundancy.measure import FULL, WITHOUT, Findings
from experiments.studies.redundancy.statistics import (
    Effect,
    agreement,
    least_questions,
    mean_effects,
    rank_correlation,
    redundant,
    split_half,
)
from topologies.wiring import Bools, Floats

FILE = "redundancy.json"


def summarise(context: RunContext, findings: Findings) -> Metrics:
    """The content of redundancy.json. It holds no times and nothing that caches decide: one seed gives one file."""
    config, dataset, agents = context.config, context.dataset, context.agents
    seed = config.seed
    # Row 0 is the full graph: positive where the edge helps.
    effects = findings.utility[:1] - findings.utility[1:]
    own = receiver_effects(context.recorder.run, dataset, findings, agents)
    tested, own_tested = mean_effects(effects), mean_effects(own)
    can_go = redundant(effects)
    saved = (findings.tokens[:1] - findings.tokens[1:]).mean(1)
    groups = by_kind(findings.edges)
    rows = [
        {
            **edge._asdict(),
            "name": edge.name(agents),
            "redundant": bool(can_go[i]),
            "tokens_saved": round(float(saved[i]), 6),
            "answer_effect": rounded({**asdict(tested[i]), "shown": tested[i].shown}),
            "receiver_effect": rounded({**asdict(own_tested[i]), "shown": own_tested[i].shown}),
            "removed_greedily": edge in findings.removed,
        }
        for i, edge in enumerate(findings.edges)
    ]
    return {
        "experiment": config.experiment,
        "model": models_named(config),
        "dataset": dataset.name,
        "metric": dataset.metric,
        "agents": list(agents),
        "questions": len(findings.questions),
        "held_out": len(findings.held_out),
        "calls": sum(record.calls for scored in findings.scores.values() for record in scored.values()),
        "least_questions": least_questions(len(findings.edges)),
        "edges": rows,
        "kinds": {kind: _share(members, effects, can_go, tested, own_tested) for kind, members in groups.items()},
        "reliability": {
            "answer": rounded(asdict(split_half(effects, derive_seed(seed, "halves")))),
            "receiver": rounded(asdict(split_half(own, derive_seed(seed, "halves")))),
        },
        "learners": _learners(findings, effects, own, can_go, seed),
        "methods": {method: _graph(findings, method, seed) for method in findings.readers},
        "paired": _paired(findings, seed),
    }


def write(context: RunContext, findings: Findings) -> None:
    """redundancy.json, in the run folder."""
    content = json.dumps(summarise(context, findings), indent=1) + "\n"
    write_atomically(context.recorder.run.path / FILE, content.encode())


def receiver_effects(run: RunFolder, dataset: Dataset, findings: Findings, agents: Sequence[str]) -> Floats:
    """The gain of the receiver's own answers by the edge, float [edges, questions].

    A mean over the rounds that the edge leads into; of an edge to the decision agent, the effect on the final answer.
    """
    place = {question: i for i, question in enumerate(findings.questions)}
    items = {item.question.id: item for item in dataset.evaluate() if item.question.id in place}
    # Graphs differ by one edge, so most answers recur and are scored once.
    known: dict[tuple[str, str | None], float] = {}

    def score(item: Item, answer: str | None) -> float:
        key = item.question.id, answer
        if key not in known:
            known[key] = dataset.score(item, answer).utility
        return known[key]

    def own(method: str, receivers: Iterable[Edge]) -> dict[Edge, Floats]:
        means = {edge: np.zeros(len(place)) for edge in receivers}
        for trace in run.traces(f"evaluate-{method}"):
            if trace.question in place:
                item = items[trace.question]
                for edge, row in means.items():
                    row[place[trace.question]] = np.mean([score(item, answer) for answer in _answers(trace, edge)])
        return means

    # The full graph's traces are read once for all edges.
    with_all = own(FULL, findings.edges)
    return np.array([with_all[e] - own(f"{WITHOUT}.{e.name(agents)}", [e])[e] for e in findings.edges])


def _answers(trace: Trace, edge: Edge) -> list[str | None]:
    """Answers of an edge's receiver in the rounds that the edge leads into."""
    if edge.kind == "decision":
        return [trace.answer]
    # Rounds count from 1, and temporal edges lead into the second and later ones.
    first = 2 if edge.kind == "temporal" else 1
    receiver = trace.agents[edge.receiver]
    return [turn.answer for turn in trace.turns if turn.agent == receiver and turn.round >= first]


def _share(
    members: Sequence[int], effects: Floats, can_go: Bools, tested: Sequence[Effect], own: Sequence[Effect]
) -> Metrics:
    """Counts for one kind's edges: redundant ones, those that change no answer at all, and effects that are shown."""
    mean = effects[members].mean(1)
    n = len(members)
    return {
        "edges": n,
        "redundant": int(can_go[members].sum()),
        "share": round(int(can_go[members].sum()) / n, 6),
        "no_answer_changed": int((effects[members] == 0).all(1).sum()),
        "harmful": int((can_go[members] & (mean < -1e-9)).sum()),
        "useful": n - int(can_go[members].sum()),
        "largest": round(float(np.abs(mean).max()), 6) + 0.0,
        **{
            f"{name}_{side}_shown": len([i for i in members if rows[i].shown and rows[i].mean * sign > 0])
            for name, rows in (("answer", tested), ("receiver", own))
            for side, sign in (("harmful", -1), ("useful", 1))
        },
    }


def _learners(findings: Findings, effects: Floats, own: Floats, can_go: Bools, seed: int) -> Metrics:
    """Agreement with Definition 1, with greedy removal (`greedy_...`) and rank correlations, by estimator and kind."""
    by_estimator = {}
    # The stricter comparison: edges that can all go together, not each one alone.
    taken = np.array([edge in findings.removed for edge in findings.edges])
    for estimator, learned in findings.pruned.items():
        kinds = {}
        for kind, members in by_kind(findings.edges).items():
            candidates = np.array([i for i in members if learned.candidate[i]], dtype=np.int64)
            if not len(candidates):
                continue
            names = [findings.edges[i].kind for i in candidates]
            drawn = derive_seed(seed, "chance", estimator, kind)
            alone, greedy = (
                asdict(agreement(learned.cut[candidates], gone[candidates], names, drawn)) for gone in (can_go, taken)
            )
            kinds[kind] = rounded(
                {
                    **alone,
                    **{f"greedy_{name}": value for name, value in greedy.items() if name not in ("edges", "cut")},
                    "rank_correlation": rank_correlation(learned.scores[candidates], effects[candidates].mean(1)),
                    "receiver_rank_correlation": rank_correlation(learned.scores[candidates], own[candidates].mean(1)),
                }
            )
        by_estimator[str(estimator)] = kinds
    return by_estimator


def _graph(findings: Findings, method: str, seed: int) -> Metrics:
    """One graph on the held-out questions, and beside it the utility on those by which edges were chosen."""
    scored = [findings.scores[method][question] for question in findings.held_out]
    utility = [record.utility for record in scored]
    before = [findings.scores[method][question].utility for question in findings.questions]
    row: Metrics = rounded(
        {
            "utility": float(np.mean(utility)),
            "ci95": bootstrap_interval(utility, derive_seed(seed, "bootstrap", method)),
            # Too high for graphs that these questions chose: the difference shows by how much.
            "measured_utility": float(np.mean(before)),
            "tokens": float(_tokens(findings, method).mean()),
            "edges": float(np.mean([record.edges for record in scored])),
            "readers": findings.readers[method],
        }
    )
    return row


def _paired(findings: Findings, seed: int) -> dict[str, Metrics]:
    """Every graph against the full one on the held-out questions, and the share of the tokens that it saves."""
    graphs = [method for method in findings.readers if method != FULL]
    utilities = {m: [findings.scores[m][question].utility for question in findings.held_out] for m in findings.readers}
    tests = paired_tests(utilities, [(method, FULL) for method in graphs], seed, "paired")
    full = _tokens(findings, FULL).sum()
    return {
        pair: test | rounded({"tokens_saved": 1 - float(_tokens(findings, method).sum() / full)})
        for method, (pair, test) in zip(graphs, tests.items(), strict=True)
    }


def _tokens(findings: Findings, method: str) -> Floats:
    """Tokens of each held-out question, [questions]."""
    scored = [findings.scores[method][question] for question in findings.held_out]
    return np.array([float(record.prompt_tokens + record.completion_tokens) for record in scored])
