"""The data sets that a configuration can name."""

from actors.errors import UserError
from actors.lookup import find
from experiments.datasets.crisismmd import CRISISMMD
from experiments.datasets.kind import DatasetKind
from experiments.datasets.mh import MH
from experiments.datasets.mmbench import MMBENCH
from experiments.datasets.mmqa import MMQA
from experiments.datasets.sample.release import SAMPLE
from experiments.datasets.scienceqa import SCIENCEQA
from experiments.datasets.tatqa import TATQA
from experiments.datasets.vidoseek import VIDOSEEK
from experiments.datasets.webqa import WEBQA

DATASETS = (SAMPLE, MMQA, SCIENCEQA, TATQA, MH, VIDOSEEK, WEBQA, CRISISMMD, MMBENCH)


def dataset_kind(name: str) -> DatasetKind:
    """Finds a data set: one of `DATASETS`, an installed package's, or `package.module:load`, a kind or its `make`.

    Raises UserError, with the nearest name, when there is none.
    """
    kind = find(name, {kind.name: kind for kind in DATASETS}, "datasets", "data")
    if isinstance(kind, DatasetKind):
        return kind
    if not callable(kind):
        raise UserError(f"data={name} is neither a DatasetKind nor a function of a DataRequest")
    return DatasetKind(name, "the files that it reads", kind)
