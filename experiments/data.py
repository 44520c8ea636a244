"""The data set that a configuration asks for."""

from __future__ import annotations

from pathlib import Path

from experiments.config import Config
from experiments.datasets.item import Dataset
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.datasets.scienceqa import ScienceQa
from experiments.datasets.tatqa import TatQa
from experiments.errors import UserError
from experiments.methods import CALIBRATED


def make_dataset(config: Config, cache: Path) -> Dataset:
    """Raises UserError when a data set that must be on disk has no root; its loader names what is missing there."""
    data, seed = config.data, config.seed
    train = 2 * config.pruning.steps * config.training.questions_per_step
    if set(CALIBRATED) & set(config.methods):
        train = max(train, config.defence.calibration)
    if data.kind == "sample":
        dev = data.limit or 200
        folder = cache / f"sample-{seed}-{train}-{dev}"
        if not folder.is_dir():
            write_sample(folder, seed=seed, train=train, dev=dev)
        return Mmqa(folder, train=train, limit=data.limit, seed=seed)
    if data.root is None:
        raise UserError(f"data={data.kind} needs data.root=<folder of the release>; README says where to get it")
    root = Path(data.root)
    if not root.is_dir():
        raise UserError(f"data.root={root} is not a folder: expected the release of {data.kind}")
    match data.kind:
        case "mmqa":
            return Mmqa(root, selection=data.selection, train=train, limit=data.limit, seed=seed)
        case "scienceqa":
            return ScienceQa(root, split=data.split, train=train, limit=data.limit, seed=seed)
        case _:
            return TatQa(root, train=train, limit=data.limit, seed=seed)
