"""CrisisMMD v2.0 (Alam et al. 2018): posts of seven disasters, each a text with a picture, to be put into a class.

One folder holds data_image/ and the release's splits: crisismmd_datasplit_agreed_label/ with the posts on whose text
and picture the annotators agree, or else crisismmd_datasplit_all/. Where both hold a task the agreed one is used: its
posts have one label. A post's text and its picture are the question's own sources; posts of the evaluated split and of
the training split are the corpus. The loader reads the columns event_name, tweet_id, image_id, tweet_text, image and
label by name and no other label.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Container, Iterator
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Literal

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.files import check_image, from_record
from experiments.datasets.item import Item, Score, choice_score
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.subset import limited

RELEASE = "CrisisMMD_v2.0.tar.gz and its datasplits, crisisnlp.qcri.org/crisismmd"
# In order of preference: posts with agreed labels first.
LAYOUTS = {
    "crisismmd_datasplit_agreed_label": "task_{task}_text_img_agreed_lab_{split}.tsv",
    "crisismmd_datasplit_all": "task_{task}_text_img_{split}.tsv",
}
COLUMNS = ("event_name", "tweet_id", "image_id", "tweet_text", "image", "label")

Task = Literal["informative", "humanitarian", "humanitarian_merged", "damage"]
Split = Literal["test", "dev"]

QUESTIONS: dict[Task, str] = {
    "informative": "Does this post help those who respond to the disaster?",
    "humanitarian": "What does this post tell those who respond to the disaster?",
    "humanitarian_merged": "What does this post tell those who respond to the disaster?",
    "damage": "How severe is the damage that this post shows?",
}
CHOICES: dict[Task, dict[str, str]] = {
    "informative": {"informative": "informative", "not_informative": "not informative"},
    "humanitarian": {
        "affected_individuals": "affected individuals",
        "infrastructure_and_utility_damage": "infrastructure and utility damage",
        "injured_or_dead_people": "injured or dead people",
        "missing_or_found_people": "missing or found people",
        "not_humanitarian": "not humanitarian",
        "other_relevant_information": "other relevant information",
        "rescue_volunteering_or_donation_effort": "rescue, volunteering or donation effort",
        "vehicle_damage": "vehicle damage",
    },
    "damage": {
        "severe_damage": "severe damage",
        "mild_damage": "mild damage",
        "little_or_no_damage": "little or no damage",
    },
}
# Ofli et al. 2020 merge the rare classes; HM-RAG's table has the task as well.
CHOICES["humanitarian_merged"] = CHOICES["humanitarian"] | {
    "injured_or_dead_people": "affected individuals",
    "missing_or_found_people": "affected individuals",
    "vehicle_damage": "infrastructure and utility damage",
}

log = logging.getLogger(__name__)

Row = dict[str, str]


class CrisisMmd:
    """Trains on the official train split and evaluates on `split`; a post with several pictures is in one of them only.

    `train` and `limit` cap the training and evaluation questions (None: all); `seed` chooses which.
    """

    name = "crisismmd"
    metric = "accuracy"

    def __init__(
        self,
        root: Path,
        *,
        task: Task = "informative",
        split: Split = "test",
        train: int | None = None,
        limit: int | None = None,
        seed: int = 0,
    ) -> None:
        self._root = root
        self._task: Task = task
        self._split = split
        self._train = train
        self._limit = limit
        self._seed = seed
        self._read: dict[str, list[Row]] = {}  # by split, because the corpus and the questions need the same rows

    def train(self) -> Iterator[Item]:
        # One post may have several pictures, and these may stand in different splits.
        evaluated = {row["tweet_id"] for row in self._rows(self._split)}
        return self._items([row for row in self._rows("train") if row["tweet_id"] not in evaluated], self._train)

    def evaluate(self) -> Iterator[Item]:
        return self._items(self._rows(self._split), self._limit)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """The text and the picture of every post, once; with `docs`, those documents only.

        Raises UserError for a broken file and for a picture that cannot be decoded. A picture whose file is not there
        has `image=None`.
        """
        seen: set[str] = set()
        for split in (self._split, "train"):
            if split == "train" and not self._path(split).is_file():
                continue  # an evaluation that learns nothing needs no training file
            for row in self._rows(split):
                for source in self._sources(row):
                    # A post with several pictures has a row for each, all with the same text.
                    if source.id not in seen and (docs is None or source.doc in docs):
                        seen.add(source.id)
                        if source.image is not None:
                            check_image(Path(source.image))
                        yield source

    def score(self, item: Item, answer: str | None) -> Score:
        """Accuracy: the answer must name the right class by its words or letter, and no other."""
        return choice_score(item, answer)

    def _items(self, rows: list[Row], count: int | None) -> Iterator[Item]:
        return map(self._item, limited(rows, itemgetter("image_id"), count, self._seed))

    def _item(self, row: Row) -> Item:
        own = tuple(source.doc for source in self._sources(row))
        classes = CHOICES[self._task]
        return Item(
            # By picture, because a post may have several. Merged classes share a text, which is one choice only.
            question=Question(row["image_id"], QUESTIONS[self._task], tuple(dict.fromkeys(classes.values()))),
            gold=(classes[row["label"]],),
            # The post is all the evidence that its label was given on, so every method is shown it.
            pool=own,
            supporting=own,
            own=own,
            tags={"task": self._task, "event": row["event_name"]},
        )

    def _sources(self, row: Row) -> tuple[Source, Source]:
        """The text and the picture of a post, both titled with the name of the disaster."""
        text, picture, title = f"{row['tweet_id']}:text", row["image_id"], row["event_name"].replace("_", " ")
        file = self._root / row["image"]
        return (
            Source(text, text, Kind.TEXT, title, row["tweet_text"]),
            Source(picture, picture, Kind.IMAGE, title, "", str(file) if file.is_file() else None),
        )

    def _rows(self, split: str) -> list[Row]:
        if split not in self._read:
            self._read[split] = self._parsed(self._path(split))
        return self._read[split]

    def _parsed(self, path: Path) -> list[Row]:
        """Raises UserError with file and line for a missing column, an unknown label and a picture named twice."""
        if not path.is_file():
            raise UserError(f"missing data file {path}: copy it there from {RELEASE}")
        rows: list[Row] = []
        seen: set[str] = set()
        try:
            with path.open(encoding="utf-8", newline="") as lines:
                # With quoting on, a post that starts with a quotation mark would swallow the rows after it.
                # Numbers start at 2, because the header is line 1.
                for number, record in enumerate(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), start=2):
                    row = from_record(record, self._checked, f"{path}, line {number}")
                    if row["image_id"] in seen:
                        raise UserError(f"{path}, line {number}: image_id {row['image_id']} is there twice")
                    seen.add(row["image_id"])
                    rows.append(row)
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8 text ({error}): download it again") from error
        if not rows:
            raise UserError(f"{path} has no posts: copy it again from {RELEASE}")
        return rows

    def _checked(self, record: Row) -> Row:
        row = {name: record[name] for name in COLUMNS}
        # DictReader fills the columns that a short line lacks with None.
        if None in row.values():
            raise ValueError("fewer values than columns")
        if row["label"] not in CHOICES[self._task]:
            raise ValueError(f"unknown label {row['label']!r} of task {self._task}")
        return row

    def _path(self, split: str) -> Path:
        return self._folder / LAYOUTS[self._folder.name].format(task=self._file_task, split=split)

    @property
    def _file_task(self) -> str:
        # The merged task is a mapping of the humanitarian labels, which stand in the same files.
        return self._task.removesuffix("_merged")

    @cached_property
    def _folder(self) -> Path:
        """The first of the release's folders that holds the task's evaluated split."""
        for name, pattern in LAYOUTS.items():
            if (self._root / name / pattern.format(task=self._file_task, split=self._split)).is_file():
                log.info("crisismmd: posts of %s", name)
                return self._root / name
        raise UserError(
            f"neither {' nor '.join(LAYOUTS)} in {self._root} holds the {self._split} split of the task "
            f"{self._file_task}: copy one there from {RELEASE}"
        )


def _make(request: DataRequest) -> CrisisMmd:
    data = request.settings
    return CrisisMmd(request.root, task=data.task, train=request.train, limit=data.limit, seed=request.seed)


CRISISMMD = DatasetKind("crisismmd", RELEASE, _make)
