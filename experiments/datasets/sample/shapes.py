"""The things that stand on pictures, each drawn in one colour on a unit square."""

from __future__ import annotations

import math
from collections.abc import Callable

from PIL import ImageDraw

Colour = tuple[int, int, int]


class Pen:
    """Draws on a unit square: coordinates run from 0 to 1 inside the box at `x`, `y` with side `side` (pixels).

    A hole is drawn in the colour of the ground.
    """

    def __init__(
        self, draw: ImageDraw.ImageDraw, x: float, y: float, side: float, colour: Colour, ground: Colour
    ) -> None:
        self.draw, self.x, self.y, self.side, self.colour, self.ground = draw, x, y, side, colour, ground

    def at(self, *points: tuple[float, float]) -> list[tuple[float, float]]:
        return [(self.x + u * self.side, self.y + v * self.side) for u, v in points]

    def area(self, *points: tuple[float, float], hole: bool = False) -> None:
        self.draw.polygon(self.at(*points), fill=self.ground if hole else self.colour)

    def disc(self, u: float, v: float, r: float, s: float | None = None, hole: bool = False) -> None:
        s = r if s is None else s
        self.draw.ellipse(self.at((u - r, v - s), (u + r, v + s)), fill=self.ground if hole else self.colour)

    def box(self, u: float, v: float, w: float, h: float, hole: bool = False) -> None:
        self.draw.rectangle(self.at((u, v), (u + w, v + h)), fill=self.ground if hole else self.colour)

    def line(self, *points: tuple[float, float], width: float = 0.07) -> None:
        # One pixel at least: a thin line on a small square would not be drawn.
        self.draw.line(self.at(*points), fill=self.colour, width=max(1, round(width * self.side)), joint="curve")

    def ring(self, u: float, v: float, r: float, start: float = 0, end: float = 360, width: float = 0.07) -> None:
        box = self.at((u - r, v - r), (u + r, v + r))
        self.draw.arc(box, start, end, fill=self.colour, width=max(1, round(width * self.side)))


def lighthouse(p: Pen) -> None:
    p.area((0.38, 0.3), (0.62, 0.3), (0.72, 1), (0.28, 1))
    p.area((0.35, 0.45), (0.65, 0.45), (0.67, 0.56), (0.33, 0.56), hole=True)
    p.area((0.31, 0.72), (0.69, 0.72), (0.7, 0.83), (0.3, 0.83), hole=True)
    p.box(0.42, 0.14, 0.16, 0.14)
    p.area((0.36, 0.14), (0.64, 0.14), (0.5, 0))
    p.line((0.02, 0.1), (0.36, 0.2), width=0.04)
    p.line((0.98, 0.1), (0.64, 0.2), width=0.04)


def boat(p: Pen) -> None:
    p.area((0.02, 0.68), (0.98, 0.68), (0.8, 0.95), (0.2, 0.95))
    p.line((0.5, 0.68), (0.5, 0.03), width=0.05)
    p.area((0.55, 0.08), (0.9, 0.6), (0.55, 0.6))
    p.area((0.45, 0.18), (0.45, 0.6), (0.15, 0.6))


def anchor(p: Pen) -> None:
    p.ring(0.5, 0.12, 0.11)
    p.line((0.5, 0.22), (0.5, 0.95), width=0.09)
    p.line((0.28, 0.34), (0.72, 0.34), width=0.09)
    p.ring(0.5, 0.55, 0.4, 20, 160, width=0.1)
    p.area((0.02, 0.72), (0.12, 0.5), (0.26, 0.7))
    p.area((0.98, 0.72), (0.88, 0.5), (0.74, 0.7))


def dog(p: Pen) -> None:
    p.box(0.15, 0.42, 0.58, 0.26)
    for u in (0.16, 0.28, 0.53, 0.64):
        p.box(u, 0.6, 0.08, 0.36)
    p.box(0.64, 0.16, 0.2, 0.34)
    p.box(0.8, 0.28, 0.18, 0.14)
    p.area((0.62, 0.18), (0.7, 0.18), (0.6, 0.44))
    p.line((0.17, 0.46), (0.03, 0.2), width=0.07)
    p.disc(0.78, 0.25, 0.025, hole=True)


def cat(p: Pen) -> None:
    p.disc(0.45, 0.74, 0.27, 0.24)
    p.disc(0.5, 0.34, 0.23)
    p.area((0.29, 0.3), (0.29, 0.02), (0.48, 0.16))
    p.area((0.71, 0.3), (0.71, 0.02), (0.52, 0.16))
    p.ring(0.72, 0.66, 0.24, 270, 100, width=0.08)
    p.disc(0.42, 0.32, 0.035, hole=True)
    p.disc(0.58, 0.32, 0.035, hole=True)


def tree(p: Pen) -> None:
    p.box(0.44, 0.6, 0.12, 0.4)
    for u, v, r in ((0.5, 0.22, 0.22), (0.28, 0.42, 0.22), (0.72, 0.42, 0.22), (0.5, 0.46, 0.22)):
        p.disc(u, v, r)


def umbrella(p: Pen) -> None:
    p.draw.pieslice(p.at((0.02, 0.05), (0.98, 1.01)), 180, 360, fill=p.colour)
    for u in (0.18, 0.5, 0.82):
        p.disc(u, 0.53, 0.16, 0.08, hole=True)
    p.line((0.5, 0.05), (0.5, 0.88), width=0.05)
    p.ring(0.59, 0.86, 0.11, 0, 180, width=0.05)


def star(p: Pen) -> None:
    # Ten corners, five far from the centre and five near it by turns.
    turns = [math.pi * k / 5 for k in range(10)]
    radii = [(0.5, 0.2)[k % 2] for k in range(10)]
    p.area(*((0.5 + r * math.sin(a), 0.52 - r * math.cos(a)) for r, a in zip(radii, turns, strict=True)))


def bicycle(p: Pen) -> None:
    p.ring(0.22, 0.68, 0.21, width=0.05)
    p.ring(0.78, 0.68, 0.21, width=0.05)
    p.line((0.22, 0.68), (0.38, 0.36), (0.68, 0.36), (0.48, 0.68), (0.22, 0.68), width=0.05)
    p.line((0.48, 0.68), (0.35, 0.27), width=0.05)
    p.line((0.26, 0.26), (0.44, 0.26), width=0.06)
    p.line((0.78, 0.68), (0.66, 0.22), (0.8, 0.18), width=0.05)


def house(p: Pen) -> None:
    p.area((0.02, 0.48), (0.5, 0.06), (0.98, 0.48))
    p.box(0.14, 0.46, 0.72, 0.5)
    p.box(0.42, 0.66, 0.16, 0.3, hole=True)
    p.box(0.22, 0.56, 0.13, 0.13, hole=True)
    p.box(0.66, 0.56, 0.13, 0.13, hole=True)


def key(p: Pen) -> None:
    p.ring(0.24, 0.5, 0.22, width=0.1)
    p.box(0.44, 0.45, 0.54, 0.1)
    p.box(0.76, 0.5, 0.08, 0.2)
    p.box(0.9, 0.5, 0.08, 0.24)


def bell(p: Pen) -> None:
    p.draw.pieslice(p.at((0.2, 0.1), (0.8, 0.9)), 180, 360, fill=p.colour)
    p.area((0.2, 0.48), (0.8, 0.48), (0.94, 0.8), (0.06, 0.8))
    p.disc(0.5, 0.87, 0.1)
    p.disc(0.5, 0.08, 0.07)


def fish(p: Pen) -> None:
    p.disc(0.42, 0.5, 0.4, 0.24)
    p.area((0.72, 0.5), (1, 0.22), (1, 0.78))
    p.disc(0.2, 0.44, 0.04, hole=True)


def bird(p: Pen) -> None:
    p.disc(0.45, 0.52, 0.28, 0.19)
    p.disc(0.74, 0.34, 0.14)
    p.area((0.85, 0.29), (1, 0.36), (0.85, 0.4))
    p.area((0.25, 0.46), (0, 0.28), (0.08, 0.58))
    p.line((0.4, 0.68), (0.4, 0.95), width=0.04)
    p.line((0.52, 0.68), (0.52, 0.95), width=0.04)
    p.disc(0.77, 0.31, 0.03, hole=True)


def flower(p: Pen) -> None:
    for k in range(6):
        p.disc(0.5 + 0.2 * math.cos(k * math.pi / 3), 0.32 + 0.2 * math.sin(k * math.pi / 3), 0.13)
    p.disc(0.5, 0.32, 0.1, hole=True)
    p.line((0.5, 0.6), (0.5, 1), width=0.06)
    p.area((0.5, 0.9), (0.8, 0.68), (0.74, 0.88))


def cup(p: Pen) -> None:
    p.area((0.12, 0.3), (0.72, 0.3), (0.64, 0.92), (0.2, 0.92))
    p.ring(0.74, 0.54, 0.18, 270, 100, width=0.08)
    p.line((0.3, 0.22), (0.36, 0.14), (0.3, 0.04), width=0.04)
    p.line((0.52, 0.22), (0.58, 0.14), (0.52, 0.04), width=0.04)


def crown(p: Pen) -> None:
    p.area((0.06, 0.9), (0.02, 0.25), (0.28, 0.55), (0.5, 0.12), (0.72, 0.55), (0.98, 0.25), (0.94, 0.9))
    p.box(0.08, 0.74, 0.84, 0.05, hole=True)


def ladder(p: Pen) -> None:
    p.box(0.22, 0, 0.09, 1)
    p.box(0.69, 0, 0.09, 1)
    for v in (0.12, 0.32, 0.52, 0.72, 0.88):
        p.box(0.22, v, 0.56, 0.07)


def heart(p: Pen) -> None:
    p.disc(0.28, 0.32, 0.26)
    p.disc(0.72, 0.32, 0.26)
    p.area((0.05, 0.43), (0.95, 0.43), (0.5, 0.98))


def clock(p: Pen) -> None:
    p.ring(0.5, 0.5, 0.48, width=0.1)
    p.line((0.5, 0.5), (0.5, 0.16), width=0.07)
    p.line((0.5, 0.5), (0.74, 0.62), width=0.07)


def car(p: Pen) -> None:
    p.area((0.22, 0.5), (0.34, 0.24), (0.7, 0.24), (0.82, 0.5))
    p.box(0.02, 0.46, 0.96, 0.26)
    p.area((0.33, 0.46), (0.39, 0.31), (0.5, 0.31), (0.5, 0.46), hole=True)
    for u in (0.25, 0.75):
        p.disc(u, 0.74, 0.14)
        p.disc(u, 0.74, 0.06, hole=True)


def candle(p: Pen) -> None:
    p.box(0.36, 0.38, 0.28, 0.56)
    p.box(0.14, 0.88, 0.72, 0.1)
    p.area((0.5, 0), (0.6, 0.2), (0.5, 0.3), (0.4, 0.2))
    p.line((0.5, 0.28), (0.5, 0.38), width=0.03)


# The order is part of what a seed gives.
# fmt: off
_DRAWN = (
    lighthouse, boat, anchor, dog, cat, tree, umbrella, star, bicycle, house, key, bell, fish, bird, flower, cup,
    crown, ladder, heart, clock, car, candle,
)
# fmt: on
SHAPES: dict[str, Callable[[Pen], None]] = {shape.__name__: shape for shape in _DRAWN}
