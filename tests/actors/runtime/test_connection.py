"""A local Ray is its user's alone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import ray
from ray._private.utils import push_error_to_driver

from actors.errors import ClusterError
from actors.processes import runs
from actors.runtime.cluster import Cluster
from actors.runtime.connection import connect
from actors.runtime.fork_server import VARIABLE
from actors.runtime.head import PROGRAM, begin, forget_session, give_up, private_folder
from actors.settings import RaySettings
from tests.actors.runtime.test_cluster import Slow, request
from tests.support.waiting import until


@pytest.mark.ray
def test_a_local_ray_listens_on_the_loopback_interface_and_keeps_its_folder_to_itself() -> None:
    with Cluster(RaySettings()) as cluster:
        cluster.launch_replicas(Slow, 1, 0.1, 0.0)
        session = Path(ray._private.worker._global_node.get_session_dir_path())
        me = psutil.Process()
        listening = {
            connection.laddr.ip
            for process in (me, *me.children(recursive=True))
            for connection in process.net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening
        assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
        programs = {Path(word).name for child in me.children(recursive=True) for word in child.cmdline()}
        assert "raylet" in programs
        assert programs.isdisjoint({"dashboard.py", "monitor.py", "log_monitor.py"})
        private = session.parents[1]
        assert private.stat().st_mode & 0o777 == 0o700
        assert private.name == f"agora-mm-{os.getuid()}"
    assert not session.exists()


@pytest.mark.ray
def test_what_ray_s_nodes_warn_of_is_logged_and_not_printed(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(RaySettings()):
        until = time.monotonic() + 60
        while not caplog.messages and time.monotonic() < until:
            # A thread subscribes to these; what was said before that is lost.
            push_error_to_driver(ray._private.worker.global_worker, "a_type", "8 worker processes have been started")
            time.sleep(0.05)
    assert caplog.messages[0] == "Ray: 8 worker processes have been started"
    assert "worker processes" not in "".join(capfd.readouterr())


JOIN = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).get_all_node_info(timeout=60)"


@pytest.mark.ray
def test_nobody_joins_a_local_ray_without_its_token_which_lies_in_no_file(tmp_path: Path) -> None:
    environment = {name: said for name, said in os.environ.items() if not name.startswith("RAY_AUTH_")}
    environment |= {"HOME": str(tmp_path)}
    tokens = []
    for _ in range(2):
        with Cluster(RaySettings()):
            address = ray.get_runtime_context().gcs_address
            children = psutil.Process().children(recursive=True)
            tokens += [child.environ()["RAY_AUTH_TOKEN"] for child in children if child.name() == "gcs_server"]
            for mode, token, joins in (
                ("disabled", "", False),
                ("token", "0" * 64, False),
                ("token", tokens[-1], True),
            ):
                said = {"RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": token} if token else {"RAY_AUTH_MODE": mode}
                joining = [sys.executable, "-c", JOIN, address]
                tried = subprocess.run(joining, env={**environment, **said}, capture_output=True, text=True)
                assert (tried.returncode == 0) is joins, tried.stderr
                assert joins or "AuthenticationError" in tried.stderr
        assert not any(name.startswith("RAY_AUTH_") for name in os.environ)
    assert len(set(tokens)) == 2


def test_a_local_ray_that_does_not_start_is_said_and_no_address_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 100)  # no socket's path is that long
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    with pytest.raises(ClusterError, match="try again when it is less so; runtime=inline needs no Ray") as error:
        connect(None)
    assert "AF_UNIX path length cannot exceed" in str(error.value)
    assert "ray.address" not in str(error.value)


def titled(title: str) -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if title in " ".join(cmdline(child)[:1])]


@pytest.mark.ray
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
async def test_processes_are_forked_off_one_that_has_imported_all_and_start_without_it_once_it_is_gone() -> None:
    with Cluster(RaySettings()) as cluster:
        cluster.launch_replicas(Slow, 1, 0, 0, pool="forked")
        await cluster.wait_until_ready()
        forked = titled("ray::ReplicaActor")[0]
        server = forked.parents()[0]
        assert PROGRAM.name in server.cmdline()[1]
        assert forked.num_threads() > 1 == server.num_threads()
        # What its program would have had of Ray.
        assert Path(f"/proc/{forked.pid}/oom_score_adj").read_text() == "1000\n"
        assert signal.SIGCHLD not in ignored(forked)
        assert os.getpgid(forked.pid) == forked.pid
        server.kill()
        # More than Ray has processes waiting. What was forked before has no parent any more.
        cluster.launch_replicas(Slow, 3, 0, 0, pool="alone")
        await cluster.wait_until_ready()
        assert "raylet" in titled("ray::ReplicaActor")[0].parents()[0].cmdline()[0]
        answers = [await cluster.model(pool=pool).complete(request("a")) for pool in ("forked", "alone")]
        assert answers[0] == answers[1]


@pytest.mark.ray
@pytest.mark.skipif(sys.platform != "linux" or os.getuid(), reason="only root can be another user")
def test_nobody_else_has_a_process_forked() -> None:
    with Cluster(RaySettings()):
        raylet = next(child for child in psutil.Process().children(recursive=True) if child.name() == "raylet")
        server = raylet.environ()[VARIABLE]
        with socket.socket(socket.AF_UNIX) as asking:
            os.seteuid(65534)
            try:
                asking.connect(f"\0{server}")
            finally:
                os.seteuid(0)
            answer = b""
            with suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(asking, [b"{}"], [0, 1, 2])
                asking.shutdown(socket.SHUT_WR)
                answer = asking.recv(16)
            assert answer == b""


def ignored(process: psutil.Process) -> set[int]:
    """The signals that a process ignores."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    mask = int(re.findall(r"SigIgn:\s*(\w+)", status)[0], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_a_ray_that_nobody_joins_ends_with_the_process_that_began_it_and_leaves_nothing(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    begins = "from actors.runtime.head import begin, _begun; begin(); print(_begun[0]._process.pid)"
    try:
        environment = {**os.environ, "RAY_TMPDIR": str(folder)}
        done = subprocess.run([sys.executable, "-c", begins], env=environment, capture_output=True, text=True)
        head = int(done.stdout)
        until = time.monotonic() + 60
        while psutil.pid_exists(head) and time.monotonic() < until:
            time.sleep(0.05)
        assert not psutil.pid_exists(head)
        assert not list(folder.glob("*/ray/session*"))
        assert not [one for one in psutil.process_iter() if str(folder) in " ".join(cmdline(one))]
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("up_to", ["", "gcs_server", "raylet"])
async def test_a_ray_that_is_given_up_ends_at_once_and_leaves_nothing(
    up_to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    me = psutil.Process()
    before = me.children(recursive=True)  # of other tests in this process
    try:
        begin()
        await until(lambda: not up_to or titled(up_to))
        started = set(me.children(recursive=True)) - set(before)
        give_up()
        assert started
        await until(lambda: not any(map(runs, started)))
        assert not [one for one in started if runs(one)]
        assert not list(folder.glob("*/ray/session*"))
    finally:
        shutil.rmtree(folder)


def cmdline(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def test_a_session_goes_with_those_that_ended_long_ago_and_no_other(tmp_path: Path) -> None:
    ended, living = "99999999", os.getpid()  # no process has the first number
    own, old, recent, alive = sessions = [
        tmp_path / f"session_2026-01-0{day}_{number}" for day, number in enumerate([living, ended, ended, living], 1)
    ]
    for session in sessions:
        (session / "logs").mkdir(parents=True)
    for session in (old, alive):
        os.utime(session, (0, 0))
    latest = tmp_path / "session_latest"
    latest.symlink_to(own)
    forget_session(own)
    assert set(tmp_path.iterdir()) == {recent, alive}


def test_a_folder_that_others_can_enter_holds_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    folder = private_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(ClusterError, match="not a folder of yours alone"):
        private_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(ClusterError, match="not a folder of yours alone"):
        private_folder()
