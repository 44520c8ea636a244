"""Reads first blueprint graphs from a file, in place of those that BDoG's agents would draw."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from actors.errors import UserError
from topologies.systems.bdog.blueprint import Blueprint
from topologies.systems.bdog.scene_graph import read_scene_graph

log = logging.getLogger(__name__)


def read_blueprints(path: str | None) -> dict[str, Blueprint]:
    """Graphs by question id, of a JSON object that has for every id the text that a model wrote, or `{"kg": text}`.

    Texts that hold no whole graph are left out and counted in the log: for these questions the graph is drawn.

    Raises UserError for a file that is not there or is no such object.
    """
    if path is None:
        return {}
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
    # Broken JSON and broken UTF-8 are both ValueErrors.
    except (OSError, ValueError) as error:
        raise UserError(f"systems.blueprints={path}: cannot be read ({error}); name a JSON file of graphs") from None
    if not isinstance(entries, dict):
        raise UserError(f"systems.blueprints={path}: expected a JSON object of graphs by question id")
    graphs = {}
    for id, entry in entries.items():
        # Either form of entry; anything else counts as a graph that cannot be read.
        text = entry.get("kg") if isinstance(entry, dict) else entry
        graph = read_scene_graph(text) if isinstance(text, str) else None
        if graph is not None:
            graphs[id] = graph
    if len(graphs) < len(entries):
        log.warning(
            "%s: %d of %d graphs cannot be read and are drawn anew", path, len(entries) - len(graphs), len(entries)
        )
    return graphs
