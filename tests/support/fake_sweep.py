"""A sweep's folder with made-up scores, on which figures and comparisons of sweeps are tested."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actors.messages import derive_seed
from experiments.analysis.compare import Arm, arms_of, arms_of_trials
from experiments.analysis.figures.draw import draw_sweep
from experiments.analysis.figures.style import drawing
from experiments.analysis.scores import read_trials
from experiments.records.records import Scored
from experiments.records.trials import RESULTS, TrialResult

Ability = Callable[[str, Mapping[str, Any], int], float]  # of method, values and seed: how likely it is right


def read_arms(folder: Path, results: Sequence[TrialResult]) -> list[Arm]:
    return arms_of(arms_of_trials(read_trials(folder, results)), results)


def draw(folder: Path, results: Sequence[TrialResult], metric: str, timed: bool = False) -> list[Path]:
    with drawing():
        return draw_sweep(folder, results, read_trials(folder, results), metric, timed)


def make_sweep(
    folder: Path,
    settings: Sequence[Mapping[str, Any]],
    methods: Sequence[str],
    ability: Ability,
    seeds: int = 3,
    questions: int = 40,
) -> list[TrialResult]:
    """Every setting with every seed; a question is as hard for all methods and settings."""
    results = []
    for number, values in enumerate(settings):
        for seed in range(seeds):
            name = f"{number:03}-seed-{seed}"
            path = folder / "trials" / name
            path.mkdir(parents=True)
            scores = [
                scored(method, question, ability(method, values, seed), seed)
                for method in methods
                for question in range(questions)
            ]
            (path / "scores.jsonl").write_text("".join(f"{line.encode()}\n" for line in scores))
            rows = {method: row([line for line in scores if line.method == method]) for method in methods}
            results.append(TrialResult(name, dict(values), seed, {"methods": rows}))
    (folder / RESULTS).write_text("".join(f"{result.encode()}\n" for result in results))
    return results


def scored(method: str, question: int, ability: float, seed: int) -> Scored:
    # One hardness for all methods and seeds, as paired tests assume; luck is each seed's own.
    hardness = np.random.default_rng(derive_seed(0, "hardness", question)).random()
    luck = np.random.default_rng(derive_seed(seed, "luck", question)).normal(0, 0.1)
    right = float(hardness < ability + luck)
    tokens = {"single": 900, "full": 9000}.get(method, int(9000 * ability) + 50 * seed)
    return Scored(method, f"q{question:03}", "?", ("yes",), "yes", right, right, tokens, 100, 10, 9, 0)


def row(scores: Sequence[Scored]) -> dict[str, Any]:
    mean = float(np.mean([line.utility for line in scores]))
    return {"utility": mean, "ci95": [mean, mean], "prompt_tokens": scores[0].prompt_tokens, "completion_tokens": 100}
