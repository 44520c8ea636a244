"""Kills processes when the program that started this one ends, or gives no sign of life. Started by `watcher.py`:

    python -I -S watcher_program.py <most seconds of silence> <seconds of a second look> <process> ...

A byte on standard input is a sign of life. When standard input ends, the program that started this one has ended or is
about to: it is killed for its silence alone, and the other processes are killed in both cases.
"""

import math
import os
import select
import signal
import sys
from contextlib import suppress


def main() -> None:
    silence_s = float(sys.argv[1])
    second_look_s = float(sys.argv[2])
    processes = [int(argument) for argument in sys.argv[3:]]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    starter = os.getppid()
    descriptors = opened(processes)

    # Both programs may have been stopped together, hence the second look.
    while has_input(silence_s) or has_input(second_look_s):
        if not os.read(0, 4096):
            processes = [process for process in processes if process != starter]
            break

    for process in processes:
        with suppress(OSError):  # it has ended
            if sys.platform == "linux":
                signal.pidfd_send_signal(descriptors[process], signal.SIGKILL)
            else:
                os.kill(process, signal.SIGKILL)


def opened(processes: list[int]) -> dict[int, int]:
    """Returns Linux's descriptors of processes, as the system may give their numbers to others. -1 for an ended one."""
    descriptors = dict.fromkeys(processes, -1)
    if sys.platform == "linux":
        for process in processes:
            with suppress(OSError):
                descriptors[process] = os.pidfd_open(process)
    return descriptors


def has_input(within_s: float) -> bool:
    """Waits until standard input has a byte or ends. False where that takes longer."""
    readable, _, _ = select.select([0], [], [], None if math.isinf(within_s) else within_s)
    return bool(readable)


if __name__ == "__main__":
    main()
