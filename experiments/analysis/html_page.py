"""An HTML page without network and other files, and the parts that reports of runs and sweeps share.

Style and scripts are files in `assets/`, embedded unchanged. The page's content security policy lets a browser run
these scripts and nothing else, and load nothing from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from experiments.analysis.result_table import ResultTable

ASSETS = files("experiments.analysis") / "assets"
# Formats that an <img> shows; figures are also saved as PDF, which it does not.
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}


def asset(name: str) -> str:
    """The text of a file in `assets/`."""
    return (ASSETS / name).read_text(encoding="utf-8")


def write(path: Path, title: str, sections: Iterable[tuple[str, Iterable[str]]], scripts: Sequence[str]) -> Path:
    """Writes a page of sections (heading, lines of HTML) atomically, without empty sections.

    scripts: names of files in `assets/`, run in this order once the page is loaded.
    """
    # Sections may be generators, so they are joined once here, before links and sections both need them.
    filled = [(heading, body) for heading, lines in sections if (body := "\n".join(lines))]
    anchors = {heading: heading.lower().replace(" ", "-") for heading, _ in filled}
    links = (f'<a href="#{anchors[heading]}">{escape(heading)}</a>' for heading in anchors)
    style, script = asset("page.css"), "\n".join(asset(name) for name in scripts)
    page = Template(asset("page.html")).substitute(
        title=escape(title),
        style=style,
        # The page's policy allows exactly these two inline blocks: a script that got in with a message does not run.
        style_digest=_digest(style),
        script=script,
        script_digest=_digest(script),
        links="\n".join(links),
        sections="\n".join(
            f'<section id="{(anchor := anchors[heading])}" aria-labelledby="{anchor}-h">\n'
            f'<h2 id="{anchor}-h">{escape(heading)}</h2>\n{body}\n</section>'
            for heading, body in filled
        ),
    )
    # Renamed when it is whole: a report may be written again while someone opens it.
    partial = path.with_suffix(".partial")
    partial.write_text(page, encoding="utf-8")
    return partial.replace(path)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def paragraphs(texts: Iterable[str], style: str = "") -> Iterator[str]:
    """Yields each text as a paragraph of plain text, with `style` as its CSS class."""
    opening = f'<p class="{style}">' if style else "<p>"
    return (f"{opening}{escape(text)}</p>" for text in texts)


def facts(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yields names and their values as a definition list."""
    yield '<dl class="facts">'
    yield from (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    yield "</dl>"


class Html(str):
    """Text of a cell that is HTML already and is not escaped again."""


def table(caption: str, shown: ResultTable, sortable: bool = False) -> Iterator[str]:
    """Yields a table as HTML; the first column names the row.

    A sortable table is sorted in the browser, numbers as numbers.
    """
    # Headers have line breaks for the terminal's narrow columns; a browser breaks lines as it needs.
    headers = (escape(" ".join(header.split("\n"))) for header in shown.columns)
    columns = "".join(f'<th scope="col">{header}</th>' for header in headers)
    style = ' class="sortable"' if sortable else ""
    # A table that is too wide scrolls in a frame, which a keyboard must reach.
    yield f'<div class="frame" tabindex="0" role="region" aria-label="{escape(caption)}">'
    yield f"<table{style}><caption>{escape(caption)}</caption><thead><tr>{columns}</tr></thead><tbody>"
    for row in shown.rows:
        name, *cells = (cell if isinstance(cell, Html) else escape(cell) for cell in row)
        yield f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    yield "</tbody></table></div>"


def figures(drawn: Iterable[Path]) -> Iterator[str]:
    """Yields the pictures among `drawn` as HTML, as SVG where there is one."""
    for path in drawn:
        # An SVG stays sharp at any zoom. It is embedded as an image, where a browser runs no script of it.
        if path.suffix == ".png" and path.with_suffix(".svg").exists():
            path = path.with_suffix(".svg")
        if path.suffix in PICTURES:
            caption = escape(path.stem.replace("-", " "))
            data = base64.b64encode(path.read_bytes()).decode()
            image = f'<img alt="{caption}" src="data:{PICTURES[path.suffix]};base64,{data}">'
            yield f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
