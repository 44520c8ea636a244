"""The data set that a configuration asks for."""

from __future__ import annotations

import logging
from pathlib import Path

from actors.errors import UserError
from experiments.datasets.crisismmd import CrisisMmd
from experiments.datasets.item import Dataset
from experiments.datasets.mh import Mh
from experiments.datasets.mmbench import MmBench
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.datasets.scienceqa import ScienceQa
from experiments.datasets.settings import DataSettings
from experiments.datasets.tatqa import TatQa
from experiments.datasets.vidoseek import ViDoSeek
from experiments.datasets.webqa import WebQa
from retrieval import ocr

log = logging.getLogger(__name__)


def make_dataset(data: DataSettings, cache: Path, *, train: int, held_out: int, seed: int, scope: str) -> Dataset:
    """Raises UserError when a data set that must be on disk has no root; its loader names what is missing there."""
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
        case "mh":
            return Mh(root, train=train, limit=data.limit, seed=seed)
        case "scienceqa":
            return ScienceQa(root, split=data.split, train=train, limit=data.limit, seed=seed)
        case "vidoseek":
            if scope == "question":
                log.warning(
                    "vidoseek asks over all documents; retrieval.scope=question searches a question's own alone"
                )
            read = ocr.Ocr(cache / "ocr") if ocr.available() else None
            return ViDoSeek(root, train=held_out, limit=data.limit, seed=seed, read=read)
        case "webqa":
            whole = scope != "question"
            pictures = cache / "webqa"
            return WebQa(root, pictures, train=train, limit=data.limit, seed=seed, all_pictures=whole)
        case "crisismmd":
            return CrisisMmd(root, task=data.task, train=train, limit=data.limit, seed=seed)
        case "mmbench":
            return MmBench(root, cache / "mmbench", train=held_out, limit=data.limit, seed=seed)
        case _:
            return TatQa(root, train=train, limit=data.limit, seed=seed)
