"""metrics.json from the records alone, and its paired tests in words.

It holds no times, and its sums do not depend on the order of the records, so that one seed gives one file at any
concurrency and after any crash.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.messages import derive_seed
from experiments.analysis.by_tag import by_tag
from experiments.analysis.scores import by_method
from experiments.analysis.statistics import bootstrap_interval, holm, paired_test
from experiments.analysis.turn_counts import count_turns
from experiments.attacks.edge_scores import attackers_found
from experiments.attacks.metrics import mean_by_round
from experiments.metrics.paths import PATH_METRICS
from experiments.records.atomic import write_atomically
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.trials import LEARNED_FROM

# The name of the embedded reader among models and judges, as records hold it.
EMBEDDED = "reader"
MODELS = " + "  # between the names of several models that answer in one run
EMBEDDED_NOTE = "The model is the embedded reader: these figures say nothing about a language model's accuracy."
# Means per question; `TROUBLES` are totals.
COSTS = ("prompt_tokens", "completion_tokens", "calls", "edges")
CUT = "cut_turns"
STRICT = "strict_em"
TRAINING_TOKENS = "training_tokens"
TROUBLES = ("failed_turns", CUT)
SILENT = "silent_turns"
DIGITS = 6  # enough for any table, few enough to hide floating-point error
# Largest adjusted p-value of a claim. With few questions the bootstrap interval alone claims too much.
SIGNIFICANT = 0.05

Metrics = dict[str, Any]


@dataclass(frozen=True, slots=True)
class About:
    """The methods and pairs that a run compared, and on what.

    `metric` names the data set's utility (EM, accuracy); of each pair, first minus second.
    """

    experiment: str
    model: str
    dataset: str
    metric: str
    methods: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    seed: int = 0


def summarise(run: RunFolder, about: About) -> Metrics:
    """metrics.json as a dict; rows have `cut_turns` where any method had one, and `parts` are the means `by_tag`.

    A row has `strict_em` where all of the method's answers have it.

    Raises ValueError unless all methods have answered the same questions, one at least.
    """
    recorded = by_method(run)
    answers = {method: recorded.get(method, {}) for method in about.methods}
    # Methods without any answer get an empty entry, so that the check below reports them.
    first = answers[about.methods[0]]
    for method, of_method in answers.items():
        if not first or of_method.keys() != first.keys():
            raise ValueError(f"{method} has answered {len(of_method)} questions, {about.methods[0]} {len(first)}")
    # Shown for all methods or for none: a table needs the same columns in every row.
    cut = any(scored.cut_turns for of_method in answers.values() for scored in of_method.values())
    utilities = {method: {id: scored.utility for id, scored in of.items()} for method, of in answers.items()}
    parts = by_tag(utilities, {id: scored.tags for id, scored in first.items()})
    return {
        "experiment": about.experiment,
        "model": about.model,
        "dataset": about.dataset,
        "questions": len(first),
        "methods": {
            method: rounded(
                _row(method, list(of_method.values()), about.seed, cut)
                | _turns(run, method)
                | _training(run.learned(method))
                # Only a learned graph ranks edges, and only under attack is there a rank to check.
                | attackers_found(run.learned(method).path)
            )
            for method, of_method in answers.items()
        },
        "paired": paired_tests(
            # `by_method` sorts by question id, so places correspond between methods.
            {method: [*scores.values()] for method, scores in utilities.items()},
            about.pairs,
            about.seed,
            "paired",
        ),
        **({"parts": rounded(parts)} if parts else {}),
    }


def paired_tests(
    scores: Mapping[str, Sequence[float]], pairs: Sequence[tuple[str, str]], seed: int, purpose: str
) -> dict[str, Metrics]:
    """A `PairedTest` of every pair, as metrics.json has it, with `p_holm`: its p-value adjusted for their number.

    scores: by method, of the same questions in the same order. purpose: makes these tests' draws their own.
    """
    tests = {
        f"{better} vs {rival}": paired_test(scores[better], scores[rival], derive_seed(seed, purpose, better, rival))
        for better, rival in pairs
    }
    # All tests of one table are corrected together: a reader picks from all of them.
    adjusted = holm([test["p_value"] for test in tests.values()])
    return {pair: rounded({**test, "p_holm": p}) for (pair, test), p in zip(tests.items(), adjusted, strict=True)}


def verdicts(paired: Mapping[str, Metrics], metric: str) -> Iterator[str]:
    """The paired tests in words, a line each.

    A difference is claimed only where both the adjusted p-value and the interval show it.
    """
    for pair, test in paired.items():
        better, rival = pair.split(" vs ")
        # The p-value is adjusted for the number of pairs and the interval is not, so both must agree.
        low, high = test["ci95"]
        verdict = f"{better} is {'better' if low > 0 else 'worse'}"
        if low <= 0 <= high or test["p_holm"] >= SIGNIFICANT:
            verdict = "no difference shown"
        adjusted = f", {test['p_holm']:.2g} adjusted" if len(paired) > 1 else ""
        yield (
            f"{metric} of {better} minus {rival}: {test['difference']:+.3f} (95% interval {low:+.3f} to {high:+.3f}, "
            f"p = {test['p_value']:.2g}{adjusted}; better on {test['wins']:,} and worse on {test['losses']:,} "
            f"of {test['n']:,} questions): {verdict}."
        )
    if len(paired) > 1:
        yield (
            f"P-values are adjusted for the {len(paired)} comparisons by Holm's method; verdicts go by the adjusted "
            f"ones, at {SIGNIFICANT}."
        )


def write(run: RunFolder, metrics: Metrics) -> None:
    """Writes metrics.json into the run folder, whole or not at all."""
    write_atomically(run.metrics, (json.dumps(metrics, indent=2) + "\n").encode())


def _row(method: str, answers: Sequence[Scored], seed: int, cut: bool) -> Metrics:
    n = len(answers)
    utilities = [scored.utility for scored in answers]
    counted = {name: sum(getattr(scored, name) for scored in answers) for name in (*COSTS, *TROUBLES)}
    return {
        "utility": math.fsum(utilities) / n,
        "ci95": bootstrap_interval(utilities, derive_seed(seed, "bootstrap", method)),
        **_strict(method, answers, seed),
        "f1": math.fsum(scored.f1 for scored in answers) / n,
        **{name: counted[name] / n for name in COSTS},
        **{name: counted[name] for name in TROUBLES if cut or name != CUT},
        **_harm(method, answers, seed),
        **_path_means(answers),
    }


def _strict(method: str, answers: Sequence[Scored], seed: int) -> Metrics:
    """The mean of strict exact match; empty for a data set without it, and where older records lack it."""
    strict = [scored.strict_em for scored in answers if scored.strict_em is not None]
    # A mean over some of the questions could not stand beside one over all of them.
    if len(strict) < len(answers):
        return {}
    interval = bootstrap_interval(strict, derive_seed(seed, "bootstrap strict_em", method))
    return {"strict_em": math.fsum(strict) / len(strict), "strict_em_ci95": interval}


def _training(learned: RunFolder) -> Metrics:
    """The tokens of all discussions that were held for a method's graph to learn from; empty where none was learned, or
    older records lack it. Of a graph that was learned from another's discussions there are none, and it says whose."""
    if not (learned.path / LEARNING).is_file():
        return {}
    steps = [step for step in learned.learning() if "tokens" in step.terms]
    if not steps:
        return {}
    source = steps[-1].source
    tokens = int(sum(step.terms["tokens"] for step in steps))
    return {TRAINING_TOKENS: tokens, **({LEARNED_FROM: source} if source else {})}


def _turns(run: RunFolder, method: str) -> Metrics:
    """Totals over the method's turns; `repair_tokens` and their share of all tokens only where they are known, and
    turns that stated nothing only where there are any."""
    counts = count_turns(run.traces(f"evaluate-{method}"))
    tokens = {"repair_tokens": counts.repair_tokens, "repair_share": counts.repair_share}
    return {
        "turns": counts.turns,
        "read_at_once": counts.at_once,
        "read_after_repair": counts.repaired,
        "repairs": counts.repairs,
        **({SILENT: counts.silent} if counts.silent else {}),
        **(tokens if counts.repair_tokens is not None else {}),
    }


def _harm(method: str, answers: Sequence[Scored], seed: int) -> Metrics:
    """The effect of an attack with a target, over the questions that have one; empty without such an attack."""
    # None, not 0, where a question had no target: it must not count as a failed attack.
    attacked = [scored for scored in answers if scored.attack_success is not None]
    if not attacked:
        return {}
    successes = [scored.attack_success or 0.0 for scored in attacked]
    row = {
        "attack_success": math.fsum(successes) / len(attacked),
        "attack_success_ci95": bootstrap_interval(successes, derive_seed(seed, "attack success", method)),
        "infection": mean_by_round([scored.infection for scored in attacked]),
    }
    if any(scored.carried for scored in attacked):
        row["carried"] = mean_by_round([scored.carried for scored in attacked])
    return row


def _path_means(answers: Sequence[Scored]) -> Metrics:
    """Means of path metrics, each over the questions that have it."""
    values = {name: [value for s in answers if (value := getattr(s, name)) is not None] for name in PATH_METRICS}
    return {name: math.fsum(known) / len(known) for name, known in values.items() if known}


def rounded(value: Any) -> Any:
    """The value with all its numbers in six digits and without minus zero; None and text as they are.

    A file must not depend on the last bit of a sum.
    """
    if isinstance(value, Mapping):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    # Adding 0.0 turns -0.0 into 0.0. A bool is an int to Python and passes as it is.
    return value if value is None or isinstance(value, (int, str)) else round(float(value), DIGITS) + 0.0
