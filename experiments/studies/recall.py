"""`job=recall`: measures recall@k, the share of documents with the answer that search finds."""

import json
from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Any, Literal

from actors.messages import Search, SearchMode, derive_seed
from experiments.analysis.intervals import score_interval
from experiments.analysis.result_table import ResultTable, with_interval
from experiments.datasets.item import Dataset, Item
from experiments.metrics.answer_metrics import recall_at_k
from experiments.planning.plan import Job, Plan
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.running.inputs import manifest_of, notes_of, open_cache, open_dataset, open_store
from retrieval.store import SearchSpace, Store
from topologies.method import query_of

Scope = Literal["pool", "corpus"]


def recall_report(
    dataset: Dataset,
    store: Store,
    ks: Sequence[int] = (1, 3, 5, 10),
    scopes: Sequence[Scope] = ("pool", "corpus"),
    modes: Sequence[SearchMode] = ("text", "vector", "hybrid"),
    limit: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Measures recall on the first `limit` evaluated questions that name supporting documents.

    Returns means for each scope, search mode and k. `recall` is the share of these documents among the best k, with its
    `ci95`; `complete` is the share of the `questions` with all of them among the best k.
    """
    items = list(islice((item for item in dataset.evaluate() if item.supporting), limit))
    clusters = [item.cluster or item.question.id for item in items]
    rows = []
    for scope, mode in product(scopes, modes):
        bar = progress.phase(f"searching, {scope}, {mode}", total=len(items)) if progress else None
        ranked = []
        for item in items:
            # Searched once with the largest k; smaller ones are the first of the same list.
            ranked.append(best_documents(item, store, max(ks), scope, mode))
            if bar:
                bar.advance()
        for k in ks:
            # No questions with supporting documents: recall 0 of 0 questions instead of an error.
            recall = complete = 0.0
            interval = (0.0, 0.0)
            if items:
                shares = [recall_at_k(docs, item.supporting, k) for item, docs in zip(items, ranked, strict=True)]
                recall = sum(shares) / len(shares)
                complete = shares.count(1) / len(shares)
                interval = score_interval(shares, derive_seed(seed, "recall", scope, mode, k), clusters)
            rows.append(
                {
                    "scope": scope,
                    "mode": mode,
                    "k": k,
                    "recall": recall,
                    "ci95": interval,
                    "complete": complete,
                    "questions": len(items),
                }
            )
    return rows


def best_documents(item: Item, store: Store, k: int, scope: Scope, mode: SearchMode) -> list[str]:
    """Finds the k best documents, each ranked by its best source."""
    space = SearchSpace(item.pool if scope == "pool" else None, item.withheld)
    # Several sources, such as rows of a table, are one document, so k sources are often too few.
    sources = 2 * k
    while True:
        hits = store.search(Search(query_of(item.question), sources, mode=mode), space)
        documents = list(dict.fromkeys(hit.source.doc for hit in hits))
        # Fewer hits than requested: there are no more to find.
        if len(documents) >= k or len(hits) < sources:
            return documents[:k]
        sources *= 4


def recall_table(rows: Sequence[Mapping[str, Any]]) -> ResultTable:
    """Makes a row per scope and search. It has recall@k, and the share of questions with all documents found."""
    columns = ["scope", "search"]
    for k in sorted({row["k"] for row in rows}):
        columns += [f"recall@{k} (95%)", "all"]
    searches: dict[tuple[str, str], list[str]] = {}
    for row in sorted(rows, key=lambda row: row["k"]):
        cells = searches.setdefault((row["scope"], row["mode"]), [])
        cells += [with_interval(row["recall"], row["ci95"]), f"{row['complete']:.3f}"]
    questions = rows[0]["questions"] if rows else 0
    note = (
        f"{questions:,} questions that name their supporting documents; all: the share of them with every one of these "
        "found."
    )
    return ResultTable(columns, [(*search, *cells) for search, cells in searches.items()], [note], names=2)


class RecallJob(Job):
    """Searches for the evidence of every question, without agents."""

    name = "recall"
    reads = ("methods", "data", "retrieval")
    learns = False

    def run(self, plan: Plan, folder: RunFolder) -> bool:
        config = plan.config
        cache = open_cache(config.cache_folder)
        dataset = open_dataset(plan, cache)
        with Progress() as progress:
            store = open_store(plan.retrieval, dataset, cache, manifest_of(dataset, cache, progress))
            for note in notes_of(dataset):
                progress.print(f"note: {note}")
            rows = recall_report(dataset, store, limit=config.data.limit, progress=progress, seed=config.seed)
        folder.write("recall.json", json.dumps(rows, indent=2) + "\n")
        print()
        recall_table(rows).print()
        return True
