"""redundancy.json, from what was found and the recorded discussions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np

from actors.backends.settings import model_name
from actors.messages import Trace, derive_seed
from experiments.analysis.statistics import bootstrap_interval
from experiments.analysis.summary import Metrics, paired_tests, rounded_row
from experiments.datasets.item import Dataset, Item
from experiments.records.atomic import write_atomically
from experiments.records.recorder import RunFolder
from experiments.running.context import RunContext
from experiments.studies.redundancy.edges import Edge, by_kind
from experiments.studies.redundancy.measure import FULL, WITHOUT, Found
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


def summarise(context: RunContext, found: Found) -> Metrics:
    """All of redundancy.json. It holds no times and nothing that caches decide: one seed gives one file."""
    config, dataset, agents = context.config, context.dataset, context.agents
    seed = config.seed
    effects = found.utility[:1] - found.utility[1:]
    own = receiver_effects(context.recorder.run, dataset, found, agents)
    tested, own_tested = mean_effects(effects), mean_effects(own)
    can_go = redundant(effects)
    saved = (found.tokens[:1] - found.tokens[1:]).mean(1)
    groups = by_kind(found.edges)
    rows = [
        {
            **edge._asdict(),
            "name": edge.name(agents),
            "redundant": bool(can_go[i]),
            "tokens_saved": round(float(saved[i]), 6),
            "answer_effect": rounded_row({**asdict(tested[i]), "shown": tested[i].shown}),
            "receiver_effect": rounded_row({**asdict(own_tested[i]), "shown": own_tested[i].shown}),
            "removed_greedily": edge in found.removed,
        }
        for i, edge in enumerate(found.edges)
    ]
    return {
        "experiment": config.experiment,
        "model": model_name(config.model),
        "dataset": dataset.name,
        "metric": dataset.metric,
        "agents": list(agents),
        "questions": len(found.questions),
        "held_out": len(found.held_out),
        "calls": sum(one.calls for scored in found.scores.values() for one in scored.values()),
        "least_questions": least_questions(len(found.edges)),
        "edges": rows,
        "kinds": {kind: _share(members, effects, can_go, tested, own_tested) for kind, members in groups.items()},
        "reliability": {
            "answer": rounded_row(asdict(split_half(effects, derive_seed(seed, "halves")))),
            "receiver": rounded_row(asdict(split_half(own, derive_seed(seed, "halves")))),
        },
        "learners": _learners(found, effects, own, can_go, seed),
        "methods": {method: _graph(found, method, seed) for method in found.readers},
        "paired": _paired(found, seed),
    }


def write(context: RunContext, found: Found) -> None:
    """redundancy.json, in the run folder."""
    write_atomically(
        context.recorder.run.path / FILE, (json.dumps(summarise(context, found), indent=1) + "\n").encode()
    )


def receiver_effects(run: RunFolder, dataset: Dataset, found: Found, agents: Sequence[str]) -> Floats:
    """How much better the receiver's own answers are with the edge, float [edges, questions].

    A mean over the rounds that the edge leads into; of an edge to the decision agent, the effect on the final answer.
    """
    place = {question: i for i, question in enumerate(found.questions)}
    items = {item.question.id: item for item in dataset.evaluate() if item.question.id in place}
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

    with_all = own(FULL, found.edges)
    return np.array([with_all[e] - own(f"{WITHOUT}.{e.name(agents)}", [e])[e] for e in found.edges])


def _answers(trace: Trace, edge: Edge) -> list[str | None]:
    """What the receiver of an edge answered in the rounds that the edge leads into."""
    if edge.kind == "decision":
        return [trace.answer]
    first = 2 if edge.kind == "temporal" else 1
    receiver = trace.agents[edge.receiver]
    return [turn.answer for turn in trace.turns if turn.agent == receiver and turn.round >= first]


def _share(
    members: Sequence[int], effects: Floats, can_go: Bools, tested: Sequence[Effect], own: Sequence[Effect]
) -> Metrics:
    """Of one kind's edges: how many are redundant, how many of those change no answer at all, and what is shown."""
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


def _learners(found: Found, effects: Floats, own: Floats, can_go: Bools, seed: int) -> Metrics:
    """By estimator and kind: agreement with Definition 1, the same with greedy removal as `greedy_...`, and ranks."""
    told = {}
    taken = np.array([edge in found.removed for edge in found.edges])
    for estimator, learned in found.pruned.items():
        kinds = {}
        for kind, members in by_kind(found.edges).items():
            of = np.array([i for i in members if learned.candidate[i]], dtype=np.int64)
            if not len(of):
                continue
            names = [found.edges[i].kind for i in of]
            drawn = derive_seed(seed, "chance", estimator, kind)
            alone, greedy = (asdict(agreement(learned.cut[of], gone[of], names, drawn)) for gone in (can_go, taken))
            kinds[kind] = rounded_row(
                {
                    **alone,
                    **{f"greedy_{name}": value for name, value in greedy.items() if name not in ("edges", "cut")},
                    "rank_correlation": rank_correlation(learned.scores[of], effects[of].mean(1)),
                    "receiver_rank_correlation": rank_correlation(learned.scores[of], own[of].mean(1)),
                }
            )
        told[str(estimator)] = kinds
    return told


def _graph(found: Found, method: str, seed: int) -> Metrics:
    """One graph on the held-out questions, and beside it the utility on those by which edges were chosen."""
    scored = [found.scores[method][question] for question in found.held_out]
    utility = [one.utility for one in scored]
    before = [found.scores[method][question].utility for question in found.questions]
    return rounded_row(
        {
            "utility": float(np.mean(utility)),
            "ci95": bootstrap_interval(utility, derive_seed(seed, "bootstrap", method)),
            "measured_utility": float(np.mean(before)),
            "tokens": float(_tokens(found, method).mean()),
            "edges": float(np.mean([one.edges for one in scored])),
            "readers": found.readers[method],
        }
    )


def _paired(found: Found, seed: int) -> dict[str, Metrics]:
    """Every graph against the full one on the held-out questions, and the share of the tokens that it saves."""
    graphs = [method for method in found.readers if method != FULL]
    utilities = {m: [found.scores[m][question].utility for question in found.held_out] for m in found.readers}
    tests = paired_tests(utilities, [(method, FULL) for method in graphs], seed, "paired")
    full = _tokens(found, FULL).sum()
    return {
        pair: test | rounded_row({"tokens_saved": 1 - float(_tokens(found, method).sum() / full)})
        for method, (pair, test) in zip(graphs, tests.items(), strict=True)
    }


def _tokens(found: Found, method: str) -> Floats:
    """Of each held-out question, [questions]."""
    scored = [found.scores[method][question] for question in found.held_out]
    return np.array([float(one.prompt_tokens + one.completion_tokens) for one in scored])
