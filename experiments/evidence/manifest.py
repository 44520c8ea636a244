"""Remembers the files and digests of a release next to its indexes, so that unchanged files are read once."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from pydantic import TypeAdapter

from actors.errors import UserError
from actors.messages import Kind, Source
from experiments.datasets.benchmark import Benchmark, check_image
from experiments.datasets.folder import FileState, state_of
from experiments.datasets.item import Dataset, Subset
from experiments.datasets.kept import read_unchanged, write_whole
from experiments.records.progress import Progress
from retrieval.index import corpus_digest

DECODERS = min(8, os.cpu_count() or 1)  # pictures that are decoded at a time, each some MB


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
        self._folder = folder
        self._read = ReadRelease()
        self._copy: IO[bytes] | None = None
        if self._release:
            self._path = folder / f"release-{self._release.reading_key()}.json"
            # It is empty where it is missing or damaged, or where a file of the release has changed.
            self._read = read_unchanged(self._path, READ_RELEASE) or ReadRelease()

    def digest(self, with_pictures: bool) -> str:
        """Digests the corpus, as `corpus_digest`. Reads it where the release has changed since it was last read.

        Raises UserError for a missing or broken file.
        """
        release = self._release
        if release is None:
            return self._read_corpus(with_pictures)
        if release.packed and with_pictures:
            # These depend on the chosen questions, and so does what an encoder of pictures reads.
            self._unpack_searched(release)
            return self._read_corpus(with_pictures)

        if with_pictures in self._read.digests:
            for note in self._read.notes:
                release.note(note)
        else:
            self._read.digests[with_pictures] = self._read_corpus(with_pictures)
            self._read.files |= release.folder.states
            self._read.notes = tuple(release.notes)
            self._save()
        return self._read.digests[with_pictures]

    def _read_corpus(self, with_pictures: bool) -> str:
        """Digests the corpus, and copies it: an index that has to be built need not read the release again."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._copy = copy = TemporaryFile(dir=self._folder)  # noqa: SIM115 (`close` closes it)
        except OSError as error:
            raise UserError(f"{self._folder} cannot be written ({error}): choose another cache=") from error

        def read() -> Iterator[Source]:
            for source in self._dataset.corpus():
                if self._release is None and source.image and not os.path.isfile(source.image):
                    raise UserError(
                        f"data={self._dataset.name}: source {source.id} names a picture that is not there, "
                        f"{source.image}: copy it there, or leave its image out"
                    )
                fields = (source.id, source.doc, source.kind.value, source.title, source.text, source.image)
                copy.write(json.dumps(fields).encode() + b"\n")
                yield source

        number = 0

        def counted() -> Iterator[Source]:
            nonlocal number
            for source in self.progress.counted("reading sources", read(), None):
                number += 1
                yield source

        digest = corpus_digest(counted, with_pictures)
        self._read.sources = number
        return digest

    def sources(self) -> Iterator[Source]:
        """Yields the corpus, of which `digest` was called before, and shows the progress of encoding it."""
        return self.progress.counted("encoding sources", self._read_again(), self._read.sources)

    def _read_again(self) -> Iterator[Source]:
        copy = self._copy
        if copy is None:
            yield from self._dataset.corpus()
            return
        copy.seek(0)
        for line in copy:
            id, doc, kind, title, text, image = json.loads(line)
            yield Source(id, doc, Kind(kind), title, text, image)

    def close(self) -> None:
        """Deletes the copy of the corpus."""
        if self._copy:
            self._copy.close()
            self._copy = None

    def _unpack_searched(self, release: Benchmark) -> None:
        """Unpacks every picture that a search may find: of the chosen questions' pools, or of the whole corpus."""
        items = chain(release.train(), release.evaluate())
        pools = {doc for item in items for doc in item.pool}
        pictures: list[Source] = []
        for source in release.corpus():
            if source.image and (release.request.whole_corpus or source.doc in pools):
                pictures.append(source)
        self._unpack(pictures)

    def _unpack(self, pictures: Sequence[Source]) -> None:
        if self._release:
            self._release.unpack(self.progress.counted("unpacking pictures", pictures, len(pictures)))

    def check_pictures(self, sources: Iterable[Source], keep: bool = False) -> None:
        """Decodes the pictures among sources, each once, after unpacking them.

        keep: once for a release, also where it is interrupted. Raises UserError for one that cannot be decoded.
        """
        decoded = self._read.decoded
        pictures = [source for source in sources if source.image and source.image not in decoded]
        if not pictures:
            return
        self._unpack(pictures)
        paths = dict.fromkeys(str(source.image) for source in pictures)
        # Pillow decodes side by side in threads.
        pool = ThreadPoolExecutor(DECODERS)
        try:
            checks = zip(paths, pool.map(check_image, map(Path, paths)), strict=True)
            for path, _ in self.progress.counted("checking pictures", checks, len(paths)):
                self._read.files[path] = state_of(path)
                decoded.add(path)
        finally:
            pool.shutdown(cancel_futures=True)
            if keep and self._release:
                self._save()

    def _save(self) -> None:
        """Keeps what was read. Another process may do the same at the same time."""
        write_whole(self._path, READ_RELEASE.dump_json(self._read))
