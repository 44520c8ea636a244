"""A run in one row, and the row that a finished run's folder keeps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import OVERVIEW, SCORES, RunFolder
from experiments.records.records import Count, Record
from experiments.records.run_files import write_atomically
from experiments.records.start import STARTS
from experiments.records.trials import RESULTS
from experiments.records.usage import USAGE
from experiments.view.folders import FileState
from experiments.view.state import FINISHED

COUNTED = {"config.yaml", STARTS, USAGE, SCORES, RESULTS, LEARNING}


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in a list. One that cannot be read has a `name` and a `problem` alone; one not read yet is `UNREAD`.

    kind: a run, a sweep, or a study by its job. state: a stopped run was interrupted or killed.
    completed: evaluated answers, or a sweep's finished trials, of `expected` (0: not known before the end).
    steps: training steps of all learners. price: of the tokens so far, where the run knows prices.
    stop, resume: what to type, where it can be.
    """

    name: str
    problem: str = ""
    kind: str = ""
    experiment: str = ""
    state: str = ""
    started: str = ""
    completed: int = 0
    expected: int = 0
    steps: int = 0
    tokens: int = 0
    price: float | None = None
    stop: str = ""
    resume: str = ""


@dataclass(frozen=True, slots=True)
class SavedOverview(Record):
    """The overview of a finished run as its folder keeps it. It counts while its records have these sizes in bytes.

    It saves the list reading the run's configuration, which takes thirty times as long.
    """

    sizes: Mapping[str, Count]
    kind: str
    experiment: str
    started: str
    completed: Count
    expected: Count
    steps: Count
    tokens: Count
    price: float | None
    REMEDY: ClassVar[str] = "delete the file"

    @classmethod
    def find(cls, run: RunFolder, files: Iterable[FileState]) -> Self | None:
        """Returns a run's own, None where it has none or of other records. Raises UserError for a damaged one."""
        saved = next(cls.read(run.path / OVERVIEW), None)
        return saved if saved and saved.sizes == sizes_of(files) else None

    @classmethod
    def write(cls, run: RunFolder, overview: Overview, files: Iterable[FileState]) -> None:
        """Keeps a finished run's overview in its folder. Raises OSError without room."""
        saved = cls(sizes_of(files), *(getattr(overview, name) for name in SHARED))
        write_atomically(run.path / OVERVIEW, f"{saved.encode()}\n".encode())

    def of(self, name: str) -> Overview:
        values: dict[str, Any] = {field: getattr(self, field) for field in SHARED}
        return Overview(name, state=FINISHED, **values)


SHARED = SavedOverview.__slots__[1:]  # fields of both


def sizes_of(files: Iterable[FileState]) -> dict[str, int]:
    """Returns the sizes of the records that an overview counts, and of results, by the end of their paths."""
    sizes: dict[str, int] = {}
    for path, size, _ in files:
        folder, name = path.rsplit("/", 2)[1:]
        if name in COUNTED or (name.endswith(".json") and name != OVERVIEW):
            sizes[f"{folder}/{name}" if name == LEARNING else name] = size
    return sizes
