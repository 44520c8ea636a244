"""Three Ray nodes on this machine, each with a working directory and ports of its own, and what travels between."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import ray
from ray.cluster_utils import Cluster as Nodes

from tests.support.paths import ROOT

NODES = 3
PORTS = 20_000  # from here on, a thousand for each node's workers: what Ray itself sends is known by these
_ACTOR = re.compile(r"ray::(\w+Process)\b")  # the title that Ray gives a process


@contextmanager
def three_nodes(folder: Path) -> Iterator[Nodes]:
    """A cluster whose nodes' processes work in `<folder>/node-0` and so on, where nothing of the project lies."""
    before, path = Path.cwd(), os.environ.get("PYTHONPATH")
    # As if the project were installed on every node.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), path]))
    nodes = Nodes()
    try:
        for number in range(NODES):
            own = folder / f"node-{number}"
            own.mkdir()
            os.chdir(own)
            ports = {"min_worker_port": PORTS + 1000 * number, "max_worker_port": PORTS + 1000 * number + 999}
            nodes.add_node(num_cpus=2, include_dashboard=False, **ports)
        os.chdir(before)
        nodes.wait_for_nodes()
        yield nodes
    finally:
        os.chdir(before)
        nodes.shutdown()
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path


def wait_until_all_take_work() -> None:
    """This process has joined the cluster. A node is registered before its peers know that they may send it work."""

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def node() -> str:
        return str(ray.get_runtime_context().get_node_id())

    seen: set[str] = set()
    while len(seen) < NODES:
        seen.update(ray.get([node.remote() for _ in range(NODES)]))


def actors(folder: Path) -> dict[int, tuple[str, str]]:
    """Class and working directory, which is its node's own, of every living actor below a folder, by process id."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            title, where = _ACTOR.match(" ".join(process.cmdline())), process.cwd()
            if title and Path(where).is_relative_to(folder):
                found[process.pid] = title[1], where
    return found


def spread(living: dict[int, tuple[str, str]]) -> dict[str, list[int]]:
    """How many actors of each class there are on the nodes, the fullest node first."""
    counts: dict[str, Counter[str]] = {}
    for kind, node in living.values():
        counts.setdefault(kind, Counter())[node] += 1
    return {kind: sorted(of.values(), reverse=True) for kind, of in counts.items()}


def working_directories(pids: Iterable[int]) -> set[str]:
    """Where the processes work."""
    found = set()
    for pid in pids:
        with suppress(psutil.Error):
            found.add(psutil.Process(pid).cwd())
    return found


def object_store() -> float:
    """Bytes that the object stores of all nodes hold."""
    total, free = ray.cluster_resources(), ray.available_resources()
    return float(total["object_store_memory"] - free["object_store_memory"])
