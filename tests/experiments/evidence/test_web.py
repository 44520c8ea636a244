"""Web search through Serper's protocol, spoken by a small server that misbehaves on demand, and its recording."""

import asyncio
import json
import logging
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors import http_client
from actors.errors import UserError, WebError
from actors.messages import Kind
from experiments.config.loading import load
from experiments.evidence import library
from experiments.evidence.library import RECORDING, RecordedWeb, check_web, open_web, read_recording
from experiments.evidence.retrieval_settings import RetrievalSettings
from retrieval import web_search as web
from retrieval.web_search import RESULTS, Serper, as_hits, read_results
from tests.support.endpoint import Asked, Server, Told

KEY = "0123456789abcdef0123456789abcdef01234567"
PAGES = {
    "searchParameters": {"q": "opening of the arch bridge", "type": "search", "engine": "google"},
    "answerBox": {
        "title": "Arch Bridge",
        "answer": "1932",
        "snippet": "It was opened in 1932.",
        "link": "https://a.x/1",
    },
    "knowledgeGraph": {
        "title": "Arch Bridge",
        "type": "Bridge",
        "description": "A steel bridge over the harbour.",
        "attributes": {"Opened": "19 March 1932", "Height": "134 m"},
        "descriptionLink": "https://k.x/bridge",
    },
    "organic": [
        {"title": "Arch Bridge - history", "link": "https://b.x/2", "snippet": "Works began in 1923.", "position": 1},
        {"title": "Tickets", "link": "https://c.x/3", "snippet": "Climb it!", "date": "3 days ago", "position": 2},
        {"title": "No words", "link": "https://d.x/4", "position": 3},
    ],
    "credits": 1,
}
YES = Told(PAGES)
Step = Told | Callable[[Asked], Awaitable[Told]]


class Google:
    """Takes the steps one by one and then says the same of every query."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.server = Server(self._handle)

    async def _handle(self, asked: Asked) -> Told:
        step = self._steps.pop(0) if self._steps else YES
        return step if isinstance(step, Told) else await step(asked)

    @property
    def asked(self) -> list[Asked]:
        return self.server.asked

    def serper(self, key: str = KEY) -> Serper:
        return Serper(f"{self.server.base_url}/search", key, "SERPER_API_KEY", pause_s=0.001)


async def never(_: Asked) -> Told:
    await asyncio.Event().wait()
    return YES


def refusal(status: int, message: str, **headers: str) -> Told:
    return Told({"message": message, "statusCode": status}, status, headers)


async def test_a_query_is_asked_with_the_key_and_its_results_are_sources_best_first(tmp_path: Path) -> None:
    google = Google()
    async with google.server.running():
        found = await RecordedWeb(tmp_path / "web.jsonl", google.serper()).search("opening of  the arch bridge", 3)
    [asked] = google.asked
    assert (asked.method, asked.path, asked.headers["x-api-key"]) == ("POST", "/v1/search", KEY)
    assert asked.json() == {"q": "opening of the arch bridge", "num": RESULTS, "hl": "en"}
    assert [(hit.source.title, hit.source.text) for hit in found] == [
        ("Arch Bridge", "1932. It was opened in 1932."),
        ("Arch Bridge", "Bridge. A steel bridge over the harbour. Opened: 19 March 1932; Height: 134 m."),
        ("Arch Bridge - history", "Works began in 1923."),
    ]
    assert all(hit.source.kind is Kind.TEXT and hit.source.image is None for hit in found)
    assert found[0].source.id.startswith("web:https://a.x/1#")
    assert [hit.score for hit in found] == [1, 1 / 2, 1 / 3]


PASSING = {
    "too many requests, with a time to wait": refusal(429, "Too many requests", **{"retry-after": "0.01"}),
    "server error": refusal(500, "oops"),
    "hang": never,
    "malformed JSON": Told('{"organic": [{"tit'),
    "JSON of another shape": Told([1, 2]),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_a_passing_fault_is_overcome(fault: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "TIMEOUT_S", 0.3 if fault is never else 10.0)
    google = Google(fault)
    async with google.server.running():
        assert len(await google.serper().results("bridge")) == 4
    assert len(google.asked) == 2


@pytest.mark.parametrize("fault", [PASSING["server error"], Told("<html>")])
async def test_a_fault_that_stays_is_one_line(fault: Told) -> None:
    google = Google(*[fault] * 9)
    async with google.server.running():
        with pytest.raises(WebError, match=r"\b5 times: ") as caught:
            await google.serper().results("bridge")
    assert "\n" not in str(caught.value)
    assert len(google.asked) == 5


HOSTILE = {
    "a body without end": Told("0" * 300_000),
    "the key in a reason phrase": Told("", 503, reason=f"bad key {KEY}"),
}


@pytest.mark.parametrize("told", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_hostile_service_fills_no_memory_and_repeats_no_key(
    told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(http_client, "BODY_BYTES", 100_000)
    google = Google(*[told] * 9)
    async with google.server.running():
        with pytest.raises(WebError, match="failed 5 times") as caught:
            await google.serper().results("bridge")
    left = "".join([*traceback.format_exception(caught.value), caplog.text])
    assert KEY not in left
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (refusal(403, "Unauthorized."), "HTTP 403: Unauthorized.*SERPER_API_KEY"),
        (refusal(400, "Not enough credits"), "credit .*HTTP 400: Not enough credits"),
        (refusal(404, "Cannot POST"), "is no web search"),
        (refusal(403, f"{KEY} is not a key"), r"\[key\] is not a key"),
    ],
)
async def test_a_refused_key_is_one_line_that_does_not_hold_it_and_is_not_tried_again(told: Told, said: str) -> None:
    google = Google(told)
    async with google.server.running():
        with pytest.raises(WebError, match=said) as caught:
            await google.serper().results("bridge")
    assert len(google.asked) == 1
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "  ", "schlüssel", "a\nb"])
async def test_a_key_that_is_none_is_never_sent(key: str) -> None:
    google = Google()
    async with google.server.running():
        with pytest.raises(WebError, match=r"\bSERPER_API_KEY\b"):
            await google.serper(key).results("bridge")
    assert google.asked == []


async def test_a_query_that_is_refused_for_itself_has_no_results(tmp_path: Path) -> None:
    google = Google(refusal(400, "Query pattern not allowed"))
    async with google.server.running():
        assert await RecordedWeb(tmp_path / "web.jsonl", google.serper()).search("site:x", 3) == ()
    assert read_recording(tmp_path / "web.jsonl") == {"site:x": []}


@pytest.mark.parametrize(
    "data",
    [
        {"organic": 3, "answerBox": [], "knowledgeGraph": {"attributes": [1], "title": None}},
        {"organic": [[], None, {"title": 3, "snippet": [1]}, {"snippet": " ", "link": {}}]},
    ],
)
def test_parts_of_a_response_in_another_shape_are_passed_over(data: dict[str, Any]) -> None:
    assert as_hits(read_results({**data, "answerBox": {"answer": "1932"}}), RESULTS)[0].source.text == "1932."
    assert as_hits(read_results(data), RESULTS) == ()


async def test_a_query_is_asked_once_however_many_ask_it_at_a_time(tmp_path: Path) -> None:
    google = Google()
    async with google.server.running():
        recorded = RecordedWeb(tmp_path / "web.jsonl", google.serper())
        found = await asyncio.gather(*(recorded.search(query, 2) for query in ("bridge", " bridge ", "bridge", "arch")))
    assert len(set(found)) == 1
    assert sorted(asked.json()["q"] for asked in google.asked) == ["arch", "bridge"]


async def test_what_was_recorded_is_told_again_whatever_the_web_says_by_then(tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    other = Told({"organic": [{"title": "Other", "link": "https://o.x", "snippet": "Everything is different."}]})
    google = Google(YES, other, other)
    async with google.server.running():
        before = await RecordedWeb(path, google.serper()).search("bridge", 9)
        resumed = RecordedWeb(path, google.serper())
        assert await resumed.search("bridge", 9) == before
        assert [hit.source.title for hit in await resumed.search("arch", 9)] == ["Other"]
    assert await RecordedWeb(path).search("bridge", 2) == before[:2]
    assert len(google.asked) == 2


async def test_a_failed_search_is_not_recorded_and_can_be_asked_again(tmp_path: Path) -> None:
    google = Google(refusal(403, "Unauthorized."))
    async with google.server.running():
        recorded = RecordedWeb(tmp_path / "web.jsonl", google.serper())
        with pytest.raises(WebError):
            await recorded.search("bridge", 2)
        assert not (tmp_path / "web.jsonl").exists()
        assert len(await recorded.search("bridge", 2)) == 2


async def test_a_line_that_was_not_written_to_its_end_is_cut_away(tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    google = Google()
    async with google.server.running():
        await RecordedWeb(path, google.serper()).search("bridge", 2)
        whole = path.read_bytes()
        path.write_bytes(whole + whole[: len(whole) // 2])
        recorded = RecordedWeb(path, google.serper())
        assert path.read_bytes() == whole
        await recorded.search("arch", 2)
    assert list(read_recording(path)) == ["bridge", "arch"]


@pytest.mark.parametrize("line", ["{", "[]", '{"query": "a"}', '{"query": "a", "results": [{"title": "t"}]}'])
def test_a_file_that_is_no_recording_is_refused_by_its_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    path.write_text(json.dumps({"query": "q", "results": []}) + f"\n{line}\n")
    with pytest.raises(UserError, match=r"web\.jsonl, line 2: "):
        read_recording(path)


def configured(*words: str) -> RetrievalSettings:
    return load(["experiment=omnisearch", *words]).retrieval


def test_the_key_is_looked_for_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    with pytest.raises(UserError, match=r"\bSERPER_API_KEY\b"):
        check_web(configured("retrieval.web=serper"))
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    check_web(configured("retrieval.web=serper"))
    with pytest.raises(UserError, match=r"retrieval\.encoder") as caught:
        configured(f"retrieval.encoder={KEY}")
    assert KEY not in str(caught.value)


async def test_a_run_tells_again_what_an_earlier_one_was_told_and_keeps_it_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    first, again, replayed = (tmp_path / name for name in ("first", "again", "replayed"))
    for folder in (first, again, replayed):
        folder.mkdir()
    google = Google()
    async with google.server.running():
        monkeypatch.setattr(library, "SERPER_URL", f"{google.server.base_url}/search")
        live = open_web(configured("retrieval.web=serper"), first)
        assert live is not None
        found = await live.search("bridge", 5)
    recorded = open_web(configured("retrieval.web=recorded", f"retrieval.web_file={first / RECORDING}"), again)
    replay = open_web(configured("retrieval.web=serper"), replayed, again)
    for told in (recorded, replay):
        assert told is not None
        assert await told.search("bridge", 5) == found
    assert (replayed / RECORDING).read_bytes() == (first / RECORDING).read_bytes()
    assert replay is not None
    with pytest.raises(UserError, match="'arch'"):
        await replay.search("arch", 5)
