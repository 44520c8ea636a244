"""Pictures are what a viewer shows: for engines, endpoints, encoders and OCR alike."""

import base64
import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from actors import pictures
from actors.autogen.conversation import SourceImage
from actors.backends.vllm_model import open_pictures
from actors.messages import Kind, Request, Source
from actors.pictures import data_url, identity, read_picture

Pixels = list[list[int]]
WHITE, RED = [255, 255, 255], [255, 0, 0]
STRIPES = Image.new("RGB", (48, 32), "white")
ImageDraw.Draw(STRIPES).rectangle((0, 0, 15, 31), "red")
ImageDraw.Draw(STRIPES).rectangle((0, 0, 47, 7), "blue")


def saved(picture: Image.Image, form: str, **how: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **how)
    return buffer.getvalue()


def png(width: int, depth: int, colour: int, row: bytes, **chunks: bytes) -> bytes:
    """A PNG of one row, of kinds that Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, 1, depth, colour, 0, 0, 0)
    parts = {"IHDR": header, **chunks, "IDAT": zlib.compress(b"\0" + row), "IEND": b""}
    framed = ((name.encode() + content, len(content)) for name, content in parts.items())
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", size) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk, size in framed
    )


def grey(*values: float, dtype: type = np.float32) -> bytes:
    return saved(Image.fromarray(np.array([values], dtype=dtype)), "TIFF")


def frames(form: str) -> bytes:
    first, second = (Image.new("RGB", (1, 1), colour) for colour in ("red", "blue"))
    return saved(first, form, save_all=True, append_images=[second], lossless=True)


PALETTE = Image.new("P", (2, 1))
PALETTE.putpalette([0, 0, 0, 255, 0, 0])
PALETTE.putdata([0, 1])
HALF = [[0] * 3, [128] * 3]

KINDS: dict[str, tuple[bytes, Pixels]] = {
    "transparent": (saved(Image.new("RGBA", (1, 1), (0, 0, 0, 0)), "PNG"), [WHITE]),
    "half transparent": (saved(Image.new("RGBA", (1, 1), (255, 0, 0, 127)), "PNG"), [[255, 128, 128]]),
    "grey with alpha": (saved(Image.new("LA", (1, 1), (0, 0)), "PNG"), [WHITE]),
    "palette with a transparent colour": (saved(PALETTE, "PNG", transparency=0), [WHITE, RED]),
    "palette with alphas": (png(2, 8, 3, b"\0\1", PLTE=b"\0\0\0\xff\0\0", tRNS=b"\0\xff"), [WHITE, RED]),
    "GIF with a transparent colour": (saved(PALETTE, "GIF", transparency=0), [WHITE, RED]),
    "WebP with alpha": (saved(Image.new("RGBA", (1, 1), (9, 9, 9, 0)), "WEBP", lossless=True), [WHITE]),
    "grey with a transparent value": (png(2, 8, 0, b"\0\x80", tRNS=b"\0\0"), [WHITE, [128] * 3]),
    "colours with a transparent one": (png(2, 8, 2, b"\0\0\0\xff\0\0", tRNS=bytes(6)), [WHITE, RED]),
    "1 bit": (png(8, 1, 0, b"\x80"), [WHITE, *[[0] * 3] * 7]),
    "1 bit with a transparent value": (png(8, 1, 0, b"\x80", tRNS=b"\0\0"), [WHITE] * 8),
    "4 bits": (png(2, 4, 0, b"\x0f"), [[0] * 3, WHITE]),
    "grey of 16 bits": (png(2, 16, 0, struct.pack(">2H", 0, 32_768)), HALF),
    "grey of 16 bits, transparent": (png(2, 16, 0, struct.pack(">2H", 9, 32_768), tRNS=b"\0\x09"), [WHITE, [128] * 3]),
    "colours of 16 bits": (png(1, 16, 2, struct.pack(">3H", 65_535, 0, 0)), [RED]),
    "colours of 16 bits, transparent": (
        png(2, 16, 2, struct.pack(">6H", 0, 0, 0, 32_768, 0, 0), tRNS=struct.pack(">3H", 32_768, 0, 0)),
        [[0] * 3, WHITE],
    ),
    "grey and alpha of 16 bits": (png(2, 16, 4, struct.pack(">4H", 0, 0, 32_768, 65_535)), [WHITE, [128] * 3]),
    "colours and alpha of 16 bits": (png(1, 16, 6, struct.pack(">4H", 0, 0, 0, 0)), [WHITE]),
    "TIFF of 16 bits": (grey(0, 32_768, dtype=np.uint16), HALF),
    "TIFF of 32 bits": (grey(0, 128, 255, dtype=np.int32), [*HALF, WHITE]),
    "TIFF of floats up to 1": (grey(0, 0.5, 1), [*HALF, WHITE]),
    "TIFF of floats up to 255": (grey(0, 128, 255), [*HALF, WHITE]),
    "TIFF of other floats": (grey(-128, 0, 127), [*HALF, WHITE]),
    "TIFF without a number": (grey(float("nan"), float("inf"), 0.5, 1), [[0] * 3, *HALF, WHITE]),
    "TIFF of one float": (grey(7e6, 7e6), [[0] * 3] * 2),
    "CMYK": (saved(Image.new("CMYK", (1, 1), (0, 255, 255, 0)), "JPEG", quality=100), [RED]),
    "BMP": (saved(Image.new("RGB", (1, 1), "red"), "BMP"), [RED]),
    **{f"first frame of {form}": (frames(form), [RED]) for form in ("GIF", "PNG", "WEBP", "TIFF")},
}


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "picture"
        path.write_bytes(content)
        return path

    return write


def sent(path: Path) -> Image.Image:
    """A picture as an endpoint decodes it, with the colours and without the rest."""
    content = base64.b64decode(data_url(path).partition(",")[2])
    with Image.open(io.BytesIO(content)) as picture:
        return picture.convert("RGB")


@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_gets_what_a_viewer_shows(kind: str, file: Callable[[bytes], Path]) -> None:
    content, expected = KINDS[kind]
    path = file(content)
    source = Source("p", "p", Kind.IMAGE, "", "", str(path))
    (engine,) = open_pictures(Request("", "", "", "", "", images=(source,)))
    for picture in (read_picture(path), engine, sent(path), SourceImage(source).image):
        assert (picture.mode, np.asarray(picture)[0].tolist()[: len(expected)]) == ("RGB", expected)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(10))
def test_a_picture_stands_upright(form: str, orientation: int, file: Callable[[bytes], Path]) -> None:
    turned = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90"}
    turned |= {7: "TRANSVERSE", 8: "ROTATE_270"}  # each the opposite of how the picture is shown
    way = turned.get(orientation)
    stored = STRIPES if way is None else STRIPES.transpose(Image.Transpose[way])
    exif = Image.Exif()
    exif[0x112] = orientation
    how = {"quality": 100, "subsampling": 0} if form == "JPEG" else {"lossless": True} if form == "WEBP" else {}
    path = file(saved(stored, form, exif=exif, **how))
    for picture in (read_picture(path), sent(path)):
        assert picture.size == STRIPES.size
        assert np.abs(np.asarray(picture).astype(int) - np.asarray(STRIPES)).max() < 8


def test_a_file_that_shows_its_stored_pixels_is_sent_as_it_is(file: Callable[[bytes], Path]) -> None:
    for form in ("JPEG", "PNG", "WEBP", "GIF"):
        path = file(saved(STRIPES, form))
        assert data_url(path) == f"data:image/{form.lower()};base64,{base64.b64encode(path.read_bytes()).decode()}"
        assert identity(path) == path.read_bytes()


def test_a_picture_that_is_too_large_for_endpoints_is_scaled_down(
    file: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "LARGEST_BYTES", 20_000)
    monkeypatch.setattr(pictures, "LONGEST_SIDE", 60)
    path = file(saved(Image.effect_noise((300, 200), 90), "PNG"))
    assert data_url(path).startswith("data:image/jpeg;")
    assert sent(path).size == (60, 40)


def test_what_is_kept_of_the_stored_pixels_is_not_found_for_the_shown_ones(file: Callable[[bytes], Path]) -> None:
    path = file(KINDS["transparent"][0])
    assert identity(path) != path.read_bytes()


@pytest.mark.parametrize("name", ["missing", "folder", "pipe", "zero", "damaged", "truncated", "empty", "loop"])
def test_what_is_no_picture_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    (tmp_path / "damaged").write_bytes(b"\x89PNG damaged\n" * 9)
    (tmp_path / "truncated").write_bytes(saved(Image.effect_noise((99, 99), 50), "JPEG")[:900])
    with pytest.raises(OSError, match=f"{name}") as caught:
        read_picture(path)
    assert str(caught.value).isprintable()


def test_a_small_file_of_endless_pixels_is_refused(
    file: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(saved(STRIPES, "PNG"))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    for read in (read_picture, data_url, identity):
        with pytest.raises(OSError, match="million pixels"):
            read(path)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_metadata_is_left_alone(file: Callable[[bytes], Path]) -> None:
    path = file(saved(STRIPES, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01"))
    assert read_picture(path).size == STRIPES.size
