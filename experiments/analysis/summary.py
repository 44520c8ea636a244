"""metrics.json from the records alone, and its paired tests in words.

It holds no times, and its sums do not depend on the order of the records, so that one seed gives one file at any
concurrency and after any crash.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from actors.messages import derive_seed
from experiments.analysis.scores import Answers, by_method, by_tag, sound
from experiments.analysis.statistics import holm, paired_test, score_interval
from experiments.analysis.turn_counts import by_phase, count_turns
from experiments.attacks.attack_metrics import attack_cost, attackers_found, mean_by_round
from experiments.config.config import MODELS
from experiments.config.setting_groups import CompareSettings
from experiments.metrics.answer_metrics import PATH_METRICS
from experiments.records.failures import FailureSettings
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.run_files import write_atomically
from experiments.records.trials import LEARNED_FROM

EMBEDDED = "reader"  # the name of the embedded reader among models and judges, as records hold it
EMBEDDED_NOTE = "The model is the embedded reader: these figures say nothing about a language model's accuracy."
# Means per question; `TROUBLES` are totals.
COSTS = ("prompt_tokens", "completion_tokens", "calls", "edges")
CERTIFIED = {f"certified_{f}": f for f in (1, 2)}  # certified accuracy, by the number of agents that may say anything
TROUBLES = ("failed_turns", "cut_turns")
DIGITS = 6  # enough for any table, few enough to hide floating-point error
# Largest adjusted p-value of a claim. With few questions the bootstrap interval alone claims too much.
SIGNIFICANT = 0.05
BETTER, NOT_WORSE, WORSE, UNKNOWN = "better", "not worse", "worse", "not known"  # verdicts of a paired test

Metrics = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Names of a run, and the methods and pairs that it compared.

    metric: the name of the data set's utility (EM, accuracy). pairs: the first minus the second of each is tested.
    failures: the share of a method's questions that may have failed for anything to be concluded about it.
    margin: the loss of utility below which a method is not worse than another.
    clean: by method, the one of `methods` that is its evaluation without the attack. attackers: the compromised agents.
    """

    experiment: str
    model: str
    dataset: str
    metric: str
    methods: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    failures: float = FailureSettings.share
    margin: float = CompareSettings.margin
    clean: Mapping[str, str] = field(default_factory=dict)
    attackers: tuple[str, ...] = ()


def summarise(run: RunFolder, facts: RunFacts) -> Metrics:
    """Returns metrics.json as a dict.

    - A row has `cut_turns` where any method had one, and `strict_em` and the certified accuracies where all of the
      method's answers have them.
    - `parts` are the means `by_tag`.
    - `clean` has the names of the methods' evaluations without the attack, `attackers` those of compromised agents,
      where there are any.
    - `failures` has the phases in which turns failed. Failed questions are in no mean; a method with more of them than
      `facts.failures` has no means (None) and is in no pair.

    Raises ValueError unless all methods have answered the same questions, one at least.
    """
    recorded = by_method(run, failed=True)
    answers = {method: recorded.get(method, {}) for method in facts.methods}
    # Methods without any answer get an empty entry, so that the check below reports them.
    first = answers[facts.methods[0]]
    for method, of_method in answers.items():
        if not first or of_method.keys() != first.keys():
            raise ValueError(f"{method} has answered {len(of_method)} questions, {facts.methods[0]} {len(first)}")
    # Shown for all methods or for none: a table needs the same columns in every row.
    cut = any(scored.cut_turns for of_method in answers.values() for scored in of_method.values())
    kept = sound(answers, facts.failures)
    failures: dict[str, Metrics] = {}
    for phase, counts in by_phase(run, answers, failed=True).items():
        failures[phase] = {"turns": counts.turns, "failed": counts.failed, "reason": counts.failure}
        if phase in answers:
            lost = sum(bool(scored.failed_calls) for scored in answers[phase].values())
            failures[phase] |= {"questions": lost, "concluded": bool(kept[phase])}
    optional = {
        "clean": dict(facts.clean),
        "attackers": list(facts.attackers),
        "parts": rounded(by_tag(kept, {id: scored.tags for id, scored in first.items()})),
        "failures": failures,
    }
    return {
        "experiment": facts.experiment,
        "model": facts.model,
        "dataset": facts.dataset,
        "metric": facts.metric,
        "questions": len(first),
        "methods": {
            method: rounded(
                _means(method, list(kept[method].values()), facts.seed)
                | {
                    name: sum(getattr(scored, name) for scored in of_method.values())
                    for name in TROUBLES
                    if cut or name != "cut_turns"
                }
                | count_turns(run.traces(f"evaluate-{method}")).totals
                | _training(run.learned(method))
                # Only a learned graph ranks edges, and only under attack is there a rank to check.
                | attackers_found(run.learned(method).path)
                | attack_cost(run.traces(f"evaluate-{method}"))
            )
            for method, of_method in answers.items()
        },
        "paired": paired_tests(kept, facts.pairs, facts.seed, "paired", facts.margin),
        **{name: value for name, value in optional.items() if value},
    }


def broken(metrics: Mapping[str, Any]) -> list[str]:
    """Returns the methods with too many failed questions for any conclusion."""
    return [name for name, counted in metrics.get("failures", {}).items() if not counted.get("concluded", True)]


def inconclusive(metrics: Metrics) -> str:
    """Names the methods about which nothing is concluded, and why; empty without any."""
    notes = [note for note in failure_notes(metrics) if note.partition(":")[0] in broken(metrics)]
    unjudged = [
        name for name, row in metrics.get("judged", {"methods": {}})["methods"].items() if row["acc_star"] is None
    ]
    notes += [f"too few answers were judged for an Acc* of {', '.join(unjudged)}"] if unjudged else []
    return " ".join(notes)


def failure_notes(metrics: Metrics) -> Iterator[str]:
    """Yields a line for each phase in which turns failed."""
    for phase, counted in metrics.get("failures", {}).items():
        line = f"{phase}: {counted['failed']:,} of {counted['turns']:,} turns failed, most often: {counted['reason']}."
        if "questions" in counted:
            of = f"{counted['questions']:,} of its {metrics['questions']:,} questions"
            line += f" {of} failed by it and are in no mean and no comparison."
        if not counted.get("concluded", True):
            line += " These are too many for a conclusion (failures.share); a resumed run asks them again."
        yield line


def paired_tests(
    answers: Answers, pairs: Sequence[tuple[str, str]], seed: int, purpose: str, margin: float
) -> dict[str, Metrics]:
    """Returns a `PairedTest` of every pair for metrics.json, with its `margin` and its `verdict`.

    `p_holm` and `p_margin_holm` are adjusted for the number of pairs.

    answers: a pair is compared on the questions that both methods have, if any. purpose: gives these tests draws that
        no others have.
    """
    tests: dict[str, Metrics] = {}
    for better, rival in pairs:
        ours = answers[better]
        if shared := sorted(ours.keys() & answers[rival].keys()):
            drawn, clusters = derive_seed(seed, purpose, better, rival), [ours[id].cluster or id for id in shared]
            first, second = ([answers[method][id].utility for id in shared] for method in (better, rival))
            tests[f"{better} vs {rival}"] = {**paired_test(first, second, drawn, clusters=clusters, margin=margin)}
    # All tests of one table are corrected together: a reader picks from all of them.
    adjusted = adjusted_tests([*tests.values()], margin)
    return {pair: rounded(test | {"verdict": verdict(test)}) for pair, test in zip(tests, adjusted, strict=True)}


def adjusted_tests(tests: Sequence[Mapping[str, Any]], margin: float) -> list[Metrics]:
    """Adds to each test its `margin`, and p-values adjusted for the number of tests."""
    adjusted = zip(*(holm([test[name] for test in tests]) for name in ("p_value", "p_margin")), strict=True)
    return [
        {**test, "p_holm": p, "p_margin_holm": p_margin, "margin": margin}
        for test, (p, p_margin) in zip(tests, adjusted, strict=True)
    ]


def verdict(test: Mapping[str, Any]) -> str:
    """Returns a paired test's `better`, `not worse`, `worse` or `not known`.

    Files of earlier versions have no margin, and so no `not worse`.
    """
    low, high = test["ci95"]
    # The p-value is adjusted for the number of pairs and the interval is not, so both must agree.
    if not low <= 0 <= high and test["p_holm"] < SIGNIFICANT:
        return BETTER if low > 0 else WORSE
    not_worse = low > -test.get("margin", -math.inf) and test["p_margin_holm"] < SIGNIFICANT
    return NOT_WORSE if not_worse else UNKNOWN


def verdict_text(test: Mapping[str, Any]) -> str:
    """Writes the verdict of a paired test, with the margin of `not worse`."""
    found = verdict(test)
    return f"{found} by {test['margin']:g} or more" if found == NOT_WORSE else found


def verdicts(paired: Mapping[str, Metrics], metric: str) -> Iterator[str]:
    """Yields a line for each paired test, and a line on their correction.

    A difference is claimed only where both the adjusted p-value and the interval show it.
    """
    for pair, test in paired.items():
        better, _, rival = pair.partition(" vs ")
        low, high = test["ci95"]
        found = verdict(test)
        claim = "not known which is better" if found == UNKNOWN else f"{better} is {verdict_text(test)}"
        adjusted = f", {test['p_holm']:.2g} adjusted" if len(paired) > 1 else ""
        seeds = f", {test['seeds']} seeds" if "seeds" in test else ""
        yield (
            f"{metric} of {better} minus {rival}: {test['difference']:+.3f} (95% interval {low:+.3f} to {high:+.3f}, "
            f"p = {test['p_value']:.2g}{adjusted}; better on {test['wins']:,} and worse on {test['losses']:,} "
            f"of {test['n']:,} questions{seeds}): {claim}."
        )
    if len(paired) > 1:
        yield (
            f"P-values are adjusted for the {len(paired)} comparisons by Holm's method; verdicts use the adjusted "
            f"ones, at {SIGNIFICANT}."
        )
    if any(test.get("seeds", 1) > 1 for test in paired.values()):
        yield (
            "Tests of several seeds are over clusters of questions and over seeds (Student's t): they speak of "
            "methods, not only of the graphs that these seeds learned."
        )


def model_notes(model: str) -> list[str]:
    """Returns the note on the embedded reader, where a run has it."""
    return [EMBEDDED_NOTE] if EMBEDDED in model.split(MODELS) else []


def metric_of(metrics: Mapping[str, Any]) -> str:
    """Reads the name of the utility in a metrics.json. Those of the first versions lack it."""
    return str(metrics.get("metric", "utility"))


def write(run: RunFolder, metrics: Metrics) -> None:
    """Writes metrics.json into the run folder, whole or not at all."""
    write_atomically(run.metrics, (json.dumps(metrics, indent=2) + "\n").encode())


def mean_and_interval(
    answers: Iterable[Scored], seed: int, value: Callable[[Scored], float | None] = attrgetter("utility")
) -> tuple[float, tuple[float, float]]:
    """Averages a value of answers. Returns the mean and its 95% interval by clusters of questions. None counts 0."""
    values, clusters = zip(*((value(one) or 0.0, one.cluster or one.question) for one in answers), strict=True)
    return math.fsum(values) / len(values), score_interval(values, seed, clusters)


def _means(method: str, answers: Sequence[Scored], seed: int) -> Metrics:
    if not (n := len(answers)):
        return dict.fromkeys(("utility", "ci95", "f1", *COSTS))
    row: Metrics = {}
    row["utility"], row["ci95"] = mean_and_interval(answers, derive_seed(seed, "bootstrap", method))
    # A mean over some of the questions could not be compared with one over all of them; older records lack it.
    # An answer that f agents could change counts 0, right or not.
    if all(scored.certified is not None for scored in answers):
        for name, f in CERTIFIED.items():
            row[name] = math.fsum(scored.utility for scored in answers if (scored.certified or 0) >= f) / n
    if all(scored.strict_em is not None for scored in answers):
        draws = derive_seed(seed, "bootstrap strict_em", method)
        row["strict_em"], row["strict_em_ci95"] = mean_and_interval(answers, draws, attrgetter("strict_em"))
    row["f1"] = math.fsum(scored.f1 for scored in answers) / n
    row |= {name: sum(getattr(scored, name) for scored in answers) / n for name in COSTS}
    # An attack with a target, over the questions that have one: None, not 0, where a question had none.
    attacked = [scored for scored in answers if scored.attack_success is not None]
    if attacked:
        draws = derive_seed(seed, "attack success", method)
        success = mean_and_interval(attacked, draws, attrgetter("attack_success"))
        row["attack_success"], row["attack_success_ci95"] = success
        row["infection"] = mean_by_round([scored.infection for scored in attacked])
        if any(scored.carried for scored in attacked):
            row["carried"] = mean_by_round([scored.carried for scored in attacked])
    for name in PATH_METRICS:
        # Each over the questions that have it.
        if known := [value for scored in answers if (value := getattr(scored, name)) is not None]:
            row[name] = math.fsum(known) / len(known)
    return row


def _training(learned: RunFolder) -> Metrics:
    """Training tokens of a method's graph, and the method with whose discussions it was learned.

    Empty where nothing was learned, or older records lack it. Discussions of another method are counted there.
    """
    steps = [step for step in learned.learning() if "tokens" in step.terms]
    if not steps:
        return {}
    # Its last steps may be its own, to confirm the graph.
    source = next((step.source for step in steps if step.source), "")
    tokens = int(sum(step.terms["tokens"] for step in steps))
    confirmed = next((step.confirmed for step in steps if step.confirmed), "")
    found = {LEARNED_FROM: source, "confirmed": confirmed, "doubts": list(steps[-1].doubts)}
    return {"training_tokens": tokens, **{name: value for name, value in found.items() if value}}


def rounded(value: Any) -> Any:
    """Rounds all numbers in a value to six digits, without minus zero. None and text stay.

    A file must not depend on the last bit of a sum.
    """
    if isinstance(value, Mapping):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    # Adding 0.0 turns -0.0 into 0.0. A bool is an int to Python and passes unchanged.
    return value if value is None or isinstance(value, (int, str)) else round(float(value), DIGITS) + 0.0
