"""ScienceQA (Lu et al. 2022): multiple choice over a hint, a picture, both or neither, in the official layout.

One folder holds problems.json, pid_splits.json, captions.json, where there is one ocrs.json, and the pictures in
images/<split>/<problem>/. Part of it is enough: problems that are not there are skipped, and a picture whose file is
not there is described by its caption and by the lettering recognised in it.

What may be retrieved: hints and pictures (a question's own are its pool) and lectures, never solutions. A lecture is
in the corpus when two or more *training* problems share it; a lecture of one problem alone may describe that
problem's picture or answer. A question's own lecture is withheld from it, because it leans towards the label: over
649 validation and test questions, their own shared lectures name the right choice and no wrong one 16 times, and the
reverse 7 times. Other lectures on the same skill do not: once and never, in 156 pairs of question and lecture.
A question without a picture is about none, so no picture of another problem is retrieved for it
(`retrieval.pictures_for`).
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Container, Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.files import check_image, from_record, read_json
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score, choice_score
from experiments.datasets.json_members import read_members
from experiments.datasets.kind import OF_A_RELEASE, DataRequest, DatasetKind
from experiments.datasets.layouts.scienceqa import CAPTION, LETTERING_OF, PROBLEM, SPLITS, Problem, Splits
from experiments.datasets.subset import limited

RELEASE = "the data/ folder of github.com/lupantech/ScienceQA"

SUBJECTS = {"natural science": "NAT", "social science": "SOC", "language science": "LAN"}

Split = Literal["test", "minitest", "val", "minival"]

log = logging.getLogger(__name__)


class ScienceQa:
    """Trains on the official train split and evaluates on `split`, which never shares a problem with it.

    With `pictures`, both are of questions with a picture only. `train` and `limit` cap the training and evaluation
    questions (None: all); `seed` chooses which, and they come in the order of pid_splits.json. problems.json is one
    JSON value, so its problems stay in memory (without solutions).
    """

    name = "scienceqa"
    metric = "accuracy"

    def __init__(
        self,
        root: Path,
        *,
        split: Split = "test",
        train: int | None = None,
        limit: int | None = None,
        seed: int = 0,
        pictures: bool = False,
        allow_links: bool = False,
    ) -> None:
        if split not in get_args(Split):
            raise UserError(f"unknown evaluation split {split!r} of scienceqa: use one of {', '.join(get_args(Split))}")
        self._folder = Folder(root, RELEASE, allow_links=allow_links)
        self._split = split
        self._train = train
        self._limit = limit
        self._seed = seed
        self._pictures = pictures

    def train(self) -> Iterator[Item]:
        return self._items("train", self._train)

    def evaluate(self) -> Iterator[Item]:
        return self._items(self._split, self._limit)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Lectures, then hints and pictures of all problems; with `docs`, those documents only.

        Raises UserError for a missing or broken file and for a picture that cannot be decoded.
        """
        for id, (category, text) in self._lectures.items():
            if docs is None or id in docs:
                yield Source(id, id, Kind.TEXT, category, text)
        for pid in self._problems:
            for source in self._own_sources(pid):
                if docs is None or source.doc in docs:
                    if source.image is not None:
                        check_image(Path(source.image))
                    yield source

    def score(self, item: Item, answer: str | None) -> Score:
        """Accuracy: the answer must name the right choice by its text or letter; there is no partial credit."""
        return choice_score(item, answer)

    def _items(self, split: str, count: int | None) -> Iterator[Item]:
        # A folder may hold a part of the release.
        present = [pid for pid in getattr(self._splits, split) if pid in self._problems]
        if not present:
            raise UserError(
                f"no problem of split {split} is in {self._folder.root / 'problems.json'}: copy more of {RELEASE}"
            )
        if self._pictures:
            present = [pid for pid in present if self._problems[pid].image]
        return map(self._item, limited(present, str, count, self._seed))

    def _item(self, pid: str) -> Item:
        problem = self._problems[pid]
        own = tuple(source.doc for source in self._own_sources(pid))
        lecture = lecture_id(problem.lecture)
        return Item(
            question=Question(pid, problem.question, problem.choices),
            gold=(problem.choices[problem.answer],),
            pool=own,
            supporting=own,
            own=own,
            withheld=(lecture,) if lecture in self._lectures else (),
            tags={
                "subject": SUBJECTS[problem.subject],
                "context": context(problem),
                # The two grade bands of the paper's tables.
                "grade": "G1-6" if int(problem.grade.removeprefix("grade")) <= 6 else "G7-12",
                "topic": problem.topic,
            },
        )

    def _own_sources(self, pid: str) -> tuple[Source, ...]:
        """A problem's hint, picture and pictures of choices. Titles name the category, never the question.

        Raises UserError for a picture about which nothing is known: no file, no caption, no lettering.
        """
        return from_record(pid, self._sources, f"{self._folder.root / 'problems.json'}, problem {pid}")

    def _sources(self, pid: str) -> tuple[Source, ...]:
        problem = self._problems[pid]
        title = problem.category
        sources = []
        if problem.hint:
            sources.append(Source(f"{pid}:hint", f"{pid}:hint", Kind.TEXT, title, problem.hint))
        if not problem.image:
            return tuple(sources)
        # Sorted: of two files with one stem, the same one counts on every machine.
        files = {file.stem: str(file) for file in self._folder.files("images", problem.split, pid)}
        known = self._known_of_picture(pid)
        if "image" not in files and not known:
            expected = self._folder.root / "images" / problem.split / pid / problem.image
            raise UserError(
                f"question {pid} has no source for its picture: copy {expected},"
                f" or captions.json with its caption, from {RELEASE}"
            )
        sources.append(Source(f"{pid}:image", f"{pid}:image", Kind.IMAGE, title, known, files.get("image")))
        for number, choice in enumerate(problem.choices):
            if file := files.get(f"choice_{number}"):
                id = f"{pid}:choice_{number}"
                sources.append(Source(id, id, Kind.IMAGE, title, f"Picture of the choice {choice}.", file))
        return tuple(sources)

    def _known_of_picture(self, pid: str) -> str:
        lettering = self._lettering.get(pid, "")
        parts = (self._captions.get(pid, ""), f"Lettering: {lettering}." if lettering else "")
        return " ".join(part for part in parts if part)

    @cached_property
    def _splits(self) -> Splits:
        return read_json(self._folder.find("pid_splits.json"), SPLITS)

    @cached_property
    def _problems(self) -> dict[str, Problem]:
        path = self._folder.find("problems.json")
        # The release's other splits (minival, minitest, trainval) are made of these three.
        listed = dict.fromkeys((*self._splits.train, *self._splits.val, *self._splits.test))
        problems: dict[str, Problem] = {}
        for pid, problem in read_members(path, PROBLEM, "problem"):
            from_record(problem, check_answer, f"{path}, problem {pid}")
            problems[pid] = problem
        if missing := sum(pid not in problems for pid in listed):
            log.info("%s has %d of the %d problems listed; %d are skipped", path, len(problems), len(listed), missing)
        return problems

    @cached_property
    def _captions(self) -> dict[str, str]:
        return dict(read_members(self._folder.find("captions.json"), CAPTION, "problem", inside="captions"))

    @cached_property
    def _lettering(self) -> dict[str, str]:
        path = self._folder.file("ocrs.json")
        return {} if path is None else dict(read_members(path, LETTERING_OF, "problem"))

    @cached_property
    def _lectures(self) -> dict[str, tuple[str, str]]:
        """Category and text by id, of the lectures that two or more training problems share."""
        training = [self._problems[pid] for pid in self._splits.train if pid in self._problems]
        # Training problems alone, so that no evaluated problem puts its own lecture into the corpus.
        uses = Counter(lecture_id(problem.lecture) for problem in training)
        lectures: dict[str, tuple[str, str]] = {}
        for problem in training:
            id = lecture_id(problem.lecture)
            if problem.lecture and uses[id] > 1:
                # The category is that of the first problem with the lecture.
                lectures.setdefault(id, (problem.category, problem.lecture))
        return lectures


def check_answer(problem: Problem) -> None:
    """Raises UserError for an answer that is none of the choices."""
    if not 0 <= problem.answer < len(problem.choices):
        raise UserError(f"answer {problem.answer} of {len(problem.choices)} choices: expected the place of one, from 0")


def context(problem: Problem) -> str:
    """TXT with a hint, IMG with a picture, NO without either; a question with both counts in both, "IMG+TXT"."""
    parts = [tag for tag, present in (("IMG", problem.image), ("TXT", problem.hint)) if present]
    return "+".join(parts) or "NO"


def lecture_id(text: str) -> str:
    """The document id of a lecture, equal for lectures that differ in white space only."""
    return "lecture:" + hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).hexdigest()


def _make(request: DataRequest) -> ScienceQa:
    data = request.settings
    return ScienceQa(
        request.root,
        split=data.split,
        train=request.train,
        limit=data.limit,
        seed=request.seed,
        pictures=data.pictures,
        allow_links=data.allow_links,
    )


SCIENCEQA = DatasetKind(
    "scienceqa", RELEASE, _make, pictures_for="pictured", reads=(*OF_A_RELEASE, "split", "pictures")
)
