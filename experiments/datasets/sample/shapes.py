"""Draws the things that stand on pictures; shapes.yaml holds the strokes of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import yaml
from PIL import ImageDraw

Colour = tuple[int, int, int]
_STROKE = re.compile(r"(hole )?(\w+) (.+)")

SHAPES: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "shapes.yaml").read_text(encoding="utf-8"))


def draw_shape(
    name: str, canvas: ImageDraw.ImageDraw, x: float, y: float, side: float, colour: Colour, ground: Colour
) -> None:
    """Draws a shape in the box at `x`, `y` with side `side` (pixels)."""

    def at(*numbers: float) -> list[tuple[float, float]]:
        return [(x + u * side, y + v * side) for u, v in zip(numbers[::2], numbers[1::2], strict=True)]

    for stroke in SHAPES[name]:
        hole, kind, text = cast("re.Match[str]", _STROKE.fullmatch(stroke)).groups()
        fill, numbers = ground if hole else colour, [float(number) for number in text.split()]
        # One pixel at least: a thin line on a small square would not be drawn.
        width = max(1, round(numbers[0] * side))
        match kind:
            case "area":
                canvas.polygon(at(*numbers), fill=fill)
            case "disc":
                u, v, r, s = numbers
                canvas.ellipse(at(u - r, v - s, u + r, v + s), fill=fill)
            case "box":
                u, v, w, h = numbers
                canvas.rectangle(at(u, v, u + w, v + h), fill=fill)
            case "pie":
                *box, start, end = numbers
                canvas.pieslice(at(*box), start, end, fill=fill)
            case "line":
                canvas.line(at(*numbers[1:]), fill=fill, width=width, joint="curve")
            case "ring":
                _, u, v, r, start, end = numbers
                canvas.arc(at(u - r, v - r, u + r, v + r), start, end, fill=fill, width=width)
