"""Draws a run's figures in another process: those of a graph's training while methods are evaluated, and the learned
graphs while results are summed up.

Then only the figures of the results are left to draw, and matplotlib has been imported.
"""

import signal
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

from actors.processes import collect_rarely
from experiments.analysis.run_facts import Metrics
from experiments.records.recorder import RunFolder


class FigureProcess:
    """One process for the figures of a run. As a context manager, it ends with the block.

    style: name of the user's style of matplotlib.
    """

    def __init__(self, run: RunFolder, style: str) -> None:
        self._run = run
        self._style = style
        self._pool: ProcessPoolExecutor | None = None
        self._drawings: dict[str, list[Future[Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def draw_training(self, method: str) -> None:
        """Begins to draw the figures of a learned graph's training."""
        if self._pool is None:
            # Spawned: a fork copies the locks of other libraries' threads without the threads.
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin)
        self._drawings[method] = [self._pool.submit(_draw_training, self._run.path, method, self._style)]

    def draw_graphs(self) -> None:
        """Begins to draw the graphs whose training is drawn, once all discussions are recorded."""
        if self._pool is None:
            return
        with suppress(BrokenExecutor):  # `draw_run` raises it
            for method, drawings in self._drawings.items():
                drawings.append(self._pool.submit(_draw_graph, self._run.path, method, self._style))

    def draw_run(self, metrics: Metrics, timed: bool) -> list[Path]:
        """Draws all figures that are left, and returns the paths of all. Raises what drawing raises."""
        if self._pool is None:
            return _draw_run(self._run.path, metrics, timed, {}, self._style)
        drawn: dict[str, Any] = {}
        for method, drawings in self._drawings.items():
            drawn[method] = {}
            for drawing in drawings:
                drawn[method] |= drawing.result()
        return self._pool.submit(_draw_run, self._run.path, metrics, timed, drawn, self._style).result()


def _begin() -> None:
    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer


def _draw_training(path: Path, method: str, style_name: str) -> Any:
    from experiments.analysis.figures import draw, style  # they import matplotlib

    with style.drawing(style_name):
        return draw.draw_training(RunFolder(path), method)


def _draw_graph(path: Path, method: str, style_name: str) -> Any:
    from experiments.analysis.figures import draw, style

    with style.drawing(style_name):
        return draw.draw_graph(RunFolder(path), method)


def _draw_run(path: Path, metrics: Metrics, timed: bool, drawn: Mapping[str, Any], style_name: str) -> list[Path]:
    from experiments.analysis.figures import draw, style

    with style.drawing(style_name):
        return draw.draw_run(RunFolder(path), metrics, timed, drawn)
