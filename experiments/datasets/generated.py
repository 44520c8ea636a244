"""The generated sample: MultimodalQA's layout and loader, with questions made from the seed."""

from __future__ import annotations

from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample

EVALUATED = 200  # questions, where data.limit leaves the number open


def _make(request: DataRequest) -> Mmqa:
    seed, train, limit = request.seed, request.train, request.settings.limit
    evaluated = limit or EVALUATED
    folder = request.cache / f"sample-{seed}-{train}-{evaluated}"
    if not folder.is_dir():
        write_sample(folder, seed=seed, train=train, dev=evaluated)
    return Mmqa(folder, train=train, limit=limit, seed=seed)


SAMPLE = DatasetKind("sample", "nothing to download: it is generated", _make)
