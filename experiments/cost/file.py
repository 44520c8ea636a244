"""Cost models as YAML files: ours, one for each runtime, and users' own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from actors.errors import UserError
from experiments.cost.model import CostModel

MODELS = Path(__file__).parent / "models"
AUTO, NONE = "auto", "none"
_MODEL = TypeAdapter(CostModel)


def write_model(model: CostModel, path: Path) -> None:
    """Writes a cost model. Raises UserError when that is impossible."""
    machine = f"{model.machine.cores} cores of {model.machine.processor}"
    # One line: a name with a line break would become a key.
    about = " ".join(f"Fitted on {model.runs} runs of {model.name}, runtime={model.runtime}, on {machine}".split())
    try:
        path.write_text(f"# {about}\n{yaml.safe_dump(_plain(asdict(model)), sort_keys=False, allow_unicode=True)}")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error}; name another file") from error


def read_model(path: Path) -> CostModel:
    """Reads a cost model. Raises UserError when the file holds none."""
    try:
        return _MODEL.validate_python(yaml.safe_load(path.read_text()), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, UnicodeError, yaml.YAMLError, RecursionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
    raise UserError(
        f"costs.model={path} is not a cost model ({reason}); fit one with `python -m experiments.estimate fit`"
    )


def find_model(named: str, runtime: str) -> CostModel | None:
    """The cost model of that name or file; `auto` is ours for a runtime, `none` is none."""
    if named == NONE:
        return None
    return read_model(MODELS / f"{runtime}.yaml" if named == AUTO else Path(named))


def _plain(value: object) -> object:
    """With lists for tuples, which YAML's safe form does not have."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value
