"""Library of a run: corpus, knowledge graph and web. A system may search them for one question."""

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np

from actors.errors import UserError, WebError
from actors.messages import Hit, Question, Search, Source, Triple
from actors.secrets import secret
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence, first
from experiments.evidence.retrieval_settings import SERPER_KEY, RetrievalSettings
from experiments.records import jsonl
from experiments.records.run_files import write_atomically
from retrieval.graph import KnowledgeGraph
from retrieval.graph_tables import BY_RULES, Extraction
from retrieval.store import SearchSpace
from retrieval.web_search import QUOTED_CHARACTERS, Results, Serper, Web, as_hits
from topologies.wiring import Floats

RECORDING = "web.jsonl"
SERPER_URL = "https://google.serper.dev/search"


def triples_given(dataset: object) -> Callable[[], Iterable[Triple]] | None:
    """Finds the `triples` of a data set with a knowledge graph. Its entities are its sources, by their titles."""
    return getattr(dataset, "triples", None)


class LabelledLibrary:
    """Searches the run's evidence and labelled items, as a `topologies.method.Library`. Systems see results only.

    Searches of the graph cover `retrieval.scope`: the statements of the question's pool, all, or both in turn.

    web: without one, `retrieval.web` decides whether the corpus is searched in its place.
    triples: the data set's own, if it has any; extraction: of triples of its sources where it has none.
    """

    def __init__(
        self,
        evidence: Evidence,
        items: Iterable[Item],
        web: Web | None = None,
        triples: Callable[[], Iterable[Triple]] | None = None,
        extraction: Extraction = BY_RULES,
    ) -> None:
        self._evidence = evidence
        self._web = web
        self._triples = triples
        self._extraction = extraction
        self._items = {item.question.id: item for item in items}
        self._graph: KnowledgeGraph | None = None
        self._lock = Lock()

    def over(self, evidence: Evidence) -> "LabelledLibrary":
        """Makes the same searches of other evidence."""
        return LabelledLibrary(evidence, self._items.values(), self._web, self._triples, self._extraction)

    async def own(self, question: Question) -> tuple[Source, ...]:
        return await self._evidence.own(self._items[question.id])

    async def search(self, question: Question, search: Search) -> tuple[Hit, ...]:
        return await asyncio.to_thread(self._evidence.search, self._items[question.id], search)

    async def embed(self, texts: Sequence[str]) -> list[Floats]:
        def unit_vector(text: str) -> Floats:
            # Of several vectors, the mean direction.
            vectors = np.asarray(self._evidence.store.encoder.encode_query(text), np.float64)
            mean = np.atleast_2d(vectors).mean(0)
            unit: Floats = mean / max(float(np.linalg.norm(mean)), 1e-12)
            return unit

        return await asyncio.to_thread(lambda: list(map(unit_vector, texts)))

    async def graph(
        self, question: Question, words: Sequence[str], k: int, *, level: Literal["entity", "theme"] = "entity"
    ) -> tuple[Triple, ...]:
        def search(space: SearchSpace) -> list[Triple]:
            return self._open_graph().search(words, k, level=level, space=space)

        return await asyncio.to_thread(first, k, self._spaces(question), search, attrgetter("id"))

    async def neighbours(self, question: Question, entity: str) -> tuple[Triple, ...]:
        # The last space is the widest. All results are asked for, so the pool need not be searched first.
        widest = self._spaces(question)[-1]
        return await asyncio.to_thread(lambda: tuple(self._open_graph().neighbours(entity, widest)))

    async def entity(
        self, question: Question, name: str, k: int | None = None, *, near: str = ""
    ) -> tuple[Source, ...]:
        spaces = self._spaces(question)

        def search(space: SearchSpace) -> list[Source]:
            sources = self._open_graph().entity(name, space, near)
            self._evidence.check_pictures(sources)
            return sources

        if k is None:
            return tuple(await asyncio.to_thread(search, spaces[-1]))
        return await asyncio.to_thread(first, k, spaces, search, attrgetter("id"))

    async def web(self, question: Question, query: str, k: int) -> tuple[Hit, ...]:
        """Searches the web, or the corpus in its place. Raises UserError where the web cannot be searched."""
        if self._web is None:
            return await asyncio.to_thread(self._evidence.instead_of_web, self._items[question.id], query, k)
        try:
            return await self._web.search(query, k)
        except WebError as error:
            raise UserError(f"{error}; what is recorded stays and can be resumed") from error

    async def topics(self, question: Question) -> tuple[str, ...]:
        return self._items[question.id].topics

    async def annotated(self, question: Question) -> tuple[tuple[str, ...], ...]:
        return self._items[question.id].paths

    def _spaces(self, question: Question) -> list[SearchSpace]:
        return self._evidence.spaces(self._items[question.id])

    def _open_graph(self) -> KnowledgeGraph:
        """Opens the graph, and builds it at the first search."""
        with self._lock:  # searches run in threads, and building takes seconds to minutes
            if self._graph is None:
                progress = self._evidence.progress
                self._graph = KnowledgeGraph.open(
                    self._evidence.store,
                    self._triples,
                    extraction=self._extraction,
                    counted=progress.counted,
                    waiting=progress.waiting,
                )
            return self._graph


def check_web(retrieval: RetrievalSettings, replayed: bool = False) -> None:
    """Raises UserError where the web cannot be searched; called before anything is started."""
    if retrieval.web == "serper" and not replayed and not secret(SERPER_KEY):
        raise UserError(
            f"retrieval.web=serper needs a key of serper.dev in the environment variable {SERPER_KEY}: export it "
            "first, or choose retrieval.web=corpus"
        )
    if retrieval.web == "recorded" and not (retrieval.web_file and os.path.isfile(retrieval.web_file)):
        raise UserError(
            f"retrieval.web=recorded needs retrieval.web_file=<web.jsonl of a run>; {retrieval.web_file} is no file"
        )


def open_web(retrieval: RetrievalSettings, folder: Path, replayed: Path | None = None) -> Web | None:
    """Opens the web that a run searches. None where it searches none, or the corpus.

    Results are kept in the run's folder, so that a resumed or replayed run gets the same. Earlier recordings (of this
    run, in `retrieval.web_file`, or in the run `replayed`) come first. A replay searches nothing live.

    Raises UserError when the recording cannot be read.
    """
    if retrieval.web not in ("serper", "recorded"):
        return None

    recording = folder / RECORDING
    earlier: Path | None = None
    live: Serper | None = None
    if replayed is not None:  # its recording has all that its turns received, whatever the settings name
        earlier = replayed / RECORDING
    elif retrieval.web == "serper":
        live = Serper(SERPER_URL, secret(SERPER_KEY) or "", SERPER_KEY)
    elif retrieval.web_file:
        earlier = Path(retrieval.web_file)

    try:
        # A resumed run continues its own recording, which begins with the earlier one.
        if earlier is not None and earlier.is_file() and not recording.exists():
            write_atomically(recording, earlier.read_bytes())
        return RecordedWeb(recording, live)
    except OSError as error:
        raise UserError(str(error)) from error


class RecordedWeb:
    """Answers from the recording first.

    path: the file, created with the first recorded query. An incomplete last line, of a killed run, is removed.
    live: answers queries that are not recorded yet; None answers only from the recording.

    Raises UserError where the file cannot be read, or is no recording.
    """

    def __init__(self, path: Path, live: Serper | None = None) -> None:
        self._path = path
        self._live = live
        jsonl.cut(path)
        self._recorded = read_recording(path)
        self._searching: dict[str, asyncio.Lock] = {}

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Searches like `Web.search`, once for equal words. Raises WebError; UserError without a record."""
        query = " ".join(query.split())
        if not query:
            return ()

        async with self._searching.setdefault(query, asyncio.Lock()):
            if query not in self._recorded:
                if self._live is None:
                    raise UserError(
                        f"{self._path} holds no results for {query[:QUOTED_CHARACTERS]!r}: record it with "
                        "retrieval.web=serper"
                    )
                results = await self._live.results(query)
                jsonl.append_to(self._path, json.dumps({"query": query, "results": results}))
                self._recorded[query] = results

        self._searching.pop(query, None)  # waiting searches keep the lock, and then find the results
        return as_hits(self._recorded[query], k)


def read_recording(path: Path) -> dict[str, Results]:
    """Reads results by query. Raises UserError where the file is no recording."""

    def decode(line: str) -> tuple[str, Results]:
        record = json.loads(line)
        results: Results = []
        for result in record["results"]:
            results.append({name: str(result[name]) for name in ("title", "text", "link")})
        return record["query"], results

    return dict(jsonl.records(path, decode, "give the web.jsonl of a run"))
