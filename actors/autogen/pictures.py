"""Pictures between AutoGen, which holds them in memory, and our models, which read them from files."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from autogen_core import Image
from PIL import Image as Pillow

from actors.messages import Kind, Source


class SourceImage(Image):
    """One of our pictures as an AutoGen image: opened only when it is read, and given to our models as it was."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._opened: Pillow.Image | None = None

    @property
    def image(self) -> Pillow.Image:  # type: ignore[override]
        if self._opened is None:
            if self.source.image is None:
                raise FileNotFoundError(f"picture {self.source.id} has no file")
            with Pillow.open(self.source.image) as opened:
                # A copy in memory: the file is closed again at once.
                self._opened = opened.convert("RGB")
        return self._opened


def source_of(image: Image) -> Source:
    """The source that a picture came from, or a new one with a file named by its content, written once."""
    if isinstance(image, SourceImage):
        return image.source
    pixels = image.image
    digest = hashlib.blake2b(f"{pixels.mode}{pixels.size}".encode() + pixels.tobytes(), digest_size=16).hexdigest()
    path = _folder() / f"{digest}.png"
    if not path.exists():
        # Renamed when complete: other processes may be reading or writing the same picture.
        written, name = tempfile.mkstemp(dir=path.parent, suffix=".png")
        with os.fdopen(written, "wb") as file:
            pixels.save(file, format="PNG")
        os.replace(name, path)
    identity = f"picture-{digest[:8]}"
    return Source(identity, identity, Kind.IMAGE, "", "", str(path))


def _folder() -> Path:
    """This user's folder, kept between processes: replicas on this machine read it after the agent has gone on."""
    folder = Path(tempfile.gettempdir()) / f"agora-pictures-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)  # /tmp is everybody's
    return folder
