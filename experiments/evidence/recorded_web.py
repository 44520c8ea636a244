"""Records web searches, a line of JSON per query, so that equal queries have equal results though the web changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from actors.errors import UserError
from actors.messages import Hit
from experiments.records import jsonl
from retrieval.web_search import QUOTED_CHARACTERS, Results, Serper, as_hits


class RecordedWeb:
    """Answers from the recording first.

    path: the file, created with the first recorded query. An incomplete last line, of a killed run, is removed.
    live: searches what is not recorded yet; None answers only from the recording.

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
                    asked = repr(query[:QUOTED_CHARACTERS])
                    raise UserError(f"{self._path} holds no results for {asked}: record it with retrieval.web=serper")
                results = await self._live.results(query)
                jsonl.append_to(self._path, json.dumps({"query": query, "results": results}))
                self._recorded[query] = results
        self._searching.pop(query, None)  # waiting searches keep the lock, and then find the results
        return as_hits(self._recorded[query], k)


def read_recording(path: Path) -> dict[str, Results]:
    """Reads results by query. Raises UserError where the file is no recording."""
    return dict(jsonl.records(path, _decoded, "give the web.jsonl of a run"))


def _decoded(line: str) -> tuple[str, Results]:
    record = json.loads(line)
    return record["query"], [
        {name: str(result[name]) for name in ("title", "text", "link")} for result in record["results"]
    ]
