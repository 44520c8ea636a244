"""A real browser without a window, driven over its own debugging pipe: what reports are checked in."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT_S = 30.0
# The browser reads commands from descriptor 3 and answers on 4; copies above both keep one from hiding the other.
WITH_PIPES = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    return next((path for command in COMMANDS if (path := shutil.which(command))), None)


class Browser:
    """One page. `complaints` are the errors and refusals that it has logged, `asked` the addresses that it loaded."""

    def __init__(self, profile: Path, width: int = 1400, height: int = 1000) -> None:
        command = find()
        assert command is not None
        read_here, write_there = os.pipe()
        read_there, self._out = os.pipe()
        self._in = read_here
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += [f"--window-size={width},{height}", f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", WITH_PIPES, str(read_there), str(write_there), command, *flags],
            pass_fds=(read_there, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._number, self._rest = 0, b""
        self._session: str | None = None
        self.complaints: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(10)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> Any:
        """The result of one command of the DevTools protocol."""
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]
            self._note(told)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], TIMEOUT_S)
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        line, self._rest = self._rest.split(b"\0", 1)
        told: dict[str, Any] = json.loads(line)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        match told.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["params"]["exceptionDetails"]))
            case "Log.entryAdded":
                self.complaints.append(told["params"]["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(told["params"]["request"]["url"])

    def open(self, report: Path, at: str = "") -> None:
        """Load a page and wait until its scripts have done what they do at first."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{report.absolute().as_uri()}{at}")
        self.wait(
            "location.protocol === 'file:' && document.readyState === 'complete' &&"
            "(!document.getElementById('discussion') || document.documentElement.dataset.ready === 'true')"
        )

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not self.run(condition):
            assert time.monotonic() < end, f"never came true: {condition}\n{self.complaints}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """A press of the mouse in the middle of an element, as a hand does it."""
        place = self.point(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **place, button="left", clickCount=1)

    def point(self, selector: str) -> dict[str, float]:
        """Scroll to an element, and move the mouse to its middle, which is returned."""
        place: dict[str, float] = self.run(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
            "it.scrollIntoView({block: 'center'}); const box = it.getBoundingClientRect();"
            "return {x: box.x + box.width / 2, y: box.y + box.height / 2} })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
        return place

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        code = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowRight": 39}.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        params = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **params, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select element."""
        self.run(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.value = {json.dumps(value)};"
            "it.dispatchEvent(new Event('change', {bubbles: true})) })()"
        )

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).textContent"))

    def count(self, selector: str) -> int:
        return int(self.run(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def screenshot(self, path: Path, dark: bool = False, width: int = 0, whole: bool = False) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        if width:
            self.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=width < 600
            )
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
