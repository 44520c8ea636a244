"""A whole run on three Ray nodes: where its processes are, and what travels per turn.

    python -m tests.instruments.benchmarks.nodes [key=value ...]

The nodes are on this machine, each with a working directory of its own in which nothing lies; the run is started in
another one and writes to a relative output folder there. Bytes are what the run's processes have sent to each other on
their own channels (`channel`), to each other and to Ray's processes as Ray's own calls (`ray`), and have put into
object stores. A connection that is closed before it is looked at, which is done every second, is not counted. The
discussions' share is without what came before the first turn. The last line is one JSON object. Needs `ss` (iproute2).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray

from experiments.records import usage
from experiments.records.recorder import RunFolder
from tests.support.nodes import actors, object_store, sockets, spread, three_nodes
from tests.support.paths import ROOT

WORDS = ["experiment=mmqa_prune", "data.limit=20", "pruning.steps=4", "model.replicas=3", "wandb.mode=disabled"]


def measure(words: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "driver").mkdir()
        with three_nodes(folder) as nodes:
            ray.init(address=nodes.address, log_to_driver=False)
            try:
                found = _watched(nodes.address, folder / "driver", [*WORDS, *words])
            finally:
                ray.shutdown()
            found["files_in_nodes_folders"] = sum(1 for node in folder.glob("node-*") for _ in node.rglob("*"))
        return found


def _watched(address: str, here: Path, words: list[str]) -> dict[str, Any]:
    """Starts the run and looks at its processes every second until it has ended."""
    command = [sys.executable, str(ROOT / "run.py"), *words, "output=runs", f"ray.address={address}"]
    stored = most = object_store()
    living: dict[int, tuple[str, str]] = {}
    own: dict[tuple[int, str, str], int] = {}  # bytes sent, by connection
    rays: dict[tuple[int, str, str], int] = {}
    before: int | None = None
    with subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            living |= actors(here.parent)
            most = max(most, object_store())
            processes = {*living, run.pid}
            connected = sockets()
            owners = {(near, far): pid for pid, near, far in connected}
            for (pid, near, far), (is_rays, sent) in connected.items():
                if pid in processes:
                    # Each end is listed by its own process; Ray's control processes are none of the run's.
                    among_us = not is_rays and owners.get((far, near)) in processes
                    (own if among_us else rays)[pid, near, far] = sent
            if before is None and next(here.glob("runs/*/learned/*/traces/*"), None):
                before = sum(rays.values())
            time.sleep(1)
        if run.returncode:
            raise SystemExit(f"the run failed with exit code {run.returncode}")
    [folder] = here.glob("runs/*-mmqa_prune")
    spent = usage.total(RunFolder.open(folder))
    turns = spent.calls + spent.reused
    return {
        "processes_by_node": spread(living),
        "turns": turns,
        "channel_bytes_per_turn": round(sum(own.values()) / turns),
        "ray_bytes_per_turn": round((sum(rays.values()) - (before or 0)) / turns),
        "object_store_bytes_at_most": most - stored,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="settings of the run", default=[])
    print(json.dumps(measure(**vars(parser.parse_args()))))
