"""Recognises text in pictures, and keeps it in a folder: each picture is read once."""

import hashlib
import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from actors.file_locks import file_lock
from actors.pictures import identity, read_picture
from actors.whole_files import whole_file

SURE = 0.6  # least confidence of a recognised word, as in ViDoRAG
SAME_LINE = 0.5  # the vertical overlap of two boxes on one line, as a share of the lower one's height


@dataclass(frozen=True, slots=True)
class Box:
    """Place of a word in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


class Ocr:
    """Reads pictures with RapidOCR (`pip install '.[ocr]'`), whose package contains its models.

    `folder` has a text file for every picture, by its content and the engine's version: no run reads a picture twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = version("rapidocr")

    def text(self, picture: Path) -> str:
        """Returns the recognised text, line by line; empty without text.

        Raises OSError when the picture or the folder cannot be used.
        """
        # The engine's version is part of the digest: another version reads the picture again.
        engine = self._version.encode()[:16]
        digest = hashlib.blake2b(identity(picture), digest_size=16, person=engine)
        file = self._folder / f"{digest.hexdigest()}.txt"
        if not file.is_file():
            self._folder.mkdir(parents=True, exist_ok=True)
            with file_lock(self._folder / "reading.lock"):  # two runs at once would read the same pictures
                if not file.is_file():
                    with whole_file(file) as unfinished:
                        unfinished.write_text(recognised(picture), encoding="utf-8")

        return file.read_text(encoding="utf-8")


def recognised(picture: Path) -> str:
    """Reads the text of a picture, line by line. Raises OSError when it cannot be opened."""
    pixels = np.asarray(read_picture(picture))
    recognise = _engine()
    result = recognise(pixels[:, :, ::-1])  # the engine takes blue first
    if result.txts is None:
        return ""
    words: list[tuple[Box, str]] = []
    for corners, text, score in zip(result.boxes.tolist(), result.txts, result.scores, strict=True):
        if score >= SURE:
            across, down = zip(*corners, strict=True)
            box = Box(left=min(across), top=min(down), right=max(across), bottom=max(down))
            words.append((box, text))
    return in_reading_order(words)


@cache
def _engine() -> Any:
    """The engine, once per process: its models take seconds to load."""
    return importlib.import_module("rapidocr").RapidOCR(params={"Global.log_level": "critical"})


def available() -> bool:
    """Tests whether the optional libraries are installed."""
    return all(importlib.util.find_spec(name) for name in ("rapidocr", "onnxruntime"))


def in_reading_order(words: Sequence[tuple[Box, str]]) -> str:
    """Joins words into lines from top to bottom, each from left to right. Columns are not separated."""
    # A line is the box of its first word, and each word with its left end.
    lines: list[tuple[Box, list[tuple[float, str]]]] = []
    for box, text in sorted(words, key=lambda word: (word[0].middle, word[0].left)):
        if not lines or not _same_line(lines[-1][0], box):
            lines.append((box, []))
        _, line_words = lines[-1]
        line_words.append((box.left, text))

    texts: list[str] = []
    for _, line_words in lines:
        line_words.sort(key=itemgetter(0))
        texts.append(" ".join(text for _, text in line_words))

    return "\n".join(texts)


def _same_line(first: Box, second: Box) -> bool:
    overlap = min(first.bottom, second.bottom) - max(first.top, second.top)
    return overlap > SAME_LINE * min(first.height, second.height)
