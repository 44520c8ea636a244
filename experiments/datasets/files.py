"""Reading a benchmark's files, with one clear line for each way in which they can be missing or broken."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from PIL import Image
from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.layouts.fields import checked
from experiments.datasets.layouts.limits import LINE, MB, PICTURE, ROW, WHOLE
from experiments.datasets.lines import TextLines, byte_lines, reading

T = TypeVar("T")
U = TypeVar("U")

# No others: Pillow reads some formats by starting a program (EPS), and the releases hold none but these.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")


def row_cells(headers: Iterable[str], values: Iterable[str]) -> list[str]:
    """A table row as `header = value` parts, without empty cells. Raises UserError for a row of another width."""
    headers, values = list(headers), list(values)
    # A row of another width would put values under wrong headers.
    if len(headers) != len(values):
        raise UserError(f"a table row of {len(values)} cells under {len(headers)} headers: expected as many")
    return [f"{header} = {value}" if header else value for header, value in zip(headers, values, strict=True) if value]


def read_lines(path: Path, schema: TypeAdapter[T], parse: Callable[[T], U | None]) -> Iterator[U]:
    """The records of a .jsonl or .jsonl.gz file as `parse` reads them, one at a time; None is left out.

    Raises UserError with file and line for a line that is not of the schema or that `parse` refuses, and with the file
    for one that is too large or ends too early.
    """
    for number, line in enumerate(byte_lines(path, LINE), start=1):
        if text := line.strip():
            where = f"{path}, line {number}"
            value = from_record(checked(schema, text, where), parse, where)
            if value is not None:
                yield value


def from_record(record: T, parse: Callable[[T], U], where: str) -> U:
    """`parse(record)`, whose UserError lacks only the place, which is put before it."""
    try:
        return parse(record)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def read_json(path: Path, schema: TypeAdapter[T]) -> T:
    """A small JSON file as a whole. Raises UserError when it is too large, broken or of another form."""
    with reading(path), path.open("rb") as file:
        content = file.read(WHOLE + 1)
    if len(content) > WHOLE:
        raise UserError(f"{path} has more than {WHOLE // MB} MB: no official release has so much; download it again")
    return checked(schema, content.removeprefix(b"\xef\xbb\xbf"), str(path))


def read_table(path: Path, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """The rows of a tab-separated file, its header first, each with the number of its last line.

    quoted: whether quotation marks enclose a field, which may then go over several lines.
    Raises UserError for a file that is broken or not UTF-8, and for a row that is too long.
    """
    # Of the module, for all readers: a picture is one field, and the default is 128 KiB.
    csv.field_size_limit(ROW)
    lines = TextLines(path, ROW)
    rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    while True:
        lines.begin()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{path}, line {lines.number} is not of a tab-separated file ({error}): download it again"
            ) from error
        if row:
            yield lines.number, row


def check_image(path: Path, *, decode: bool = True) -> None:
    """Decode a picture once and forget it; UserError when that fails. A JPEG is decoded at an eighth of its size.

    Without `decode` only its beginning is read: that it is a picture, and not larger than is allowed.
    """
    try:
        if path.stat().st_size > PICTURE:
            raise UserError(f"image {path} has more than {PICTURE // MB} MB: make it smaller or remove it")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata that nobody reads
            # A few KB may decode to as many GB: Pillow itself refuses only twice as many pixels as it warns of.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            Image.init()  # knows all of the formats then; the second time it does nothing
            with Image.open(path, formats=FORMATS) as picture:
                if decode:
                    picture.draft("RGB", (1, 1))  # much faster, and every byte is still read
                    picture.load()
    except UserError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        most = Image.MAX_IMAGE_PIXELS or 0
        raise UserError(f"image {path} has more than {most // 10**6} million pixels: make it smaller") from error
    # Pillow's decoders raise whatever a damaged file makes them stumble on; its messages may hold several lines.
    except Exception as error:
        reason = type(error).__name__
        raise UserError(f"image {path} cannot be decoded ({reason}): copy it again or remove it") from error
