"""Croissant metadata (JSON-LD) of the generated sample, next to its files.

Each file is a record set, whose fields are its texts and lists of texts. Lists of lists, such as the rows of tables,
are in the file alone. The pictures are one more record set.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlcroissant as mlc

from experiments.datasets.sample.release import PICTURES, write_sample
from experiments.records.start import project_version

JSON_LINES = "application/jsonlines"
Keys = tuple[str, ...]


def write(seed: int, target: Path) -> str:
    """Writes the sample of a seed and its metadata into a new folder. Returns what was written."""
    write_sample(target, seed)
    described = metadata(target)
    (target / "croissant.json").write_text(json.dumps(described, indent=2) + "\n")
    return f"{len(described['recordSet'])} record sets"


def metadata(folder: Path) -> dict[str, Any]:
    """Describes the sample in a folder as JSON-LD."""
    files: list[Any] = [mlc.FileSet(id="pictures", includes=[f"{PICTURES}/*.png"], encoding_formats=["image/png"])]
    kinds = {"filename": mlc.DataType.TEXT, "content": mlc.DataType.IMAGE_OBJECT}
    of_file = {name: mlc.Source(file_set="pictures", extract=mlc.Extract(file_property=name)) for name in kinds}
    fields = [mlc.Field(id=f"images/{name}", data_types=[kinds[name]], source=of_file[name]) for name in kinds]
    sets = [mlc.RecordSet(id="images", fields=fields)]
    for path in sorted(folder.glob("*.jsonl")):
        name, digest = path.name, hashlib.sha256(path.read_bytes()).hexdigest()
        files.append(mlc.FileObject(id=name, content_url=name, sha256=digest, encoding_formats=[JSON_LINES]))
        records = map(json.loads, path.read_text().splitlines())
        found = dict.fromkeys(leaf for record in records for leaf in _leaves(record))
        fields = []
        for keys, many in found:
            transforms = [mlc.Transform(json_path=key) for key in keys[1:]]
            source = mlc.Source(file_object=name, extract=mlc.Extract(column=keys[0]), transforms=transforms)
            id, repeated = "/".join((path.stem, *keys)), many or None
            fields.append(mlc.Field(id=id, data_types=[mlc.DataType.TEXT], repeated=repeated, source=source))
        sets.append(mlc.RecordSet(id=path.stem, fields=fields))
    described = mlc.Metadata(
        name=f"agora-mm {folder.name}",
        description="Generated questions over passages, tables and drawn pictures of an invented world.",
        license=["https://www.apache.org/licenses/LICENSE-2.0"],
        version=project_version(),
        distribution=files,
        record_sets=sets,
    )
    return dict(described.to_json())


def _leaves(value: Any, keys: Keys = (), many: bool = False) -> Iterator[tuple[Keys, bool]]:
    """Yields the keys of each text in a record. The second value is true where they lead to a list of texts."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, (*keys, key), many)
    elif isinstance(value, str):
        yield keys, many
    elif isinstance(value, list) and value and not many:
        yield from _leaves(value[0], keys, many=True)
