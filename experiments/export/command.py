"""`python run.py export=<run folder> export.format=<format> export.to=<target>`."""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.errors import UserError, visible

FORMATS = ("otel", "parquet", "inspect")
EXPECTED = (
    "expected export=<run folder> export.format=otel|parquet|inspect export.to=<target>; export.replace=true writes "
    "over files"
)
DEFAULTS = {"format": "", "to": "", "replace": "false"}


def export(source: str, words: Sequence[str]) -> int:
    """Exports a run folder and prints what was written. Returns the exit code.

    Raises UserError for wrong settings, a missing library, a target that exists, or a damaged folder.
    """
    settings = DEFAULTS | dict(word.removeprefix("export.").partition("=")[::2] for word in words)
    format = settings["format"]
    to = settings["to"]
    is_replaced = settings["replace"]
    is_known = settings.keys() == DEFAULTS.keys() and is_replaced in ("true", "false")
    if not is_known or format not in FORMATS or not to:
        raise UserError(f"{' '.join((f'export={source}', *words))}: {EXPECTED}")

    try:
        module = import_module(f"experiments.export.{format}")
    except ModuleNotFoundError as error:
        raise UserError(f"export.format needs {error.name}, which is missing: pip install '.[export]'") from error

    run = Path(source).expanduser()
    if format == "otel" and to.startswith(("http://", "https://")):
        summary = module.send(run, to)
    else:
        target = Path(to).expanduser().absolute()
        is_file = format == "otel"
        if os.path.lexists(target) and (is_replaced == "false" or target.is_dir() == is_file):
            raise UserError(f"export.to={to} exists: name another target, or add export.replace=true")
        summary = _write(module.write, run, target)

    print(visible(f"{summary} in {to}"))
    return 0


def _write(write: Callable[[Path, Path], str], run: Path, target: Path) -> str:
    """Writes a file or a folder of files. Nothing is left of an export that fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".export-", dir=target.parent) as unfinished:
        export = Path(unfinished) / target.name
        summary = write(run, export)
        for file in (export, *export.rglob("*")):
            if file.is_file():
                place = target / file.relative_to(export)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, place)

    return summary
