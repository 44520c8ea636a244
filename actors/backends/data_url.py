"""A picture's file as a data URL, in a format and size that endpoints take."""

from __future__ import annotations

import base64
import io

from PIL import Image

from actors.messages import Source

SENT_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
# In base64 just under the 10 MB that the strictest endpoint known allows for one picture.
LARGEST_BYTES = 7_000_000
LONGEST_SIDE = 2048


def data_url(source: Source) -> str:
    """The file as it is where endpoints read its format, else as PNG; one too large is scaled down and sent as JPEG.

    OSError names a picture that cannot be read.
    """
    assert source.image is not None
    try:
        with Image.open(source.image) as picture, open(source.image, "rb") as file:
            content, kind = file.read(), SENT_AS_THEY_ARE.get(picture.format or "")
            if kind is None:
                content, kind = encoded(picture, "PNG"), "image/png"
            if len(content) > LARGEST_BYTES:
                picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
                content, kind = encoded(picture, "JPEG"), "image/jpeg"
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise OSError(f"picture {source.doc!r} cannot be read: {error}") from error
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def encoded(picture: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, form)  # JPEG has neither palettes nor transparency
    return buffer.getvalue()
