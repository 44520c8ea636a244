"""Reads picture files as a viewer shows them, equally for engines, endpoints, encoders, OCR and AutoGen."""

import base64
import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# The formats below: a plugin registers its format, and all of Pillow's take four times as long.
from PIL import (  # noqa: F401
    BmpImagePlugin,
    ExifTags,
    GifImagePlugin,
    Image,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from actors.errors import NOT_DECODED

# Pillow opens some formats by starting a program (EPS); data sets hold only these.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")
MB = 2**20
LARGEST_FILE = 256 * MB  # bytes; Pillow limits the pixels, to 89 million
SENT_AS_STORED = ("JPEG", "PNG", "GIF", "WEBP")  # formats that endpoints read
# In base64 just under 10 MB, the lowest known limit of an endpoint for one picture.
LARGEST_BYTES = 7_000_000
LONGEST_SIDE = 2048

_ASIDE = range(2, 9)  # orientations of EXIF of which a viewer turns or mirrors the stored pixels


def read_picture(path: str | Path) -> Image.Image:
    """Reads what a viewer shows of a file, as RGB. It is the first frame, upright, on white, with 8 bits a channel.

    Raises OSError as `opened`.
    """
    with opened(path) as picture:
        return _shown(picture)


def data_url(path: str | Path) -> str:
    """Encodes a picture as a data URL. It has the file where that has the shown pixels, else those as PNG.

    A picture that is too large for endpoints is scaled down and becomes a JPEG. Raises OSError as `opened`.
    """
    with opened(path) as picture:
        if _is_as_stored(picture):
            form = str(picture.format)
            with open_regular(path) as file:
                content = file.read()
        else:
            form = "PNG"
            content = _encoded(_shown(picture), form)
        if len(content) > LARGEST_BYTES:
            form = "JPEG"
            smaller = _shown(picture)
            smaller.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
            content = _encoded(smaller, form)
    return f"data:{Image.MIME[form]};base64,{base64.b64encode(content).decode()}"


def _encoded(picture: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form)
    return buffer.getvalue()


def identity(path: str | Path) -> bytes:
    """Returns bytes that are equal for equal pictures. Raises OSError as `opened`."""
    with opened(path) as picture, open_regular(path) as file:
        # With the mark, nothing is found again that earlier versions made of the stored pixels.
        return file.read() + (b"" if _is_as_stored(picture) else b"as shown")


@contextmanager
def opened(path: str | Path) -> Iterator[Image.Image]:
    """Opens a picture, whose stored pixels are decoded when they are used. Raises OSError, in one line, where it is
    missing, no regular file, damaged, too large or of another format."""
    try:
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as picture:
            # A few KB may decode to as many GB, and Pillow refuses only twice as many pixels as it warns of.
            if picture.width * picture.height > (Image.MAX_IMAGE_PIXELS or 0):
                raise Image.DecompressionBombError
            yield picture
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        millions = (Image.MAX_IMAGE_PIXELS or 0) // 10**6
        raise OSError(f"image {path} {NOT_DECODED} (more than {millions} million pixels): make it smaller") from error
    # Pillow's decoders raise any exception on a damaged file; its messages may hold several lines.
    except Exception as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise OSError(f"image {path} {NOT_DECODED} ({reason}): copy it again or remove it") from error


@contextmanager
def open_regular(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a regular file for reading. A pipe may block, and a device may never end.

    Raises OSError for one that is missing, not regular, or larger than LARGEST_FILE.
    """
    # Opening a pipe would wait for its writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > LARGEST_FILE:
            raise OSError(errno.EFBIG, f"more than {LARGEST_FILE // MB} MB", str(path))
        yield file


def _shown(picture: Image.Image) -> Image.Image:
    picture.load()  # a TIFF is turned upright by Pillow itself
    if _orientation(picture) in _ASIDE:
        picture = ImageOps.exif_transpose(picture)
    if picture.mode == "F" or picture.mode.startswith("I"):
        picture = _grey(picture)
    if picture.has_transparency_data:
        transparent = picture.info.get("transparency")
        if isinstance(transparent, tuple) and max(transparent) > 255:  # of 16 bits, where Pillow keeps 8 of each
            picture.info["transparency"] = tuple(value >> 8 for value in transparent)
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture.convert("RGBA"))
    return picture.convert("RGB")


def _grey(picture: Image.Image) -> Image.Image:
    """Returns a grey picture of 16 bits, integers or floats with 8 bits a channel, and alpha where it has some."""
    import numpy as np  # few pictures need it, and most processes do not

    values = np.asarray(picture, dtype=np.float32)
    values = np.where(np.isfinite(values), values, 0)
    black = float(values.min())
    white = float(values.max())
    # White is 65,535 for 16 bits. Other values are scaled by the smallest of 1, 255 and 65,535 that none exceeds, or
    # else between the smallest and the largest one.
    if picture.mode.startswith("I;16"):
        black = 0.0
        white = 65_535.0
    elif black >= 0 and white <= 65_535:
        black = 0.0
        white = min(top for top in (1.0, 255.0, 65_535.0) if white <= top)
    grey = ((values - black) * (255 / ((white - black) or 1)) + 0.5).astype(np.uint8)
    transparent = picture.info.get("transparency")
    if isinstance(transparent, int):
        grey = np.dstack([grey, np.where(values == transparent, 0, 255).astype(np.uint8)])
    return Image.fromarray(grey)


def _is_as_stored(picture: Image.Image) -> bool:
    """Tests whether any decoder of the file gives the pixels that `_shown` gives."""
    return (
        picture.format in SENT_AS_STORED
        and picture.mode in ("1", "L", "P", "RGB")
        and not picture.has_transparency_data
        and not getattr(picture, "is_animated", False)
        and _orientation(picture) not in _ASIDE
    )


def _orientation(picture: Image.Image) -> int:
    try:
        orientation = picture.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # viewers show a picture with broken metadata as it is stored
        return 1
    return orientation if isinstance(orientation, int) else 1
