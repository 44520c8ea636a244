"""One HTML page that needs no network and no other file: the parts that reports of runs and of sweeps share.

Style and scripts are files in `assets/`, written into the page as they are. The page's own policy lets a browser run
those scripts and nothing else, and load nothing from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from experiments.analysis.table import Table

ASSETS = files("experiments.analysis") / "assets"
# Formats that an <img> shows; figures are also saved as PDF, which it does not.
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}


def asset(name: str) -> str:
    """The text of a file in `assets/`."""
    return (ASSETS / name).read_text(encoding="utf-8")


def write(path: Path, title: str, sections: Iterable[tuple[str, Iterable[str]]], scripts: Sequence[str]) -> Path:
    """Write a page of `sections` (heading, lines of HTML); empty ones are left out. A reader never sees half a page.

    Args:
        title: plain text, as the headings are.
        scripts: names of files in `assets/`, run in this order once the page is there.
    """
    # Sections may be generators, so they are joined once here, before links and sections both need them.
    filled = [(heading, body) for heading, lines in sections if (body := "\n".join(lines))]
    links = (f'<a href="#{_anchor(heading)}">{escape(heading)}</a>' for heading, _ in filled)
    style, script = asset("page.css"), "\n".join(asset(name) for name in scripts)
    page = Template(asset("page.html")).substitute(
        title=escape(title),
        style=style,
        # The page's policy allows exactly these two inline blocks: a script that got in with a message does not run.
        style_digest=_digest(style),
        script=script,
        script_digest=_digest(script),
        links="\n".join(links),
        sections="\n".join(_section(heading, body) for heading, body in filled),
    )
    # Written beside and renamed: a report may be written again while someone opens it.
    partial = path.with_suffix(".partial")
    partial.write_text(page, encoding="utf-8")
    return partial.replace(path)


def _section(heading: str, body: str) -> str:
    anchor = _anchor(heading)
    title = f'<h2 id="{anchor}-h">{escape(heading)}</h2>'
    return f'<section id="{anchor}" aria-labelledby="{anchor}-h">\n{title}\n{body}\n</section>'


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def paragraphs(texts: Iterable[str], style: str = "") -> Iterator[str]:
    """Each text as a paragraph of plain text, with `style` as its CSS class."""
    opening = f'<p class="{style}">' if style else "<p>"
    return (f"{opening}{escape(text)}</p>" for text in texts)


def facts(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names and their values, as a definition list."""
    yield '<dl class="facts">'
    yield from (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    yield "</dl>"


class Html(str):
    """A cell's text that is HTML already and is not escaped again."""


def table(caption: str, shown: Table, sortable: bool = False) -> Iterator[str]:
    """A table as HTML; the first column names the row.

    A sortable table is sorted in the browser, numbers as numbers.
    """
    # Headers have line breaks for the terminal's narrow columns; a browser breaks lines as it needs.
    headers = (escape(" ".join(header.split("\n"))) for header in shown.columns)
    columns = "".join(f'<th scope="col">{header}</th>' for header in headers)
    style = ' class="sortable"' if sortable else ""
    # A table that is too wide scrolls in its own frame, which a keyboard must reach.
    yield f'<div class="frame" tabindex="0" role="region" aria-label="{escape(caption)}">'
    yield f"<table{style}><caption>{escape(caption)}</caption><thead><tr>{columns}</tr></thead><tbody>"
    for name, *cells in (map(_cell, row) for row in shown.rows):
        yield f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    yield "</tbody></table></div>"


def _cell(text: str) -> str:
    return text if isinstance(text, Html) else escape(text)


def figures(drawn: Iterable[Path]) -> Iterator[str]:
    """The pictures among `drawn` as HTML, each as SVG where a file of that name lies beside it."""
    for path in drawn:
        # An SVG stays sharp at any zoom. It is embedded as an image, where a browser runs no script of it.
        if path.suffix == ".png" and path.with_suffix(".svg").exists():
            path = path.with_suffix(".svg")
        if path.suffix in PICTURES:
            caption = escape(path.stem.replace("-", " "))
            data = base64.b64encode(path.read_bytes()).decode()
            image = f'<img alt="{caption}" src="data:{PICTURES[path.suffix]};base64,{data}">'
            yield f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
