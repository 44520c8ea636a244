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
