"""Runs agents, models and learners: as processes that Ray starts, or all in this process.

Ray places processes, restarts them, and finds them by name. Turns and requests do not pass through Ray: both hops,
from the driver to an agent and from an agent to a replica, are a `Client` and a `Service` over an open socket.
`docs/runtime.md` draws the processes of a run and the way of a turn.

    runtime.py      names for either runtime: cluster.py on Ray, inline.py in one process
    head.py         a local Ray, or the connection to a cluster
    team.py         asks agents;  pool.py: asks replicas;  stateful.py: asks learners
    client.py       sends items over a channel.py;  service.py: works on them
    process.py      the Ray actors, with their signs of life
    supervision.py  waits for actors, and has those that die or hang started again
    remote.py       calls actors by name;  guard.py: ends this process where it hangs
    in_order.py     works on many items at once
"""

import os
import secrets
import sys

# Read when Ray is imported. Ray's own warnings, of a thousand characters each, would be printed between the progress
# bars, and no other option drops them. The supervisor reports what is lost.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")

TOKEN = secrets.token_hex(32)
"""Of a local Ray, unless the user has set another way. By itself Ray has one token for all of a user's clusters."""


def use_own_token() -> bool:
    """Sets TOKEN for Ray, which reads it when it is imported. False where that is too late and there is no other."""
    chosen = any(name.startswith("RAY_AUTH_") for name in os.environ)
    if not chosen and "ray" not in sys.modules:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    return chosen or "ray" not in sys.modules


use_own_token()
