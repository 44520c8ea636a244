"""Checks everything that the command line names, with the keys of `run.py`."""

import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.errors import UserError, visible
from experiments.config.loading import load
from experiments.conformance.attacks import check_attack
from experiments.conformance.methods import check_method
from experiments.conformance.parts import NotConforming, check_dataset, check_encoder, check_model
from experiments.jobs import plan_of
from experiments.planning.run_models import find_models
from experiments.running.inputs import open_dataset
from retrieval.embed import make_encoder


def main(words: list[str]) -> int:
    """Returns the exit code: 0 when all conforms, 1 when a part does not, 2 for bad input."""
    try:
        # Any preset would do: the command line names the parts, and only what it names is checked.
        config, checked = load(["experiment=sp", *words]), []
        groups = {word.partition("=")[0].partition(".")[0] for word in words}
        for name in config.methods if "methods" in groups else ():
            check_method(name)
            checked.append(name)
        if "attack" in groups:
            check_attack(config.attack.kind)
            checked.append(config.attack.kind)
        if "data" in groups:
            with TemporaryDirectory() as folder:
                check_dataset(open_dataset(plan_of(config), Path(folder)))
            checked.append(config.data.kind)
        if "model" in groups:
            check_model(find_models(config, ()).main.maker()(), config.model.kind)
            checked.append(config.model.kind)
        for key in ("encoder", "picture_encoder") if "retrieval" in groups else ():
            if name := getattr(config.retrieval, key):
                check_encoder(make_encoder(name, f"retrieval.{key}"), name)
                checked.append(name)
        if not checked:
            named = "methods=[...], attack=..., data=..., model=... or retrieval.encoder=..."
            raise UserError(f"name what to check: {named}")
    except UserError as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        return 2
    except NotConforming as error:
        print(visible(f"does not conform: {error}"), file=sys.stderr)
        return 1
    except Exception as error:  # another author's part may raise anything
        *_, place = traceback.extract_tb(error.__traceback__)
        where = f"at line {place.lineno} of {place.filename}: {place.line}"
        text = " ".join(str(error).split())
        print(visible(f"does not conform: {type(error).__name__}: {text} ({where})"), file=sys.stderr)
        return 1
    print("\n".join(f"conforms: {name}" for name in checked))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
