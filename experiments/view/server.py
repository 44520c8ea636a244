"""Serves a folder of runs to browsers of this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
import socket
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn

from actors.errors import UserError, visible
from experiments.config.loading import named_again
from experiments.view.app import application
from experiments.view.folders import Root

HOST = "127.0.0.1"  # no other machine reaches it
TOKEN_BYTES = 16


def serve(folder: str, options: Sequence[str]) -> int:
    """Serves a folder of runs, or one run, until it is interrupted. Prints the address.

    Args:
        options: `view.port=<number>` (0, the default, takes a free one) and `view.open=true`, which opens the browser;
            others name again what runs name outside of their folders, and may be opened.

    Raises:
        UserError: the folder or an option is wrong, or the port is taken.
    """
    given = dict(option.partition("=")[::2] for option in options)
    text, opens = given.pop("view.port", "0"), given.pop("view.open", "false")
    named = [option for option in options if option.partition("=")[0] in given]
    named_again(named)  # for its errors alone
    port = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 2**16
    if port >= 2**16:
        raise UserError(f"view.port={text}: expected a number from 0 to 65535")
    if opens not in ("true", "false"):
        raise UserError(f"view.open={opens}: expected true or false")
    root, token = Root.open(folder), secrets.token_urlsafe(TOKEN_BYTES)
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        raise UserError(f"view.port={port}: {error.strerror}; choose another, or 0 for a free one") from error
    with listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}/{token}/"
        print(visible(f"{folder} is shown at {address} (Ctrl-C ends it)"), flush=True)
        if opens == "true":
            webbrowser.open(address)
        # Without access log: an address holds the token.
        settings = uvicorn.Config(application(root, token, named), log_config=None, access_log=False, lifespan="off")
        asyncio.run(_Server(settings).serve(sockets=[listening]))
    return 0


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves Ctrl-C to `run.py`, where it ends the program with one line, also while a browser listens."""
        yield
