"""Zero-sum games of attacks and defences: their solution, and the table of game.json."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from experiments.analysis.result_table import Cell, ResultTable, number, with_interval
from topologies.wiring import Floats


def solve(payoffs: npt.ArrayLike) -> tuple[float, Floats, Floats]:
    """Solves a game. Returns its value and the probabilities of rows and columns, where rows get `payoffs` [rows,
    columns].

    Rows maximise v subject to p'U >= v for every column (von Neumann 1928), as a linear program; its dual has columns.
    """
    utilities = np.asarray(payoffs, dtype=np.float64)
    rows, columns = utilities.shape
    at_least, simplex = np.hstack([-utilities.T, np.ones((columns, 1))]), np.append(np.ones(rows), 0.0)[None]
    bounds = [(0.0, None)] * rows + [(None, None)]
    solved = linprog(np.append(np.zeros(rows), -1.0), at_least, np.zeros(columns), simplex, [1.0], bounds)
    # Rounded, or the last bits of the solver would be in every file that has them.
    p, q = solved.x[:-1].clip(0).round(6), (-solved.ineqlin.marginals).clip(0).round(6)
    return float(solved.x[-1]), p / p.sum(), q / q.sum()


def game_table(game: Mapping[str, Any], metric: str) -> ResultTable:
    """Makes a row per defence: its scores without an attack, under each, and in its worst case."""
    rows = {name: {**row, **row["utilities"]} for name, row in game["defences"].items()}
    cells: dict[str, Cell] = {name: number(name, ".2f") for row in rows.values() for name in row["utilities"]}
    cells |= {"worst (95%)": lambda row: with_interval(row["worst"], row["ci95"]), "share": number("share", ".2f")}
    mixed = ", ".join(f"{name} {share:.2f}" for name, share in game["attacks"].items() if share)
    notes = (
        f"Value: {metric} {game['trained']:.3f} on training questions, {game['value']:.3f} on these.",
        f"Share: of a defence in the mix that is best in training. Against it attackers mix {mixed}.",
        f"Exploitability: {game['response']}, the best response to it, takes {game['exploitability']:.3f} more.",
        f"Adaptive: best responses to each defence. They take {game['gain']:.3f} more, as a mean, than other attacks.",
        *("{}: {response} takes {gain:.3f} more than {usual}.".format(name, **row) for name, row in rows.items()),
        "Worst: the lowest of a row; with a probability of .95 all intervals of the column are right.",
    )
    return ResultTable.of("defence", rows, cells, notes, f"{metric} of defences under attack")
