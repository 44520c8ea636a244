"""Names beside points, placed where they cover least; a line leads to a name that had to move away."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from experiments.analysis.figures.style import GREY, SMALL

REACH = 60  # how far a name may be moved up or down, in points
GAP = 6  # between a point and a name beside it, in points

_Box = tuple[float, float, float, float]  # left, right, bottom, top, in points


def label(axes: Axes, names: Sequence[str], xs: Sequence[float], ys: Sequence[tuple[float, float, float]]) -> None:
    """Writes a name beside each point x, (low, y, high).

    Positions are read from the finished layout: call `draw_without_rendering` on the figure first.
    """
    # Everything is compared in points, in which texts are offset; matplotlib's own positions are in pixels.
    to_points = 72 / axes.figure.dpi
    window = Bbox(axes.get_window_extent().get_points() * to_points)
    taken: list[_Box] = []
    points: list[tuple[float, float]] = []
    for x, bar in zip(xs, ys, strict=True):
        (across, low), (_, up), (_, high) = axes.transData.transform([(x, y) for y in bar]) * to_points
        # A point takes the space of its interval, 4 points wide, and of its marker, 8 points square.
        taken += [(across - 2, across + 2, low, high), (across - 4, across + 4, up - 4, up + 4)]
        points.append((across, up))
    for name, x, bar, (across, up) in zip(names, xs, ys, points, strict=True):
        text = axes.annotate(name, (x, bar[1]), (0, 0), textcoords="offset points", va="center", fontsize=SMALL)
        size = text.get_window_extent()
        width, height = size.width * to_points, size.height * to_points
        best: tuple[float, _Box, float, int] | None = None
        # To the right, to the left, or centred above or below; earlier sides win ties by `side / 2` in the cost.
        for side, aside in enumerate((GAP, -GAP - width, -width / 2)):
            for shift in range(-REACH, REACH + 1, 3):
                left, bottom = across + aside, up + shift - height / 2
                box = (left, left + width, bottom, bottom + height)
                outside = left < window.x0 or box[1] > window.x1 or bottom < window.y0 or box[3] > window.y1
                # Leaving the frame is worst, then covering something, then distance. Each name keeps its place: later
                # ones move.
                cost = 10 * sum(_overlap(box, other) for other in taken) + 100 * outside + abs(shift) / 8 + side / 2
                if best is None or cost < best[0]:
                    best = cost, box, aside, shift
        # For the type checker: the loops above run at least once.
        assert best is not None
        _, box, aside, shift = best
        taken.append(box)
        text.set_position((aside, shift))
        # A name that moved further than its own height might be taken for another point's.
        if abs(shift) > height:
            # Ends at the name's edge that faces the point.
            end = (aside + (0 if aside > 0 else width if aside < -width / 2 else width / 2), shift)
            line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            axes.annotate("", (x, bar[1]), end, textcoords="offset points", arrowprops=line)


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
