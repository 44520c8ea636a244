"""Run an experiment: `python run.py experiment=mmqa_prune seed=1`. Without arguments it lists the experiments."""

from __future__ import annotations

import logging
import sys
import time

from actors.errors import UserError

USAGE = """usage: python run.py experiment=<name or preset.yaml> [key=value ...]
       python run.py resume=<run folder>
       python run.py help=keys|methods|data|attacks|models

experiments:"""


def main(words: list[str]) -> int:
    """The exit code: 0 when done, 1 when trials failed, 2 for bad input (one line says what), 130 when interrupted."""
    try:
        if not words:
            return _list()
        return _run(words)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def _list() -> int:
    from experiments.config.loading import experiments

    print(USAGE)
    for name, description in experiments().items():
        print(f"  {name:<18} {description}")
    return 0


def _run(words: list[str]) -> int:
    if words[0].startswith("help="):
        from experiments.reference import reference

        print(reference(words[0].removeprefix("help=")))
        return 0
    # Imported here: the list of experiments needs none of it.
    from experiments.config.loading import load
    from experiments.runner import open_folder, run
    from experiments.sweeps.trials import is_sweep

    config = load(words)
    if config.dry_run:
        if is_sweep(config):
            from experiments.estimate.sweep import dry_run_sweep

            dry_run_sweep(config)
        else:
            from experiments.estimate.dry_run import dry_run

            dry_run(config)
        return 0
    folder = open_folder(config)
    # Into the run's folder: the terminal is for progress and results.
    logging.basicConfig(
        filename=folder.log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Their INFO lines would bury the run's own.
    for library in ("wandb", "fontTools"):
        logging.getLogger(library).setLevel(logging.WARNING)
    started = time.monotonic()
    try:
        # A sweep goes on after trials that failed, and says so; a single run ends well or raises.
        complete = True
        if is_sweep(config):
            from experiments.sweeps.sweep import run_sweep

            complete = run_sweep(config, folder)
        else:
            run(config, folder)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with: python run.py resume={folder.path}", file=sys.stderr)
        return 130
    print(f"took {time.monotonic() - started:.1f} s")
    print(f"run: {folder.path}")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
