"""A turn's prompt, reply and sources in a browser, as the viewer serves them."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Route
from starlette.testclient import TestClient

from experiments.records.recorder import RunFolder
from experiments.view.app import application
from experiments.view.folders import Root
from tests.experiments.inspection.test_turns import ran
from tests.support import browser

TOKEN = "t0ken"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return ran(tmp_path_factory.mktemp("runs"), "experiment=hm_rag", "methods=[hm_rag]")


def client(run: RunFolder) -> TestClient:
    return TestClient(application(Root.open(str(run.path.parent)), TOKEN), base_url=f"http://127.0.0.1/{TOKEN}/")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("group=hm_rag&line=1&turn={turn}", 200),
        ("group=hm_rag&line=1&turn=0/nobody", 422),
        ("group=../scores&line=1&turn={turn}", 422),
        ("group=hm_rag&line=0&turn={turn}", 422),
        ("group=hm_rag&line=1", 400),
    ],
)
def test_the_viewer_answers_what_is_recorded_and_refuses_the_rest(run: RunFolder, query: str, status: int) -> None:
    [first, *_] = run.traces("evaluate-hm_rag")
    address = f"run/{run.name}/turn.json?{query.format(turn=quote(first.turns[0].id))}"
    assert client(run).get(address).status_code == status


@pytest.mark.ray
@pytest.mark.skipif(browser.find() is None, reason="no browser")
def test_a_turn_opens_its_prompt_its_marked_reply_and_its_sources(run: RunFolder, tmp_path: Path) -> None:
    trace = next(run.traces("evaluate-hm_rag"))
    turn = next(turn for turn in trace.turns if turn.agent.startswith("vector"))
    served = client(run)
    with browser.browser(400) as opened:
        page = opened.page
        # The app itself answers the browser, without a socket.
        page.route("**/*", lambda route: _answer(route, served))
        page.goto(f"http://127.0.0.1/{TOKEN}/run/{run.name}/#hm_rag/{quote(trace.question)}/{quote(turn.id, safe='')}")
        details = page.locator(".turn.chosen .details")
        details.wait_for()
        expected = json.loads(served.get(f"run/{run.name}/turn.json?group=hm_rag&line=1&turn={quote(turn.id)}").text)
        [call] = expected["calls"]
        assert call["own"] in details.text_content()
        assert call["reply"] in details.text_content()
        assert [mark.text_content() for mark in details.locator("mark").all()]
        assert details.locator(".source").count() >= len(expected["sources"])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert opened.complaints == []


def _answer(route: Route, served: TestClient) -> None:
    if "/events" in route.request.url:
        route.fulfill(status=204)  # a stream, which would never end here
        return
    response = served.get(route.request.url)
    route.fulfill(status=response.status_code, headers=dict(response.headers), body=response.content)
