"""Style, common marks and saving of all figures; equal data give equal bytes.

Figures are made without pyplot, so that drawing has no global state. They are as wide as a column or a page of a
two-column paper, no text is smaller than 7 points at that size, and colour is never the only sign.
"""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps, rc_context, rc_params_from_file, rcParams
from matplotlib import style as styles
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from actors.errors import UserError
from experiments.analysis.figures.marked_figure import MarkedFigure, mark, write_marks
from experiments.config.setting_groups import is_style_file

# Figures are drawn at their printed size, so that text is not scaled.
COLUMN, PAGE = 3.3, 6.9  # widths in inches
SMALL, NORMAL = 7, 8  # points
DPI = 220
# Okabe and Ito's palette for any colour vision, with its faint yellow last, and grey for a ninth series.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442", "#808080")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")
GREY = "#808080"
NAMED_AGENTS = 16  # more names than this along one panel cannot be read
FAINT = 0.35  # opacity of single trials behind their mean
ABSENT: dict[str, Any] = {"facecolor": "white", "edgecolor": "#C8C8C8", "hatch": "//////"}  # a cell without a value
# Some settings are read only when a file is written.
STYLE: dict[Any, Any] = {
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "figure.labelsize"), NORMAL),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.dpi": DPI,
    "pdf.fonttype": 42,  # whole outlines: journals refuse the default, Type 3
    "svg.fonttype": "path",  # looks the same where the font is missing
    "svg.hashsalt": "agora",  # ids in an SVG are random without it
}
UNDATED: dict[str, dict[str, Any]] = {
    "pdf": dict.fromkeys(("CreationDate", "Producer", "Creator")),
    "svg": dict.fromkeys(("Date", "Creator")),
    "png": {"Software": None},
}


@contextmanager
def drawing(name: str = "") -> Iterator[None]:
    """Applies the project's style, then the user's of this name, to everything drawn and saved inside."""
    with rc_context(STYLE):
        styles.use(own_style(name))
        yield


def own_style(name: str) -> dict[Any, Any]:
    """Reads a style of matplotlib by its name, or a style file by its path. Empty for no name.

    Raises UserError where there is none, or its settings are wrong.
    """
    if not name:
        return {}
    if name in styles.library:
        return dict(styles.library[name])
    problem = "there is no such style or file"
    path = Path(name).expanduser()
    # Anything else than a file would be an address to matplotlib.
    if is_style_file(name) and os.path.isfile(path):
        try:
            settings = rc_params_from_file(path, fail_on_error=True, use_default_template=False)
        except (OSError, ValueError) as error:
            problem = " ".join(str(error).split())
        else:
            if settings:
                return dict(settings)
            problem = "it has no settings"
    raise UserError(
        f"figures.style={name} cannot be read ({problem}); name a file such as mine.mplstyle, or a style of matplotlib "
        "such as ggplot"
    )


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Saves `name`.pdf, .svg and .png, and its marks as `name`.json. Returns the PNG's path.

    Equal data give equal files: none has a date.
    """
    folder.mkdir(parents=True, exist_ok=True)
    layout = figure.get_layout_engine()
    if layout is not None:
        # Once for all formats. Not "none", with which every format is drawn twice, once only to be laid out.
        layout.execute(figure)
        figure.set_layout_engine(None)
    for suffix, metadata in UNDATED.items():
        figure.savefig(folder / f"{name}.{suffix}", metadata=metadata)
    write_marks(figure, folder / f"{name}.json")
    return folder / f"{name}.png"


def probabilities() -> Colormap:
    """Makes the colour map from light (0) to dark (1), perceptually uniform."""
    # Masked cells are transparent, so that the hatched background shows through.
    return colormaps["viridis_r"].with_extremes(bad=(0, 0, 0, 0))


def plain(axes: Axes, grid: str = "both") -> None:
    """Leaves two spines and a faint grid behind the data. `grid` is the axis that gets lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(True, axis=grid, color="#E6E6E6", linewidth=0.6)  # type: ignore[arg-type]


def agent_names(agents: Sequence[str]) -> list[str]:
    """Names agents along an axis. Empty for more than can be read."""
    if len(agents) > NAMED_AGENTS:
        return []
    return [agent.replace("_", " ") for agent in agents]


def panels(
    count: int,
    columns: int,
    height: float,
    **options: Any,
) -> tuple[Figure, list[Axes]]:
    """Makes a page-wide figure of `count` panels. Each is `height` inches high; a row has `columns` at most."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = MarkedFigure(PAGE, 0.5 + height * rows)
    grid = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


def heat(
    axes: Axes,
    values: npt.ArrayLike,
    down: Sequence[str] = (),
    across: Sequence[str] = (),
    **look: Any,
) -> QuadMesh:
    """Draws a matrix as coloured cells, the first row on top. Rows and columns have names; NaN is hatched."""
    axes.patch.set(**ABSENT)
    image = axes.pcolormesh(np.ma.masked_invalid(values), **{"edgecolors": "white", "linewidth": 0.6, **look})
    axes.set_xticks(np.arange(len(across)) + 0.5, across)
    axes.set_yticks(np.arange(len(down)) + 0.5, down)
    axes.set_ylim(len(np.asarray(values)), 0)
    axes.tick_params(length=0)
    return image


def legend_above(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """Puts the legend of one panel above all of them."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=columns)


def colour(i: int) -> str:
    """Chooses the i-th colour of the style's cycle, which begins again after its end."""
    return nth(rcParams["axes.prop_cycle"].by_key().get("color", COLOURS), i)


def line_look(i: int) -> dict[str, Any]:
    """Colour, marker and line of the i-th of many series. The first 32 differ."""
    turn = i // len(COLOURS)
    return {"color": colour(i), "marker": nth(MARKERS, i + turn), "linestyle": nth(LINES, turn)}


def nth(palette: Sequence[str], i: int) -> str:
    """Chooses a line's marker or dashes; the palette begins again after its end."""
    return palette[i % len(palette)]


def ink(colour_map: Colormap, share: float) -> str:
    """Black or white, the readable one on the colour at `share` of a map."""
    red, green, blue, _ = colour_map(share)
    # Luma of ITU-R BT.601: the eye takes green for brightest and blue for darkest.
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def offset(i: int, count: int, width: float) -> float:
    """Finds the i-th of `count` places side by side within `width`, from its middle."""
    return width * ((i + 0.5) / count - 0.5)


def new_label(axes: Axes, label: str) -> str:
    """Returns a label that the panel's legend lacks, and an empty text for one that it has."""
    labels = axes.get_legend_handles_labels()[1]
    return "" if label in labels else label


def bars(
    axes: Axes,
    i: int,
    xs: Sequence[float],
    heights: Sequence[float],
    width: float,
    label: str = "",
) -> None:
    """Draws the i-th method's bars in its colour and hatching. Those with a label are marked."""
    for x, height in zip(xs, heights, strict=True):
        if label and math.isfinite(height):
            mark(axes, f"{label}: {height:.4g}", x, height / 2, width=width, height=height)
    axes.bar(
        xs,
        heights,
        width,
        label=new_label(axes, label),
        color="white",
        edgecolor=colour(i),
        hatch=nth(HATCHES, i),
    )
