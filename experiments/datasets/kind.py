"""Data sets that `data=` can name: their settings, how one is opened, and its checks."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from actors.errors import UserError
from actors.lookup import names_code
from actors.settings import setting
from experiments.datasets.item import Dataset, Item
from experiments.datasets.reading import once, placed

OF_FILES = ("data.root", "data.allow_links", "data.check")


@dataclass
class FieldSettings:
    """Fields of a file of questions (`data=file`): the names of its columns. By default their own, in one or many:
    `answer` or `answers`, `picture` or `pictures`, ... Several columns are separated by commas."""

    id: str | None = None
    """A question's id; without one, its file's name and its number there."""
    question: str | None = None
    """Text of the question."""
    answers: str | None = None
    """The right answer or several: text, numbers, or a choice by its text, letter or place."""
    choices: str | None = None
    """Choices: a list, or a column for each (`A,B,C,D`)."""
    pictures: str | None = None
    """Pictures: paths below the file's folder, or their content as `datasets` and base64 have it."""
    passages: str | None = None
    """Passages that may hold the answer: texts, or objects with `title` and `text`."""
    tables: str | None = None
    """Tables: lists of rows, the first with the columns' names, or objects with `title` and `rows`."""
    hint: str | None = None
    """Text that is shown with the question."""
    cluster: str | None = None
    """Document that questions share, so that their scores are not independent (null: the first picture or table)."""
    group: str | None = None
    """Questions of one group are one question asked several times: it counts once, with the lowest score."""
    split: str | None = None
    """Split of a question: `train`, and others."""
    tags: str | None = None
    """Columns by which reports group questions."""


@dataclass
class DataSettings:
    """The questions of a run. `data=mmqa` is short for `data.kind=mmqa`."""

    kind: str = setting("sample", outside=names_code("datasets"))
    """One that `help=data` lists, or one of your own as `package.module:load`."""
    root: str | None = setting(None, path=bool)
    """Folder of the benchmark's official release; the generated sample needs none. `data=file`: a file or a folder."""
    limit: int | None = setting(100, at_least=1, at_most=10_000_000)
    """Number of evaluated questions, chosen by seed; null for all."""
    hub: str | None = setting(None, outside=bool, needs=lambda name: "hub" if name else "", since="0.4.0")
    """Data set on the Hugging Face hub, `<owner>/<name>` or `<owner>/<name>:<configuration>`, in place of `data.root`.
    It is loaded once."""
    layout: Literal["auto", "own", "scienceqa", "mmbench"] = setting("auto", since="0.4.0")
    """Layout of a file of questions. `scienceqa` and `mmbench` are those of the hub; `own` is named by `data.fields`;
    `auto` is chosen by the data set's name on the hub, else `own`."""
    fields: FieldSettings = setting(factory=FieldSettings, since="0.4.0")
    train: str | None = setting(None, path=bool, since="0.4.0")
    """File or folder with the training questions, where `data.root` has the evaluated ones alone."""
    train_share: float | None = setting(None, above=0, below=1, since="0.4.0")
    """Share of the questions that are for training, chosen by seed (null: as many as a run learns from)."""
    evaluated: str | None = setting(None, since="0.4.0")
    """Split of a file that is evaluated (null: the only one besides `train`)."""
    answers: Literal["auto", "text", "letter", "place"] = setting("auto", since="0.4.0")
    """Form in which a file names the right choice: `text`, `letter`, or `place` from 0; `auto` takes any of them."""
    several: Literal["any", "all"] = setting("any", since="0.4.0")
    """Several answers to a question: `any` of them is right, or they are right together (`all`)."""
    selection: Literal["all", "paper"] = "all"
    """MultimodalQA only: `paper` leaves out the questions that need a table (1,161 of the 2,441 remain)."""
    metric: Literal["official", "containment", "exact", "f1", "amounts"] = setting(
        "official", since="0.3.0", before="containment"
    )
    """TAT-QA: the `official` EM and F1, which count a number's scale, or EM by `containment` without it. Questions of a
    file without choices: EM by containment (also `official`), `exact` EM, `f1`, or `amounts` as in TAT-QA."""
    split: Literal["test", "minitest", "val", "minival"] = "test"
    """ScienceQA only: the evaluated split."""
    pictures: bool = False
    """ScienceQA only: evaluate and learn from questions with a picture only (2,017 of the 4,241 of test), as BDoG."""
    task: Literal["informative", "humanitarian", "humanitarian_merged", "damage"] = "informative"
    """CrisisMMD only: informativeness, humanitarian category (`_merged`: five of them, not eight), or damage."""
    check: Literal["used", "all"] = setting("used", since="0.4.0")
    """Pictures that are decoded before a run begins: those of the chosen questions' pools, or all of the release."""
    allow_links: bool = setting(False, outside=bool)
    """Follow links in `data.root` that lead outside of it; for links of your own, never for a folder from others."""


@dataclass(frozen=True)
class DataRequest:
    """Settings, folders and numbers of questions with which a run opens its data set.

    cache: a folder that outlives the run, for generated or unpacked files.
    train: the number of training questions; None: all.
    held_out: the same for a benchmark with a single split, where they are taken out of the evaluation; 0 unless the
        run learns.
    whole_corpus: a question searches the whole corpus, not its own pool alone.
    release: where the files come from, in a phrase; filled in by `DatasetKind.open`.
    """

    settings: DataSettings
    cache: Path
    train: int | None
    held_out: int
    seed: int
    whole_corpus: bool
    release: str = "its release"

    @property
    def root(self) -> Path:
        """Folder of the release. Raises UserError unless `data.root` names one."""
        kind, root = self.settings.kind, self.settings.root
        if root is None:
            raise UserError(f"data={kind} needs data.root=<folder>, with {self.release}")
        if not os.path.isdir(root):  # `Path.is_dir` raises for a name that is too long
            raise UserError(f"data.root={root} is not a folder: expected {self.release}")
        return Path(root)


@dataclass(frozen=True)
class DatasetKind:
    """One value of `data=`.

    release: where its files come from, in a phrase.
    make: opens the data set for a run.
    reads: keys of the settings that it reads and not every data set does; others are refused. By default those of
        files in a folder.
    directed: edges of the data set's knowledge graph lead from head to tail only. Edges of an
        extracted graph have the directions of the wording and are followed both ways.
    advice: its authors' advice to an agent that decides where a search through that graph continues.
    rubric: how its paper judges answers: by a grade from 1 to 5, or as the same as the reference or not.
    scope: the sources that a question searches, its own pool or the whole corpus.
    pictures_for: the questions that pictures are retrieved for, all, or the ones with a picture.
    """

    name: str
    release: str
    make: Callable[[DataRequest], Dataset]
    reads: tuple[str, ...] = OF_FILES
    directed: bool = False
    advice: str = ""
    rubric: Literal["graded", "same_answer"] = "graded"
    scope: Literal["question", "corpus"] = "question"
    pictures_for: Literal["all", "pictured"] = "all"

    @classmethod
    def of(cls, loader: Callable[[DataRequest], Dataset], name: str) -> "DatasetKind":
        """Makes the kind of a loader. A class or a function may have attributes with the names of the other fields."""
        optional = [field.name for field in fields(cls)[3:]]
        attributes = {name: getattr(loader, name) for name in optional if hasattr(loader, name)}
        return cls(name, getattr(loader, "release", "the files that it reads"), loader, **attributes)

    def open(self, request: DataRequest) -> Dataset:
        """Opens the data set and reads every question once. Raises UserError for a missing or broken release."""
        root = request.settings.root
        dataset = self.make(replace(request, release=self.release))
        if check := getattr(dataset, "check_files", None):
            check()
        where = f"data={self.name} in {root}" if root else f"data={self.name}"
        evaluated = read_ids(dataset.evaluate(), f"{where}: evaluated")
        if not evaluated:
            raise UserError(f"{where}: there is no question to evaluate; copy its files again")

        if request.held_out:
            shared = sorted(evaluated & read_ids(dataset.train(), f"{where}: training"))
            if shared:
                raise UserError(
                    f"{where}: {len(shared):,} questions are both learned from and evaluated, {shared[0]} among them; "
                    "take them out of the training questions"
                )

        return dataset


def read_ids(items: Iterable[Item], where: str) -> set[str]:
    """Reads the questions of a split, once. Returns their ids.

    Raises UserError for a question that is there twice, and for one without text or gold.
    """
    ids = set[str]()
    for item in items:
        with placed(where):
            once(item.question.id, ids, "question")
            if not item.question.text.strip() or not item.gold or not all(map(str.strip, item.gold)):
                raise UserError(f"question {item.question.id} has no text, or an empty gold answer: remove it")
    return ids
