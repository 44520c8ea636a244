"""The pages and data that the viewer serves: read-only, each address with the token, each text escaped."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.errors import UserError
from actors.visible import visible
from experiments.analysis.learned_steps import learned_graphs
from experiments.analysis.page import Section, page
from experiments.inspection.turns import inspect
from experiments.view.compared import Compared
from experiments.view.folders import NoSuchRun, Root
from experiments.view.live import LiveRun
from experiments.view.overview import Overview, Overviews
from experiments.view.pages import list_page, run_page

HOSTS = ["127.0.0.1", "localhost"]  # a name that leads here by DNS rebinding is none of them
MOST_OPEN = 8  # runs whose places of lines are kept
MOST_WORDS = 20
EVERY_S = 1.0  # between looks for changes
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address of a page holds the token
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def application(root: Root, token: str, named: Sequence[str] = ()) -> ASGIApp:
    """Makes the app for a folder. Every address begins with `/<token>/`; any other is not found.

    named: overrides that name again what runs name outside of their folders, and may be opened.
    """
    viewer = Viewer(root, named)
    routes = [
        Route("/", viewer.runs),
        Route("/events", viewer.events),
        Route("/compare", viewer.compare),
        Route("/compare/index.json", viewer.compared_index),
        Route("/compare/pairs.json", viewer.compared_pairs),
        Route("/run/{run:path}/index.json", viewer.index),
        Route("/run/{run:path}/pairs.json", viewer.pairs),
        Route("/run/{run:path}/learned.json", viewer.learned),
        Route("/run/{run:path}/trace.json", viewer.trace),
        Route("/run/{run:path}/texts.json", viewer.texts),
        Route("/run/{run:path}/turn.json", viewer.turn),
        Route("/run/{run:path}/", viewer.run),
    ]
    return Starlette(
        routes=[
            Mount(
                "/{token}", Starlette(routes=routes, exception_handlers=dict.fromkeys((UserError, OSError), _problem))
            )
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False),
            Middleware(Guard, token=token),
            Middleware(GZipMiddleware),
        ],
    )


class Guard:
    """Answers only read requests for addresses with the token, and adds `HEADERS` to every answer."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        given = scope["path"].split("/")[1].encode() if scope["type"] == "http" else b""
        # A comparison that took as long as the match is long would give the token away, letter by letter.
        known = secrets.compare_digest(given, self._token) and scope["method"] in ("GET", "HEAD")
        await (self._app if known else PlainTextResponse("not found", 404))(scope, receive, guarded)


class Viewer:
    """The endpoints, each for one kind of address."""

    def __init__(self, root: Root, named: Sequence[str] = ()) -> None:
        self._root = root
        self._named = named
        self._overviews = Overviews(root)
        self._open: OrderedDict[str, LiveRun] = OrderedDict()
        self._lock = Lock()

    def runs(self, request: Request) -> Response:
        """The list of runs."""
        return _html(list_page(self._overviews))

    def run(self, request: Request) -> Response:
        """The page of a run, a sweep or a study."""
        return _html(run_page(self._overviews, request.path_params["run"], "whole" in request.query_params))

    def events(self, request: Request) -> Response:
        """Server-sent events: one at once and after every change, of a run or of any in the list."""
        return StreamingResponse(self._changes(request.query_params.get("run")), media_type="text/event-stream")

    async def _changes(self, run: str | None) -> AsyncIterator[str]:
        last: list[Overview] | None = None
        while True:
            seen = await run_in_threadpool(self._overviews.all, run)
            if seen != last:
                yield f"data: {seen[0].steps if seen else 0}\n\n"
            last = seen
            await asyncio.sleep(EVERY_S)

    def compare(self, request: Request) -> Response:
        """The page that compares two runs."""
        return _html(self._compared(request).page())

    def compared_index(self, request: Request) -> Response:
        """The groups and entries of the discussions of two runs."""
        return _json(self._compared(request).index())

    def compared_pairs(self, request: Request) -> Response:
        """How methods of two runs agree."""
        return _json(self._compared(request).pairs())

    def pairs(self, request: Request) -> Response:
        """How a run's methods agree, two by two."""
        return _json(self._live(request).pairs())

    def learned(self, request: Request) -> Response:
        """A run's learned graphs over the steps of their training."""
        return _json(learned_graphs(self._live(request).run))

    def index(self, request: Request) -> Response:
        """The groups and entries of a run's discussions, or the entries that are new."""
        after = _number(request, "after", "0")
        return _json(self._live(request).index(after, request.query_params.get("version", "")))

    def trace(self, request: Request) -> Response:
        """One discussion."""
        text = self._live(request).trace(_given(request, "group"), _number(request, "line"))
        return Response(text, media_type="application/json")

    def turn(self, request: Request) -> Response:
        """What the agent of a turn was shown and replied."""
        run, group, turn = self._root.run(request.path_params["run"]), _given(request, "group"), _given(request, "turn")
        return _json(inspect(run, group, _number(request, "line"), turn, self._named))

    def texts(self, request: Request) -> Response:
        """The discussions of a group whose messages hold each of some words, as numbers of lines."""
        words = json.loads(_given(request, "words"))
        if not isinstance(words, list) or len(words) > MOST_WORDS or not all(isinstance(word, str) for word in words):
            raise HTTPException(400, f"words: expected a list of up to {MOST_WORDS} words")
        return _json(self._live(request).texts(_given(request, "group"), words))

    def _compared(self, request: Request) -> Compared:
        return Compared.open(self._root, request.query_params.getlist("run"))

    def _live(self, request: Request) -> LiveRun:
        name = request.path_params["run"]
        run = self._root.run(name)
        with self._lock:
            live = self._open.pop(name, None) or LiveRun(run)
            self._open[name] = live
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return live


def _html(text: str) -> Response:
    # The page itself names what may run in it.
    return HTMLResponse(text, headers={"Content-Security-Policy": "frame-ancestors 'none'"})


def _json(value: Any) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")


def _given(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if value is None:
        raise HTTPException(400, f"{name} is missing")
    return value


def _number(request: Request, name: str, default: str | None = None) -> int:
    value = request.query_params.get(name, default)
    if value is None or not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise HTTPException(400, f"{name}: expected a number")
    return int(value)


def _problem(request: Request, error: Exception) -> Response:
    """A run that cannot be read, in one line."""
    status, line = 404 if isinstance(error, NoSuchRun) else 422, visible(str(error))
    if request.url.path.endswith(".json"):
        return PlainTextResponse(line, status)
    answer = _html(page("Not shown", [Section("Problem", [line])], ()))
    answer.status_code = status
    return answer
