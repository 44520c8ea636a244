"""A real browser without a window, in which reports are checked: the Chromium or Chrome of this machine."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, sync_playwright
from starlette.types import ASGIApp

from experiments.view.connections import server_of

Scheme = Literal["light", "dark"]
COMMANDS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str | None:
    """The path of an installed browser; None where there is none."""
    return next((path for command in COMMANDS if (path := shutil.which(command))), None)


@dataclass(frozen=True)
class Browser:
    """One page, the errors and refusals that it has logged, and the addresses that its last report has loaded."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, report: Path, at: str = "") -> Page:
        """Loads a report and waits until its scripts have done what they do at first."""
        self.page.goto("about:blank")  # an address that differs in its fragment alone would not load the file again
        self.requests.clear()  # the page before is another test's
        self.page.goto(f"{report.absolute().as_uri()}{at}")
        # Not `wait_for_function`: it evaluates text in the page, which a report's policy forbids.
        if self.page.locator("#discussion").count():
            self.page.wait_for_selector("html[data-ready=true]")
        return self.page


@contextmanager
def browser(width: int = 1400, height: int = 1000, scheme: Scheme = "light") -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's sandbox cannot start as root, as in most containers.
        chromium = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        opened = Browser(chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme))
        opened.page.on("console", lambda message: opened.complaints.append(message.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        yield opened
        chromium.close()


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """The address of the viewer's server of an application, in another thread."""
    server = server_of(app)
    server.config.port = 0
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    [listening] = [one for own in server.servers for one in own.sockets]
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
