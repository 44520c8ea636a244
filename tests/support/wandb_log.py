"""Reads the transaction log of an offline W&B run, in the format of LevelDB's logs."""

import json
from collections.abc import Iterator
from pathlib import Path
from struct import unpack
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

FILE_HEADER_BYTES = 7
BLOCK_BYTES = 2**15
CHUNK_HEADER_BYTES = 7
LAST_CHUNKS = (1, 4)  # a record in one chunk, and the last chunk of a longer one


def log_records(path: Path) -> Iterator[Record]:
    """Yields the records of a file `run-*.wandb`."""
    content = path.read_bytes()
    assert content.startswith(b":W&B")
    place = FILE_HEADER_BYTES
    chunks = b""
    while place + CHUNK_HEADER_BYTES <= len(content):
        left_in_block = BLOCK_BYTES - place % BLOCK_BYTES
        if left_in_block < CHUNK_HEADER_BYTES:
            place += left_in_block
            continue
        length, kind = unpack("<HB", content[place + 4 : place + CHUNK_HEADER_BYTES])
        place += CHUNK_HEADER_BYTES
        chunks += content[place : place + length]
        place += length
        if kind in LAST_CHUNKS:
            yield Record.FromString(chunks)
            chunks = b""


class OfflineRun:
    """Content of the one offline W&B run in a run folder.

    summary: the last values by key. artifacts: files of logged artifacts by name. tables: columns by name, each a list.
    figures: paths of the logged pictures by key.
    """

    def __init__(self, run_folder: Path) -> None:
        [self.path] = (run_folder / "wandb").glob("offline-run-*")
        [log] = self.path.glob("run-*.wandb")
        self.records = list(log_records(log))
        self.id = log.stem.removeprefix("run-")
        self.summary: dict[str, Any] = {}
        self.artifacts: dict[str, list[str]] = {}
        for record in self.records:
            for item in record.summary.update:
                self.summary[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
            if record.artifact.name:
                self.artifacts[record.artifact.name] = [entry.path for entry in record.artifact.manifest.contents]

    @property
    def tables(self) -> dict[str, dict[str, list[Any]]]:
        tables = {}
        for path in self.path.glob("files/media/table/*.table.json"):
            content = json.loads(path.read_text())
            columns = zip(*content["data"], strict=True)
            tables[path.name.partition("_")[0]] = {
                name: list(column) for name, column in zip(content["columns"], columns, strict=True)
            }
        return tables

    @property
    def figures(self) -> dict[str, Path]:
        paths = {}
        for key, value in self.summary.items():
            if key.startswith("figures/") and key.endswith(".path"):
                paths[key.removesuffix(".path")] = self.path / "files" / value
        return paths


def assert_has_all_of(tracked: OfflineRun, folder: Path) -> None:
    """Asserts that a W&B run has the tables, figures, graphs and summary values of a run folder."""
    metrics = json.loads((folder / "metrics.json").read_text())
    methods = tracked.tables["methods"]
    assert methods["method"] == list(metrics["methods"])
    assert methods["utility"] == [row["utility"] for row in metrics["methods"].values()]
    assert set(methods) == {"method", *(name for row in metrics["methods"].values() for name in row)}

    scores = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
    discussions = tracked.tables["discussions"]
    recorded = {(scored["method"], scored["question"], scored["answer"]) for scored in scores}
    assert set(zip(discussions["method"], discussions["question"], discussions["answer"], strict=True)) == recorded

    assert {f"figures/{path.stem}" for path in (folder / "figures").glob("*.png")} == set(tracked.figures)
    assert all(path.stat().st_size for path in tracked.figures.values())
    for graph in (folder / "learned").glob("*"):
        assert tracked.artifacts[f"{tracked.id[:80]}-{graph.name}"] == ["topology.graphml", "topology.json"]

    groups = {**metrics["methods"], **metrics["paired"]}
    for method, row in metrics.get("judged", {"methods": {}})["methods"].items():
        groups[f"judged/{method}"] = row
    for group, values in groups.items():
        for name, value in values.items():
            assert tracked.summary[f"{group}/{name}"] == value
    assert tracked.summary["usage/calls"] > 0
