"""Checks everything that the command line names, with the keys of `run.py`."""

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.errors import UserError, visible
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.conformance.attacks import check_attack
from experiments.conformance.methods import check_method
from experiments.conformance.parts import check_dataset, check_encoder, check_model
from experiments.conformance.requirements import NotConforming
from experiments.jobs import plan_of
from experiments.planning.run_models import find_models
from experiments.running.inputs import open_dataset
from retrieval.embed import make_encoder


def main(words: list[str]) -> int:
    """Returns the exit code: 0 when all conforms, 1 when a part does not, 2 for bad input."""
    try:
        # Any preset would do: the command line names the parts, and only what it names is checked.
        config = load(["experiment=sp", *words])
        groups = {word.partition("=")[0].partition(".")[0] for word in words}
        names = list(check(config, groups))
        if not names:
            parts = "methods=[...], attack=..., data=..., model=... or retrieval.encoder=..."
            raise UserError(f"name what to check: {parts}")
    except UserError as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        return 2
    except NotConforming as error:
        print(visible(f"does not conform: {error}"), file=sys.stderr)
        return 1
    except Exception as error:  # another author's part may raise anything
        print(visible(f"does not conform: {described(error)}"), file=sys.stderr)
        return 1
    for name in names:
        print(f"conforms: {name}")
    return 0


def check(config: Config, groups: set[str]) -> Iterator[str]:
    """Checks the parts of a configuration, of groups of settings. Yields the name of each that conforms."""
    if "methods" in groups:
        for name in config.methods:
            check_method(name)
            yield name
    if "attack" in groups:
        check_attack(config.attack.kind)
        yield config.attack.kind
    if "data" in groups:
        with TemporaryDirectory() as folder:
            check_dataset(open_dataset(plan_of(config), Path(folder)))
        yield config.data.kind
    if "model" in groups:
        check_model(find_models(config, ()).main.maker()(), config.model.kind)
        yield config.model.kind
    if "retrieval" in groups:
        for key in ("encoder", "picture_encoder"):
            if name := getattr(config.retrieval, key):
                check_encoder(make_encoder(name, f"retrieval.{key}"), name)
                yield name


def described(error: Exception) -> str:
    """Describes an exception in one line, with the place that raised it."""
    places = traceback.extract_tb(error.__traceback__)
    # Turns are taken in groups of tasks, which raise groups of errors.
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
        places += traceback.extract_tb(error.__traceback__)
    place = places[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} (at line {place.lineno} of {place.filename}: {place.line})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
