"""The program that Ray starts for a worker: has the fork server make it, or else goes on as Ray's own program.

Imports as little as it can, for a run starts it once for each of its processes.
"""

import json
import os
import socket
import sys
from pathlib import Path


def forked(server: str) -> bool:
    """Whether the server has forked a process that is this one from now on."""
    try:
        asked = {
            "arguments": sys.argv[1:],
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            # Ray has it that workers are killed before other processes.
            "oom_score": Path("/proc/self/oom_score_adj").read_text(),
        }
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"\0{server}")
            socket.send_fds(connection, [json.dumps(asked).encode()], [0, 1, 2])
            connection.shutdown(socket.SHUT_WR)
            return bool(connection.recv(16))
    except OSError:  # the server has ended
        return False


if __name__ == "__main__" and not forked(os.environ["AGORA_FORK_SERVER"]):
    from importlib.util import find_spec

    found = find_spec("ray")
    assert found is not None
    assert found.origin is not None
    program = Path(found.origin).parent / "_private" / "workers" / "default_worker.py"
    os.execv(sys.executable, [sys.executable, str(program), *sys.argv[1:]])
