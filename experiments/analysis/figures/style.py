"""Style and saving of all figures: for print, in grey and with any colour vision, and the same bytes every time.

Figures are objects of their own, never pyplot's, so that drawing has no global state. They are as wide as a column or
a page of a two-column paper, no text is smaller than 7 points at that size, and colour is never the only sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from actors.errors import UserError
from actors.spawned import spawned

# Figures are drawn at their printed size, so that text is not scaled.
COLUMN, PAGE = 3.3, 6.9  # widths in inches
SMALL, NORMAL = 7, 8  # points
DPI = 220
# Okabe and Ito's, which readers with any colour vision tell apart; the yellow comes last, for it is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")
GREY = "#808080"
FAINT = 0.35  # opacity of single trials behind their mean
# Applied around drawing and saving alike: some settings are read only when a file is written.
STYLE: dict[Any, Any] = {
    "font.size": NORMAL,
    "axes.titlesize": NORMAL,
    "axes.labelsize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "figure.labelsize": NORMAL,
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # whole outlines: journals refuse the default, Type 3
    "svg.fonttype": "path",  # looks the same where the font is missing
    "svg.hashsalt": "agora",  # ids in an SVG are random without it
}


def check() -> None:
    """Draws one letter in every format. Raises UserError where that cannot be: a run is to learn it at its start, not
    when it draws its figures at its end."""
    figure = Figure((1, 1))
    figure.text(0.5, 0.5, "a")
    try:
        with rc_context(STYLE):
            for name in ("pdf", "svg", "png"):
                figure.savefig(BytesIO(), format=name)
    # A font, a library or a folder that matplotlib needs: each fails in its own way.
    except Exception as error:
        raise UserError(
            f"figures cannot be drawn ({type(error).__name__}: {' '.join(str(error).split())[:200]}): install "
            "matplotlib anew, with its fonts, and set MPLCONFIGDIR to a folder that can be written"
        ) from error


styled = rc_context(STYLE)  # decorates functions that draw


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Saves `name`.pdf, .svg and .png without dates, so that equal data give equal files. Returns the PNG's path."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        # `savefig` would lay it out for each format, and draw it twice for that.
        if (layout := figure.get_layout_engine()) is not None:
            layout.execute(figure)
            figure.set_layout_engine("none")
        canvas: Any = FigureCanvasPdf(figure)
        canvas.print_pdf(folder / f"{name}.pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
        canvas = FigureCanvasSVG(figure)
        canvas.print_svg(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
        figure.dpi = DPI
        canvas = FigureCanvasAgg(figure)
        canvas.print_png(path := folder / f"{name}.png", metadata={"Software": None})
    return path


def save_all(figures: Mapping[str, Figure], folder: Path, at_once: int = 1) -> list[Path]:
    """Saves each by its name, `at_once` of them at the same time in processes of their own. Returns the PNGs' paths."""
    if at_once == 1 or len(figures) == 1:
        return [save(figure, folder, name) for name, figure in figures.items()]
    with spawned([partial(save, figure, folder, name) for name, figure in figures.items()], at_once) as saved:
        return [each.result() for each in saved]


def probabilities() -> Colormap:
    """The colour map from light (0) to dark (1), perceptually uniform, so that its order survives a grey printer."""
    # Masked cells are transparent, so that the hatched background shows through.
    return colormaps["viridis_r"].with_extremes(bad=(0, 0, 0, 0))


def plain(axes: Axes, grid: str = "both") -> None:
    """Leaves two spines and a faint grid; `grid` is the axis that gets lines."""
    axes.spines[["top", "right"]].set_visible(False)
    # The grid behind the data.
    axes.set_axisbelow(True)
    axes.grid(True, axis=grid, color="#E6E6E6", linewidth=0.6)  # type: ignore[arg-type]


def nth(palette: Sequence[str], i: int) -> str:
    """A line's colour, marker or dashes; the palette begins again after its end."""
    return palette[i % len(palette)]


def ink(colour_map: Colormap, share: float) -> str:
    """Black or white, whichever can be read on the colour at `share` of a map."""
    red, green, blue, _ = colour_map(share)
    # Luma of ITU-R BT.601: the eye takes green for brightest and blue for darkest.
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
