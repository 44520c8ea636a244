"""A run in one row: state, progress, tokens and money so far, and the lines that stop and resume it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from actors.errors import UserError
from actors.messages import Usage
from experiments.config.config import Config, is_sweep
from experiments.config.references import resumption
from experiments.config.saved import read
from experiments.config.setting_groups import CostSettings
from experiments.records import usage
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.start import STARTS
from experiments.records.trials import RESULTS, TRIALS
from experiments.view.folders import Root
from experiments.view.growing import Lines
from experiments.view.states import State, last_start, process_of, state_of


@dataclass(frozen=True, slots=True)
class Overview:
    """What a list shows of a run; only `name` and `problem` where it cannot be read.

    kind: a run, a sweep, or a study by its job. started: local time of the first start.
    done: evaluated answers, or a sweep's finished trials, of `planned` (0: not known before the end).
    steps: training steps of all learners. price: of the tokens so far, where the run knows prices.
    stop, resume: what to type, where it can be.
    """

    name: str
    problem: str = ""
    kind: str = "run"
    experiment: str = ""
    state: State = State.STOPPED
    started: str = ""
    done: int = 0
    planned: int = 0
    steps: int = 0
    tokens: int = 0
    price: float | None = None
    stop: str = ""
    resume: str = ""


class Overviews:
    """Overviews of the runs of a folder. A run is read again only where one of its files has changed."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._known: dict[str, tuple[object, Overview]] = {}
        self._counts: dict[Path, tuple[Lines, str, int]] = {}

    def of(self, name: str) -> Overview:
        """Reads a run's overview; a run that cannot be read gets one that names the problem."""
        try:
            run = self.root.run(name)
            sizes = [(path, path.stat().st_mtime_ns) for path in _files(run) if path.exists()]
            known, overview = self._known.get(name, (None, None))
            # A run that is killed changes no file.
            if overview is None or known != sizes or overview.state is State.RUNNING:
                overview = self._read(name, run)
                self._known[name] = sizes, overview
            return overview
        except (UserError, OSError) as error:
            return Overview(name, problem=str(error))

    def _read(self, name: str, run: RunFolder) -> Overview:
        config, start = read(run.config), last_start(run)
        state, sweep = state_of(run, config, start), is_sweep(config)
        used = usage.total(run)
        process = process_of(start) if state is State.RUNNING else None
        resumable = TRIALS not in name.split("/") and state in (State.STOPPED, State.FAILED)
        return Overview(
            name=name,
            kind="sweep" if sweep else "run" if config.job == "prune" else config.job,
            experiment=config.experiment,
            state=state,
            started=start.time if start else "",
            done=self._count(run.path / (RESULTS if sweep else SCORES)),
            planned=_planned(run, config, sweep),
            # Step 0 of a stage is its start.
            steps=sum(self._count(learned.path / "learning.jsonl", but=b'"step":0,') for learned in run.all_learned()),
            tokens=used.prompt_tokens + used.completion_tokens,
            price=price(config.costs, used),
            stop=f"kill -INT {process}" if process else "",
            resume=resumption(config, run.path) if resumable else "",
        )

    def _count(self, path: Path, but: bytes = b"no line") -> int:
        """Counts the lines of a file that do not hold `but`, reading on from where the last call ended."""
        lines, version, counted = self._counts.get(path, (Lines(path), "", 0))
        added = sum(but not in line for line in lines.new())
        counted = counted + added if version == lines.version else added
        self._counts[path] = lines, lines.version, counted
        return counted


def price(costs: CostSettings, used: Usage) -> float | None:
    """The price of the computed tokens, in the currency of the rates; None without rates."""
    if costs.prompt_price is None and costs.completion_price is None:
        return None
    full = costs.prompt_price or 0.0
    cached = full if costs.cached_price is None else costs.cached_price
    prompt = (used.prompt_tokens - used.cached_tokens) * full + used.cached_tokens * cached
    return (prompt + used.completion_tokens * (costs.completion_price or 0.0)) / 1e6


def _planned(run: RunFolder, config: Config, sweep: bool) -> int:
    if sweep:
        return len(os.listdir(run.path / TRIALS)) if (run.path / TRIALS).is_dir() else 0
    return len(config.methods) * (config.data.limit or 0) if config.job == "prune" else 0


def _files(run: RunFolder) -> list[Path]:
    names = ("config.yaml", STARTS, SCORES, RESULTS, usage.USAGE, "run.log", "metrics.json", "sweep.json", TRIALS)
    return [*(run.path / name for name in names), *(learned.path / "learning.jsonl" for learned in run.all_learned())]
