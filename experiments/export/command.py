"""`python run.py export=<run folder> export.format=<format> export.to=<target>`, and `export=sample`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from actors.errors import UserError
from actors.visible import visible

SAMPLE = "sample"
MODULES = {"otel": "otel", "parquet": "parquet", "inspect": "inspect_log", "croissant": "croissant"}
EXPECTED = (
    "expected export=<run folder> export.format=otel|parquet|inspect export.to=<target>, or export=sample "
    "export.format=croissant export.to=<folder>"
)


class ExportSettings(BaseModel):
    """Settings of an export; `to` is a new file (otel), a new folder, or an endpoint's address (otel)."""

    model_config = ConfigDict(extra="forbid")
    format: Literal["otel", "parquet", "inspect", "croissant"]
    to: str
    replace: bool = False
    seed: int = 0


def export(source: str, words: Sequence[str]) -> int:
    """Exports a run folder, or the generated sample; prints what was written. Returns the exit code.

    Raises UserError for wrong settings, a missing library, a target that exists, or a damaged folder.
    """
    try:
        given = dict(word.removeprefix("export.").partition("=")[::2] for word in words)
        settings = ExportSettings.model_validate(given)
        module = import_module(f"experiments.export.{MODULES[settings.format]}")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UserError(f"export.{'.'.join(map(str, first['loc']))}: {first['msg']}; {EXPECTED}") from error
    except ModuleNotFoundError as error:
        raise UserError(f"export.format needs {error.name}, which is missing: pip install '.[export]'") from error
    if (settings.format == "croissant") != (source == SAMPLE):
        raise UserError(f"export={source} has no format {settings.format}; {EXPECTED}")
    run, target = Path(source).expanduser(), Path(settings.to).expanduser().absolute()
    if settings.format == "otel" and settings.to.startswith(("http://", "https://")):
        written = module.send(run, settings.to)
    elif os.path.lexists(target) and not (settings.replace and target.is_dir() == (settings.format != "otel")):
        raise UserError(f"export.to={settings.to} exists: name another target, or add export.replace=true")
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Nothing is left of an export that fails.
        with TemporaryDirectory(prefix=".export-", dir=target.parent) as part:
            made = Path(part) / target.name
            written = module.write(settings.seed if source == SAMPLE else run, made)
            for file in [made] if made.is_file() else [path for path in made.rglob("*") if path.is_file()]:
                place = target / file.relative_to(made)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, place)
    print(visible(f"{written} in {settings.to}"))
    return 0
