"""Data sets of the Hugging Face hub: how two benchmarks lie there, and how one is loaded by its name.

A data set is loaded with the library `datasets` (`pip install '.[hub]'`), whatever its form on the hub, and kept as one
Parquet file for each split. Where there is no network, its Parquet files are copied by other means and named in
`data.root`.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from actors.errors import UserError
from experiments.datasets.kind import DataSettings, FieldSettings
from experiments.datasets.question_fields import Naming
from experiments.datasets.rows import Values

ROTATION = 1_000_000  # from an index of MMBench to that of its next rotation
_NAME = re.compile(r"(?P<path>[\w.-]+(/[\w.-]+)?)(:(?P<configuration>[\w.-]+))?")


@dataclass(frozen=True)
class HubLayout:
    """Layout of a benchmark on the hub: its fields, its evaluated split, and how it names answers.

    adapted: changes a row before it is read.
    """

    fields: FieldSettings
    evaluated: str
    answers: Naming
    adapted: Callable[[Values], Values]


def unchanged(values: Values) -> Values:
    return values


def grouped_rotations(values: Values) -> Values:
    """Groups the rotations of a question of MMBench. Its absent values are `nan`."""
    adapted = {name: None if value == "nan" else value for name, value in values.items()}
    index = str(adapted.get("index"))
    if not index.isdecimal() or len(index) > 10:
        raise UserError(f"index: expected a number, found {index[:40]!r}: download the file again")
    return adapted | {"group": str(int(index) % ROTATION)}


LAYOUTS = {
    # derek-thomas/ScienceQA, lmms-lab/ScienceQA: image, question, choices, answer, hint, task, grade, subject, topic,
    # category, skill, lecture, solution. Lecture and solution lean towards the answer and are not read.
    "scienceqa": HubLayout(
        FieldSettings(answers="answer", pictures="image", tags="subject,topic,grade", cluster="skill"),
        evaluated="test",
        answers="place",
        adapted=unchanged,
    ),
    # lmms-lab/MMBench, lmms-lab/MMBench_EN: index, question, hint, answer, A to D, category, image, source,
    # L2-category (l2-category), comment, split. Each rotation of a question is a row.
    "mmbench": HubLayout(
        FieldSettings(id="index", answers="answer", pictures="image", tags="category", group="group"),
        evaluated="dev",
        answers="letter",
        adapted=grouped_rotations,
    ),
}


def layout_of(settings: DataSettings) -> HubLayout | None:
    """Returns the layout that is named, or that of the data set's name on the hub. None for the user's own fields."""
    if settings.layout != "auto":
        return LAYOUTS.get(settings.layout)
    name = (settings.hub or "").lower()
    return next((layout for key, layout in LAYOUTS.items() if key in name), None)


def downloaded(name: str, cache: Path) -> Path:
    """Loads a data set of the hub, once. Returns the folder of its Parquet files, one for each split.

    Raises UserError where it cannot be loaded, with what to do without a network.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise UserError(f"data.hub={name}: expected <owner>/<name>, or <owner>/<name>:<configuration>")
    folder = cache / "hub" / re.sub(r"[/:]", "--", name)
    if folder.is_dir():
        return folder
    try:
        import datasets
        import huggingface_hub
    except ImportError as error:
        raise UserError(f"data.hub={name} needs a library that is missing: pip install '.[hub]'") from error

    # Its line for each try to reach the hub; the last error is printed here.
    huggingface_hub.logging.set_verbosity_error()
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(dir=folder.parent))
    try:
        splits = datasets.load_dataset(match["path"], match["configuration"])
        for split, rows in splits.items():
            rows.to_parquet(unfinished / f"{split}.parquet")
        unfinished.rename(folder)
    # Of the network, the hub, or the data set's own files: any exception.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"data.hub={name} cannot be loaded ({type(error).__name__}: {reason}): without a network, copy its Parquet "
            "files here and give data.root=<folder>, and data.layout= where it has one"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
