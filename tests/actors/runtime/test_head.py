"""A local Ray is its user's alone, and leaves nothing behind."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from actors.errors import ClusterError
from actors.processes import runs
from actors.runtime import head
from actors.runtime.head import begin, connect, forget_old_sessions, give_up, private_folder
from tests.support.paths import ROOT
from tests.support.waiting import until

HERE = "127.0.0.1"

# In a process of its own, which imports Ray only after it has begun one, as a run does.
ALONE = """
import os, subprocess, sys
from pathlib import Path
import psutil
from actors.runtime import head
head.begin()
from actors.runtime.cluster import Cluster
from actors.settings import RaySettings
import ray
with Cluster(RaySettings()):
    children = psutil.Process().children(recursive=True)
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in (psutil.Process(), *children)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}, listening
    session = (head.private_folder() / "ray" / "session_latest").resolve()  # a busy machine may have begun another
    assert session.is_dir()
    address = ray.get_runtime_context().gcs_address
    JOIN = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)"
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    token = os.environ["RAY_AUTH_TOKEN"]
    tried = []
    for mode, key, joins in (("disabled", "", False), ("token", "0" * 64, False), ("token", token, True)):
        env = {**own, "RAY_AUTH_MODE": mode, **({"RAY_AUTH_TOKEN": key} if key else {})}
        tried.append((joins, subprocess.Popen([sys.executable, "-c", JOIN, address], env=env, stderr=subprocess.PIPE)))
    for joins, process in tried:
        _, error = process.communicate()
        assert (process.returncode == 0) is joins, error
assert not session.exists()
assert not [path for path in Path(os.environ["HOME"]).rglob("*token*")]
"""


@pytest.mark.ray
def test_a_local_ray_listens_on_the_loopback_interface_and_nobody_joins_it_without_its_token(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    environment |= {"HOME": str(tmp_path), "RAY_TMPDIR": str(folder)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", ALONE], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert "worker processes have been started" not in done.stdout
    finally:
        shutil.rmtree(folder)


def test_a_local_ray_that_does_not_start_is_said_and_no_address_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 100)  # no socket's path is that long
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    with pytest.raises(ClusterError, match="runtime=inline") as error:
        connect(None)
    assert "ray.address" not in str(error.value)


def titled(title: str) -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if title in " ".join(cmdline(child)[:1])]


@pytest.mark.ray
def test_a_ray_that_nobody_joins_ends_with_the_process_that_began_it_and_leaves_nothing(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    begins = "from actors.runtime.head import begin, _heads; begin(); print(_heads[0]._process.pid)"
    try:
        environment = {**os.environ, "RAY_TMPDIR": str(folder)}
        done = subprocess.run([sys.executable, "-c", begins], env=environment, capture_output=True, text=True)
        pid = int(done.stdout)
        until = time.monotonic() + 60
        while psutil.pid_exists(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not psutil.pid_exists(pid)
        assert not list(folder.glob("*/ray/session_2*"))
        assert not [one for one in psutil.process_iter() if str(folder) in " ".join(cmdline(one))]
    finally:
        shutil.rmtree(folder)


@pytest.mark.ray
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


def test_sessions_of_processes_that_ended_long_ago_are_deleted_and_no_others(tmp_path: Path) -> None:
    ended, living = "99999999", os.getpid()  # no process has the first number
    old, recent, alive = sessions = [
        tmp_path / f"session_2026-01-0{day}_{number}" for day, number in enumerate([ended, ended, living], 1)
    ]
    for session in sessions:
        (session / "logs").mkdir(parents=True)
    for session in (old, alive):
        os.utime(session, (0, 0))
    latest = tmp_path / "session_latest"
    latest.symlink_to(old)
    forget_old_sessions(tmp_path)
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


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of something that is no Ray."""
    monkeypatch.setattr(head, "JOIN_S", 1.0)
    with socket.create_server((HERE, 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "latest", "named"),
    [
        ("nowhere", "", "nowhere"),
        (f"ray://{HERE}:1", "", "ray://"),
        (f"{HERE}:1", "", f"{HERE}:1"),
        (f"{HERE}:99999", "", f"{HERE}:99999"),
        ("[::1]:1", "", "[::1]:1"),
        ("auto", "", "ray_current_cluster"),
        ("auto", f"{HERE}:1", f"{HERE}:1"),
        ("silent", "", f"{HERE}:"),
        ("auto", "silent", "ray.address='auto' does not answer"),
    ],
)
def test_an_address_that_no_ray_answers_at_is_refused_soon_and_leaves_no_process(
    address: str, latest: str, named: str, silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    if latest:
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(latest.replace("silent", f"{HERE}:{silent}"))
    before = psutil.Process().children()
    with pytest.raises(ClusterError, match=re.escape(named)):
        connect(address.replace("silent", f"{HERE}:{silent}"))
    assert psutil.Process().children() == before


def test_ctrl_c_ends_the_wait_for_a_cluster_at_once(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "JOIN_S", 300.0)
    before = psutil.Process().children()
    signalled = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    signalled.start()
    with pytest.raises(KeyboardInterrupt):
        connect(f"{HERE}:{silent}")
    signalled.join()
    assert psutil.Process().children() == before


def test_a_machine_without_a_loopback_interface_is_named(tmp_path: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("needs a network of its own")
    begins = "from actors.runtime import head; head.connect(None)"
    done = subprocess.run([*alone, sys.executable, "-c", begins], cwd=ROOT, capture_output=True, text=True)
    assert re.search(r"\blo\b", done.stderr.splitlines()[-1])


ORDER = """
import os
from contextlib import suppress
{}
from actors.errors import ClusterError
from actors.runtime import head
with suppress(ClusterError):
    head.begin("127.0.0.1:1")
print(os.environ.get("RAY_AUTH_MODE"), os.environ.get("RAY_AUTH_TOKEN"), end=" ")
try:
    head.begin()
    head.give_up()
except ClusterError:
    print("refused")
"""


@pytest.mark.ray
@pytest.mark.parametrize(
    ("first", "token", "printed"),
    [
        ("", "", "None None"),
        ("import ray", "", "None None refused"),
        ("", "file", "token None"),
        ("", "variable", "token variable"),
    ],
)
def test_a_local_ray_without_a_token_is_refused_and_a_cluster_of_others_gets_the_users_own(
    first: str, token: str, printed: str, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    environment |= {"HOME": str(tmp_path)} | ({"RAY_AUTH_TOKEN": token} if token == "variable" else {})
    if token == "file":
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    command = [sys.executable, "-c", ORDER.format(first)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == printed, done.stderr
