"""Instruments are run by hand: they import names that the project has, also inside functions."""

import ast
import symtable
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TOPS = ("actors", "topologies", "retrieval", "experiments", "tests", "run")
FILES = sorted((ROOT / "tests" / "instruments").rglob("*.py"))


@cache
def names_of(module: str) -> frozenset[str]:
    """Names that a module defines or imports, and the modules of a package. Empty where there is no such module."""
    folder = ROOT.joinpath(*module.split("."))
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not path.is_file():
        return frozenset()
    symbols = symtable.symtable(path.read_text(), str(path), "exec").get_symbols()
    defined = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
    return frozenset(defined | {inner.stem for inner in folder.glob("*") if inner.suffix in ("", ".py")})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_an_instrument_imports_names_that_exist(file: Path) -> None:
    lacking = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            imported = [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            imported = [alias.name.rpartition(".")[::2] for alias in node.names if "." in alias.name]
        else:
            continue
        ours = [(module, name) for module, name in imported if module.partition(".")[0] in TOPS]
        lacking += [f"{module}.{name}" for module, name in ours if name not in names_of(module)]
    assert not lacking
