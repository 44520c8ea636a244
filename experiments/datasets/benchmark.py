"""Base of the loaders of benchmarks: files, splits, limits by seed, links, checked pictures."""

import base64
import heapq
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from actors.errors import UserError
from actors.messages import Kind, Source, derive_seed
from actors.pictures import opened
from actors.whole_files import whole_file
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score, choice_score, text_score
from experiments.datasets.kept import CHOSEN_ITEMS, FOLDER, ChosenItems, code_key, read_unchanged, write_whole
from experiments.datasets.kind import DataRequest, DataSettings
from experiments.datasets.reading import once, placed

T = TypeVar("T")
Parts = Mapping[str, tuple[str, ...]]

log = logging.getLogger(__name__)


class Benchmark(ABC):
    """A benchmark's release in a folder, read lazily. It is a `Dataset`; a subclass reads its items and sources.

    A subclass may have attributes of `DatasetKind`.

    name, metric: as reports show them.
    release: where its files come from, for errors.
    parts: the paths that each of its files and folders may have; `train` is read only to learn.
    evaluated: the split that is evaluated.
    packed: files of the release hold many pictures each, which `unpack` writes to files of their own.
    notes: what its user should know of this copy, such as missing pictures; filled while it is read.
    """

    name: str
    metric = "EM"
    release: ClassVar[str]
    parts: ClassVar[Parts] = {}
    evaluated = "dev"
    packed = False

    def __init__(self, request: DataRequest) -> None:
        self.request = request
        self.settings = request.settings
        self.files = dict(self.parts)
        self.notes: list[str] = []
        self._chosen: dict[str, Sequence[Item]] = {}
        self.folder = Folder(request.root, self.release, allow_links=request.settings.allow_links)

    @classmethod
    def at(
        cls, root: Path, *, train: int | None = None, limit: int | None = None, seed: int = 0, **settings: Any
    ) -> Self:
        """Opens a folder without a run's configuration. Pictures are written to `root / "cache"`."""
        data = DataSettings(cls.name, str(root), limit, **settings)
        return cls(DataRequest(data, root / "cache", train, train or 0, seed, whole_corpus=False))

    @abstractmethod
    def split(self, name: str, count: int | None) -> Iterator[Item]:
        """Items of a split: `count` of them by seed, or all."""

    @abstractmethod
    def sources(self) -> Iterator[Source]:
        """Sources of the whole benchmark. One that comes again is left out of the corpus."""

    def check_files(self) -> None:
        """Raises UserError that names every missing part of the release, before anything is read."""
        parts = [part for part in self.files if part != "train" or self.request.held_out]
        self.folder.require(self.files[part] for part in parts)

    def path(self, part: str) -> Path:
        """Finds the file of a part of the release. Raises UserError where it is missing."""
        return self.folder.find(*self.files[part])

    def has(self, part: str) -> bool:
        return any(map(self.folder.file, self.files[part]))

    def picture(self, *names: str) -> str | None:
        """Finds a picture, or None where the release came without it."""
        file = self.folder.file(*names)
        return str(file) if file else None

    def note(self, line: str) -> None:
        """Adds a line to the notes, once, and to the log."""
        if line not in self.notes:
            self.notes.append(line)
            log.warning(line)

    def train(self) -> Iterator[Item]:
        """Training items. None where nothing is learned and the training file is not there."""
        if "train" in self.files and not self.request.held_out and not self.has("train"):
            return iter(())
        return self._items("train", self.request.train)

    def evaluate(self) -> Iterator[Item]:
        return self._items(self.evaluated, self.settings.limit)

    def _items(self, split: str, count: int | None) -> Iterator[Item]:
        """Reads a split where some of its items are chosen, once for a release, and each time where all are."""
        if count is None:
            return self.split(split, None)
        if split not in self._chosen:
            self._chosen[split] = self._choose(split, count)
        return iter(self._chosen[split])

    def _choose(self, split: str, count: int) -> Sequence[Item]:
        """Chooses items of a split, from the cache where the release has not changed."""
        request = self.request
        key = self.reading_key(split, count, self.settings.limit, request.held_out, request.seed)
        path = request.cache / FOLDER / f"{key}.json"
        reading = read_unchanged(path, CHOSEN_ITEMS)
        if reading is None:
            items = tuple(self.split(split, count))
            reading = ChosenItems(self.folder.states, tuple(self.notes), items)
            try:
                write_whole(path, CHOSEN_ITEMS.dump_json(reading))
            except UserError as error:
                self.note(str(error))
        for note in reading.notes:
            self.note(note)
        return reading.items

    def reading_key(self, *parts: object) -> str:
        """Digests everything that decides how the release's files are read: settings, folders, this code, `parts`."""
        settings = replace(self.settings, limit=None, check="used")
        folders = (str(self.folder.root.absolute()), str(self.request.cache))
        return code_key(type(self), *folders, settings, self.reads_with(), *parts)

    def corpus(self) -> Iterator[Source]:
        """Every source once. Raises UserError for a missing or broken file. Pictures are not opened.

        A picture whose file is not there has `image=None`; a warning has their number.
        """
        ids = set[str]()
        pictures = 0
        missing_files = 0

        for source in self.sources():
            if source.id in ids:
                continue
            ids.add(source.id)
            if source.kind is Kind.IMAGE:
                pictures += 1
                if source.image is None:
                    missing_files += 1

            yield source

        if missing_files:
            self.note(
                f"{self.name}: {missing_files:,} of {pictures:,} pictures have no file in {self.folder} and are "
                "described in words"
            )

    def unpack(self, pictures: Iterable[Source]) -> None:
        """Writes the files of pictures that are not there yet, where the release is `packed`."""
        return

    def reads_with(self) -> tuple[object, ...]:
        """Returns what its sources depend on apart from files, settings and this code."""
        return ()

    def score(self, item: Item, answer: str | None) -> Score:
        """Accuracy of a choice. For free text M³Prune's EM (containment), and F1 of MultimodalQA's script."""
        return choice_score(item, answer) if item.question.choices else text_score(item, answer)

    def chosen(self, items: Iterable[T], id_of: Callable[[T], str], count: int | None) -> Iterator[T]:
        """Chooses items by the run's seed, as `choose`."""
        return choose(items, id_of, count, self.request.seed, str(self.folder))

    def divided(self, ids: Collection[str], name: str) -> Iterator[str]:
        """Yields the training or the evaluated questions among those of a single split, in their order.

        Evaluated are the first `data.limit` in an order by seed, training questions its last ones. Raises UserError
        where there are too few.
        """
        total = len(ids)
        train = self.request.held_out
        limit = self.settings.limit
        evaluated = total - train if limit is None else min(limit, total)
        if evaluated < 1 or train + evaluated > total:
            raise UserError(
                f"of {total:,} questions, {train:,} are to be learned from and {limit or 'the rest'} evaluated, and "
                "none may be both: lower data.limit, pruning.steps or training.questions_per_step, or add questions"
            )
        if name != "train":
            return self.chosen(ids, str, evaluated)
        not_trained = set(self.chosen(ids, str, total - train))
        return (id for id in ids if id not in not_trained)


class SingleSplit(Benchmark):
    """A benchmark with labels for one split only: training questions are taken out of the evaluation (`divided`)."""

    @property
    @abstractmethod
    def groups(self) -> Mapping[str, Sequence[Item]]:
        """Items by question. Several where a question is asked several times over."""

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        """Items of a split; training questions are asked once. Raises UserError where there are too few."""
        ids = self.divided(self.groups, name)
        if name == "train":
            return (self.groups[id][0] for id in ids)
        return chain.from_iterable(self.groups[id] for id in ids)


def text_source(doc: str, title: str, text: str) -> Source:
    """Makes the only source of a document."""
    return Source(doc, doc, Kind.TEXT, title, text)


def image_source(doc: str, title: str, text: str, file: str | Path | None = None) -> Source:
    """Makes the picture that is a document."""
    return Source(doc, doc, Kind.IMAGE, title, text, str(file) if file else None)


def docs_of(sources: Iterable[Source]) -> tuple[str, ...]:
    """Lists the documents of sources, each once."""
    return tuple(dict.fromkeys(source.doc for source in sources))


def choose(
    items: Iterable[T], id_of: Callable[[T], str], count: int | None, seed: int, where: str = "data"
) -> Iterator[T]:
    """Chooses the first `count` items in an order by seed and id, or all. They keep their own order.

    A larger count adds to a smaller one. Raises UserError, which begins with `where`, for an id that recurs.
    """
    if count is None:
        return iter(items)

    ids = set[str]()

    def order(numbered: tuple[int, T]) -> tuple[int, str]:
        id = id_of(numbered[1])
        with placed(where):
            once(id, ids, "question")
        return derive_seed(seed, id), id

    # A heap, not a sort: MultimodalQA's 24,000 training questions need not be in memory for a choice of 40.
    first = heapq.nsmallest(count, enumerate(items), key=order)
    return (item for _, item in sorted(first, key=itemgetter(0)))


def check_image(path: Path) -> None:
    """Decodes a picture. Raises UserError as `opened` raises OSError."""
    try:
        # Warnings are about metadata, which is not read.
        with warnings.catch_warnings(action="ignore"), opened(path) as picture:
            picture.draft("RGB", (1, 1))  # much faster, and every byte is still read
            picture.load()
    except OSError as error:
        raise UserError(str(error)) from error


def write_picture(file: Path, encoded: str | bytes) -> None:
    """Writes a picture, in base64 or as bytes, to `file` unless it is there. Its suffix may be wrong: Pillow detects
    the format.

    Raises UserError for content that is not a picture, and for a file that cannot be written.
    """
    if file.is_file():
        return

    try:
        # Without `validate` characters outside of the alphabet are skipped, and a damaged file would go unnoticed.
        content = encoded if isinstance(encoded, bytes) else base64.b64decode(encoded.strip(), validate=True)
        with whole_file(file) as unchecked:
            unchecked.write_bytes(content)
            check_image(unchecked)
    except OSError as error:
        raise UserError(f"the picture {file} cannot be written ({error}): free some disk space") from error
    except (ValueError, UserError) as error:
        raise UserError("the picture is not a picture, nor base64 text of one: download the file again") from error
