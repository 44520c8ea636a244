"""Marks of figures: parts that a page explains when a pointer is over them, and that lead to their discussions."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.analysis.marks import MOST_MARKS, Mark

POINT = 0.07  # inches of the smallest mark, around its middle in both directions
DECIMALS = 4


@dataclass(frozen=True, slots=True)
class DataMark:
    """Mark around (x, y) in the data of a panel. Without y it is as high as the panel."""

    axes: Axes
    text: str
    link: str
    x: float
    y: float | None
    width: float
    height: float

    def placed(self, figure: Figure) -> Mark:
        """Finds its place in a figure that has its layout."""
        low, high = sorted(self.axes.get_ylim())
        if self.y is not None:
            low = self.y - self.height / 2
            high = self.y + self.height / 2
        corners = self.axes.transData.transform([(self.x - self.width / 2, low), (self.x + self.width / 2, high)])
        shares = figure.transFigure.inverted().transform(corners)
        middle = shares.mean(axis=0)
        size = abs(shares[1] - shares[0])
        if not self.width:
            size = 2 * POINT / figure.get_size_inches()
        left, bottom = middle - size / 2
        box = (left, 1 - bottom - size[1], *size)
        return Mark(self.text, self.link, *(round(float(share), DECIMALS) for share in box))


class MarkedFigure(Figure):
    """Figure with the marks that were made on its panels."""

    def __init__(
        self, width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained"
    ) -> None:
        super().__init__(figsize=(width, height), layout=layout)
        self.marks: list[DataMark] = []


def mark(
    axes: Axes, text: str, x: float, y: float | None = None, *, width: float = 0, height: float = 0, link: str = ""
) -> None:
    """Marks a box around a point of a panel's data. Figures without marks ignore it."""
    figure = axes.get_figure(root=True)
    if isinstance(figure, MarkedFigure):
        figure.marks.append(DataMark(axes, text, link, x=x, y=y, width=width, height=height))


def discussions_of(group: str, key: str = "") -> str:
    """Makes the link to a group of discussions, and to the one of them with a key."""
    if not group:
        return ""
    name = quote(group, safe="")
    one = f"{name}/{quote(key, safe='')}" if key else ""
    return f"{one}?group={name}"


def write_marks(figure: Figure, path: Path) -> None:
    """Writes the marks of a figure that has its layout, as JSON. None for one without marks."""
    if isinstance(figure, MarkedFigure) and 0 < len(figure.marks) <= MOST_MARKS:
        marks = [asdict(data_mark.placed(figure)) for data_mark in figure.marks]
        path.write_text(json.dumps(marks, separators=(",", ":")), encoding="utf-8")
