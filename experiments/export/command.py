"""`python run.py export=<run folder> export.format=<format> export.to=<target>`, and `export=sample`."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.errors import UserError, visible

EXPECTED = (
    "expected export=<run folder> export.format=otel|parquet|inspect export.to=<target>, or export=sample "
    "export.format=croissant export.to=<folder> export.seed=<number>; export.replace=true writes over files"
)
DEFAULTS = {"format": "", "to": "", "replace": "false", "seed": "0"}


def export(source: str, words: Sequence[str]) -> int:
    """Exports a run folder, or the generated sample; prints what was written. Returns the exit code.

    Raises UserError for wrong settings, a missing library, a target that exists, or a damaged folder.
    """
    given = DEFAULTS | dict(word.removeprefix("export.").partition("=")[::2] for word in words)
    format, to, replace, seed = (given[name] for name in DEFAULTS)
    formats = ("croissant",) if source == "sample" else ("otel", "parquet", "inspect")
    fits = format in formats and to and replace in ("true", "false") and seed.isdecimal()
    if not fits or given.keys() != DEFAULTS.keys():
        raise UserError(f"{' '.join((f'export={source}', *words))}: {EXPECTED}")
    try:
        module = import_module(f"experiments.export.{format}")
    except ModuleNotFoundError as error:
        raise UserError(f"export.format needs {error.name}, which is missing: pip install '.[export]'") from error
    read, target = (int(seed) if source == "sample" else Path(source).expanduser()), Path(to).expanduser().absolute()
    if format == "otel" and to.startswith(("http://", "https://")):
        written = module.send(read, to)
    elif os.path.lexists(target) and (replace == "false" or target.is_dir() == (format == "otel")):
        raise UserError(f"export.to={to} exists: name another target, or add export.replace=true")
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Nothing is left of an export that fails.
        with TemporaryDirectory(prefix=".export-", dir=target.parent) as part:
            made = Path(part) / target.name
            written = module.write(read, made)
            for file in (path for path in (made, *made.rglob("*")) if path.is_file()):
                place = target / file.relative_to(made)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, place)
    print(visible(f"{written} in {to}"))
    return 0
