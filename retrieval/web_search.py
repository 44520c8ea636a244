"""Web search: Google, through serper.dev."""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, Protocol

from actors.backends.redaction import Redaction
from actors.errors import WebError
from actors.http_client import NoResponse, fetch, open_client, requested_pause_s
from actors.messages import Hit, Kind, Source

RESULTS = 10  # most results for one credit
LANGUAGE = "en"  # of the benchmarks and prompts
TIMEOUT_S = 20.0
AT_ONCE = 8  # searches that run at a time
RETRIES = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
QUOTED_CHARACTERS = 200

Results = list[dict[str, str]]


class Web(Protocol):
    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns the first k results (at most `RESULTS`), best first; the score is 1 / rank. Raises WebError."""


class Serper:
    """Searches with serper.dev. Safe for any number of concurrent calls, `AT_ONCE` of which run at a time.

    url: the service's address, such as https://google.serper.dev/search.
    key: the account's key; `key_env` is its environment variable, for errors.
    pause_s: seconds before the first retry after a fault; doubles every time. Retry-After takes precedence.
    """

    def __init__(self, url: str, key: str, key_env: str = "", pause_s: float = FIRST_PAUSE_S) -> None:
        self._url = url
        self._key = key.strip()
        self._redaction = Redaction(self._key)
        self._key_env = key_env
        self._pause_s = pause_s
        self._free = asyncio.Semaphore(AT_ONCE)

    async def results(self, query: str) -> Results:
        """Returns title, text and link of each result: Google's answer, its knowledge graph's entry, then pages.

        A query that the service refuses (HTTP 400) has no results. Raises WebError where there is no key, the key or
        the account is refused, or all attempts met a fault.
        """
        if not self._key or not self._key.isascii() or not self._key.isprintable():
            raise WebError(f"web search at {self._url} needs a key: export it as {self._key_env or 'a variable'}")

        async with self._free:
            for attempt in range(RETRIES + 1):
                try:
                    return await self._ask(query)
                except _Fault as fault:
                    reason = str(fault)
                    pause_s = fault.pause_s or self._pause_s * 2**attempt
                if attempt < RETRIES:
                    await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))

        raise WebError(f"web search at {self._url} failed {RETRIES + 1} times: {reason}; try again later")

    async def _ask(self, query: str) -> Results:
        """Asks once. Raises _Fault where another attempt may succeed, and WebError where none can."""
        body = json.dumps({"q": query, "num": RESULTS, "hl": LANGUAGE}).encode()
        try:
            # A client for each attempt: searches are rare, and no connection outlives its event loop.
            async with open_client({"X-API-KEY": self._key}) as client:
                status, headers, content = await fetch(client, "POST", self._url, body, TIMEOUT_S)
        except NoResponse as error:
            raise _Fault(self._redaction.line(str(error))) from error

        text = self._redaction.text(content.decode(errors="replace"))
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None

        if status == 200 and isinstance(data, dict):
            return read_results(data)

        detail = data.get("message") if isinstance(data, dict) else text
        reason = f"HTTP {status}: {self._redaction.line(str(detail or 'no details')[:QUOTED_CHARACTERS])}"
        if status in (401, 402, 403) or (status == 400 and "credit" in reason.lower()):
            raise WebError(
                f"web search at {self._url} refuses this key or has no credit for it ({reason}); check "
                f"{self._key_env or 'the key'}"
            )
        if status == 400:  # the query is refused, as it would be every time
            return []
        if status not in (200, 408, 425, 429) and status < 500:
            raise WebError(f"{self._url} is no web search ({reason})")

        raise _Fault(reason, requested_pause_s(headers, time.time()))


class _Fault(Exception):
    """Failure of one attempt. pause_s: seconds that the service asks to wait."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


def read_results(data: Mapping[str, Any]) -> Results:
    """Reads the results in Serper's response, in order; parts with an unexpected shape are ignored."""
    results: Results = []
    box = data.get("answerBox")
    if isinstance(box, dict):
        results.append(_result(box, box.get("answer"), box.get("snippet")))
    graph = data.get("knowledgeGraph")
    if isinstance(graph, dict):
        attributes = graph.get("attributes")
        facts: list[str] = []
        if isinstance(attributes, dict):
            facts = [f"{name}: {value}" for name, value in attributes.items()]
        results.append(_result(graph, graph.get("type"), graph.get("description"), "; ".join(facts)))

    pages = data.get("organic")
    if isinstance(pages, list):
        for page in pages:
            if isinstance(page, dict):
                results.append(_result(page, page.get("snippet"), page.get("date")))

    return [result for result in results if result["text"]][:RESULTS]


def _result(entry: Mapping[str, Any], *texts: Any) -> dict[str, str]:
    link = entry.get("link") or entry.get("descriptionLink") or entry.get("website") or ""
    sentences: list[str] = []
    for text in texts:
        if isinstance(text, str) and text.strip():
            sentences.append(text.strip().rstrip("."))
    joined_sentences = ". ".join(dict.fromkeys(sentences))
    if joined_sentences:
        joined_sentences += "."
    return {"title": str(entry.get("title") or ""), "text": joined_sentences, "link": str(link)}


def as_hits(results: Results, k: int) -> tuple[Hit, ...]:
    """Returns the first k results as sources. An id is the link with a digest of the text, which varies by query."""
    hits: dict[str, Hit] = {}
    for rank, result in enumerate(results[:k], start=1):  # the same page may be listed twice
        text = "\x1f".join((result["title"], result["text"], result["link"]))
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        id = f"web:{result['link']}#{digest}"
        source = Source(id, id, Kind.TEXT, result["title"], result["text"])
        hits.setdefault(id, Hit(source, 1 / rank))
    return tuple(hits.values())
