"""A user's own questions: a JSON Lines, JSON, CSV or Parquet file, or a folder of them, also as they lie on the hub.

Fields are found by their own names or by `data.fields`. Pictures are files below the folder, or lie in the file itself;
these are written to the cache for the questions that a run uses. Passages, tables and pictures with the same content
are one source, whichever questions name them.

Training questions are those of the split `train` (a column, or the files' names), those of a second file, a share by
seed, or as many as a run learns from, taken out of the evaluation.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from actors.errors import UserError
from actors.messages import UNTITLED_PICTURE, Question, Source
from experiments.datasets import hub
from experiments.datasets.benchmark import Benchmark, docs_of, image_source, write_picture
from experiments.datasets.fields import Id, shortened, validated
from experiments.datasets.folder import Folder, state_of
from experiments.datasets.item import Item, Score, choice_score, text_score
from experiments.datasets.kind import OF_FILES, DataRequest
from experiments.datasets.question_fields import (
    Columns,
    QuestionRecord,
    digest,
    plain_text,
    record_of,
)
from experiments.datasets.reading import once, placed
from experiments.datasets.rows import ARRAY, SUFFIXES, Row, RowFile, Values
from experiments.metrics.tatqa_metric import official_score
from topologies.amounts import scaled

TRAIN = ("train", "training")
# Beginnings of file names that are splits: `validation-00000-of-00002.parquet`, `test.jsonl`.
SPLITS = (*TRAIN, "dev", "eval", "test", "val", "valid", "validation")
METADATA = "metadata"  # stem of the files of an imagefolder, with the names of its pictures
EVALUATED = "evaluated"
METRICS = {"exact": "exact match", "f1": "F1", "amounts": "EM of amounts"}

ID = TypeAdapter(Id)


class Place(NamedTuple):
    """Place of a question: the numbers of its file and of its row. group: empty unless it is asked several times."""

    file: int
    row: int
    id: str
    split: str
    group: str

    @property
    def unit(self) -> str:
        """Id by which seeds choose: that of the question, or of its group."""
        return self.group or self.id


class QuestionFile(Benchmark):
    """The user's own questions.

    The first reading takes ids and splits; a question is read where it is used. Everything is checked with the corpus,
    once for each state of the files.
    """

    name = "file"
    release = "your questions: a .jsonl, .json, .csv, .tsv or .parquet file, or a folder of such files"
    reads = (
        *OF_FILES,
        "data.hub",
        "data.layout",
        "data.fields",
        "data.train",
        "data.train_share",
        "data.evaluated",
        "data.answers",
        "data.several",
        "data.metric",
    )
    evaluated = EVALUATED

    def __init__(self, request: DataRequest) -> None:
        settings = request.settings
        root = hub.downloaded(settings.hub, request.cache) if settings.hub else named_path(settings.root, "data.root")
        super().__init__(replace(request, settings=replace(settings, root=str(folder_of(root)))))
        self.settings = settings
        self.layout = hub.layout_of(settings)
        self.fields = settings.fields
        self.naming = settings.answers
        if self.layout:
            named_fields = {name: column for name, column in vars(settings.fields).items() if column}
            self.fields = replace(self.layout.fields, **named_fields)
            if settings.answers == "auto":
                self.naming = self.layout.answers

        self._folders: list[Folder] = []
        self._row_files: list[RowFile] = []
        self._add_files(self.folder, root)
        paths = [file.path for file in self._row_files]
        self._splits = [""] * len(paths)
        if settings.fields.split is None:
            self._splits = splits_of(paths)
        if settings.train:
            training = named_path(settings.train, "data.train")
            folder = Folder(folder_of(training), self.release, allow_links=settings.allow_links)
            folder.states = self.folder.states
            self._add_files(folder, training)
            self._splits += TRAIN[:1] * (len(self._row_files) - len(paths))

        self._ids = set[str]()
        self._columns: list[Columns] = []
        self.metric = METRICS.get(settings.metric, "EM")
        self.packed = any(file.has_content or file.has_base64 for file in self._row_files)

    @cached_property
    def _places(self) -> list[Place]:
        """Places of all questions, from the first reading. Only a run that finds no chosen ones in the cache reads."""
        places = []
        for number in range(len(self._row_files)):
            places += self._places_in(number)
        return places

    def evaluate(self) -> Iterator[Item]:
        """Yields the evaluated questions. The first one names the metric: with choices it is accuracy."""
        is_first = True
        for item in super().evaluate():
            if is_first and item.question.choices:
                self.metric = "accuracy"
            is_first = False
            yield item

    def _add_files(self, folder: Folder, root: Path) -> None:
        """Adds a file, or the files of a folder. Raises UserError where there is none."""
        names = [root.name]
        if root.is_dir():
            names = [path.name for path in folder.files()]
            # As the hub has them: the files in `data/`, and an imagefolder with a folder for each split.
            names += [f"data/{path.name}" for path in folder.files("data")]
            for split in SPLITS:
                names += [f"{split}/{path.name}" for path in folder.files(split) if path.stem == METADATA]
        arrays = [name for name in names if name.endswith(ARRAY)]
        # Next to files of questions, others in JSON describe them.
        names = [name for name in names if name.endswith(SUFFIXES)] or arrays
        if not names:
            folders = ", ".join(folder.folders()) or "none"
            raise UserError(f"{root} has no file of questions: expected {self.release}. Folders in it: {folders}")
        self._row_files += [RowFile(folder.find(name)) for name in names]
        self._folders += [folder] * len(names)

    def check_files(self) -> None:
        """Does nothing: files are looked for when this is made."""

    def reads_with(self) -> tuple[object, ...]:
        return tuple(str(file.path) for file in self._row_files)

    def _places_in(self, number: int) -> list[Place]:
        """Reads the ids, splits and columns of a file. Raises UserError for a column that is not there."""
        file = self._row_files[number]
        fields = self.fields
        stem = file.path.name.partition(".")[0]
        if stem == METADATA:
            stem = file.path.parent.name
        names: dict[str, None] = {}
        places = []

        for row in file.rows():
            values = self._adapted(row)
            names.update(dict.fromkeys(values))
            with placed(row.where):
                id = plain_text(values.get(fields.id or "id")) or f"{stem}:{row.number}"
                once(validated(ID, id, fields.id or "id", "a short text in one line"), self._ids, "question")
                group = plain_text(values.get(fields.group or "group"))
                split = self._splits[number] or plain_text(values.get(fields.split or "split"))
            places.append(Place(number, row.number, id, split, group))

        if not places:
            raise UserError(f"{file.path} has no questions: write one a line or row, or take the file away")
        columns = Columns(fields, names, str(file.path))
        # A layout of the hub leaves out what no run needs.
        if columns.unread and self.layout is None:
            unread = ", ".join(map(shortened, columns.unread))
            self.note(
                f"{file.path}: columns of no field are not read: {unread}; data.fields.<field>=<column> names one"
            )
        self._columns.append(columns)
        return places

    def _adapted(self, row: Row) -> Values:
        if self.layout is None:
            return row.values
        with placed(row.where):
            return self.layout.adapted(row.values)

    @cached_property
    def _evaluated_split(self) -> str:
        """The split that is evaluated. Raises UserError where there are several and none is named."""
        splits = list(dict.fromkeys(place.split for place in self._places))
        further = [split for split in splits if split not in TRAIN]
        evaluated = self.settings.evaluated
        if evaluated is None and self.layout and self.layout.evaluated in further:
            evaluated = self.layout.evaluated
        if evaluated is not None:
            if evaluated not in splits:
                raise UserError(f"data.evaluated={evaluated}: there is no such split; there are {', '.join(splits)}")
            return evaluated
        if len(further) > 1:
            raise UserError(
                f"{self.folder} has the splits {', '.join(splits)}: name the one to evaluate, "
                f"data.evaluated={further[0]}"
            )
        if further:
            return further[0]
        self.note(f"file: all questions are of the split {splits[0]}; some are evaluated, others learned from")
        return splits[0]

    def _selected(self, name: str, count: int | None) -> Iterator[Place]:
        """Selects the questions of the training or the evaluation by seed. Of a group, training takes the first."""
        evaluated = self._evaluated_split
        is_training = name == "train"
        training_splits = {place.split for place in self._places if place.split in TRAIN} - {evaluated}
        splits = {evaluated}
        if is_training and training_splits:
            splits = training_splits
        places = [place for place in self._places if place.split in splits]
        units: Iterable[str] = dict.fromkeys(place.unit for place in places)
        if not training_splits:
            units = self._divided(list(units), name)
        selected = set(self.chosen(units, str, count))

        for place in places:
            if place.unit in selected:
                if is_training:
                    selected.remove(place.unit)
                yield place

    def _divided(self, units: Collection[str], name: str) -> Iterable[str]:
        """Divides the questions of the only split. Raises UserError where too few are left for either part."""
        train_share = self.settings.train_share
        if train_share is None:
            return self.divided(units, name)
        training = round(train_share * len(units))
        if training < self.request.held_out or training == len(units):
            raise UserError(
                f"data.train_share={train_share:g} makes {training:,} of {len(units):,} questions training questions, "
                f"and {self.request.held_out:,} are learned from: change it, or pruning.steps"
            )
        evaluated = set(self.chosen(units, str, len(units) - training))
        return [unit for unit in units if (unit in evaluated) != (name == "train")]

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        for place, record in self._records(self._selected(name, count)):
            yield self._item(place, record)

    def _records(
        self, places: Iterable[Place] | None = None, *, content: bool = False
    ) -> Iterator[tuple[Place, QuestionRecord]]:
        """Reads the questions at some places, in the files' order, or all. content: with the content of pictures."""
        places_by_file: dict[int, dict[int, Place]] = {}
        for place in self._places if places is None else places:
            places_by_file.setdefault(place.file, {})[place.row] = place

        for number, place_of_row in places_by_file.items():
            for row in self._row_files[number].rows(place_of_row.keys(), content=content):
                if row.number not in place_of_row:
                    continue
                values = self._adapted(row)
                with placed(row.where):
                    record = record_of(values, self._columns[number], self.naming)
                    if len(record.answers) > 1 and record.choices and self.settings.several == "all":
                        raise UserError("data.several=all: a question with choices has one right choice; name one")
                yield place_of_row[row.number], record

    def _item(self, place: Place, record: QuestionRecord) -> Item:
        pictures = self._picture_sources(place, record)
        cluster = record.cluster
        # Of a group, each question may have a copy of the picture.
        if not cluster and not place.group:
            cluster = next(iter(docs_of([*pictures, *record.tables])), "")
        return Item(
            question=Question(
                place.id,
                record.text,
                record.choices,
                compared="amounts" if self.settings.metric == "amounts" else "text",
            ),
            gold=record.answers,
            pool=docs_of([*pictures, *record.hint, *record.passages, *record.tables]),
            own=docs_of([*pictures, *record.hint]),
            tags=record.tags,
            group=place.group,
            cluster=cluster,
        )

    def sources(self) -> Iterator[Source]:
        """Question by question, pictures, hint, passages and tables. All questions are checked."""
        for place, record in self._records():
            yield from self._picture_sources(place, record)
            yield from record.hint
            yield from record.passages
            yield from record.tables

    def _picture_sources(self, place: Place, record: QuestionRecord) -> list[Source]:
        """Makes the sources of a question's pictures. Raises UserError for one whose file is missing."""
        file = self._row_files[place.file]
        folder = self._folders[place.file]
        sources = []
        for number, picture in enumerate(record.pictures):
            if file.has_content or picture.content:
                path = self._unpacked_picture(place, number)
                sources.append(image_source(f"{place.id}:picture{number or ''}", UNTITLED_PICTURE, "", path))
                continue
            name = str(file.path.parent.relative_to(folder.root) / picture.path)
            with placed(f"{file.path}, question {place.id}"):
                picture_file = folder.file(name)
                if picture_file is None:
                    raise UserError(f"the picture {name!r} is not in {folder}: copy it there, or correct its path")
            sources.append(image_source(name, UNTITLED_PICTURE, "", picture_file))
        return sources

    @cached_property
    def _picture_folder(self) -> Path:
        """Folder of unpacked pictures, another one for each state of the files."""
        states = [f"{file.path} {state_of(str(file.path))}" for file in self._row_files]
        return self.request.cache / "pictures" / digest(*states)

    def _unpacked_picture(self, place: Place, number: int) -> Path:
        # Its suffix may be wrong: Pillow detects the format.
        return self._picture_folder / f"{place.file}-{place.row}-{number}.png"

    def unpack(self, pictures: Iterable[Source]) -> None:
        missing = set[tuple[int, int]]()
        for source in pictures:
            path = Path(str(source.image))
            if path.parent == self._picture_folder and not path.is_file():
                file_number, row, _ = path.stem.split("-")
                missing.add((int(file_number), int(row)))

        places = [place for place in self._places if (place.file, place.row) in missing]
        for place, record in self._records(places, content=True):
            for number, picture in enumerate(record.pictures):
                with placed(f"{self._row_files[place.file].path}, question {place.id}"):
                    if picture.content is None:
                        raise UserError(f"picture {number + 1} has no content: write the file with it")
                    write_picture(self._unpacked_picture(place, number), picture.content)

    def score(self, item: Item, answer: str | None) -> Score:
        """Scores an answer by `data.metric`; of several gold answers by the best, or by all together."""
        golds: list[tuple[str, ...]] = [(gold,) for gold in item.gold]
        if self.settings.several == "all":
            golds = [item.gold]
        scores = [self._score(replace(item, gold=gold), answer) for gold in golds]
        return max(scores, key=lambda score: (score.utility, score.f1))

    def _score(self, item: Item, answer: str | None) -> Score:
        metric = self.settings.metric
        if item.question.choices:
            return choice_score(item, answer)
        if metric == "amounts":
            gold, scale = scaled(item.gold)
            em, f1 = official_score(answer, gold, scale, computed=False) if answer else (0.0, 0.0)
            return Score(em, f1)
        score = text_score(item, answer)
        if metric == "exact":
            return Score(score.strict_em or 0.0, score.f1)
        return Score(score.f1, score.f1) if metric == "f1" else score


def named_path(name: str | None, key: str) -> Path:
    """Returns the path of a file or folder of questions. Raises UserError where there is none."""
    if name is None:
        raise UserError(f"data=file needs {key}=<file or folder>, with {QuestionFile.release}; or data.hub=<name>")
    path = Path(name)
    try:
        is_there = path.is_file() or path.is_dir()
    except OSError:  # a name that is too long
        is_there = False
    if not is_there:
        raise UserError(f"{key}={name} is neither a file nor a folder: expected {QuestionFile.release}")
    if path.is_file() and not name.endswith((*SUFFIXES, ARRAY)):
        raise UserError(f"{key}={name}: expected a file that ends with one of {', '.join((*SUFFIXES, ARRAY))}")
    return path


def folder_of(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def splits_of(paths: Sequence[Path]) -> list[str]:
    """Returns the splits that the names of files, or of the folders of metadata, give; empty unless all give one."""
    splits = []
    for path in paths:
        name = path.name
        if name.startswith(METADATA):
            name = f"{path.parent.name}-"
        match = re.match(r"[a-z]+(?=[-_.])", name)
        splits.append(match[0] if match else "")
    if len(splits) > 1 and set(splits) <= set(SPLITS):
        return splits
    return [""] * len(splits)
