"""Remembers the files and digests of a release next to its indexes, so that unchanged files are read once."""

import hashlib
import inspect
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from actors.errors import UserError
from actors.messages import Source
from experiments.datasets.benchmark import Benchmark, check_image
from experiments.datasets.folder import FileState, state_of
from experiments.datasets.item import Dataset, Subset
from experiments.records.progress import Progress
from retrieval.index import corpus_digest


@dataclass
class ReadRelease:
    """Record of a reading of a release.

    files: size and date of every file and folder that was looked for; None where there was none.
    digests: of the corpus, without and with the pictures' sizes and dates.
    sources: the number of sources. notes: on this copy, for its user.
    decoded: the pictures that were decoded.
    """

    files: dict[str, FileState | None] = field(default_factory=dict)
    digests: dict[bool, str] = field(default_factory=dict)
    sources: int | None = None
    notes: tuple[str, ...] = ()
    decoded: set[str] = field(default_factory=set)


READ_RELEASE = TypeAdapter(ReadRelease)


class Manifest:
    """A data set's reading, kept in a folder. Of data sets without a release's folder nothing is kept."""

    def __init__(self, dataset: Dataset, folder: Path, progress: Progress) -> None:
        whole = dataset.whole if isinstance(dataset, Subset) else dataset
        self._dataset = dataset
        self._release = whole if isinstance(whole, Benchmark) else None
        self.progress = progress
        self._read = ReadRelease()
        if self._release:
            self._path = folder / f"release-{reading_key(self._release)}.json"
            self._read = read_manifest(self._path)

    def digest(self, with_pictures: bool) -> str:
        """Digests the corpus, as `corpus_digest`. Reads it where the release has changed since it was last read.

        Raises UserError for a missing or broken file, and for a picture whose header cannot be read.
        """
        release = self._release
        # Pictures that are written to the cache depend on the chosen questions.
        if release is None or (release.pictures == "checked" and with_pictures):
            return self._read_corpus(with_pictures)

        if with_pictures in self._read.digests:
            release.unpack()
            for note in self._read.notes:
                release.note(note)
        else:
            self._read.digests[with_pictures] = self._read_corpus(with_pictures)
            self._read.files = dict(release.folder.states)
            self._read.notes = tuple(release.notes)
            self._save()
        return self._read.digests[with_pictures]

    def _read_corpus(self, with_pictures: bool) -> str:
        self._read.sources = None
        return corpus_digest(lambda: self.counted("reading sources"), with_pictures)

    def counted(self, phase: str) -> Iterator[Source]:
        """Yields the sources of the corpus and shows their progress. Their number is known once they were read."""
        number = 0
        for source in self.progress.counted(phase, self._dataset.corpus(), self._read.sources):
            number += 1
            yield source
        self._read.sources = number

    @property
    def decodes(self) -> bool:
        """Tests whether pictures of the data set are decoded before they are used."""
        return self._release is not None and self._release.pictures == "decoded"

    def check_pictures(self, sources: Iterable[Source], keep: bool = False) -> None:
        """Decodes the pictures among sources, each once. keep: once for a release, also where it is interrupted.

        Raises UserError for one that cannot be decoded.
        """
        if not self.decodes:
            return
        decoded = self._read.decoded
        paths = [source.image for source in sources if source.image and source.image not in decoded]
        try:
            for path in self.progress.counted("checking pictures", paths, len(paths)):
                check_image(Path(path))
                decoded.add(path)
        finally:
            if keep and paths:
                self._save()

    def _save(self) -> None:
        """Keeps what was read. Another process may do the same at the same time."""
        unfinished = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(READ_RELEASE.dump_json(self._read))
            unfinished.replace(self._path)
        except OSError as error:
            raise UserError(f"{self._path} cannot be written ({error}): free some disk space") from error


def read_manifest(path: Path) -> ReadRelease:
    """Reads a manifest. It is empty where it is missing or damaged, or where a file of the release has changed."""
    try:
        read_release = READ_RELEASE.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return ReadRelease()
    if any(state_of(file) != state for file, state in read_release.files.items()):
        return ReadRelease()
    return read_release


def reading_key(release: Benchmark) -> str:
    """Digests everything that decides how a release's files are read: settings, folders and the loader's code."""
    settings = replace(release.settings, limit=None, check="used")
    loader = type(release)
    modules = {Path(inspect.getfile(loader)), *Path(inspect.getfile(Benchmark)).parent.glob("*.py")}
    parts = [loader.__qualname__, str(release.folder.root.absolute()), str(release.request.cache), settings]
    digest = hashlib.blake2b(repr([*parts, release.reads_with()]).encode(), digest_size=12)
    for module in sorted(modules):
        digest.update(module.read_bytes())
    return digest.hexdigest()
