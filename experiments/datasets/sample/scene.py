"""Pictures of the invented world: their content and the drawing itself."""

import io
import math
from dataclasses import dataclass
from pathlib import Path

import yaml
from PIL import Image, ImageDraw, ImageFont

SIZE = 224  # pixels
LETTERING = 44  # pixels below the things, for words
MARGIN = 0.08  # of a cell on each side, which keeps neighbours apart
COLOURS = {
    "red": (205, 35, 45),
    "blue": (35, 80, 190),
    "green": (30, 140, 60),
    "yellow": (240, 200, 20),
    "purple": (130, 50, 160),
    "orange": (240, 130, 20),
    "black": (25, 25, 30),
    "pink": (240, 120, 175),
}
# Indexed by a count.
NUMBERS = ("no", "one", "two", "three", "four", "five")
GROUNDS = {"pale": (244, 240, 228), "grey": (208, 212, 218), "cream": (255, 247, 205), "mint": (216, 240, 226)}


# The strokes of each thing that may be on a picture.
SHAPES: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "shapes.yaml").read_text(encoding="utf-8"))

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Things:
    """Some equal things on a picture. `count` is from 1 to 5; the others are keys of COLOURS and SHAPES."""

    count: int
    colour: str
    kind: str

    def phrase(self) -> str:
        """`a red boat`, `three green umbrellas`."""
        if self.count == 1:
            return f"{article(self.colour)} {self.colour} {self.kind}"
        return f"{NUMBERS[self.count]} {self.colour} {plural(self.kind)}"


@dataclass(frozen=True, slots=True)
class Scene:
    """Content of a picture. `words` are written on it and may be empty."""

    groups: tuple[Things, ...]
    words: str
    ground: str


def article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def plural(kind: str) -> str:
    return kind + ("es" if kind.endswith(("x", "s", "sh")) else "s")


def draw(scene: Scene) -> bytes:
    """Draws the scene as PNG, `SIZE` pixels square. Things stand in a grid, one kind after the other, words below."""
    ground = GROUNDS[scene.ground]
    image = Image.new("RGB", (SIZE, SIZE), ground)
    canvas = ImageDraw.Draw(image)
    things: list[Things] = []
    for group in scene.groups:
        things += [group] * group.count
    height = SIZE - LETTERING if scene.words else SIZE

    def cell_side(columns: int) -> float:
        return min(SIZE / columns, height / math.ceil(len(things) / columns))

    # As many columns as make the largest square cells.
    columns = max(range(1, len(things) + 1), key=cell_side)
    side = cell_side(columns)
    left = (SIZE - side * columns) / 2
    top = (height - side * math.ceil(len(things) / columns)) / 2

    for place, group in enumerate(things):
        row, column = divmod(place, columns)
        _draw_shape(
            group.kind,
            canvas,
            x=left + side * column + side * MARGIN,
            y=top + side * row + side * MARGIN,
            side=side * 0.84,  # without the margins
            colour=COLOURS[group.colour],
            ground=ground,
        )

    if scene.words:
        # Pillow's own font, because those of machines differ.
        font = ImageFont.load_default(size=24)
        canvas.text((SIZE / 2, SIZE - LETTERING / 2), scene.words, fill=COLOURS["black"], font=font, anchor="mm")

    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _draw_shape(
    name: str, canvas: ImageDraw.ImageDraw, *, x: float, y: float, side: float, colour: Colour, ground: Colour
) -> None:
    """Draws a shape in the box at `x`, `y` with side `side` (pixels)."""

    def at(*numbers: float) -> list[tuple[float, float]]:
        points: list[tuple[float, float]] = []
        for u, v in zip(numbers[::2], numbers[1::2], strict=True):
            points.append((x + u * side, y + v * side))
        return points

    def around(u: float, v: float, width: float, height: float) -> list[tuple[float, float]]:
        return at(u - width, v - height, u + width, v + height)

    def pixels(width: float) -> int:
        # One at least: a thin line on a small square would not be drawn.
        return max(1, round(width * side))

    for stroke in SHAPES[name]:
        fill = ground if stroke.startswith("hole ") else colour
        kind, *numbers = stroke.removeprefix("hole ").split()
        match kind, [float(number) for number in numbers]:
            case "area", points:
                canvas.polygon(at(*points), fill=fill)
            case "disc", [u, v, width, height]:
                canvas.ellipse(around(u, v, width, height), fill=fill)
            case "box", [u, v, width, height]:
                canvas.rectangle(at(u, v, u + width, v + height), fill=fill)
            case "pie", [*box, start, end]:
                canvas.pieslice(at(*box), start, end, fill=fill)
            case "line", [width, *points]:
                canvas.line(at(*points), fill=fill, width=pixels(width), joint="curve")
            case "ring", [width, u, v, radius, start, end]:
                canvas.arc(around(u, v, radius, radius), start, end, fill=fill, width=pixels(width))
