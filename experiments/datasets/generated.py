"""The generated sample: MultimodalQA's layout and loader, with questions made from the seed."""

from __future__ import annotations

from actors.errors import UserError
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample

EVALUATED = 200  # questions, where data.limit leaves the number open
MOST = 4_000  # questions; there are no names for many more, and these take a minute to make


def _make(request: DataRequest) -> Mmqa:
    seed, train, limit = request.seed, request.train, request.settings.limit
    evaluated = limit or EVALUATED
    if train + evaluated > MOST:
        raise UserError(
            f"data=sample: {train:,} questions to train on and {evaluated:,} to evaluate are more than the {MOST:,} "
            "that it has: lower data.limit, pruning.steps, training.questions_per_step or defence.calibration"
        )
    # The name holds all that the questions depend on, so runs with other settings never share a folder.
    folder = request.cache / f"sample-{seed}-{train}-{evaluated}"
    if not folder.is_dir():  # a folder that is there is complete: it appears whole or not at all
        write_sample(folder, seed=seed, train=train, dev=evaluated)
    # `limit` again, not `evaluated`: without a limit the folder holds just the default number.
    return Mmqa(folder, train=train, limit=limit, seed=seed)


SAMPLE = DatasetKind("sample", "nothing to download: it is generated", _make, reads=())
