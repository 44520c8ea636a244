"""Extracts captions of pictures and triples of all sources with the run's model, before anything is searched."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.messages import Question, Source, Status, Trace
from experiments.config.config import Config
from experiments.config.saved import answered_by
from experiments.datasets.item import Dataset
from experiments.evidence.extraction import (
    CAPTIONS,
    GRAPH,
    Extracted,
    Step,
    captioned,
    extracted_file,
    extraction_lock,
    missing,
    read_extracted,
    statements,
)
from experiments.planning.plan import Plan
from experiments.planning.run_models import find_models
from experiments.records import jsonl
from experiments.running.discussing import discuss_all
from experiments.running.run_context import RunContext
from retrieval.graph_tables import BY_RULES, Extraction
from retrieval.store import Store
from topologies.topology import Speaker, run_discussion


def identity(config: Config, step: Step) -> str:
    """Returns the model and settings that an extraction depends on, as JSON. Of a replay, those of the recorded run."""
    config = answered_by(config)
    agents, name = config.agents, step.role.name
    # A role's model is described by its backend, without what changes no reply.
    role = asdict(config.roles[name]) | {"model": None, "reader": None} if name in config.roles else None
    described: dict[str, Any] = {
        "model": find_models(config, config.roles.keys() & {name}).of_role(name).identity(),
        "agents": [agents.temperature, agents.max_tokens, agents.replies],
        "role": role,
    }
    # The length of parts is in the requests: equal parts are asked about once, however they were cut.
    if step is GRAPH and config.retrieval.gleaning:
        described["gleaning"] = config.retrieval.gleaning
    return json.dumps(described, sort_keys=True)


def turns_of(step: Step, gleaning: int) -> Step:
    """Adds the further turns for each source that `retrieval.gleaning` asks for."""
    return replace(step, gleaning=gleaning) if step is GRAPH else step


def left_to_extract(plan: Plan, dataset: Dataset, store: Store, caption: str) -> Iterator[tuple[Step, list[Question]]]:
    """Yields each step with the questions that a run would ask, for a dry run. `caption` replaces missing captions."""
    config, folder, corpus = plan.config, store.folder.parent, dataset.corpus
    for step in plan.extraction:
        extracted = read_extracted(extracted_file(folder, step, identity(config, step)))
        yield turns_of(step, config.retrieval.gleaning), list(missing(step, corpus(), extracted))
        if step is CAPTIONS:
            corpus = captioned(dataset.corpus, extracted, caption)


async def write_captions(context: RunContext) -> Store:
    """Writes captions with the run's model. Returns the run's store with them."""
    store = context.evidence.store
    captions = await extract(CAPTIONS, context, context.dataset.corpus)
    return await asyncio.to_thread(store.of, captioned(context.dataset.corpus, captions))


async def extract_graph(context: RunContext) -> Extraction:
    """Extracts the statements that the run's graph is built of: by rules, or with its model."""
    if GRAPH not in context.plan.extraction:
        return BY_RULES
    everything = context.evidence.store.everything
    extracted_statements = await extract(GRAPH, context, everything)
    return await asyncio.to_thread(lambda: statements(everything(), extracted_statements))


async def extract(step: Step, context: RunContext, sources: Callable[[], Iterable[Source]]) -> dict[str, Extracted]:
    """Extracts from the sources that have nothing kept yet. Returns the kept extractions of all.

    Processes that need the same wait for one of them. Sources whose turn failed are asked about again by the next run.
    Raises UserError where a replay has nothing to ask, and TooManyFailures where most sources would state nothing.
    """
    path = extracted_file(context.evidence.store.folder.parent, step, identity(context.config, step))
    with ExitStack() as held:
        await asyncio.to_thread(held.enter_context, extraction_lock(path))
        jsonl.cut(path)
        jsonl.check_digests(path, resumes=True)
        extracted = read_extracted(path)
        unasked = await asyncio.to_thread(lambda: list(missing(step, sources(), extracted)))
        if unasked and context.plan.replayed:
            raise UserError(
                f"model=replay: {len(unasked):,} sources were never asked about ({step.phase}); replay with the cache= "
                "of the recorded run"
            )
        if unasked:
            await _ask(step, unasked, len(extracted), context, path)
            extracted = read_extracted(path)
    return extracted


async def _ask(step: Step, questions: Sequence[Question], recorded_count: int, context: RunContext, path: Path) -> None:
    gleaning_step = turns_of(step, context.config.retrieval.gleaning)
    unread: list[str] = []
    failed: list[Trace] = []

    async def ask(question: Question, speaker: Speaker) -> Trace:
        return await run_discussion(gleaning_step, question, speaker, 0)

    with path.open("ab", buffering=0) as file:

        def record(question: Question, trace: Trace) -> None:
            extracted = Extracted.of(step, trace)
            if extracted.error:
                unread.append(extracted.error)
            if trace.status is Status.FAILED:
                failed.append(trace)
            else:
                jsonl.append(file, extracted.encode())

        await discuss_all(
            context,
            [questions],
            ask,
            record,
            name=step.phase,
            total=recorded_count + len(questions),
            done=recorded_count,
            usage_name=step.phase,
        )
    # A graph of the few sources that are left would find other things than one of all.
    if len(failed) > context.config.failures.share * len(questions):
        context.breaker.check(step.phase, failed)
    if unread:
        context.progress.print(
            f"{step.phase}: {len(unread):,} of {len(questions):,} turns gave nothing that can be read ({unread[0]})"
        )
