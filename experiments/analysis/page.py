"""Pages of reports and of the viewer: sections, filled into one template.

A page is one file. Its template, style and scripts are in `assets/`. The template escapes every text, and the page's
content security policy lets a browser run these scripts and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from actors.errors import UserError
from experiments.analysis.embedded import Embedded
from experiments.analysis.marks import Mark, read_marks
from experiments.analysis.result_table import ResultTable
from experiments.records.run_files import read_whole

REPORT = "report.html"
MOST_PICTURES = 100  # of a page
LABELS = {"experiment": "Experiment", "model": "Model", "dataset": "Data set"}
# In this order: later scripts use the functions of earlier ones.
SCRIPTS = (
    "tables.js",
    "data.js",
    "conversation.js",
    "wiring.js",
    "sources.js",
    "methods.js",
    "turn.js",
    "edit.js",
    "discussion.js",
    "filters.js",
    "learned.js",
    "browse.js",
)


@dataclass(frozen=True, slots=True)
class FigurePicture:
    """Figure in a page. `data` is its address without the scheme; `marks` explain parts of it."""

    caption: str
    data: str
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a report, shown in the order of its fields."""

    heading: str
    warnings: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[ResultTable] = ()
    pictures: Sequence[FigurePicture] = ()
    text: str = ""
    discussions: Embedded | None = None
    learned: str = ""  # packed graphs over the steps of their training

    @property
    def is_empty(self) -> bool:
        """True if there is nothing but the heading."""
        parts = (self.warnings, self.facts, self.tables, self.pictures, self.text, self.discussions, self.learned)
        return not any(parts)


def figures_section(paths: Sequence[Path]) -> Section:
    """Makes the section of figures, by the paths of their PNGs. An SVG takes a PNG's place.

    A warning names the figures that are not shown: those behind the first `MOST_PICTURES`, and unreadable ones.
    """
    shown: list[FigurePicture] = []
    warnings: list[str] = []
    for path in paths[:MOST_PICTURES]:
        marks_path = path.with_suffix(".json")
        kind = "png"
        # An SVG stays sharp at any zoom. It is embedded as an image, where a browser runs no script of it.
        if path.with_suffix(".svg").exists():
            path = path.with_suffix(".svg")
            kind = "svg+xml"
        try:
            content = base64.b64encode(read_whole(path)).decode()
            marks = read_marks(marks_path) if marks_path.exists() else []
        except UserError as error:
            warnings.append(str(error))
        else:
            shown.append(FigurePicture(path.stem.replace("-", " "), f"image/{kind};base64,{content}", marks))
    if len(paths) > MOST_PICTURES:
        warnings.append(f"These are the first {MOST_PICTURES} of {len(paths):,} figures.")
    return Section("Figures", warnings, pictures=shown)


def page(
    title: str,
    sections: Iterable[Section],
    scripts: Sequence[str],
    *,
    served: bool = False,
    **values: str,
) -> str:
    """Fills the template of all pages, without empty sections.

    scripts: files of `assets/` that run once the page is loaded.
    served: the page may ask the server that it comes from.
    values: further values of the template.
    """
    loader = PackageLoader("experiments.analysis", "assets")
    pages = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["digest"] = _digest
    style, *code = (loader.get_source(pages, name)[0] for name in ("page.css", *scripts))
    return pages.get_template("page.html").render(
        title=title,
        sections=[section for section in sections if not section.is_empty],
        style=style,
        script="\n".join(code),
        served=served,
        **values,
    )


def _digest(text: str) -> str:
    """Names an inline block in the page's policy: a script that got in with a message does not run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
