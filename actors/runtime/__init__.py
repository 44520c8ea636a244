"""Runs agents, models and learners: as processes that Ray starts, or all in this process.

Ray places processes, restarts them, and finds them by name. Turns and requests do not pass through Ray: both hops,
from the driver to an agent and from an agent to a replica, are a `Client` and a `Service` over an open socket.
`docs/reliability.md` draws the processes of a run.
"""

import os
import secrets
import sys

# Read when Ray is imported. Ray's own warnings, of a thousand characters each, would be printed between the progress
# bars, and no other option drops them. The supervisor reports losses.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")

TOKEN = secrets.token_hex(32)
"""Of a local Ray, unless the user has set another way. By itself Ray has one token for all of a user's clusters."""


def use_own_token() -> bool:
    """Sets TOKEN for Ray, which reads it when it is imported. False where that is too late and there is no other."""
    user_has_chosen = any(name.startswith("RAY_AUTH_") for name in os.environ)
    is_in_time = "ray" not in sys.modules
    if is_in_time and not user_has_chosen:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    return is_in_time or user_has_chosen


use_own_token()
