"""Starts the program, as the command `agora` or as `python run.py`.

The module has a name that no other project has.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent


def hidden() -> str:
    """Names the package of another project that Python finds in place of this project's, in a line. Empty for none."""
    for name in ("actors", "experiments", "retrieval", "topologies"):
        spec = find_spec(name)
        found = Path(next(iter((spec and spec.submodule_search_locations) or ()), (spec and spec.origin) or "nothing"))
        if found.resolve() != HERE / name:
            return (
                f"{name}: Python finds {found} before agora-mm's {HERE / name}: start from another folder, take "
                f"{found.parent} out of PYTHONPATH, or rename the other {name}"
            )
    return ""


def script() -> None:
    """Runs the command line of this process, and ends the process."""
    if line := hidden():
        print(f"error: {line}", file=sys.stderr)
        sys.exit(2)
    from experiments.command_line import script as run

    run()
