"""Ray nodes on this machine, each in a network of its own, that can be cut off, killed or made to vanish.

Network namespaces hold all of it: a bridge in one, to which a pair of virtual interfaces leads from each node's. They
end with the processes that hold them open, and nothing outside of them is touched.
"""

import os
import shutil
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import psutil

from tests.instruments.benchmarks.around import Around
from tests.support.paths import ROOT

NODES = 3  # where no other number is asked for
PORT = 6379
CUT_S = 10.0
STARTS, STARTS_S = 3, 240.0
# Nodes without their head end by themselves a minute after they noticed; so does the run, and not at the same time.
ENDS_S = 90.0
MARK = "PRIVATE_NODES"  # in the environment of all processes of the nodes
OF_THE_NODE = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")  # titles that no actor of a run has
PROGRAMS = ("ip", "bridge", "nsenter", "unshare")
OWN_SHM = 'mount -t tmpfs -o size=1024m tmpfs /dev/shm && exec "$@"'


class PrivateNodes(Around):
    """The nodes are up when it is made. The run's first process is on the first one, which holds the cluster's head."""

    def __init__(self, place: Path, nodes: int = NODES) -> None:
        super().__init__(place)
        self._place, self._mark = place, uuid.uuid4().hex
        self._number = nodes
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self._mark}
        self._hub, *self._nets = (_network() for _ in range(nodes + 1))
        try:
            self._connect()
            self._start()
        except BaseException:
            self.close()
            raise
        self.words = self.named = [f"ray.address={_host(0)}:{PORT}"]
        self.command = _inside(self._nets[0])

    @staticmethod
    def missing() -> str:
        return ", ".join(program for program in PROGRAMS if shutil.which(program) is None)

    def kill(self, node: int) -> None:
        """Kills all processes of a node's at once."""
        for process in self._processes(node):
            with suppress(psutil.Error):
                process.kill()

    def vanish(self, node: int) -> None:
        """The same without a last word, as when a machine loses its power: nobody is told that a connection ended."""
        self._in(self._hub, "ip", "link", "set", f"to{node}", "down")
        self.kill(node)

    def cut(self, one: int, other: int) -> None:
        """For ten seconds these two nodes do not reach each other; both reach the third."""
        for state in ("on", "off"):
            for node in (one, other):
                self._in(self._hub, "bridge", "link", "set", "dev", f"to{node}", "isolated", state)
            time.sleep(CUT_S if state == "on" else 0)

    def renew(self) -> None:
        for node in range(self._number):
            self.kill(node)
            self._in(self._hub, "ip", "link", "set", f"to{node}", "up")
        self._start()

    def left(self) -> list[str]:
        deadline = time.monotonic() + ENDS_S
        while (actors := self._actors()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return [f"on a node the process {actor}" for actor in actors]

    def close(self) -> None:
        for node in range(self._number):
            self.kill(node)
        for net in (self._hub, *self._nets):
            net.kill()
            net.wait()

    def _connect(self) -> None:
        """A bridge, and a pair of interfaces from it to each node's network."""
        self._in(self._hub, "ip", "link", "add", "hub", "type", "bridge")
        self._in(self._hub, "ip", "link", "set", "hub", "up")
        for number, net in enumerate(self._nets):
            peer = ["peer", "name", "node", "netns", str(net.pid)]
            self._in(self._hub, "ip", "link", "add", f"to{number}", "type", "veth", *peer)
            self._in(self._hub, "ip", "link", "set", f"to{number}", "master", "hub", "up")
            self._in(net, "ip", "address", "add", f"{_host(number)}/24", "dev", "node")
            self._in(net, "ip", "link", "set", "node", "up")
            self._in(net, "ip", "link", "set", "lo", "up")
            # Who asks for its own address asks for the way to a host in the world.
            self._in(net, "ip", "route", "add", "default", "dev", "node")

    def _start(self) -> None:
        """Starts Ray on all nodes, in folders and a shared memory of their own."""
        folder = self._place / "nodes"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        environment = self.process_environment()
        ray = str(Path(sys.executable).with_name("ray"))
        for number, net in enumerate(self._nets):
            own = ["--head", f"--port={PORT}", "--include-dashboard=false"] if number == 0 else []
            own += [f"--temp-dir={folder}"] if number == 0 else [f"--address={_host(0)}:{PORT}"]
            own += [f"--node-ip-address={_host(number)}", "--num-cpus=2", "--object-store-memory=200000000"]
            command = [*_inside(net), "unshare", "--mount", "sh", "-c", OWN_SHM, "sh", ray, "start", *own]
            for _ in range(STARTS):
                # Ray waits half a minute for a node's processes, which is little on a busy machine.
                started = subprocess.run(
                    command, cwd=folder, env=environment, capture_output=True, text=True, timeout=STARTS_S
                )
                if not started.returncode:
                    break
                self.kill(number)
            else:
                raise SystemExit(f"Ray did not start on node {number}: {started.stderr.strip()}")

    def process_environment(self) -> dict[str, str]:
        """The environment of all processes of the nodes."""
        environment = {**os.environ, MARK: self._mark, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
        return environment | {"TMPDIR": str(self._place / "nodes"), **self.environment}

    def _processes(self, node: int) -> list[psutil.Process]:
        """Those of a node's, without the run's first process, which is no part of it."""
        found, net = [], os.readlink(f"/proc/{self._nets[node].pid}/ns/net")
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                ours = process.environ().get(MARK) == self._mark
                if ours and os.readlink(f"/proc/{process.pid}/ns/net") == net:
                    found.append(process)
        return found

    def _actors(self) -> list[str]:
        """Titles of the run's processes on the nodes."""
        titles = []
        for process in (process for node in range(self._number) for process in self._processes(node)):
            with suppress(psutil.Error):
                title = " ".join(process.cmdline())
                titles += [title] if title.startswith("ray::") and not title.startswith(OF_THE_NODE) else []
        return titles

    @staticmethod
    def _in(net: subprocess.Popen[bytes], *command: str) -> None:
        subprocess.run([*_inside(net), *command], check=True)


def _network() -> subprocess.Popen[bytes]:
    """A process that holds an empty network open."""
    net = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE)
    assert net.stdout is not None
    net.stdout.readline()
    return net


def _inside(net: subprocess.Popen[bytes]) -> list[str]:
    return ["nsenter", f"--net=/proc/{net.pid}/ns/net"]


def _host(node: int) -> str:
    return f"10.77.0.{node + 1}"
