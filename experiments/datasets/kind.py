"""A data set that `data=` can name, and the request from which one is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from actors.errors import UserError
from experiments.datasets.item import Dataset
from experiments.datasets.questions import check_questions
from experiments.datasets.settings import DataSettings

OF_A_RELEASE = ("root", "allow_links")  # settings that every data set goes by that is read from files


@dataclass(frozen=True)
class DataRequest:
    """The settings, folders and numbers of questions with which a run opens its data set.

    cache: a folder that outlives the run, for what is generated or unpacked.
    train: the number of training questions.
    held_out: the same for a benchmark with a single split, where they are taken out of the evaluation; 0 unless the
        run learns.
    whole_corpus: true where a question searches the whole corpus, not its own pool alone.
    release: where the files come from, in a phrase; filled in by `DatasetKind.open`.
    """

    settings: DataSettings
    cache: Path
    train: int
    held_out: int
    seed: int
    whole_corpus: bool
    release: str = "its release"

    @property
    def root(self) -> Path:
        """The folder of the release. Raises UserError when `data.root` does not name one."""
        kind, root = self.settings.kind, self.settings.root
        if root is None:
            raise UserError(f"data={kind} needs data.root=<folder>, with {self.release}")
        if not os.path.isdir(root):  # `Path.is_dir` raises for a name that is too long
            raise UserError(f"data.root={root} is not a folder: expected {self.release}")
        return Path(root)


@dataclass(frozen=True)
class DatasetKind:
    """One value of `data=`: its name, where its release comes from, and how it is made for a run.

    directed: whether the edges of its own knowledge graph lead from head to tail only; those of a graph that is
        extracted from its texts have the directions of the wording and are followed both ways.
    advice: what its authors tell an agent that decides where a search through that graph goes on.
    rubric: by what its paper judges answers: a grade from 1 to 5, or whether they are the same as the reference.
    scope: what the benchmark searches for a question, its own pool or the whole corpus.
    pictures_for: the questions that pictures are retrieved for, all or those with a picture of their own.
    reads: names of the settings that it goes by, beside the kind and the limit.
    """

    name: str
    release: str
    make: Callable[[DataRequest], Dataset]
    directed: bool = False
    advice: str = ""
    rubric: Literal["graded", "same_answer"] = "graded"
    scope: Literal["question", "corpus"] = "question"
    pictures_for: Literal["all", "pictured"] = "all"
    reads: tuple[str, ...] = OF_A_RELEASE

    def open(self, request: DataRequest) -> Dataset:
        """The data set, opened. Raises UserError when the release is missing or broken, with the part at fault.

        Every question is read once, so that none ends a run that has begun.
        """
        dataset = self.make(replace(request, release=self.release))
        root = request.settings.root
        where = f"data={self.name} in {root}" if root else f"data={self.name}"
        check_questions(dataset, where, trains=request.held_out > 0)
        return dataset
