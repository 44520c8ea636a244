"""Hostile configurations of received folders, and a watch for what a run does with them."""

import hashlib
import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.fuzz.mutations import ODD, Draw, pick

OUTSIDE = "outside"  # next to the runs; may not be touched
PLANTED = "tests.fuzz.planted"  # a module that may not be imported
VARIABLE, SECRET = "FUZZ_SECRET", "sk-fuzz-6YqT0wLr"  # may not be sent or written
SEARCHED = 10_000_000  # bytes: a longer file was made so by a change

ROLES = [
    *("text_critic", "visual_scientist", "single", "nobody", "text_z.d", "text_z.agent", "text_z.model.kind"),
    *("text_a[b]", "text_a[agent]", "text a", "text_é", "text_", "", ".", "..", "a.b.c", "text_z\n", "text_\x1b[2J"),
]
SWEPT = ["seed", "attack.kind", "attack[kind]", "model.base_url", "model[key_env]", "roles.text_z.d.agent", "x", ""]
TAGS = [
    *(f"!!python/object/apply:{PLANTED}.thing []", f"!!python/name:{PLANTED}.thing", "&a {<<: *a}", "!!set {a}"),
    *("!!omap [a: 1]", "!!binary aGk=", "!!timestamp 2024-01-01", "2024-01-01", "!x y", "*nothing", "1:30", "???"),
]


@cache
def _listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


def address() -> str:
    """Address of an endpoint that may not be asked."""
    return f"http://127.0.0.1:{_listening().getsockname()[1]}/v1"


def configured(path: Path, draw: Draw) -> None:
    """The configuration names code, an address or a variable of the machine, or holds a key that nobody foresaw."""
    path = next(folder for folder in path.parents if (folder / "config.yaml").is_file()) / "config.yaml"
    if pick(range(4), draw) == 0:
        lines = path.read_text().splitlines()
        number = pick(range(len(lines)), draw)
        lines[number] = f"{lines[number].partition(':')[0]}: {pick(TAGS, draw)}"
        path.write_text("\n".join(lines) + "\n")
        return
    tree = yaml.safe_load(path.read_text())
    _change(tree, f"{path.parents[1] / OUTSIDE}", draw)
    path.write_text(yaml.safe_dump(tree, sort_keys=False))


def _change(tree: dict[str, Any], outside: str, draw: Draw) -> None:
    code = f"{PLANTED}:thing"
    endpoint = {"kind": "openai", "name": "m", "base_url": address(), "key_env": VARIABLE}
    named = pick([code, address(), outside, f"${{oc.env:{VARIABLE}}}", "${seed}", "???"], draw)
    role, swept = pick(ROLES, draw), pick(SWEPT, draw)
    holder = pick([tree, *(value for value in tree.values() if isinstance(value, dict) and value)], draw)
    key = pick(list(holder), draw)
    match pick(("role", "key", "model", "axes", "points", "value", "list", "added", "gone"), draw):
        case "role":
            # Whole, as saved ones are.
            whole = {"agent": None, "model": {}, "reader": {}, "instances": None, "instruction": "", "form": []}
            tree["roles"][role] = whole | pick([{"agent": code}, {"model": endpoint}, {"model": {"kind": code}}], draw)
        case "key":
            pick([tree, tree["roles"]], draw)[f"roles.{role}.agent"] = code
        case "model":
            pick([tree["model"], tree["judge"]], draw).update(endpoint)
        case "axes":
            tree["sweep"]["axes"] = {swept: [named, draw(ODD)]}
        case "points":
            tree["sweep"]["points"] = [{swept: named}]
        case "value":
            holder[key] = named
        case "list":
            holder[key] = [named]
        case "added":
            holder[swept] = named
        case _:
            del holder[key]


def make_outside(output: Path) -> None:
    """Writes foreign files next to the runs, and a secret into the environment."""
    os.environ[VARIABLE] = SECRET
    (output / OUTSIDE / "folder").mkdir(parents=True)
    for name in ("notes.txt", "config.yaml", "scores.jsonl", "folder/notes.txt"):
        (output / OUTSIDE / name).write_text("somebody else's\n")


class Watch:
    """Notices harm that a run or sweep does; made before it begins.

    Everything is written in `place`; files outside its folder and the cache may not change.
    """

    def __init__(self, place: Path, folder: Path) -> None:
        self._place, self._folder = place, folder
        self._before = self._beside()

    def done(self, said: str) -> str | None:
        """Names the harm: code imported, an address asked, the secret printed or written, a file outside changed."""
        if hostile := _named(self._place, said):
            return hostile
        if changed := sorted(set(self._beside().items()) ^ set(self._before.items())):
            return f"written outside: {changed[:3]}"
        return None

    def _beside(self) -> dict[str, str]:
        """Every file beside the folder and the cache, with its content."""
        around = self._folder.parent
        return {
            str(path.relative_to(around)): hashlib.blake2b(path.read_bytes()).hexdigest()
            for path in sorted(around.rglob("*"))
            if not path.is_relative_to(self._folder) and not path.is_relative_to(around / "cache") and path.is_file()
        }


def _named(place: Path, said: str) -> str | None:
    if sys.modules.pop(PLANTED, None):
        return "code was imported"
    try:
        _listening().accept()[0].close()
        return "an address was asked"
    except BlockingIOError:
        pass
    if SECRET in said:
        return "the secret was said"
    for path in place.rglob("*"):
        if path.is_file() and path.stat().st_size < SEARCHED and SECRET.encode() in path.read_bytes():
            return f"the secret is in {path.name}"
    return None
