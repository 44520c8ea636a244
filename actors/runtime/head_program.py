"""Starts a local Ray, and ends it when standard input ends, which is when the run's process does. Started by `head.py`:

    python -P head_program.py <address to try, or "local"> <folder of the sessions>

It prints `up <address>` or `failed <reason>`. The session's folder goes with Ray, unless a run has joined it (it writes
`joined`) and did not end well (else it writes `forget`).

A cluster it only joins and leaves, to learn whether that works: Ray tries for minutes, in which the run's own process
could not be interrupted. Ctrl-C reaches all processes of a terminal: this one, and what it starts, end when the run has
nothing more to ask.
"""

import logging
import os
import shutil
import signal
import sys
from contextlib import suppress
from typing import Any

LOCAL = "local"
REASON_CHARACTERS = 300


def main() -> None:
    address, folder = sys.argv[1:]
    # Before Ray is imported, which starts threads and processes.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    import ray

    options: dict[str, Any] = {}
    if address == LOCAL:
        options = {"include_dashboard": False, "_temp_dir": folder}
    # A busy machine may need more than Ray's 30 s for a start.
    attempts = 2 if address == LOCAL else 1
    for attempt in range(1, attempts + 1):
        try:
            context: Any = ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
            break
        except Exception as error:  # Ray raises plain exceptions as well
            if attempt == attempts:
                reason = " ".join(str(error).split()) or type(error).__name__
                answer(f"failed {reason[:REASON_CHARACTERS]}")
                return

    session = context.address_info
    answer(f"up {session['gcs_address']}")
    words = sys.stdin.read().split() if address == LOCAL else ["joined"]
    ray.shutdown()
    if words != ["joined"]:
        shutil.rmtree(session["session_dir"], ignore_errors=True)


def answer(line: str) -> None:
    with suppress(BrokenPipeError):  # the run has ended
        os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main()
