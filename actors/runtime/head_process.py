"""The program of `head.Head`: starts a head node of Ray's and the server that forks its workers.

It writes one line, `up <address>` or `failed <why>`, and ends the node when its standard input ends. A session that
nobody has joined by then, of which a line would tell, goes with it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[2])  # not this folder, whose modules could hide others

POLL_S = 0.5
# Processes of a head node that nothing here asks: for more nodes, for printing workers' output, and the dashboard's
# server, which runs without a dashboard too. Without them Ray is up in half the time. `ray start` has switches for
# them, a node that is started from Python has none.
NEEDLESS = ("start_monitor", "start_log_monitor", "start_api_server")


def main(temp_dir: str) -> None:
    # Ctrl-C reaches all processes of a terminal; this one ends when the one that got it has nothing more to ask.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from actors.runtime import fork_server
    from actors.runtime.head import first_line, forget_session

    # Ray's library reads who its raylet is once, when it is loaded.
    with fork_server.as_of_raylet():
        import ray._raylet  # noqa: F401
    worker = fork_server.start()
    try:
        node = _start(temp_dir, worker)
    except Exception as error:  # Ray raises a plain Exception for a node that does not come up in time
        _say("failed", first_line(error))
        return
    _say("up", node.gcs_address)
    from ray._private.ray_constants import PROCESS_TYPE_RAYLET

    raylet = node.all_processes[PROCESS_TYPE_RAYLET][0].process
    joined = False
    # Workers take this process for the raylet, so it does not outlive it.
    while raylet.poll() is None:
        if select.select([0], [], [], POLL_S)[0]:
            if not os.read(0, 64):
                break
            joined = True
    node.destroy_external_storage()
    node.kill_all_processes(check_alive=False, allow_graceful=True)
    if not joined:
        forget_session(Path(node.get_session_dir_path()))


def _start(temp_dir: str, worker: str | None) -> Any:
    from ray._common.usage import usage_lib
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    usage_lib.set_usage_stats_enabled_via_env_var(False)
    for name in NEEDLESS:
        if hasattr(Node, name):
            setattr(Node, name, lambda *_, **__: None)
    # Ray opens the folder that it is given to all; in one that only its user can enter, that opens nothing.
    asked = RayParams(include_dashboard=False, temp_dir=temp_dir, worker_path=worker)
    return Node(asked, head=True, shutdown_at_exit=False, spawn_reaper=True, ray_init_cluster=True)


def _say(answer: str, text: str) -> None:
    with suppress(BrokenPipeError):  # who wanted to know has ended
        os.write(1, f"{answer} {text}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1])
