"""Serves a folder of runs to browsers of this machine, each address with the token, each text escaped.

Nothing is written. Only `view.edit=true` starts anything: a process that goes on from a turn with an edited reply.
"""

import asyncio
import json
import math
import re
import secrets
import socket
import time
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.errors import UserError, visible
from experiments.analysis.embedded import learned_graphs
from experiments.analysis.page import Section, page
from experiments.config.loading import named_again
from experiments.inspection.turns import inspect
from experiments.view.compared import Compared
from experiments.view.connections import server_of
from experiments.view.edited import MOST_BYTES, Edit
from experiments.view.folders import NoSuchRun, Root
from experiments.view.live import LiveRun
from experiments.view.overview import Overviews
from experiments.view.pages import list_page, run_page
from experiments.view.saved_overview import Overview

HOST = "127.0.0.1"  # no other machine reaches it
TOKEN_BYTES = 16
HOSTS = ["127.0.0.1", "localhost"]  # a name that leads here by DNS rebinding is none of them
MOST_OPEN = 8  # runs whose places of lines are kept
MOST_WORDS = 20
MOST_WATCHED = 64  # runs that browsers follow
EVERY_S = 1.0  # between looks for changes
CONTINUE = "continue.json"
LOOK_S = 2.0  # after which a look reads no further run; the next one goes on
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address of a page holds the token
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def serve(folder: str, options: Sequence[str]) -> int:
    """Serves a folder of runs, or one run, until it is interrupted. Prints the address.

    options: `view.port=<number>` (0, the default, takes a free one), `view.open=true`, which opens the browser, and
        `view.edit=true`, by which pages may go on from a turn with an edited reply; others name again what runs name
        outside of their folders, and may be opened.
    Raises UserError where the folder or an option is wrong, or the port is taken.
    """
    own_options = {"view.port": "0", "view.open": "false", "view.edit": "false"}
    overrides: list[str] = []
    for option in options:
        key, _, value = option.partition("=")
        if key in own_options:
            own_options[key] = value
        else:
            overrides.append(option)

    named_again(overrides)  # for its errors alone
    port = own_options["view.port"]
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) >= 2**16:
        raise UserError(f"view.port={port}: expected a number from 0 to 65535")
    for key in ("view.open", "view.edit"):
        if own_options[key] not in ("true", "false"):
            raise UserError(f"{key}={own_options[key]}: expected true or false")

    root = Root.open(folder)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        listening = socket.create_server((HOST, int(port)))
    except OSError as error:
        raise UserError(f"view.port={port}: {error.strerror}; choose another, or 0 for a free one") from error

    with listening, TemporaryDirectory() as private_folder:
        address = f"http://{HOST}:{listening.getsockname()[1]}/{token}/"
        print(visible(f"{folder} is shown at {address} (Ctrl-C ends it)"), flush=True)
        if own_options["view.open"] == "true":
            webbrowser.open(redirect_page(address, Path(private_folder)).as_uri())
        server = server_of(application(root, token, overrides, edits=own_options["view.edit"] == "true"))
        # In a thread uvicorn leaves Ctrl-C to this one: it ends the program at once, also while a browser listens.
        thread = Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        thread.join()

    return 0


def redirect_page(address: str, folder: Path) -> Path:
    """Writes a page that leads to an address, and that only this account may read.

    A browser gets the page and not the address: every account sees the arguments of a program, and the address holds
    the token.
    """
    path = folder / "open.html"
    path.touch(mode=0o600)
    path.write_text(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">\n')
    return path


def application(root: Root, token: str, overrides: Sequence[str] = (), *, edits: bool = False) -> ASGIApp:
    """Makes the app for a folder. Every address begins with `/<token>/`; any other is not found.

    overrides: name again what runs name outside of their folders, and may be opened.
    edits: pages may go on from a recorded turn with another reply.
    """
    viewer = Viewer(root, overrides, edits)
    routes = [
        Route("/", viewer.runs),
        Route("/events", viewer.events),
        Route("/compare", viewer.compare),
        Route("/compare/{data}.json", viewer.compare),
        Route(f"/run/{{run:path}}/{CONTINUE}", viewer.proceed, methods=["POST"]),
        Route("/run/{run:path}/{data}.json", viewer.data),
        Route("/run/{run:path}/", viewer.run),
    ]

    def problem(request: Request, error: Exception) -> Response:
        """Shows in one line why a run cannot be read."""
        status = 404 if isinstance(error, NoSuchRun) else 422
        line = visible(str(error))
        if request.url.path.endswith(".json"):
            return PlainTextResponse(line, status)
        return _html(page("Not shown", [Section("Problem", [line])], ()), status)

    problems = dict.fromkeys((UserError, OSError), problem)
    return Starlette(
        routes=[Mount("/{token}", Starlette(routes=routes, exception_handlers=problems))],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False),
            Middleware(AccessCheck, token=token, edits=edits),
            Middleware(GZipMiddleware),
        ],
    )


class AccessCheck:
    """Answers read requests for addresses with the token, and edits by its own pages. Adds `HEADERS` to all answers."""

    def __init__(self, app: ASGIApp, token: str, edits: bool) -> None:
        self._app = app
        self._edits = edits
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app: ASGIApp = PlainTextResponse("not found", 404)
        if scope["type"] == "http" and (scope["method"] in ("GET", "HEAD") or self._is_edit(scope)):
            token = scope["path"].split("/")[1].encode()
            # A comparison that took as long as the match is long would give the token away, letter by letter.
            if secrets.compare_digest(token, self._token):
                app = self._app

        await app(scope, receive, guarded)

    def _is_edit(self, scope: Scope) -> bool:
        """True for an edit that a page of this server sends: a browser names the origin of any other page."""
        headers = Headers(scope=scope)
        own_origin = headers.get("origin") == f"http://{headers.get('host')}"
        is_json = headers.get("content-type") == "application/json"
        return self._edits and scope["method"] == "POST" and own_origin and is_json


class Watch:
    """Looks for changes of the folder's runs, or of one run and its trials, once for all that listen."""

    def __init__(self, overviews: Overviews, run: str | None) -> None:
        self._overviews = overviews
        self._run = run
        self._lock = asyncio.Lock()
        self._looked_s = -math.inf
        self._latest: list[Overview] = []

    async def latest(self) -> list[Overview]:
        """Returns what the last look has shown, the same list as long as nothing changes. Raises OSError."""
        async with self._lock:
            if time.monotonic() - self._looked_s >= EVERY_S:
                overviews = await run_in_threadpool(self._overviews.all, self._run, LOOK_S)
                self._looked_s = time.monotonic()
                if overviews != self._latest:
                    self._latest = overviews
        return self._latest


class Viewer:
    """Endpoints, each for one kind of address."""

    def __init__(self, root: Root, overrides: Sequence[str] = (), edits: bool = False) -> None:
        self._root = root
        self._edits = edits
        self._editing = asyncio.Lock()
        self._overrides = overrides
        self._overviews = Overviews(root)
        self._live = lru_cache(MOST_OPEN)(lambda name: LiveRun(root.run(name)))
        self._watches = lru_cache(MOST_WATCHED)(lambda run: Watch(self._overviews, run))

    def runs(self, request: Request) -> Response:
        return _html(list_page(self._overviews))

    def run(self, request: Request) -> Response:
        """Shows a run, a sweep or a study."""
        return _html(run_page(self._overviews, request.path_params["run"], "whole" in request.query_params))

    async def events(self, request: Request) -> Response:
        """Server-sent events: one at once and after every change. They are of one run or of any in the list."""
        run = request.query_params.get("run")
        if run is not None:
            self._root.run(run)

        async def changes() -> AsyncIterator[str]:
            watch: Watch = self._watches(run)
            overviews: list[Overview] | None = None
            # The stream ends where the folder is moved away; a browser asks again.
            with suppress(OSError):
                while True:
                    latest = await watch.latest()
                    if latest is not overviews:
                        steps = latest[0].steps if latest else 0
                        yield f"data: {steps}\n\n"
                    overviews = latest
                    await asyncio.sleep(EVERY_S)

        return StreamingResponse(changes(), media_type="text/event-stream")

    def compare(self, request: Request) -> Response:
        """Shows two runs side by side, their discussions (`index`), or their agreement (`pairs`)."""
        compared = Compared.open(self._root, request.query_params.getlist("run"))
        match request.path_params.get("data"):
            case None:
                return _html(compared.page())
            case "index":
                return _json(compared.index())
            case "pairs":
                return _json(compared.pairs())
        raise HTTPException(404)

    async def proceed(self, request: Request) -> Response:
        """Goes on from a turn with an edited reply, and returns the trace. One at a time: each loads the model."""
        run = self._root.run(request.path_params["run"])
        content = b""
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                raise UserError(f"the edited reply has more than {MOST_BYTES:,} bytes")
        edit = Edit.decode(content)
        if self._editing.locked():
            raise UserError("another discussion goes on: wait for its end")
        async with self._editing:
            return _json(await run_in_threadpool(edit.go_on, run, self._overrides))

    def data(self, request: Request) -> Response:
        """Returns the data of a run's page, by the name in the address."""
        name = request.path_params["run"]
        self._root.run(name)  # it may be gone since
        live = self._live(name)

        match request.path_params["data"]:
            case "index":  # groups and entries of discussions, or the entries that are new
                return _json(live.index(_number(request, "after", "0"), request.query_params.get("version", "")))
            case "pairs":  # how methods agree, two by two
                return _json(live.pairs())
            case "learned":  # graphs over the steps of their training
                return _json(learned_graphs(live.run))
            case "trace":  # one discussion
                text = live.trace(_text(request, "group"), _number(request, "line"))
                return Response(text, media_type="application/json")
            case "turn":  # what the agent of a turn was shown and replied
                group = _text(request, "group")
                turn = inspect(live.run, group, _number(request, "line"), _text(request, "turn"), self._overrides)
                return _json({**turn, "editable": self._edits})
            case "texts":  # lines of a group's discussions whose messages hold each of some words
                words = _text(request, "words").split("\n")
                return _json(live.texts(_text(request, "group"), words[:MOST_WORDS]))

        raise HTTPException(404)


def _html(text: str, status: int = 200) -> Response:
    # The page itself names what may run in it.
    return HTMLResponse(text, status, headers={"Content-Security-Policy": "frame-ancestors 'none'"})


def _json(value: Any) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")


def _text(request: Request, name: str, default: str | None = None) -> str:
    value = request.query_params.get(name, default)
    if value is None:
        raise HTTPException(400, f"{name}: expected a value")
    return value


def _number(request: Request, name: str, default: str | None = None) -> int:
    value = _text(request, name, default)
    if not re.fullmatch("[0-9]{1,9}", value):
        raise HTTPException(400, f"{name}: expected a number")
    return int(value)
