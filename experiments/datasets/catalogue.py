"""Data sets that a configuration can name."""

from actors.errors import UserError
from actors.lookup import find
from experiments.datasets.crisismmd import CrisisMmd
from experiments.datasets.kind import DatasetKind
from experiments.datasets.mh import Mh
from experiments.datasets.mmbench import MmBench
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.question_file import QuestionFile
from experiments.datasets.sample.release import SAMPLE
from experiments.datasets.scienceqa import ScienceQa
from experiments.datasets.tatqa import TatQa
from experiments.datasets.vidoseek import ViDoSeek
from experiments.datasets.webqa import WebQa

LOADERS = (Mmqa, ScienceQa, TatQa, Mh, ViDoSeek, WebQa, CrisisMmd, MmBench, QuestionFile)
DATASETS = (SAMPLE, *(DatasetKind.of(loader, loader.name) for loader in LOADERS))


def dataset_kind(name: str) -> DatasetKind:
    """Finds a data set: one of `DATASETS`, an installed package's, or `package.module:load`, a kind or its `make`.

    Raises UserError, with the nearest name, when there is none.
    """
    kind = find(name, {kind.name: kind for kind in DATASETS}, "datasets", "data")
    if isinstance(kind, DatasetKind):
        return kind
    if not callable(kind):
        raise UserError(f"data={name} is neither a DatasetKind nor a function of a DataRequest")
    return DatasetKind.of(kind, name)
