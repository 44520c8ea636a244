"""The pages of the viewer, made of the same sections as reports."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from experiments.analysis.embedded import Embedded
from experiments.analysis.page import SCRIPTS, Section, page
from experiments.analysis.result_table import ResultTable
from experiments.view.compared import others
from experiments.view.folders import Root


def list_page(root: Root) -> str:
    """Lists the runs of a folder."""
    rows = [(Markup('<a href="run/{}/">{}</a>').format(quote(name), name),) for name in root.names()]
    sections = [Section("Runs", tables=[ResultTable(("run",), rows, title=f"{len(rows):,} runs")])]
    return page(root.path.name, sections, ("tables.js",), served=True)


def run_page(root: Root, name: str) -> str:
    """Shows a run: its discussions, and what is known of it so far."""
    run = root.run(name)
    sections = [
        Section("Learning", learned="served" if run.all_learned() else ""),
        Section("Discussions", discussions=Embedded()),
        Section("Compare", tables=[table] if (table := others(root, name)).rows else []),
        Section("Configuration", text=run.config.read_text(encoding="utf-8", errors="replace")),
    ]
    return page(Path(name).name, sections, SCRIPTS, served=True, listed="")
