"""What goes wrong with the content of a data set's files, by class: each changes one file.

Other encodings, links, pipes and missing files are examples in `test_hostile_files.py` and `test_every_data_set.py`.
"""

import gzip
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import openpyxl
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

# One range whatever is drawn from: files differ a little from one build to the next (a sheet holds the time).
NUMBER = st.integers(0, 2**20)
RAW = "\ue000raw\ue000"  # stands for text that `json.dumps` would not write
ODD = st.one_of(
    st.sampled_from([None, True, 0, -1, 3, 2**70, 1.5, [], {}, [[]], [None], {"a": [1]}, "", " ", "a", "nan", "1e400"]),
    st.sampled_from(["\ud800", "a\x1b[2Jb", "two\nlines", "\x00", "\u202e", "x" * 300, "é" * 200, "y" * 70_000]),
    st.sampled_from(["/etc/hostname", "../../../../../etc/hostname", "..", ".", "/usr", "a/../../..", "/dev/zero"]),
    st.text(max_size=8),
    st.integers(),
    st.floats(),
)
# Bytes that take no room on a disk.
SPARSE = [1, 2**20, 2**31, 20 * 2**30]
ODD_TEXT = ODD.filter(lambda value: isinstance(value, str))
RAW_TEXTS = st.sampled_from(["[" * 100_000, '{"a":' * 50_000, "9" * 10_000, "NaN", "1e999", "-" * 9, "'x'", "tru", '"'])

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # no sheet holds these


def pick(values: Sequence[Any], draw: Draw) -> Any:
    return values[draw(NUMBER) % len(values)]


def is_json(path: Path) -> bool:
    return ".json" in path.name


def is_table(path: Path) -> bool:
    return path.suffix == ".tsv"


def is_sheet(path: Path) -> bool:
    return path.suffix == ".xlsx"


def is_picture(path: Path) -> bool:
    return path.suffix in (".png", ".jpg")


def read(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield from places(value, (*path, key))


def in_json(path: Path, draw: Draw, change: Callable[[Any, Any], None], raw: str = "") -> None:
    """Applies a change to what holds a place of the file's tree, and to the place's key."""
    lines = [json.loads(line) for line in read(path).splitlines() if line.strip()]
    inner = [place for place in places(lines) if len(place) > 1] or [(0,)]
    *outer, key = pick(inner, draw)
    holder: Any = lines
    for step in outer:
        holder = holder[step]
    change(holder, key)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write(path, text.replace(json.dumps(RAW), raw).encode())


def value(path: Path, draw: Draw) -> None:
    """Another type, null, or an odd text."""
    if is_json(path):
        odd = draw(ODD)
        in_json(path, draw, lambda holder, key: holder.__setitem__(key, odd))
    elif is_table(path):
        rows = [line.split("\t") for line in path.read_text().split("\n")]
        row = pick(rows, draw)
        row[draw(NUMBER) % len(row)] = draw(ODD_TEXT)
        path.write_text("\n".join(map("\t".join, rows)), errors="surrogatepass")
    elif is_sheet(path):
        book = openpyxl.load_workbook(path)
        sheet = book.worksheets[0]
        cell = sheet.cell(1 + draw(NUMBER) % sheet.max_row, 1 + draw(NUMBER) % sheet.max_column)
        odd = draw(ODD)
        try:
            cell.value = NOT_IN_XML.sub("", odd) if isinstance(odd, str) else odd
        except ValueError:  # no sheet holds such a value
            cell.value = None
        book.save(path)
    else:
        path.write_bytes(draw(ODD_TEXT).encode(errors="surrogatepass"))


def raw(path: Path, draw: Draw) -> None:
    """Endless nesting, endless digits, words that are no JSON."""
    if is_json(path):
        in_json(path, draw, lambda holder, key: holder.__setitem__(key, RAW), draw(RAW_TEXTS))
    else:
        write(path, draw(RAW_TEXTS).encode())


def structure(path: Path, draw: Draw) -> None:
    """A field, row or record that is not there, or is there twice."""
    twice = draw(st.booleans())

    def change(holder: Any, key: Any) -> None:
        if not twice:
            del holder[key]
        elif isinstance(holder, list):
            holder.append(holder[key])
        else:
            holder[f"{key}2"] = holder[key]

    if is_json(path):
        in_json(path, draw, change)
    elif is_sheet(path):
        book = openpyxl.load_workbook(path)
        sheet = book.worksheets[0]
        number = 1 + draw(NUMBER) % sheet.max_row
        if twice:
            sheet.append([cell.value for cell in sheet[number]])
        else:
            draw(st.sampled_from([sheet.delete_rows, sheet.delete_cols]))(number)
        book.save(path)
    else:
        lines = path.read_bytes().split(b"\n")
        line = draw(NUMBER) % len(lines)
        lines[line : line + 1] = [lines[line]] * 2 if twice else []
        path.write_bytes(b"\n".join(lines))


def damage(path: Path, draw: Draw) -> None:
    """Some bytes are others."""
    content = bytearray(path.read_bytes() or b"x")
    for _ in range(draw(st.integers(1, 4))):
        content[draw(NUMBER) % len(content)] = draw(NUMBER) % 256
    path.write_bytes(content)


def truncation(path: Path, draw: Draw) -> None:
    """The end is not there, or nothing is."""
    content = read(path) if draw(st.booleans()) else path.read_bytes()
    path.write_bytes(content[: draw(NUMBER) % max(1, len(content))])


def size(path: Path, draw: Draw) -> None:
    """A line, a sheet, a picture or a name without end."""
    if is_sheet(path):
        row, cell = draw(st.sampled_from([("1048576", "XFD1048576"), ("99999999", "A99999999"), ("9", "ZZZZZ9")]))
        _rewrite_sheet(path, f'<row r="{row}"><c r="{cell}" t="str"><v>x</v></c></row></sheetData>')
    elif is_picture(path):
        content = bytearray(path.read_bytes())
        content[16:24] = (60_000).to_bytes(4, "big") * 2  # width and height of a PNG
        content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
        path.write_bytes(content)
    elif is_json(path):
        opened, filler, closed = draw(st.sampled_from([(b'{"a": [', b"[],", b"[]]}"), (b"[", b'"",', b'""]')]))
        content = opened + filler * (12_000_000 // len(filler)) + closed
        gz = path.with_name(f"{path.name.removesuffix('.gz')}.gz")
        if ".jsonl" in path.name:
            path.unlink()
            gz.write_bytes(gzip.compress(content, 1))
        else:
            path.write_bytes(content)
    else:
        path.write_bytes(path.read_bytes() + b"\t" * 2_000_000 + b'"' + b"z" * 70_000_000)


def _rewrite_sheet(path: Path, tail: str) -> None:
    with zipfile.ZipFile(path) as packed:
        parts = {part: packed.read(part) for part in packed.namelist()}
    with zipfile.ZipFile(path, "w") as packed:
        for part, content in parts.items():
            new = content.replace(b"</sheetData>", tail.encode()) if "worksheets" in part else content
            packed.writestr(part, new)


def sparse(path: Path, draw: Draw) -> None:
    """Gigabytes of nothing follow, or are all there is, which take no room on the disk."""
    if draw(st.booleans()):
        path.write_bytes(b"")
    os.truncate(path, path.stat().st_size + draw(st.sampled_from(SPARSE)))


MUTATIONS: dict[str, Callable[[Path, Draw], None]] = {
    change.__name__: change for change in (value, raw, structure, damage, truncation, size, sparse)
}
