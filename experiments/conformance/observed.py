"""Observes the discussions of methods: every turn, and every search with its results."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from random import Random
from typing import Any

from actors.messages import Hit, Question, Trace
from experiments.conformance.requirements import require
from experiments.scripted.speaker import LONGEST_DELAY_S, ScriptedSpeaker
from topologies.method import Library
from topologies.topology import Topology

SEED = 7
LOOKS_NOTHING_UP = ("topics", "annotated", "embed")


class ObservedLibrary:
    """Library that records every search, and may be slow at random.

    known_results: of earlier searches, which are not made again.
    results: ids of what each search found, in the order of calls. found: all ids, also of the question's own sources.
    """

    def __init__(self, library: Library, known_results: dict[str, Any], delays: Random | None = None) -> None:
        self._library = library
        self._known_results = known_results
        self._delays = delays
        self.results: list[list[str]] = []
        self.found: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Observes the library's search of that name."""
        search: Callable[..., Awaitable[Any]] = getattr(self._library, name)
        if name in LOOKS_NOTHING_UP:
            return search

        def observed(question: Question, *args: Any, **options: Any) -> Awaitable[Any]:
            ids: list[str] = []
            if name != "own":
                # Reserved when a search is called: with delays, searches end in another order.
                self.results.append(ids)

            async def find() -> Any:
                if self._delays:
                    await asyncio.sleep(self._delays.random() * LONGEST_DELAY_S)
                key = repr((name, question.id, args, options))
                if key not in self._known_results:
                    self._known_results[key] = await search(question, *args, **options)
                results = self._known_results[key]
                for result in results:
                    ids.append(result.source.id if isinstance(result, Hit) else result.id)
                self.found.update(ids)
                return results

            return find()

        return observed


@dataclass
class ObservedDiscussion:
    """One discussion, with every turn and search of it."""

    question: Question
    trace: Trace
    team: ScriptedSpeaker
    library: ObservedLibrary


async def observe_discussion(
    topology: Topology, question: Question, team: ScriptedSpeaker, library: ObservedLibrary, seed: int = SEED
) -> ObservedDiscussion:
    """Holds a discussion. Raises NotConforming where the topology is not asynchronous."""
    answer: Any = topology.answer(question, team.ask, seed)
    require(isawaitable(answer), "`answer` returns no awaitable; write `async def answer`")
    return ObservedDiscussion(question, await answer, team, library)
