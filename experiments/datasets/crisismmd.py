"""CrisisMMD v2.0 (Alam et al. 2018): posts of seven disasters, each a text with a picture, to be put into a class.

One folder holds data_image/ and the release's splits: crisismmd_datasplit_agreed_label/ with the posts on whose text
and picture the annotators agree, or else crisismmd_datasplit_all/. Where both hold a task the agreed one is used: its
posts have one label. A post's text and its picture are the question's own sources; posts of the evaluated split and of
the training split are the corpus. The loader reads the columns event_name, tweet_id, image_id, tweet_text, image and
label by name and no other label.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Literal

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.files import check_image, from_record, read_table
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score, choice_score
from experiments.datasets.kind import OF_A_RELEASE, DataRequest, DatasetKind
from experiments.datasets.layouts.crisismmd import POST, Post
from experiments.datasets.layouts.fields import checked_value
from experiments.datasets.subset import limited
from experiments.datasets.unique import once

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
        allow_links: bool = False,
    ) -> None:
        self._release = Folder(root, RELEASE, allow_links=allow_links)
        self._task: Task = task
        self._split = split
        self._train = train
        self._limit = limit
        self._seed = seed
        self._read: dict[str, list[Post]] = {}  # by split, because the corpus and the questions need the same rows

    def train(self) -> Iterator[Item]:
        # One post may have several pictures, and these may stand in different splits.
        evaluated = {row.tweet_id for row in self._rows(self._split)}
        return self._items([row for row in self._rows("train") if row.tweet_id not in evaluated], self._train)

    def evaluate(self) -> Iterator[Item]:
        return self._items(self._rows(self._split), self._limit)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """The text and the picture of every post, once; with `docs`, those documents only.

        Raises UserError for a broken file and for a picture that cannot be decoded. A picture whose file is not there
        has `image=None`.
        """
        seen: set[str] = set()
        for split in (self._split, "train"):
            if split == "train" and self._release.file(*self._path(split)) is None:
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

    def _items(self, rows: list[Post], count: int | None) -> Iterator[Item]:
        return map(self._item, limited(rows, attrgetter("image_id"), count, self._seed))

    def _item(self, row: Post) -> Item:
        own = tuple(source.doc for source in self._sources(row))
        classes = CHOICES[self._task]
        return Item(
            # By picture, because a post may have several. Merged classes share a text, which is one choice only.
            question=Question(row.image_id, QUESTIONS[self._task], tuple(dict.fromkeys(classes.values()))),
            gold=(classes[row.label],),
            # The post is all the evidence that its label was given on, so every method is shown it.
            pool=own,
            supporting=own,
            own=own,
            tags={"task": self._task, "event": row.event_name},
        )

    def _sources(self, row: Post) -> tuple[Source, Source]:
        """The text and the picture of a post, both titled with the name of the disaster."""
        text, picture, title = f"{row.tweet_id}:text", row.image_id, row.event_name.replace("_", " ")
        file = from_record(row.image, self._release.file, f"{self._release}, image_id {picture}")
        return (
            Source(text, text, Kind.TEXT, title, row.tweet_text),
            Source(picture, picture, Kind.IMAGE, title, "", str(file) if file else None),
        )

    def _rows(self, split: str) -> list[Post]:
        if split not in self._read:
            names = self._path(split)
            path = self._release.file(*names)
            if path is None:
                raise UserError(
                    f"missing data file {self._release.root.joinpath(*names)}: copy it there from {RELEASE}"
                )
            self._read[split] = self._parsed(path)
        return self._read[split]

    def _parsed(self, path: Path) -> list[Post]:
        """Raises UserError with file and line for a missing column, an unknown label and a picture named twice."""
        posts: list[Post] = []
        seen: set[str] = set()
        # With quoting on, a post that starts with a quotation mark would swallow the rows after it.
        rows = read_table(path, quoted=False)
        _, header = next(rows, (0, []))
        if missing := [name for name in COLUMNS if name not in header]:
            expected = ", ".join(COLUMNS)
            raise UserError(f"{path} has no {missing[0]!r} as the official release has: expected {expected}")
        for number, values in rows:
            where = f"{path}, line {number}"
            if len(values) < len(header):
                raise UserError(f"{where}: fewer values than columns; the file may be truncated, download it again")
            post = checked_value(POST, dict(zip(header, values, strict=False)), where)
            if post.label not in CHOICES[self._task]:
                raise UserError(f"{where}: unknown label {post.label!r} of task {self._task}")
            from_record(post.image_id, lambda id: once(id, seen, "image_id"), where)
            posts.append(post)
        if not posts:
            raise UserError(f"{path} has no posts: copy it again from {RELEASE}")
        return posts

    def _path(self, split: str) -> tuple[str, str]:
        return self._folder, LAYOUTS[self._folder].format(task=self._file_task, split=split)

    @property
    def _file_task(self) -> str:
        # The merged task is a mapping of the humanitarian labels, which stand in the same files.
        return self._task.removesuffix("_merged")

    @cached_property
    def _folder(self) -> str:
        """The first of the release's folders that holds the task's evaluated split."""
        for name, pattern in LAYOUTS.items():
            if self._release.file(name, pattern.format(task=self._file_task, split=self._split)):
                log.info("crisismmd: posts of %s", name)
                return name
        raise UserError(
            f"neither {' nor '.join(LAYOUTS)} in {self._release} holds the {self._split} split of the task "
            f"{self._file_task}: copy one there from {RELEASE}"
        )


def _make(request: DataRequest) -> CrisisMmd:
    data = request.settings
    return CrisisMmd(
        request.root,
        task=data.task,
        train=request.train,
        limit=data.limit,
        seed=request.seed,
        allow_links=data.allow_links,
    )


CRISISMMD = DatasetKind("crisismmd", RELEASE, _make, reads=(*OF_A_RELEASE, "task"))
