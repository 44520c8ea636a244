"""Marks of a figure: parts that a page explains when a pointer is over them, and that lead to their discussions."""

import json
from dataclasses import dataclass
from pathlib import Path

from actors.received import received
from experiments.records.run_files import read_whole

MOST_MARKS = 4_000  # of a figure; one with more has none, as its parts are too small to point at


@dataclass(frozen=True, slots=True)
class Mark:
    """Box over a figure, with its meaning. Sizes are shares of the figure's, from its upper left corner.

    link: the fragment of the address of the discussions behind it, in the same page. Empty where there are none.
    """

    text: str
    link: str
    left: float
    top: float
    width: float
    height: float


def read_marks(path: Path) -> list[Mark]:
    """Reads a file of `write_marks`. Raises UserError for one that is damaged."""
    marks = []
    with received(path, "delete that file: the figure is whole without it"):
        for entry in json.loads(read_whole(path))[:MOST_MARKS]:
            box = [float(entry[name]) for name in ("left", "top", "width", "height")]
            marks.append(Mark(str(entry["text"]), str(entry["link"]), *box))
    return marks
