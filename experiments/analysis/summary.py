"""metrics.json from the records alone, and the same as the table that a run prints.

It holds no times and is summed in an order of its own, so that one seed gives one file at any concurrency, and
after any crash.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from actors.messages import derive_seed
from experiments.analysis.by_tag import by_tag
from experiments.analysis.statistics import bootstrap_interval, holm, paired_test
from experiments.attacks.edge_scores import attackers_found
from experiments.attacks.metrics import Harm, mean_by_round
from experiments.metrics.paths import PATH_METRICS
from experiments.records.atomic import write_atomically
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored, by_question

EMBEDDED = "reader"
EMBEDDED_NOTE = "The model is the embedded reader: these figures say nothing about a language model's accuracy."
COSTS = ("prompt_tokens", "completion_tokens", "calls", "edges")
CUT = "cut_turns"
TROUBLES = ("failed_turns", CUT)
DIGITS = 6
WIDTH_PLAIN = 110
WIDEST = 400  # characters of a table that is not shown on a terminal
PATH_COLUMNS = ("path P/R", "edge P/R")  # precision and recall of paths through a knowledge graph, and of their edges
SIGNIFICANT = 0.05  # and below: with few questions the bootstrap interval alone says too much

Metrics = dict[str, Any]


@dataclass(frozen=True, slots=True)
class About:
    """What a run compared. `metric` names the data set's utility (EM, accuracy); of each pair, first minus second;
    `learned` names the method that is the learned graph, if any."""

    experiment: str
    model: str
    dataset: str
    metric: str
    methods: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    learned: str = ""


@dataclass
class _Totals:
    """One method's scores by question id (of each question two numbers), and its sums of everything that is counted."""

    utility: dict[str, float] = field(default_factory=dict)
    f1: dict[str, float] = field(default_factory=dict)
    harm: dict[str, Harm] = field(default_factory=dict)
    tags: dict[str, Mapping[str, str]] = field(default_factory=dict)
    followed: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in PATH_METRICS})
    counted: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*COSTS, *TROUBLES), 0))

    def add(self, scored: Scored) -> None:
        self.utility[scored.question] = scored.utility
        self.f1[scored.question] = scored.f1
        self.tags[scored.question] = scored.tags
        if scored.attack_success is not None:
            self.harm[scored.question] = Harm(scored.attack_success, scored.infection, scored.carried)
        for name, of in self.followed.items():
            if (value := getattr(scored, name)) is not None:
                of[scored.question] = value
        for name in self.counted:
            self.counted[name] += getattr(scored, name)

    def utilities(self) -> list[float]:
        return [self.utility[question] for question in sorted(self.utility)]


def summarise(run: RunFolder, about: About) -> Metrics:
    """metrics.json as a dict; rows have `cut_turns` where any method had one, and `parts` are the means `by_tag`.

    Raises ValueError unless all methods have answered the same questions, one at least.
    """
    totals = _totals(by_question(run.scores()), about.methods)
    questions = totals[about.methods[0]].utility.keys()
    for method, total in totals.items():
        if not questions or total.utility.keys() != questions:
            raise ValueError(
                f"{method} has answered {len(total.utility)} questions, {about.methods[0]} {len(questions)}"
            )
    cut = any(total.counted[CUT] for total in totals.values())
    utilities = {method: total.utilities() for method, total in totals.items()}
    parts = by_tag({method: total.utility for method, total in totals.items()}, totals[about.methods[0]].tags)
    return {
        "experiment": about.experiment,
        "model": about.model,
        "dataset": about.dataset,
        "questions": len(questions),
        "methods": {
            method: _row(method, total, about.seed, cut)
            | _harm(method, total, about.seed)
            | _followed(total)
            | (rounded_row(attackers_found(run.path)) if method == about.learned else {})
            for method, total in totals.items()
        },
        "paired": paired_tests(utilities, about.pairs, about.seed, "paired"),
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
    adjusted = holm([test["p_value"] for test in tests.values()])
    return {
        pair: {name: rounded(value) for name, value in {**test, "p_holm": p}.items()}
        for (pair, test), p in zip(tests.items(), adjusted, strict=True)
    }


def verdicts(paired: Mapping[str, Metrics], metric: str) -> Iterator[str]:
    """The paired tests in words, a line each. A difference is claimed by the adjusted p-value and the interval both."""
    for pair, test in paired.items():
        better, rival = pair.split(" vs ")
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
    write_atomically(run.metrics, (json.dumps(metrics, indent=2) + "\n").encode())


def _totals(scores: Iterable[Scored], methods: tuple[str, ...]) -> dict[str, _Totals]:
    totals = {method: _Totals() for method in methods}
    for scored in scores:
        if scored.method in totals:
            totals[scored.method].add(scored)
    return totals


def _row(method: str, total: _Totals, seed: int, cut: bool) -> Metrics:
    n = len(total.utility)
    utilities = total.utilities()
    return {
        "utility": rounded(math.fsum(utilities) / n),
        "ci95": rounded(bootstrap_interval(utilities, derive_seed(seed, "bootstrap", method))),
        "f1": rounded(math.fsum(total.f1.values()) / n),
        **{name: rounded(total.counted[name] / n) for name in COSTS},
        **{name: total.counted[name] for name in TROUBLES if cut or name != CUT},
    }


def _harm(method: str, total: _Totals, seed: int) -> Metrics:
    """What an attack with a target did, where there was one; of the questions for which there is a wrong answer."""
    if not total.harm:
        return {}
    harm = [total.harm[question] for question in sorted(total.harm)]
    successes = [of.success for of in harm]
    row = {
        "attack_success": math.fsum(successes) / len(harm),
        "attack_success_ci95": bootstrap_interval(successes, derive_seed(seed, "attack success", method)),
        "infection": mean_by_round([of.infection for of in harm]),
    }
    if any(of.carried for of in harm):
        row["carried"] = mean_by_round([of.carried for of in harm])
    return rounded_row(row)


def _followed(total: _Totals) -> Metrics:
    """Means over the questions that have the figure."""
    return {name: rounded(math.fsum(of.values()) / len(of)) for name, of in total.followed.items() if of}


def rounded_row(row: Mapping[str, Any]) -> Metrics:
    return {name: rounded(value) for name, value in row.items()}


def rounded(value: Any) -> Any:
    """Six digits, and no minus zero, so that the file does not hang on the last bit of a sum; None and text as they
    are."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return value if value is None or isinstance(value, (int, str)) else round(float(value), DIGITS) + 0.0


def headers(metrics: Metrics, metric: str) -> tuple[str, ...]:
    """Of `cells`, and of the methods' names before them."""
    counted = (*COSTS, *(name for name in TROUBLES if any(name in row for row in metrics["methods"].values())))
    judged = ("Acc*",) if "judged" in metrics else ()
    won = ("attack success",) if _attacked(metrics) else ()
    followed = PATH_COLUMNS if _walked(metrics) else ()
    costs = (name.replace("_", " ") for name in counted)
    return ("method", f"{metric} (95% interval)", "F1", *judged, *won, *followed, *costs)


def cells(metrics: Metrics, method: str) -> tuple[str, ...]:
    """A method's figures as they are shown, one below each of `headers` but the first."""
    row = metrics["methods"][method]
    judged = (f"{metrics['judged']['methods'][method]['acc_star']:.3f}",) if "judged" in metrics else ()
    low, high = row["ci95"]
    return (
        f"{row['utility']:.3f} ({low:.3f}-{high:.3f})",
        f"{row['f1']:.3f}",
        *judged,
        *((f"{row['attack_success']:.3f}" if "attack_success" in row else "",) if _attacked(metrics) else ()),
        *((_pair(row, "path"), _pair(row, "edge")) if _walked(metrics) else ()),
        *(f"{row[name]:,.0f}" for name in ("prompt_tokens", "completion_tokens")),
        *(f"{row[name]:,.1f}".removesuffix(".0") for name in ("calls", "edges")),
        *(f"{row[name]:,}" for name in TROUBLES if name in row),
    )


def _attacked(metrics: Metrics) -> bool:
    return any("attack_success" in row for row in metrics["methods"].values())


def _walked(metrics: Metrics) -> bool:
    return any("path_recall" in row for row in metrics["methods"].values())


def _pair(row: Metrics, of: str) -> str:
    return "/".join(f"{row[name]:.2f}" for name in (f"{of}_precision", f"{of}_recall") if name in row)


def table(metrics: Metrics, metric: str) -> Table:
    """A row per method; tokens and calls are per question."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for i, name in enumerate(headers(metrics, metric)):
        header = name if "(" in name else name.replace(" ", "\n")
        shown.add_column(header, justify="right" if i else "left", no_wrap=True, vertical="bottom")
    for method in metrics["methods"]:
        shown.add_row(method, *cells(metrics, method))
    return shown


def notes(metrics: Metrics, metric: str) -> Iterator[str]:
    """What stands below the table: what it is of, the paired tests in words, and whose figures they are."""
    yield f"{metrics['questions']:,} questions of {metrics['dataset']}; tokens and calls are per question."
    cut = sum(row.get(CUT, 0) for row in metrics["methods"].values())
    if cut:
        yield f"{cut:,} turns were asked without some of their evidence, which did not fit the model's context."
    if _walked(metrics):
        yield "P/R: precision and recall of the paths that were found in the knowledge graph, and of their edges."
    yield from verdicts(metrics["paired"], metric)
    if metrics["model"] == EMBEDDED:
        yield EMBEDDED_NOTE


def show(metrics: Metrics, metric: str, console: Console | None = None, further: Iterable[str] = ()) -> None:
    """Prints table, notes and `further` ones; where the output is no terminal, in lines of up to 110 characters,
    except that the table is never cut short."""
    console = plain_console(console)
    shown, width = table(metrics, metric), console.width
    console.width = uncut_width(console, shown)
    console.print(shown)
    console.width = width
    console.print()
    for note in (*notes(metrics, metric), *further):
        console.print(note, markup=False, highlight=False)


def uncut_width(console: Console, shown: Table) -> int:
    """The width at which nothing of a table is cut; a terminal's own, where there is one."""
    if console.is_terminal:
        return console.width
    wide = console.options.update(max_width=WIDEST)
    return max(console.width, console.measure(shown, options=wide).maximum)


def plain_console(console: Console | None = None) -> Console:
    """The console (standard output if None), made narrow and plain where it is no terminal."""
    console = console or Console()
    return console if console.is_terminal else Console(file=console.file, width=WIDTH_PLAIN)
