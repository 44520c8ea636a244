"""Extraction by the run's model before anything is searched: captions of pictures, then triples of all sources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from actors.errors import UserError
from actors.messages import Question, Role, Source, Status, Trace
from actors.runtime.in_order import in_order
from experiments.config.config import Config
from experiments.config.loading import read as read_config
from experiments.datasets.item import Dataset
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
from experiments.evidence.library import triples_given
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.usage import UsageLog
from experiments.running.context import RunContext
from experiments.running.counted import CountedTeam
from experiments.running.methods import methods_of
from experiments.running.models import model_backend, role_backends
from experiments.running.replay import replayed_folder
from retrieval.extract import BY_RULES, Extraction
from retrieval.store import Store
from topologies.topology import Team, run_discussion


def extracts(config: Config) -> tuple[Step, ...]:
    """The steps of a run, in their order. A graph is extracted only for methods that may search it."""
    retrieval = config.retrieval
    searched = any(method.needs_library for method in methods_of(config))
    return (
        *((CAPTIONS,) if retrieval.captions == "model" else ()),
        *((GRAPH,) if retrieval.graph == "model" and searched and config.job == "prune" else ()),
    )


def extracting_roles(config: Config) -> tuple[Role, ...]:
    """The agents that extract, beside all others."""
    return tuple(step.role for step in extracts(config))


def check_extraction(config: Config, dataset: Dataset) -> None:
    """Raises UserError where the data set brings the graph that a model is to extract."""
    if GRAPH in extracts(config) and triples_given(dataset) is not None:
        raise UserError(
            f"retrieval.graph=model: data={config.data.kind} brings a knowledge graph of its own; leave it out"
        )


def identity(config: Config, step: Step) -> str:
    """The model and all settings that an extraction depends on, as JSON; of a replay, those of the recorded run."""
    while (replayed := replayed_folder(config)) is not None:
        config = read_config(RunFolder(replayed).config)
    agents, name = config.agents, step.role.name
    own = role_backends(config, config.roles.keys() & {name})
    # Its model is said by the backend, without what changes no reply.
    told_of_role = asdict(config.roles[name]) | {"model": None, "reader": None} if name in config.roles else None
    told: dict[str, Any] = {
        "model": own.get(name, model_backend(config)).identity(),
        "agents": [agents.temperature, agents.max_tokens, agents.replies],
        "role": told_of_role,
    }
    # The length of parts is in what is asked: equal parts are asked about once, however they were cut.
    if step is GRAPH and config.retrieval.gleaning:
        told["gleaning"] = config.retrieval.gleaning
    return json.dumps(told, sort_keys=True)


async def write_captions(context: RunContext, team: Team, usage: UsageLog) -> Store:
    """The run's store with captions by its model."""
    store = context.evidence.store
    kept = await extract(CAPTIONS, context, context.dataset.corpus, team, usage)
    return await asyncio.to_thread(store.of, captioned(context.dataset.corpus, kept))


async def extract_graph(context: RunContext, team: Team, usage: UsageLog) -> Extraction:
    """What the run's graph is built of: by rules, or by its model."""
    if GRAPH not in extracts(context.config):
        return BY_RULES
    check_extraction(context.config, context.dataset)
    everything = context.evidence.store.everything
    kept = await extract(GRAPH, context, everything, team, usage)
    return await asyncio.to_thread(lambda: statements(everything(), kept))


async def extract(
    step: Step, context: RunContext, sources: Callable[[], Iterable[Source]], team: Team, usage: UsageLog
) -> dict[str, Extracted]:
    """Extracts from all sources of which nothing is kept yet; returns what is kept of all.

    Processes that need the same at once wait for one of them.

    A source or part of one whose turn failed states nothing in this run, and is asked about again by the next.

    Raises:
        UserError: a replay has nothing to ask.
    """
    path = extracted_file(context.evidence.store.folder.parent, step, identity(context.config, step))
    # Not bound to a thread: it is taken in one, so as not to hold up the event loop, and given back in another.
    lock = FileLock(path.with_suffix(".lock"), thread_local=False)
    await asyncio.to_thread(lock.acquire)
    try:
        jsonl.cut(path)
        kept = read_extracted(path)
        left = await asyncio.to_thread(lambda: list(missing(step, sources(), kept)))
        if left and team.recorded:
            raise UserError(
                f"model=replay: {len(left):,} sources were never asked about ({step.phase}); replay with the cache= "
                "of the recorded run"
            )
        if left:
            with usage.phase(step.phase):
                await _ask(step, left, len(kept), context, team, path)
            kept = read_extracted(path)
    finally:
        lock.release()
    return kept


async def _ask(
    step: Step, questions: Sequence[Question], done: int, context: RunContext, team: Team, path: Path
) -> None:
    progress: Progress = context.progress
    bar = progress.phase(step.phase, total=done + len(questions), done=done)
    counted = CountedTeam(team, bar)

    asked = turns_of(context.config, step)

    async def ask(question: Question) -> Trace:
        return await run_discussion(asked, question, counted, 0)

    unread: list[str] = []
    with path.open("ab", buffering=0) as file:
        # In the sources' order, so that the file is the same whatever ends first.
        async for _, trace in in_order(questions, ask, context.config.concurrency):
            kept = Extracted.of(step, trace)
            unread += [kept.error] if kept.error else []
            if trace.status is not Status.FAILED:
                jsonl.append(file, kept.encode())
            bar.advance()
    if unread:
        progress.print(
            f"{step.phase}: {len(unread):,} of {len(questions):,} turns gave nothing that can be read ({unread[0]})"
        )


def turns_of(config: Config, step: Step) -> Step:
    """The step with the further turns for each source that the configuration asks for."""
    return replace(step, gleaning=config.retrieval.gleaning) if step is GRAPH else step


def left_to_extract(
    config: Config, dataset: Dataset, store: Store, caption: str
) -> Iterator[tuple[Step, list[Question]]]:
    """Each step with the questions that a run would ask, for its estimate; `caption` stands for one not written yet."""
    folder = store.folder.parent
    corpus = dataset.corpus
    for step in extracts(config):
        kept = read_extracted(extracted_file(folder, step, identity(config, step)))
        yield turns_of(config, step), list(missing(step, corpus(), kept))
        if step is CAPTIONS:
            corpus = captioned(dataset.corpus, kept, caption)
