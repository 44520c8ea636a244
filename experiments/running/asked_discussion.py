"""Holds one discussion of a question that no data set has, and prints it turn by turn."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

from actors.errors import visible
from actors.messages import Message, Question, Source, Status, Trace, Turn, TurnResult, Usage
from experiments.datasets.item import Dataset, Item, Score
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary, check_web, open_web, triples_given
from experiments.planning.plan import Plan
from experiments.planning.topologies import make_topology
from experiments.records.progress import LINE, Progress
from experiments.running import inputs, launching, model_record, runtime_start
from experiments.running.speakers import Metered
from topologies.topology import run_discussion

INDENT = " " * 4


@dataclass
class AskedQuestion:
    """A data set of one question and its own sources."""

    item: Item
    sources: Sequence[Source]
    name: str = "ask"
    metric: str = "none"

    def train(self) -> Iterator[Item]:
        return iter(())

    def evaluate(self) -> Iterator[Item]:
        return iter((self.item,))

    def corpus(self) -> Iterator[Source]:
        return iter(self.sources)

    def score(self, item: Item, answer: str | None) -> Score:
        """Scores nothing: the question has no gold answer."""
        raise NotImplementedError


def discuss(plan: Plan, question: Question, sources: Sequence[Source], has_data: bool) -> int:
    """Discusses a question over its own sources and, with `has_data`, the corpus of the plan's data set.

    Returns 0, or 1 without an answer. Raises UserError, and what ends a run.
    """
    check_web(plan.config.retrieval)
    docs = tuple(dict.fromkeys(source.doc for source in sources))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        with Progress() as progress:
            if has_data:
                cache = inputs.open_cache(plan.config.cache_folder)
                # The question has no pool.
                plan = replace(plan, retrieval=replace(plan.retrieval, scope="corpus"))
                item = Item(question, ())
                with progress.waiting(f"reading data={plan.config.data.kind}"):
                    dataset = inputs.open_dataset(plan, cache)
            else:
                cache = folder
                item = Item(question, (), pool=docs, own=docs)
                dataset = AskedQuestion(item, sources)
            evidence = inputs.open_evidence(plan, dataset, cache, progress)
            runtime = stack.enter_context(runtime_start.runtime_started(plan.config, progress))
            speaker = launching.launch_shared(plan, runtime, progress.print).agents.speaker()

        async def hold() -> int:
            async with runtime_start.held(runtime, evidence.progress):
                with Progress() as progress:
                    await runtime_start.wait(runtime, progress)
                    await model_record.check_models(plan, runtime, [], progress)
                return await answered(plan, item, sources, dataset, evidence, Metered(speaker, printed), folder)

        return asyncio.run(hold())


async def answered(
    plan: Plan,
    item: Item,
    sources: Sequence[Source],
    dataset: Dataset,
    evidence: Evidence,
    speaker: Metered,
    folder: Path,
) -> int:
    """Holds the discussion, and prints the answer and its cost. folder: keeps results of the web until the end."""
    config = plan.config
    question = await evidence.question(item)
    present = {source.id for source in question.evidence}
    further = [source for source in sources if source.id not in present]
    question = replace(
        question,
        evidence=(*further, *question.evidence),
        own=tuple(dict.fromkeys(source.doc for source in sources)),
    )
    library = LabelledLibrary(evidence, [item], open_web(config.retrieval, folder), triples_given(dataset))
    topology = make_topology(plan.methods[0], config, plan.roles.agents, {}, library)
    started = time.monotonic()
    trace = await run_discussion(topology, question, speaker, config.seed)
    usage = sum(speaker.usage.values(), Usage())
    print()
    for line in conclusion(trace, question, usage, time.monotonic() - started):
        print(visible(line))
    price = config.costs.price(usage.prompt_tokens - usage.cached_tokens, usage.completion_tokens, usage.cached_tokens)
    if price is not None:
        print(f"Price at the given rates: {price:.4f}")
    return 0 if trace.answer is not None else 1


def printed(turn: Turn, result: TurnResult, _: float) -> None:
    """Prints a turn: who has said it, its answer, its confidence, how many it has heard, and its reasoning."""
    message = result.message
    parts = [f"heard {len(turn.heard)}"] if turn.heard else []
    if message.confidence is not None:
        parts.append(f"confidence {message.confidence:.2f}")
    note = f" ({', '.join(parts)})" if parts else ""
    print(visible(f"{message.round}. {message.agent}: {said(message)}{note}"), flush=True)
    reasoning = visible(" ".join(message.content.split()))
    if reasoning:
        print(fill(reasoning, LINE, initial_indent=INDENT, subsequent_indent=INDENT), flush=True)


def said(message: Message) -> str:
    """Writes the answer of a message, or the fields of a reply without one."""
    if message.status is Status.FAILED:
        return f"failed, {message.error}"
    if message.answer is not None:
        return message.answer
    if message.status is Status.UNPARSED:
        return "not readable"
    return "; ".join(f"{name}: {value}" for name, value in message.fields) or "no answer"


def conclusion(trace: Trace, question: Question, usage: Usage, seconds: float) -> Iterator[str]:
    """Yields the answer, failed turns with the last reason, sources that were read, and calls, tokens and time."""
    answer = "none" if trace.answer is None else trace.answer
    yield f"Answer: {answer}"
    errors = [turn.error for turn in trace.turns if turn.status is Status.FAILED]
    if errors:
        yield f"{len(errors)} of {len(trace.turns)} turns failed, the last because: {errors[-1]}"
    if not question.evidence and not trace.lookups:
        yield "There was no evidence: name a data set (data=), ask.passages= or ask.pictures="
    reused = f", from the cache {usage.reused:,}" if usage.reused else ""
    yield (
        f"Cost: calls {usage.calls:,}{reused}; prompt tokens {usage.prompt_tokens:,}, reply tokens "
        f"{usage.completion_tokens:,}; {seconds:.1f} s"
    )
