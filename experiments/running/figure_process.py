"""Draws a run's figures in another process: those of a graph's training while methods are evaluated, and the learned
graphs while results are summed up.

Then only the figures of the results are left to draw, and matplotlib has been imported.
"""

from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from actors.processes import collect_rarely
from actors.spawned import SpawningPool
from experiments.analysis.run_facts import Metrics
from experiments.records.recorder import RunFolder


class FigureProcess:
    """One process for the figures of a run. As a context manager, it ends with the block.

    style: name of the user's style of matplotlib.
    """

    def __init__(self, run: RunFolder, style: str) -> None:
        self._run = run
        self._style = style
        self._pool: SpawningPool | None = None
        self._drawings: dict[str, list[Future[Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def draw_training(self, method: str) -> None:
        """Begins to draw the figures of a learned graph's training."""
        if self._pool is None:
            self._pool = SpawningPool(1, collect_rarely)
        self._drawings[method] = [self._pool.submit(_draw, "draw_training", self._run.path, self._style, method)]

    def draw_graphs(self) -> None:
        """Begins to draw the graphs whose training is drawn, once all discussions are recorded."""
        if self._pool is None:
            return
        with suppress(BrokenExecutor):  # `draw_run` raises it
            for method, drawings in self._drawings.items():
                drawings.append(self._pool.submit(_draw, "draw_graph", self._run.path, self._style, method))

    def draw_run(self, metrics: Metrics, timed: bool) -> list[Path]:
        """Draws all figures that are left, and returns the paths of all. Raises what drawing raises."""
        drawn: dict[str, Any] = {}
        for method, drawings in self._drawings.items():
            drawn[method] = {}
            for drawing in drawings:
                drawn[method] |= drawing.result()

        arguments = ("draw_run", self._run.path, self._style, metrics, timed, drawn)
        paths: list[Path] = _draw(*arguments) if self._pool is None else self._pool.submit(_draw, *arguments).result()
        return paths


def _draw(function: str, run: Path, style_name: str, *arguments: Any) -> Any:
    """Calls a function of `draw`, by its name: whoever imports the module imports matplotlib."""
    from experiments.analysis.figures import draw, style

    with style.drawing(style_name):
        return getattr(draw, function)(RunFolder(run), *arguments)
