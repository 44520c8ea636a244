"""Extracts captions of pictures and triples of all sources with the run's model, before anything is searched."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from filelock import FileLock

from actors.errors import UserError
from actors.messages import Question, Source, Status, Trace
from actors.runtime.in_order import in_order
from experiments.evidence.extraction import (
    CAPTIONS,
    GRAPH,
    Extracted,
    Step,
    captioned,
    extracted_file,
    missing,
    read_extracted,
    statements,
)
from experiments.records import jsonl
from experiments.running.left_to_extract import identity, turns_of
from experiments.running.run_context import CountedTeam, RunContext
from retrieval.graph_tables import BY_RULES, Extraction
from retrieval.store import Store
from topologies.topology import run_discussion


async def write_captions(context: RunContext) -> Store:
    """Writes captions with the run's model. Returns the run's store with them."""
    store = context.evidence.store
    kept = await extract(CAPTIONS, context, context.dataset.corpus)
    return await asyncio.to_thread(store.of, captioned(context.dataset.corpus, kept))


async def extract_graph(context: RunContext) -> Extraction:
    """Extracts the statements that the run's graph is built of: by rules, or with its model."""
    if GRAPH not in context.plan.extraction:
        return BY_RULES
    everything = context.evidence.store.everything
    kept = await extract(GRAPH, context, everything)
    return await asyncio.to_thread(lambda: statements(everything(), kept))


async def extract(step: Step, context: RunContext, sources: Callable[[], Iterable[Source]]) -> dict[str, Extracted]:
    """Extracts from the sources that have nothing kept yet. Returns the kept extractions of all.

    Processes that need the same wait for one of them. Sources whose turn failed are asked about again by the next run.
    Raises UserError where a replay has nothing to ask, and TooManyFailures where most sources would state nothing.
    """
    path = extracted_file(context.evidence.store.folder.parent, step, identity(context.config, step))
    # Not bound to a thread: it is taken in one, so as not to hold up the event loop, and given back in another.
    lock = FileLock(path.with_suffix(".lock"), thread_local=False)
    await asyncio.to_thread(lock.acquire)
    try:
        jsonl.cut(path)
        kept = read_extracted(path)
        left = await asyncio.to_thread(lambda: list(missing(step, sources(), kept)))
        if left and context.team.recorded:
            raise UserError(
                f"model=replay: {len(left):,} sources were never asked about ({step.phase}); replay with the cache= "
                "of the recorded run"
            )
        if left:
            with context.usage.phase(step.phase):
                await _ask(step, left, len(kept), context, path)
            kept = read_extracted(path)
    finally:
        lock.release()
    return kept


async def _ask(step: Step, questions: Sequence[Question], done: int, context: RunContext, path: Path) -> None:
    bar = context.progress.phase(step.phase, total=done + len(questions), done=done)
    counted = CountedTeam(context.team, bar, context.breaker)
    asked = turns_of(step, context.config.retrieval.gleaning)

    async def ask(question: Question) -> Trace:
        return await run_discussion(asked, question, counted, 0)

    unread: list[str] = []
    failed: list[Trace] = []
    with path.open("ab", buffering=0) as file:
        # In the sources' order, so that the file is the same whatever ends first.
        async for _, trace in in_order(questions, ask, context.config.concurrency):
            kept = Extracted.of(step, trace)
            unread += [kept.error] if kept.error else []
            if trace.status is Status.FAILED:
                failed.append(trace)
            else:
                jsonl.append(file, kept.encode())
            bar.advance()
    # A graph of the few sources that are left would find other things than one of all.
    if len(failed) > context.config.failures.share * len(questions):
        context.breaker.check(step.phase, failed)
    if unread:
        context.progress.print(
            f"{step.phase}: {len(unread):,} of {len(questions):,} turns gave nothing that can be read ({unread[0]})"
        )
