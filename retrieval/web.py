"""Web search and a recording of it, since the web gives other results tomorrow.

`Serper` asks Google through serper.dev; `RecordedWeb` keeps its results, a line of JSON per query, and answers from
there first.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2

from actors.errors import WebError
from actors.messages import Hit, Kind, Source

RESULTS = 10  # the most that one credit buys
LANGUAGE = "en"  # the benchmarks' and prompts', wherever the search is made from
TIMEOUT_S, CONNECT_S = 20.0, 10.0
RETRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
QUOTED_CHARACTERS = 200
LINE_BYTES = 64_000_000  # of a recorded search (some kB); a file without line breaks must not fill the memory

Results = list[dict[str, str]]


class Web(Protocol):
    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """The first k results (at most `RESULTS`), best first; the score is one over the rank.

        Raises:
            WebError: the search failed.
        """


class Serper:
    """serper.dev's search. Safe for any number of concurrent calls, of which `at_once` are under way at a time.

    Args:
        url: the service's address, such as https://google.serper.dev/search.
        key: the account's key; `key_env` is the variable that it came from, for errors.
        pause_s: before the first retry of a request that met a fault; doubles every time. A time that the service
            names itself (Retry-After) comes first.
    """

    def __init__(self, url: str, key: str, key_env: str = "", pause_s: float = FIRST_PAUSE_S, at_once: int = 8) -> None:
        self._url = url
        self._key = key.strip()
        self._key_env = key_env
        self._pause_s = pause_s
        self._free = asyncio.Semaphore(at_once)

    async def results(self, query: str) -> Results:
        """Title, text and link of each result: Google's own answer, its knowledge graph's entry, then pages.

        A query that the service refuses for itself (HTTP 400) has no results.

        Raises:
            WebError: no key, a key or an account that is refused, or a fault that outlasts all attempts.
        """
        if not self._key or not self._key.isascii() or not self._key.isprintable():
            raise WebError(f"web search at {self._url} needs a key: export it as {self._key_env or 'a variable'}")
        reason = ""
        async with self._free:
            for attempt in range(RETRIES + 1):
                outcome = await self._attempt(query)
                if not isinstance(outcome, _Fault):
                    return outcome
                reason = outcome.reason
                if attempt < RETRIES:
                    await asyncio.sleep(outcome.wait_s or min(self._pause_s * 2**attempt, LONGEST_PAUSE_S))
        raise WebError(f"web search at {self._url} failed {RETRIES + 1} times: {reason}; try again later")

    async def _attempt(self, query: str) -> Results | _Fault:
        headers = {"X-API-KEY": self._key, "Content-Type": "application/json"}
        content = json.dumps({"q": query, "num": RESULTS, "hl": LANGUAGE})
        try:
            # A client for each attempt: a search is rare, and no connection outlives the loop that made it.
            async with (
                asyncio.timeout(TIMEOUT_S),
                httpx2.AsyncClient(timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_S)) as client,
            ):
                response = await client.post(self._url, content=content, headers=headers)
        except TimeoutError:
            return _Fault(f"no reply within {TIMEOUT_S:g} s")
        except httpx2.RequestError as error:
            return _Fault(f"{type(error).__name__}: {str(error) or 'no more is known'}")
        try:
            data = response.json()
        except ValueError:
            data = None
        status = response.status_code
        if status == 200 and isinstance(data, dict):
            return read_results(data)
        text = self._quoted(data.get("message") if isinstance(data, dict) else response.text)
        reason = f"HTTP {status}: {text}"
        if status in (401, 402, 403) or (status == 400 and "credit" in text.lower()):
            raise WebError(
                f"web search at {self._url} refuses this key or has no credit for it ({reason}); check "
                f"{self._key_env or 'the key'}"
            )
        if status == 400:  # the query itself is refused, as it would be every time
            return []
        if status == 200 or status in (408, 425, 429) or status >= 500:
            return _Fault(reason, _seconds(response.headers.get("retry-after")))
        raise WebError(f"{self._url} is no web search ({reason}); give its address as retrieval.web_url")

    def _quoted(self, text: Any) -> str:
        """One line of bounded length, without the key."""
        line = " ".join(str(text or "nothing more is said").split()).replace(self._key, "[key]")
        return line[:QUOTED_CHARACTERS]


@dataclass(frozen=True, slots=True)
class _Fault:
    """The reason why there were no results this time, and the seconds that the service wants no request."""

    reason: str
    wait_s: float = 0.0


def _seconds(retry_after: str | None) -> float:
    try:
        return min(max(0.0, float(retry_after or 0)), LONGEST_PAUSE_S)
    except ValueError:
        return 0.0


def read_results(data: Mapping[str, Any]) -> Results:
    """The results in Serper's response, in its order; parts of another shape than expected are passed over."""
    box, graph, pages = data.get("answerBox"), data.get("knowledgeGraph"), data.get("organic")
    results: Results = []
    if isinstance(box, dict):
        results.append(_result(box, (box.get("answer"), box.get("snippet"))))
    if isinstance(graph, dict):
        known = graph.get("attributes")
        attributes = [f"{name}: {value}" for name, value in known.items()] if isinstance(known, dict) else []
        results.append(_result(graph, (graph.get("type"), graph.get("description"), "; ".join(attributes))))
    for page in pages if isinstance(pages, list) else ():
        if isinstance(page, dict):
            results.append(_result(page, (page.get("snippet"), page.get("date"))))
    return [result for result in results if result["text"]][:RESULTS]


def _result(entry: Mapping[str, Any], texts: Sequence[Any]) -> dict[str, str]:
    link = entry.get("link") or entry.get("descriptionLink") or entry.get("website") or ""
    sentences = [text.strip().rstrip(".") for text in texts if isinstance(text, str) and text.strip()]
    text = ". ".join(dict.fromkeys(sentences))
    return {"title": str(entry.get("title") or ""), "text": f"{text}." if text else "", "link": str(link)}


def as_hits(results: Results, k: int) -> tuple[Hit, ...]:
    """The first k as sources. An id is the link and a digest of the text, since that depends on the query."""
    hits: dict[str, Hit] = {}
    for rank, result in enumerate(results[:k], start=1):  # the same page may be listed twice
        text = "\x1f".join((result["title"], result["text"], result["link"]))
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        id = f"web:{result['link']}#{digest}"
        hits.setdefault(id, Hit(Source(id, id, Kind.TEXT, result["title"], result["text"]), 1 / rank))
    return tuple(hits.values())


class RecordedWeb:
    """Results by query in a file of JSON lines: as long as that exists, the same query has the same results.

    Args:
        path: of the file; made when the first query is recorded. A last line that was being written when its run was
            killed is cut away.
        live: searches for what is not recorded yet; None where only the recording may answer.

    Raises:
        WebError: the file cannot be read, or holds something else.
    """

    def __init__(self, path: Path, live: Serper | None = None) -> None:
        self._path = path
        self._live = live
        self._recorded = read_recording(path) if path.exists() else {}
        self._searching: dict[str, asyncio.Lock] = {}

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """As `Web.search`. Concurrent searches for one query, whatever its white space, are one live search.

        Raises:
            WebError: the query is not recorded and there is no live search, it fails, or the file cannot be written.
        """
        query = " ".join(query.split())
        if not query:
            return ()
        async with self._searching.setdefault(query, asyncio.Lock()):
            if query not in self._recorded:
                self._recorded[query] = await self._search_live(query)
        self._searching.pop(query, None)  # those that wait for the lock keep it, and then find the results
        return as_hits(self._recorded[query], k)

    async def _search_live(self, query: str) -> Results:
        if self._live is None:
            raise WebError(
                f"{self._path} holds no results for {query[:QUOTED_CHARACTERS]!r}: record it with retrieval.web=serper"
            )
        results = await self._live.results(query)
        line = json.dumps({"query": query, "results": results}) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise WebError(f"cannot write {self._path}: {error}; make room and resume the run") from error
        return results


def read_recording(path: Path) -> dict[str, Results]:
    """Results by query. Raises WebError when the file cannot be read or holds something else."""
    recorded: dict[str, Results] = {}
    try:
        lines = _complete_lines(path)
    except OSError as error:
        raise WebError(f"cannot read recorded web results: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            recorded[record["query"]] = [
                {name: str(result[name]) for name in ("title", "text", "link")} for result in record["results"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise WebError(
                f"{path}, line {number}: not a recorded web search ({error!r}); give the web.jsonl of a run"
            ) from error
    return recorded


def _complete_lines(path: Path) -> list[bytes]:
    """The lines of a recording; one that was not written to its end is cut off. Raises WebError for an endless one."""
    lines: list[bytes] = []
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES):
            if line.endswith(b"\n"):
                lines.append(line)
            elif len(line) == LINE_BYTES:
                raise WebError(
                    f"{path}, line {len(lines) + 1}: more than {LINE_BYTES:,} bytes, which is no recorded web search; "
                    "give the web.jsonl of a run"
                )
            else:
                os.truncate(path, sum(map(len, lines)))
    return lines
